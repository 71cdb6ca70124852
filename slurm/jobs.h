/* jobs.h — array jobs of Slurm: submitted once, found again after a kill, polled until they have
 * left the queue. All functions are local, for one process.
 *
 *   DIR/job.json           the jobs of the last attempt: written before sbatch is called, and again
 *                          with the job number
 *   DIR/job-1-0.sbatch     script of attempt 1, part 0: the user's script, then the call of a task
 *   DIR/job-1-0.said       output of sbatch
 *   DIR/job-1-0.7.out      output of task 7, unless the user's script sets another file
 *
 * An attempt submits all tasks that are left, in parts that fit into one array of Slurm. Its jobs
 * share a name that is unique among all attempts of all campaigns. By this name a job is found
 * whose number was not recorded, and a task checks that job.json still has the name before it
 * starts.
 *
 * Commands of Slurm run in the background, one at a time, so that a slow controller does not block
 * the caller. Only repeated failures of sbatch are an error. A failing squeue is run again, and a
 * job counts as ended only if several polls in a row do not list it, because the files of its tasks
 * may become visible on this node later. */
#ifndef TT_SLURM_JOBS_H
#define TT_SLURM_JOBS_H
#include "core/base/directory.h"
#include "core/config/config.h"

#include <sys/types.h>

/* What the jobs are for. Borrowed. */
typedef struct tt_slurm_order {
  const tt_config *cfg;    /* section label */
  const char *directory;   /* DIR; a task is a directory in it */
  const char *call;        /* for a shell: the command of a task, whose directory is appended */
  const char *owner;       /* checked before each submission, tt_owner_check_local */
  const char *incarnation; /* of this process, for the names of jobs */
  int64_t round;
} tt_slurm_order;

typedef enum tt_submit_state {
  TT_SUBMIT_planned,    /* sbatch has not been called */
  TT_SUBMIT_submitting, /* sbatch has been called, but the job number is not known */
  TT_SUBMIT_submitted   /* the job number is known */
} tt_submit_state;

typedef struct tt_slurm_job {
  int64_t tasks;
  tt_submit_state submit_state;
  int64_t id; /* job number of Slurm, if submitted */
} tt_slurm_job;

typedef struct tt_slurm_jobs {
  tt_slurm_order order;
  int64_t attempt;   /* 1, 2, ...; 0 = no attempt yet */
  int64_t uncounted; /* attempts that do not count for label.retries: their pending groups all
                        ended with exit code 75, or were set to failed; set by the caller */
  char name[96];
  int64_t count;
  tt_slurm_job *job; /* [count] owned; count 0 before the first attempt and between two attempts */
  double last_progress; /* s, clock of tt_monotonic_seconds: last submission or end of a task */
  /* private */
  int64_t tasks;                        /* that were left at the last call */
  int prepared_now;                     /* 1 = this process prepared the attempt */
  int64_t max_array_size;               /* tasks of an array; 0 = not known yet */
  int command;                          /* the running command */
  pid_t pid;                            /* of the running command; 0 = none runs */
  char output_file[TT_PATH_MAX];        /* its stdout and stderr */
  double deadline;                      /* s: when it is killed */
  int64_t current_job;                  /* index of its job */
  double next_command_at;               /* s: earliest start of the next command */
  int missing_polls;                    /* polls in a row that did not list the job */
  int listed;                           /* 1 = submitted or listed since this start */
  int failed_commands, refused_submits; /* failures in a row: of other commands, of sbatch */
} tt_slurm_jobs;

/* Begin with the jobs of an earlier start, if job.json has some. Owner: the caller,
 * tt_slurm_jobs_close_local, after an error too. Errors: DATA (job.json is damaged), IO, MEM. */
tt_err tt_slurm_jobs_open_local(const tt_slurm_order *o, tt_slurm_jobs *out);
/* First wait for a running sbatch, to record its job number. The jobs continue.
 *   wanted  1 = say so: their results are needed */
void tt_slurm_jobs_close_local(tt_slurm_jobs *s, int wanted);

typedef enum tt_slurm_event {
  TT_SLURM_BUSY,  /* a command runs, or has just ended, or the next one must wait */
  TT_SLURM_ENDED, /* the jobs have left the queue: call tt_slurm_jobs_end_attempt_local */
  TT_SLURM_READY  /* tt_slurm_jobs_continue_local may be called */
} tt_slurm_event;
/* Errors: UNAVAILABLE (sbatch refuses the script), CANTCREAT, IO, MEM. */
tt_err tt_slurm_jobs_poll_local(tt_slurm_jobs *s, tt_slurm_event *event);

/* Start the next command of Slurm: prepare and submit an attempt for n tasks, or look for its jobs.
 *   task  [n] names of the directories of those that are left
 * Errors: CONFIG (label.script is not a script), NOINPUT, UNAVAILABLE (no command can be run),
 * STOPPED (no task has ended for label.max_wait, and nothing is lost by a stop; another start is
 * the owner), CANTCREAT, IO, MEM. */
tt_err tt_slurm_jobs_continue_local(tt_slurm_jobs *s, const char *const *task, int64_t n);

/* Record that no job of the attempt is left. Errors: CANTCREAT, IO, MEM. */
tt_err tt_slurm_jobs_end_attempt_local(tt_slurm_jobs *s);
/* Cancel the jobs. Removes job.json, so that the next start begins with a first attempt. */
void tt_slurm_jobs_cancel_local(tt_slurm_jobs *s);

/* The numbers of the submitted jobs in job.json, "4711" or "4711:4712"; "" if there are none. */
void tt_slurm_job_numbers_local(const char *directory, char *text, size_t capacity);
#endif
