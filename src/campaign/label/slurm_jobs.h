/* slurm_jobs.h — label.mode slurm: the array jobs of a round, as they are on disk. Floor 5, for
 * slurm_mode.c and slurm_jobs.c only; all functions are local: rank 0's business.
 *
 *   label/job.json         the jobs of the last attempt: written before sbatch is called, and again
 *                          with the number it said
 *   label/job-1-0.sbatch   script of attempt 1, part 0: label.script, then the call for one group
 *   label/job-1-0.said     what sbatch said
 *   label/job-1-0.7.out    output of task 7, unless label.script says where
 *
 * An attempt asks for all groups that wait then, in parts that Slurm takes as one array. Its jobs
 * share a name that no other attempt has, of this campaign or another: by it a job is found whose
 * number nobody could write down; and a task looks for it in job.json before it does anything. */
#ifndef TT_SLURM_JOBS_H
#define TT_SLURM_JOBS_H
#include "src/campaign/label/oracle_internal.h"

typedef enum tt_submit_state {
  TT_SUBMIT_planned,    /* sbatch has not been called */
  TT_SUBMIT_submitting, /* it has, but no number came back */
  TT_SUBMIT_submitted
} tt_submit_state;

typedef struct tt_label_job {
  int64_t tasks;
  tt_submit_state submit_state;
  int64_t id; /* of Slurm, if sent is yes */
} tt_label_job;

typedef struct tt_label_jobs {
  int64_t attempt;   /* 1, 2, ...; 0 = there was none */
  int64_t uncounted; /* attempts that do not count: all that was left said later, or has failed */
  char name[96];
  int64_t count;
  tt_label_job *job; /* [count] owned; none before the first attempt and after a spare one */
} tt_label_jobs;

/* What is on disk; nothing there is no attempt. Errors: DATA (damaged), IO, MEM. */
tt_err tt_label_jobs_read_local(const tt_label_request *q, tt_label_jobs *out);
/* As a whole, synced. Errors: CANTCREAT, IO, MEM. */
tt_err tt_label_jobs_write_local(const tt_label_request *q, const tt_label_jobs *j);
void tt_label_jobs_free(tt_label_jobs *j);

/* The next attempt: scripts and record for the groups that wait, in arrays of at most `most`
 * tasks; nothing is submitted. Errors: CONFIG (label.script is no script), NOINPUT, CANTCREAT, IO,
 * MEM. */
tt_err tt_label_jobs_prepare_local(const tt_labelling *a, int64_t most, tt_label_jobs *j);

/* label/job-1-0 and an ending. */
void tt_label_jobs_path(const tt_label_request *q, const tt_label_jobs *j, int64_t part,
                        const char *ending, char path[TT_PATH_MAX]);

/* The number in what `sbatch --parsable`, squeue or sacct said: that of the first line that begins
 * with one, unless `known` (NULL = nothing is) has it. -1 = there is none. */
int64_t tt_label_jobs_parse_id(const char *text, const tt_label_jobs *known);
#endif
