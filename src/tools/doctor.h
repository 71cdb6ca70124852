/* doctor.h — `tutti doctor`: what every rank has, which libraries are used, what is wrong. Floor 4.
 */
#ifndef TT_DOCTOR_H
#define TT_DOCTOR_H
#include "src/job/job.h"

/* Collective; c from tt_comm_begin_singletons. Rank 0 prints a table of the ranks, the versions,
 * and all findings, each with its fix. o  file NULL: without a job, as if run.* had their defaults
 * Errors: UNAVAILABLE (there are findings), MEM. */
tt_err tt_doctor(tt_comm *c, const tt_job_options *o);
#endif
