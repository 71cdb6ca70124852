/* requeue.h — `tutti slurm requeue`: decide at the end of a start of a Slurm job whether Slurm
 * starts the job again. All functions are local. */
#ifndef TT_REQUEUE_H
#define TT_REQUEUE_H
#include "src/job/job.h"

/* The facts for the decision. Texts are borrowed. */
typedef struct tt_slurm_start {
  const char *state, *stopped_by; /* from the status file of this start; state "" = it wrote none */
  const char *other_incarnation;  /* if state is "": incarnation of the status file, or "" */
  int64_t generation; /* number of the last checkpoint; campaign: finished stages of all rounds */
  int64_t resumed;    /* generation at the beginning of this start, 0 = none */
  int64_t stuck;      /* consecutive starts of this job that ended at this generation, with it */
  int64_t restarts, max_restarts; /* restarts of this job so far, and allowed */
  int64_t waits;                  /* earlier starts of this job that waits_for_jobs */
  int waits_for_jobs; /* 1 = all that the campaign needs is a Slurm job that labels its queries */
  int exit_code, launcher_code; /* from the status file, -1 = none; from srun or mpirun */
  int is_campaign;
  int64_t stage_progress,
      stage_progress_resumed; /* campaign: checkpoints or labelled groups in the present stage, now
                                 and at the beginning of this start */
  const char *reason;         /* from the status file, for messages */
} tt_slurm_start;

enum { TT_REQUEUE_MAX_STUCK = 3 };

/* Whether to requeue the job. 1 if the run was stopped by a signal or the time limit, if it hung,
 * or if it was killed after it wrote a new checkpoint; for a campaign also if the oracle had no
 * labels yet. 0 after `max_restarts` restarts, and after TT_REQUEUE_MAX_STUCK starts that ended at
 * the same checkpoint. Starts that wait for jobs count for neither limit: these jobs end, and
 * label.retries limits their number.
 *   why  receives the reason, for messages */
int tt_requeue_is_allowed(const tt_slurm_start *start, char *why, size_t room);

/* Call it in the batch script, after the launcher of `tutti train` or `tutti campaign run` has
 * returned. Reads the status file in run.directory (or campaign.directory), writes the decision to
 * standard output and to starts.tsv in that directory, and requeues the job if it must continue. A
 * campaign that waits for jobs starts again after their end (--dependency).
 *   launcher_code  exit code of srun or mpirun; used if this start wrote no status
 *   code           exit code for the script: that of the run, if the status file has one
 * Errors: USAGE (not in a Slurm job), UNAVAILABLE (scontrol failed), IO (the status file cannot be
 * read), those of reading the job file. */
tt_err tt_requeue_decide_local(const tt_job_options *o, int64_t max_restarts, int launcher_code,
                               int *code);
#endif
