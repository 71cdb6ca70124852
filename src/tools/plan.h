/* plan.h — `tutti plan`: what a job will need, from its file and the headers of its data alone.
 * Floor 4; local, never starts MPI, writes nothing; of the samples reads labels
 * alone, to count classes. */
#ifndef TT_TOOLS_PLAN_H
#define TT_TOOLS_PLAN_H
#include "src/job/job.h"

#include <stdio.h>

/* Print to `out` members, network, memory per rank, the split over `ranks` ranks and the sizes of
 * the files. Errors: those of the job file and of the data's headers. */
tt_err tt_plan_print_local(const tt_job_options *o, int ranks, FILE *out);

/* Which CUDA path a job on `ranks` ranks would take on such a GPU, and why: "block: 157 of
 * 227 KiB ...", from the headers of its data. Errors: those of the data's headers; UNAVAILABLE
 * (none: the message says why). */
tt_err tt_plan_path_local(const tt_config *cfg, int ranks, const tt_device_info *gpu, char *text,
                          int64_t room);
#endif
