/* plan_gpu.h — the GPUs that tutti plan knows, and the path of a cohort on them. Local. */
#ifndef TT_PLAN_GPU_H
#define TT_PLAN_GPU_H
#include "core/model/cohort.h"
#include "cuda/plan/path.h"

/* The GPUs that a plan is made for. */
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
#endif
