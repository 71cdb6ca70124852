/* plan_internal.h — the plan of a job, as text (plan.c) and as JSON (plan_json.c). Private to
 * src/tools. Local. */
#ifndef TT_TOOLS_PLAN_INTERNAL_H
#define TT_TOOLS_PLAN_INTERNAL_H
#include "core/base/json.h"
#include "core/front/front.h"
#include "core/model/cohort.h"
#include "cuda/plan/path.h"
#include "io/data/data.h"
#include "src/job/job.h"
#include "src/train/memory_plan.h"
#include "src/train/time_estimate.h"

#include <stdio.h>

/* The GPUs that a plan is made for; plan_gpu.c. */
typedef struct tt_plan_gpu {
  const char *name;
  tt_path_context on;
  double bytes; /* of its memory; in tt_plan_gpus of the smallest kind */
} tt_plan_gpu;
enum { TT_PLAN_GPUS = 4, TT_PLAN_MEMORIES = 4 };
extern const tt_plan_gpu tt_plan_gpus[TT_PLAN_GPUS];
extern const tt_plan_gpu tt_plan_gpu_memories[TT_PLAN_MEMORIES]; /* kinds with other memories */

/* tt_path_choose as the job says, for a cohort that is dealt over `ranks` ranks. */
tt_err tt_plan_choose_path_local(const tt_config *cfg, const tt_cohort *c, tt_path_context context,
                                 int ranks, tt_path_choice *out);

/* Members that several ranks train together: plan_teams.c. How the ranks of a team share the
 * members of each cohort, what it can bring at most, and what a rank sends.
 *   ranks   of the largest team
 *   stages  run.stages: they share the layers in up to so many stages; 1: only the parts of a batch
 */
void tt_plan_print_team(FILE *out, const tt_cohorts *all, int ranks, int stages);

/* What run.ranks_per_member and run.stages would bring where there are more ranks than members. */
void tt_plan_print_choice(FILE *out, const tt_cohorts *all, int ranks);

typedef struct tt_job_plan {
  const tt_config *cfg;
  tt_data_shape shape; /* rows: as in memory, with `by` those of the pooled ensemble too */
  int64_t file_rows;
  tt_row_counts rows;
  tt_cohorts all;
  const tt_engine_ops *ops;
  const tt_time_estimate *time; /* NULL: not measured */
  FILE *out;
} tt_job_plan;

/* Members in model.h5: every head is a member. */
double tt_plan_final_members(const tt_cohort *c);
/* Size of model.h5, and of a checkpoint of all ranks. */
double tt_plan_model_bytes(const tt_job_plan *p);
double tt_plan_checkpoint_bytes(const tt_job_plan *p);
/* Training rows of a member; with `by` the mean over the groups. */
int64_t tt_plan_training_rows(const tt_job_plan *p);
/* Teams of ranks; as many as ranks: each trains members of its own. */
int tt_plan_teams(const tt_job_plan *p, int ranks);
/* The members of cohort `number` that a rank trains, alone or with its team; and the number of
 * those of all cohorts. Errors: MEM. */
tt_err tt_plan_slice(const tt_job_plan *p, int64_t number, int ranks, int rank, tt_slice *out);
tt_err tt_plan_rank_members(const tt_job_plan *p, int ranks, int rank, int64_t *members);
/* The memory of the rank that needs most. Errors: MEM. */
tt_err tt_plan_memory(const tt_job_plan *p, int ranks, tt_memory_plan *most);
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
/* The groups of `by`, or the targets of a job, not normalized, if classes must be counted; else
 * *out stays NULL. Owner: the caller. Local. Errors: as tt_data_read_groups. */
tt_err tt_plan_read_labels_local(const tt_config *cfg, const tt_data_shape *shape,
                                 tt_dataset **out);
/* Print the path on each GPU of the plan, and the multiprocessors in use where blocks of the
 * members leave some idle; the memory of the members `own` of the first rank or team, if the
 * layered path is one of them. */
void tt_plan_print_gpu_local(const tt_job_plan *p, const tt_cohort *c, int ranks, tt_slice own);
/* Train on one rank for some seconds, in memory, to tell how long the job takes on this machine.
 * Errors: USAGE (ranks > 1, a search), those of tt_train. */
tt_err tt_plan_measure(const tt_job_options *o, const tt_config *cfg, int ranks,
                       tt_time_estimate *out);
/* Print the plan as one JSON object (docs/json.md). Errors: as tt_plan_print_local. */
tt_err tt_plan_print_json(tt_job_plan *p, int ranks);

/* The layers of a front: plan_front.c. A line for each layer: its number, result, parameters
 * without running values, and what it reads or adds that is not the result of the layer before;
 * nothing without a front. */
void tt_plan_front_print(const tt_front *f, FILE *out);
/* A list of the same, one object for each layer. */
json_t *tt_plan_front_to_json(const tt_front *f);

/* A campaign, its pool, rounds and labels: plan_campaign.c. Check what training does not need, or
 * print what the rounds need.
 *   candidates  rows of pool.file; 0 if pool.command makes them
 * Errors: those of reading the header of pool.file (other columns than data.file: DATA), of
 * tt_job_check_commands_local. */
tt_err tt_plan_campaign_check_local(const tt_job_plan *p, int64_t *candidates);
tt_err tt_plan_campaign_print_local(const tt_job_plan *p);
#endif
