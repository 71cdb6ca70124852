/* earlier_run.h — what an earlier start has left in the run directory: config.yaml, the values of
 * all options, and its outputs. All local. */
#ifndef TT_EARLIER_RUN_H
#define TT_EARLIER_RUN_H
#include "src/job/job.h"

/* Write config.yaml, so that a later start can say which options differ. The job is claimed.
 * Errors: CANTCREAT (also if an output that is written later is a FIFO or a device), IO,
 * STOPPED. */
tt_err tt_earlier_run_save_config_local(const tt_job *job);

/* The options that decide results and are not those of config.yaml: "train.epochs is 10 there and
 * 12 here; ..."; "" if there are none, or no config.yaml. */
void tt_earlier_run_difference_local(const tt_job *job, char *text, int64_t size);

/* Whether the run is complete: status.json says done with exit code 0, and model.h5 and results.h5
 * are there, written by this version of the program from these data with the same values of all
 * options. `job` is loaded. */
int tt_earlier_run_is_complete_local(const tt_job *job);
#endif
