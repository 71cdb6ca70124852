/* query.h — queries of a program in a Slurm job, through Slurm's commands and environment
 * variables, without a Slurm library. All local. */
#ifndef TT_SLURM_QUERY_H
#define TT_SLURM_QUERY_H
#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

/* Seconds of a time of Slurm: minutes, minutes:seconds, hours:minutes:seconds, days-hours,
 * days-hours:minutes or days-hours:minutes:seconds; -1 if it is none of them. */
int64_t tt_slurm_time_seconds(const char *text);

/* "2:03", "1-02:03:04" of squeue's %L as seconds; -1 for UNLIMITED, NOT_SET and the like.
 * Errors: DATA. */
tt_err tt_slurm_parse_time(const char *text, double *seconds);

/* Seconds until the time limit of this job; -1 outside a job or without a limit. From
 * SLURM_JOB_END_TIME (set by Slurm >= 23.02), else from squeue with a timeout of 10 s.
 * Errors: UNAVAILABLE (squeue is missing or times out; the message names what to set). */
tt_err tt_slurm_seconds_left_local(double *seconds);

/* Job id for scontrol: "17", or "17_3" for a task of a job array. Returns 0 outside a job. */
int tt_slurm_job_id_local(char *text, size_t capacity);

/* Requeues of this job so far, SLURM_RESTART_COUNT; 0 in the first start. */
int64_t tt_slurm_restarts_local(void);

/* 1 if the incarnation (io/checkpoint/checkpoint.h) belongs to this start of this job. */
int tt_slurm_is_this_start_local(const char *incarnation);

/* The same for any start of this job. */
int tt_slurm_is_this_job_local(const char *incarnation);

/* scontrol requeue. Slurm then ends this job by SIGTERM, usually before the function returns.
 *   after  numbers of jobs, "4711:4712", after whose end the job starts; "" = none. Ignore SIGTERM.
 * Errors: UNAVAILABLE. */
tt_err tt_slurm_requeue_local(const char *job, const char *after);
#endif
