/* doctor.h — `tutti doctor`: resources of every rank, versions of libraries, problems. */
#ifndef TT_DOCTOR_H
#define TT_DOCTOR_H
#include "src/job/job.h"

/* Rank 0 prints a table of the ranks, the versions, and all problems, each with its fix.
 *   c  from tt_comm_begin_singletons
 *   o  file NULL: no job; run.* have their defaults
 *   json  print one JSON object instead (docs/json.md)
 * Collective. Errors: UNAVAILABLE (there are problems), MEM. */
tt_err tt_doctor(tt_comm *c, const tt_job_options *o, int json);

/* `tutti doctor --calibrate`: measure the constants of this machine, write them to their file
 * (src/timing/machine_file.h), and print them. The test file is in run.directory of the job, or
 * here. Collective, for one rank. Errors: USAGE (several ranks), those of tt_machine_measure. */
tt_err tt_doctor_calibrate(tt_comm *c, const tt_job_options *o);
#endif
