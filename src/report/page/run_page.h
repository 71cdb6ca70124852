/* run_page.h — report.html of a run. Local; it only reads the files of the run and is safe while it
 * runs. */
#ifndef TT_RUN_PAGE_H
#define TT_RUN_PAGE_H
#include "core/base/err.h"

/* Write `file` about the run in `directory` (run.directory), and say so on standard output. It
 * needs results.h5 or, of a run that is not complete, status.json. The page has what the run has:
 * verdict, charts of each target, members, hyper-parameters that differ, out-of-bag scores, times,
 * files, configuration, origin.
 *   force  1 = also replace a file that tutti report did not write
 *   json   print the verdict as one JSON object (docs/json.md) instead of the name of the file
 * Errors: NOINPUT (no run in the directory), DATA, CANTCREAT, IO, MEM. */
tt_err tt_run_page_write_local(const char *directory, const char *file, int force, int json);
#endif
