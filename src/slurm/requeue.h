/* requeue.h — a job of Slurm trains, or runs a campaign, in several lives, one for each start;
 * between them stands the question whether there shall be another. Floor 4; all local. */
#ifndef TT_REQUEUE_H
#define TT_REQUEUE_H
#include "src/job/job.h"

/* What decides. Texts are borrowed. */
typedef struct tt_slurm_start {
  const char *state, *stopped_by; /* of this life's status file; state "" = it has left none */
  const char *other_incarnation; /* without a state: the incarnation whose status is there, or "" */
  int64_t generation; /* of its last checkpoint; of a campaign: stages finished, all rounds */
  int64_t resumed;    /* the one it began with, 0 = none */
  int64_t stuck;      /* lives of this job in a row that ended at that place, with it */
  int64_t restarts, max_restarts; /* how often Slurm has started this job again, and may */
  int exit_code, launcher_code;   /* of the status file, -1 = none; of srun or mpirun */
  int is_campaign;
  int64_t stage_progress,
      stage_progress_resumed; /* of a campaign: what the stage it is in has kept, and had */
  const char *reason;         /* of the status file, for people */
} tt_slurm_start;

enum { TT_REQUEUE_MAX_STUCK = 3 };

/* Another life? Only for a run that was stopped by a signal or the time limit, that hung, or that
 * died without a word after it had written a checkpoint; for a campaign also when its oracle said
 * later. Not beyond `max_restarts` restarts, and not when TT_REQUEUE_MAX_STUCK lives have ended at
 * the same place. `why` says so for people. */
int tt_requeue_is_allowed(const tt_slurm_start *life, char *why, size_t room);

/* After the launcher of `tutti train` or `tutti campaign run` has returned, in the batch script:
 * read the status file of the job's run directory (campaign.directory where the file is that of a
 * campaign), write the decision to standard output and to starts.tsv in that directory, and have
 * Slurm queue the job again if there shall be another life.
 *   launcher_code  exit code of srun or mpirun, for a life that has left no status
 *   code         exit code for the script: of the run itself where it has left one
 * Errors: USAGE (not in a job), UNAVAILABLE (scontrol failed), those of reading the job file. */
tt_err tt_requeue_decide_local(const tt_job_options *o, int64_t max_restarts, int launcher_code,
                               int *code);
#endif
