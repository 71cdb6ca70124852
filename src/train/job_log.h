/* job_log.h — what a training says at the start: its inputs; the number of its members, their
 * networks, ranks and device. Floor 4. */
#ifndef TT_JOB_LOG_H
#define TT_JOB_LOG_H
#include "core/model/cohort.h"

/* Log the inputs and the cohorts `all` of the job, many of them in one line; `device` is that of
 * this rank. Local; only rank 0 prints. */
void tt_job_log_local(const tt_cohorts *all, const tt_columns *input, int ranks,
                      const char *device);

/* Warn of ranks that have nothing to train. Local; only rank 0 prints. */
void tt_job_log_idle_ranks_local(const tt_cohorts *all, const tt_config *cfg, int ranks, int teams);
#endif
