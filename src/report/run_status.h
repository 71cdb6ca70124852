/* run_status.h — `tutti status`: what a run does or did, from the files in its directory alone.
 * Safe while it runs. Floor 4; local. */
#ifndef TT_RUN_STATUS_H
#define TT_RUN_STATUS_H
#include "core/base/err.h"

/* Print state, member counts, last checkpoint, rate, time left, the last error and the lives of a
 * run; as JSON: one object, the keys of status.json and `job`, `restart`, `age_seconds`,
 * `checkpoint_age_seconds` (-1 = none), `results` (0 or 1).
 *   directory  run.directory of the job
 * Errors: NOINPUT (no run has begun there), DATA, IO. */
tt_err tt_run_status_print_local(const char *directory, int json);
#endif
