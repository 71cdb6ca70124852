/* status.h — status.json in the run directory: a few lines that say what a run does or why it
 * stopped, replaced as a whole, safe to read at any time. srun's exit code is not the program's;
 * scripts read this file. Floor 4. */
#ifndef TT_STATUS_H
#define TT_STATUS_H
#include "base/err.h"

#include <stdint.h>

typedef struct tt_run_status {
  const char *state;  /* starting training stopped done failed hung */
  const char *reason; /* text for people, "" = none */
  int exit_code;      /* -1 while running */
  int64_t generation; /* of the last checkpoint, 0 = none */
  int64_t members, training, finished, early_stopped, diverged;
  int64_t epoch;  /* fewest epochs of a member still training */
  double seconds; /* since the start of the program */
} tt_run_status;

/* Write it under a temporary name and rename. Local: one rank's business. Errors: IO. */
tt_err tt_status_write_local(const char *directory, const tt_run_status *s);
#endif
