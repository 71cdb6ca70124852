/* slurm_query.h — what a program inside a Slurm job asks of Slurm: through its commands and its
 * environment, without a library. Floor 4; all local. */
#ifndef TT_SLURM_QUERY_H
#define TT_SLURM_QUERY_H
#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

/* "2:03", "1-02:03:04" of squeue's %L as seconds; -1 for UNLIMITED, NOT_SET and the like.
 * Errors: DATA. */
tt_err tt_slurm_parse_time(const char *text, double *seconds);

/* Seconds this job still has; -1 outside a job and without a limit. From SLURM_JOB_END_TIME where
 * Slurm sets it (from 23.02 on), else from squeue, which has ten seconds to answer.
 * Errors: UNAVAILABLE (squeue is not there or does not answer: the message says what to set). */
tt_err tt_slurm_seconds_left_local(double *seconds);

/* What scontrol calls this job: "17", "17_3" for a task of an array; 0 outside a job. */
int tt_slurm_job_id_local(char *text, size_t room);

/* How often Slurm has started this job again: SLURM_RESTART_COUNT, 0 in the first life. */
int64_t tt_slurm_restarts_local(void);

/* Does the incarnation (io/checkpoint/checkpoint.h) belong to this life of this job? */
int tt_slurm_is_this_start_local(const char *incarnation);

/* scontrol requeue. Slurm then ends this job at once, usually before this returns.
 * Errors: UNAVAILABLE. */
tt_err tt_slurm_requeue_local(const char *job);
#endif
