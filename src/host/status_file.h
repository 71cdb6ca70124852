/* status_file.h — status.json in the run directory: state of a run and why it stopped. The file
 * is replaced atomically and safe to read at any time. Scripts should read it, because the exit
 * code of srun is not that of the program. All local. */
#ifndef TT_STATUS_FILE_H
#define TT_STATUS_FILE_H
#include "core/base/json.h"

#include <stdint.h>

/* Text fields, in the order of the file. */
#define TT_RUN_STATUS_TEXTS(X)                                                                     \
  X(state)       /* training stopped done failed hung; running, of a campaign */                   \
  X(reason)      /* message, "" = none */                                                          \
  X(stop)        /* source of the stop request, tt_stop_name or "oracle"; "" = none */             \
  X(incarnation) /* of tt_run_id: job.restart.host.random of this start */                         \
  X(time)        /* of the write, 2026-11-21T20:15:00Z; set by the writer */

/* Integer fields. */
#define TT_RUN_STATUS_INTEGERS(X)                                                                  \
  X(exit_code)  /* -1 while running */                                                             \
  X(generation) /* of the last checkpoint, 0 = none */                                             \
  X(resumed)    /* checkpoint that this start resumed from, 0 = none */                            \
  X(members)                                                                                       \
  X(training)                                                                                      \
  X(finished)                                                                                      \
  X(early_stopped)                                                                                 \
  X(diverged)                                                                                      \
  X(epoch)  /* fewest epochs of a member still training */                                         \
  X(epochs) /* largest number of epochs of a member */

/* Real fields, rounded to three decimals. */
#define TT_RUN_STATUS_REALS(X)                                                                     \
  X(rate)    /* member-steps per second since the start, 0 = not known yet */                      \
  X(eta)     /* estimated seconds to the end, -1 = not known */                                    \
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

/* Replace the file. Call it on one rank only. NULL texts become "". If the disk has no space for a
 * new file, the spare file of tt_status_file_report_local becomes the new one, so that the last
 * status of a run on a full disk is true. A last status (exit_code >= 0) removes the spare file.
 * Errors: CANTCREAT, IO, MEM, STOPPED (another start owns the directory). */
tt_err tt_status_file_write_local(const char *directory, const tt_run_status *s);

/* The same for a run that must not end because of its status: after an error it tries again, since
 * a passing one must not leave a wrong last state. While the run continues, a spare file is kept in
 * the directory: .tmp-owned-status. The last error is logged, except STOPPED, which
 * means that status.json describes the other start. tt_err_last() stays. */
void tt_status_file_report_local(const char *directory, const tt_run_status *s);

/* Set all fields as keys of an object (tt_json_set). */
void tt_run_status_to_json(json_t **object, const tt_run_status *s);

/* Seconds. A run updates its status every 10 s; a slow file system may delay it. */
enum { TT_STATUS_STALE = 120 };

/* A status read from a file; the texts of `status` point into `text`. */
typedef struct tt_status_file {
  tt_run_status status;
  int64_t age;          /* seconds since it was written */
  int64_t pid;          /* of the process that wrote it, on its host */
  int64_t job, restart; /* of Slurm; job 0: none */
  char text[2 * TT_ERR_MESSAGE_SIZE];
} tt_status_file;

/* Errors: NOINPUT (no status.json), DATA (not a status file), IO. */
tt_err tt_status_file_read_local(const char *directory, tt_status_file *out);

/* Replace state, reason and exit code in the status of this incarnation; the other fields are kept.
 * Does nothing if status.json is of another incarnation. Errors: IO. */
tt_err tt_status_file_update_local(const char *directory, const char *incarnation,
                                   const char *state, const char *reason, int exit_code);
#endif
