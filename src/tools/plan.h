/* plan.h — `tutti plan`: what a job needs, from its file and the headers of its data alone. Local:
 * starts no MPI, writes nothing; of the samples it reads only labels, to count classes. */
#ifndef TT_TOOLS_PLAN_H
#define TT_TOOLS_PLAN_H
#include "src/job/job.h"

#include <stdio.h>

/* Print to `out` the members, networks, memory per rank, split over `ranks` ranks and sizes of the
 * files; of a campaign also its pool, rounds and labels.
 *   json     1 = one JSON object on standard output instead (docs/json.md)
 *   measure  1 = also how long the job takes, from some seconds of training
 * Errors: those of tt_train with measure, of reading the job file and the headers of the data, of
 * tt_plan_campaign_print_local. */
tt_err tt_plan_print_local(const tt_job_options *o, int ranks, int json, int measure, FILE *out);

/* The CUDA path of each cohort of a job on `ranks` ranks with such a GPU, and the reason:
 * "block: 157 of 227 KiB ...".
 * Errors: those of reading the headers of the data; UNAVAILABLE (no
 * path: the message has the reason). */
tt_err tt_plan_path_local(const tt_config *cfg, int ranks, const tt_device_info *gpu,
                          tt_gpu_path_check check, char *text, int64_t capacity);
#endif
