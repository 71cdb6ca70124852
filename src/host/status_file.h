/* status_file.h — status.json in the run directory: a few lines that say what a run does or why it
 * stopped, replaced as a whole, safe to read at any time. srun's exit code is not the program's;
 * scripts read this file. Floor 4; all local. */
#ifndef TT_STATUS_FILE_H
#define TT_STATUS_FILE_H
#include "core/base/json.h"

#include <stdint.h>

/* The texts of the file, in its order. */
#define TT_RUN_STATUS_TEXTS(X)                                                                     \
  X(state)       /* training stopped done failed hung; running, of a campaign */                   \
  X(reason)      /* for people, "" = none */                                                       \
  X(stop)        /* who asked it to stop, tt_stop_name or "oracle"; "" = nobody */                 \
  X(incarnation) /* of tt_run_id: job.restart.host.random of this start */                         \
  X(time)        /* of writing, 2026-11-21T20:15:00Z; ignored when written */

/* The whole numbers. */
#define TT_RUN_STATUS_INTEGERS(X)                                                                  \
  X(exit_code)  /* -1 while running */                                                             \
  X(generation) /* of the last checkpoint, 0 = none */                                             \
  X(resumed)    /* the one this life began with */                                                 \
  X(members)                                                                                       \
  X(training)                                                                                      \
  X(finished)                                                                                      \
  X(early_stopped)                                                                                 \
  X(diverged)                                                                                      \
  X(epoch)  /* fewest epochs of a member still training */                                         \
  X(epochs) /* most of any member */

/* Numbers with a fraction, of which three digits are kept. */
#define TT_RUN_STATUS_REALS(X)                                                                     \
  X(rate)    /* member-steps per second in this life, 0 = not known yet */                         \
  X(eta)     /* seconds to the end if it goes on as it did, -1 = not known */                      \
  X(seconds) /* since the start of the program */

typedef struct tt_run_status {
#define X(name) const char *name;
  TT_RUN_STATUS_TEXTS(X)
#undef X
#define X(name) int64_t name;
  TT_RUN_STATUS_INTEGERS(X)
#undef X
#define X(name) double name;
  TT_RUN_STATUS_REALS(X)
#undef X
} tt_run_status;

/* Write it under a temporary name and rename. One rank's business. NULL texts are "".
 * Errors: IO. */
tt_err tt_status_file_write_local(const char *directory, const tt_run_status *s);

/* Set all of the above as keys of an object (tt_json_set). */
void tt_run_status_to_json(json_t **object, const tt_run_status *s);

/* A status read from a file; its texts lie in `text`. */
typedef struct tt_status_file {
  tt_run_status status;
  int64_t age; /* seconds since it was written */
  int64_t pid; /* of the process that wrote it, on its host */
  char text[2 * TT_ERR_MESSAGE_SIZE];
} tt_status_file;

/* Errors: NOINPUT (there is none), DATA (not a status file), IO. */
tt_err tt_status_file_read_local(const char *directory, tt_status_file *out);

/* Write state, reason and exit code over the status of the same incarnation; what else it says
 * stays. Does nothing if the directory has become another's. Errors: IO. */
tt_err tt_status_file_update_local(const char *directory, const char *incarnation,
                                   const char *state, const char *reason, int exit_code);
#endif
