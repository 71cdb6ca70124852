/* requeue.h — decide at the end of a start of a Slurm job whether Slurm starts the job again. All
 * functions are local. */
#ifndef TT_SLURM_REQUEUE_H
#define TT_SLURM_REQUEUE_H
#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

/* The facts for the decision. Texts are borrowed. */
typedef struct tt_slurm_start {
  const char *state, *stopped_by; /* from the status file of this start; state "" = it wrote none */
  const char *other_incarnation;  /* if state is "": incarnation of the status file, or "" */
  const char *reason;             /* from the status file, for messages */
  int64_t generation; /* number of the last checkpoint; campaign: finished stages of all rounds */
  int64_t resumed;    /* generation at the beginning of this start, 0 = none */
  /* campaign: checkpoints or labeled groups in the present stage, now and at the beginning of this
   * start */
  int64_t stage_progress, stage_progress_resumed;
  char key[64], place[128]; /* where the run is: "37", a campaign "12.4"; "at checkpoint 37" */
  int64_t stuck;            /* consecutive starts of this job that ended at this key, with it */
  int64_t restarts, max_restarts; /* restarts of this job so far, and allowed */
  int64_t waits;                  /* earlier starts of this job that waits_for_jobs */
  int waits_for_jobs; /* 1 = all that the campaign needs is a Slurm job that labels its queries */
  char jobs[512];     /* then: the numbers of these jobs, "4711:4712" */
  int exit_code, launcher_code; /* from the status file, -1 = none; from srun or mpirun */
} tt_slurm_start;

enum { TT_REQUEUE_MAX_STUCK = 3 };

/* Whether to requeue the job. 1 if the run was stopped by a signal or the time limit, if it hung,
 * or if it was killed after it wrote a new checkpoint; for a campaign also if the oracle had no
 * labels yet. 0 after `max_restarts` restarts, and after TT_REQUEUE_MAX_STUCK starts that ended at
 * the same checkpoint. Starts that wait for jobs count for neither limit: these jobs end, and
 * label.retries limits their number.
 *   why  receives the reason, for messages */
int tt_requeue_is_allowed(const tt_slurm_start *start, char *why, size_t capacity);

/* Decide at the end of a batch script, after the launcher of `tutti train` or `tutti campaign run`
 * has returned. Writes the decision to standard output and to starts.tsv in `directory`, and
 * requeues the job if it must continue. A campaign that waits for jobs starts again after their end
 * (--dependency).
 *   directory  of the run or the campaign
 *   start      without stuck, restarts and waits, which are set here
 *   code       exit code for the script: that of the run, if the status file has one
 * Errors: USAGE (not in a Slurm job), UNAVAILABLE (scontrol failed). */
tt_err tt_requeue_decide_local(const char *directory, tt_slurm_start *start, int *code);
#endif
