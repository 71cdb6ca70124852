/* run_page.h — report.html of a run. Local; it only reads the files of the run and is safe while it
 * runs. */
#ifndef TT_RUN_PAGE_H
#define TT_RUN_PAGE_H
#include "core/base/err.h"

/* Write `file` about the run in `directory` (run.directory), and say so on standard output. The
 * page has what the run has: verdict, scores, charts of each target, importance of the inputs,
 * trials of a search, members, origin and configuration.
 *   force  1 = also replace a file that tutti report did not write
 *   json   print the verdict as one JSON object (docs/json.md) instead of the name of the file
 * Errors: NOINPUT (no results in the directory, or those of a run with `by`), DATA, CANTCREAT, IO,
 * MEM. */
tt_err tt_run_page_write_local(const char *directory, const char *file, int force, int json);
#endif
