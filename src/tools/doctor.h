/* doctor.h — `tutti doctor`: resources of every rank, versions of libraries, problems. */
#ifndef TT_DOCTOR_H
#define TT_DOCTOR_H
#include "src/job/job.h"

/* Rank 0 prints a table of the ranks, the versions, and all problems, each with its fix.
 *   c  from tt_comm_begin_singletons
 *   o  file NULL: no job; run.* have their defaults
 *   json  print one JSON object instead (docs/json.md)
 *   check  check each GPU again (src/host/self_check.h); 0: print earlier results
 * Collective. Errors: UNAVAILABLE (there are problems), MEM. */
tt_err tt_doctor(tt_comm *c, const tt_job_options *o, int json, int check);

#endif
