/* jobs_internal.h — the files of array jobs, for jobs.c. Local. */
#ifndef TT_SLURM_JOBS_INTERNAL_H
#define TT_SLURM_JOBS_INTERNAL_H
#include "slurm/jobs.h"

void tt_slurm_jobs_free(tt_slurm_jobs *s);

/* Read job.json; attempt = 0 if it does not exist. Errors: DATA (damaged), IO, MEM. */
tt_err tt_job_file_read_local(tt_slurm_jobs *s);
/* Write job.json atomically, synced. Errors: CANTCREAT, IO, MEM. */
tt_err tt_job_file_write_local(const tt_slurm_jobs *s);

/* Prepare the next attempt: write the scripts and job.json, in arrays of at most max_array_size
 * tasks. Errors: as tt_slurm_jobs_continue_local. */
tt_err tt_job_scripts_write_local(tt_slurm_jobs *s, const char *const *task, int64_t n);

/* The path of job-1-0 with the suffix `ending`. */
void tt_job_file_path(const tt_slurm_jobs *s, int64_t part, const char *ending,
                      char path[TT_PATH_MAX]);
#endif
