/* slurm_jobs.h — label.mode slurm: the files of the array jobs of a round. Private to slurm_mode.c
 * and slurm_jobs.c; all functions are local and run on rank 0.
 *
 *   label/job.json         the jobs of the last attempt: written before sbatch is called, and again
 *                          with the job number
 *   label/job-1-0.sbatch   script of attempt 1, part 0: label.script, then the call for one group
 *   label/job-1-0.said     output of sbatch
 *   label/job-1-0.7.out    output of task 7, unless label.script sets another file
 *
 * An attempt submits all pending groups, in parts that fit into one array of Slurm. Its jobs share
 * a name that is unique among all attempts of all campaigns. By this name a job is found whose
 * number was not recorded, and a task checks that job.json still has the name before it starts. */
#ifndef TT_SLURM_JOBS_H
#define TT_SLURM_JOBS_H
#include "src/campaign/label/oracle_internal.h"

typedef enum tt_submit_state {
  TT_SUBMIT_planned,    /* sbatch has not been called */
  TT_SUBMIT_submitting, /* sbatch has been called, but the job number is not known */
  TT_SUBMIT_submitted   /* the job number is known */
} tt_submit_state;

typedef struct tt_label_job {
  int64_t tasks;
  tt_submit_state submit_state;
  int64_t id; /* job number of Slurm, if submitted */
} tt_label_job;

typedef struct tt_label_jobs {
  int64_t attempt;   /* 1, 2, ...; 0 = no attempt yet */
  int64_t uncounted; /* attempts that do not count for label.retries: their pending groups all
                        ended with exit code 75, or were set to failed */
  char name[96];
  int64_t count;
  tt_label_job *job; /* [count] owned; count 0 before the first attempt and between two attempts */
} tt_label_jobs;

/* Read job.json; attempt = 0 if it does not exist. Errors: DATA (damaged), IO, MEM. */
tt_err tt_label_jobs_read_local(const tt_label_request *q, tt_label_jobs *out);
/* Write job.json atomically, synced. Errors: CANTCREAT, IO, MEM. */
tt_err tt_label_jobs_write_local(const tt_label_request *q, const tt_label_jobs *j);
void tt_label_jobs_free(tt_label_jobs *j);

/* Prepare the next attempt: write the scripts and job.json for the pending groups, in arrays of at
 * most `most` tasks; submit nothing. Errors: CONFIG (label.script is not a script), NOINPUT,
 * CANTCREAT, IO, MEM. */
tt_err tt_label_jobs_prepare_local(const tt_labelling *a, int64_t most, tt_label_jobs *j);

/* The path of label/job-1-0 with the suffix `ending`. */
void tt_label_jobs_path(const tt_label_request *q, const tt_label_jobs *j, int64_t part,
                        const char *ending, char path[TT_PATH_MAX]);

/* The job number in the output of `sbatch --parsable`, squeue or sacct: that of the first line that
 * begins with a number which is not in `known` (NULL = empty). -1 = there is none. */
int64_t tt_label_jobs_parse_id(const char *text, const tt_label_jobs *known);

/* argv after `env -u NAME -u NAME ...`: without the variables of the campaign's own Slurm job,
 * which a labelling job must not inherit. One allocation, owned by the caller, tt_free. Errors:
 * MEM. */
tt_err tt_label_jobs_clean_argv(char *const argv[], char ***out);
#endif
