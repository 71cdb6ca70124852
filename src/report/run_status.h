/* run_status.h — `tutti status`: the state of a run, from the files in its directory alone. Safe
 * during the run. Local. */
#ifndef TT_RUN_STATUS_H
#define TT_RUN_STATUS_H
#include "src/host/status_file.h"

/* Print state, Slurm job and restart, last error, member counts, last checkpoint, rate, time left.
 *   directory  run.directory of the job
 *   json       print one JSON object: the keys of status.json and `job`, `restart`, `age_seconds`,
 *              `checkpoint_age_seconds` (-1 = none), `results` (0 or 1)
 * Errors: NOINPUT (no run in the directory), DATA, IO. */
tt_err tt_run_status_print_local(const char *directory, int json);

/* Print a line "label  text", wrapped at 80 columns with the text from column 13 on. */
void tt_status_line_print(const char *label, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Print members, epoch, rate and the time that is left. */
void tt_status_progress_print(const tt_run_status *s);

/* Whether the run or the campaign in a directory has not ended, as its status.json says.
 * Errors: as tt_run_status_print_local. */
tt_err tt_run_is_running_local(const char *directory, int *running);
#endif
