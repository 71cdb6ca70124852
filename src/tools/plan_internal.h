/* plan_internal.h — the plan of a job, as text (plan.c) and as JSON (plan_json.c). Local. */
#ifndef TT_TOOLS_PLAN_INTERNAL_H
#define TT_TOOLS_PLAN_INTERNAL_H
#include "core/base/json.h"
#include "core/model/cohort.h"
#include "io/data/data.h"
#include "src/tools/plan_gpu.h"
#include "src/tools/plan_teams.h"
#include "src/train/memory_plan.h"

#include <stdio.h>

typedef struct tt_job_plan {
  const tt_config *cfg;
  tt_data_shape shape;
  tt_row_counts rows;
  tt_cohorts all;
  const tt_engine_ops *ops;
  const tt_plan_link *link; /* between ranks, or NULL */
  FILE *out;
} tt_job_plan;

/* Members in model.h5: every snapshot and every head is a member. */
double tt_plan_final_members(const tt_cohort *c);
/* Size of model.h5. */
double tt_plan_model_bytes(const tt_job_plan *p);
int64_t tt_plan_training_rows(const tt_job_plan *p);
/* Teams of ranks; as many as ranks: each trains members of its own. */
int tt_plan_teams(const tt_job_plan *p, int ranks);
/* Number of members that a rank trains, alone or with its team. Errors: MEM. */
tt_err tt_plan_rank_members(const tt_job_plan *p, int ranks, int rank, int64_t *members);
/* The memory of the rank that needs most, and its waves, on a machine with the memory that is left
 * here.
 *   gpu  trained on this GPU, with all its memory for a rank; NULL: on the CPU, or not known
 * Errors: MEM. */
tt_err tt_plan_memory(const tt_job_plan *p, int ranks, const tt_plan_gpu *gpu, tt_wave_plan *wave,
                      tt_memory_plan *most);
/* Whether the ranks of a team send memory of the host or of their GPUs; the rule is
 * tt_resources_exchange_on_device, as for a run. With run.exchange: auto a run asks the MPI library
 * whether it takes GPU memory. A plan cannot ask: it returns auto if the library may take it. */
tt_exchange tt_plan_exchange(const tt_job_plan *p);
/* The GPU memory of a rank of the first team for what it exchanges of a cohort, at most; 0 if it
 * has no team, or none on GPUs, or exchanges host memory. */
double tt_plan_exchange_bytes(const tt_job_plan *p, const tt_cohort *c, int ranks);
/* That for the members `own` of a cohort, on the rank of the first team that needs most.
 *   data  for the data set; 0: it does not fit */
double tt_plan_device_bytes(const tt_job_plan *p, const tt_cohort *c, tt_slice own, int ranks,
                            const tt_plan_gpu *gpu, double *data);
/* Print the path on each GPU of the plan, and the multiprocessors in use where blocks of the
 * members leave some idle; the memory of the members `own` of the first rank or team, if the
 * layered path is one of them. */
void tt_plan_print_gpu_local(const tt_job_plan *p, const tt_cohort *c, int ranks, tt_slice own);
/* Print the plan as one JSON object (docs/json.md). Errors: as tt_plan_print_local. */
tt_err tt_plan_print_json(tt_job_plan *p, int ranks);
#endif
