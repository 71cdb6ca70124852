/* path.c — see path.h. */
#include "cuda/plan/path.h"

#include "cuda/plan/block_plan.h"
#include "cuda/plan/cluster_plan.h"
#include "cuda/plan/warp_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { KIB = 1024, WHY_BYTES = sizeof((tt_path_choice *)0)->why };

/* What is to be said of one path. */
typedef struct path_verdict {
  int can;             /* it can do it */
  int preferred;       /* for it: the warp path alone says so */
  char why[WHY_BYTES]; /* why it can, or cannot */
} path_verdict;

static int64_t kib(int64_t bytes) { return (bytes + KIB - 1) / KIB; }

static path_verdict rejected(const char *why)
{
  path_verdict w = {0};
  snprintf(w.why, WHY_BYTES, "%s", why);
  return w;
}

static path_verdict assess_warp(const tt_cohort *c, const tt_path_context *on)
{
  tt_warp_plan plan;
  path_verdict w = {0};
  int64_t work = c->model.params * c->batch_size;
  if (on->warp_unsupported) return rejected(on->warp_unsupported);
  if (!tt_warp_plan_make(c, on->precision, on->shared_bytes, &plan, w.why, WHY_BYTES)) return w;
  w.can = 1;
  w.preferred =
      work <= TT_PATH_WARP_MAX_MACS && plan.bytes * TT_WARPS_PER_MULTIPROCESSOR <= on->shared_bytes;
  snprintf(w.why, WHY_BYTES,
           "%" PRId64 " multiply-adds a batch, %" PRId64 " of %" PRId64
           " KiB of shared memory, %d rows at a time",
           work, kib(plan.bytes), on->shared_bytes / KIB, (int)plan.rows);
  return w;
}

static path_verdict assess_block(const tt_cohort *c, const tt_path_context *on)
{
  tt_block_plan plan;
  path_verdict w = {0};
  w.can = tt_block_plan_make(c, on->precision, on->shared_bytes, &plan);
  if (!w.can)
    snprintf(w.why, WHY_BYTES,
             "a member needs %" PRId64 " KiB of shared memory, a block has %" PRId64,
             kib(tt_block_min_bytes(c, on->precision)), on->shared_bytes / KIB);
  else if (on->block_unsupported)
    return rejected(on->block_unsupported);
  else
    snprintf(w.why, WHY_BYTES, "%" PRId64 " of %" PRId64 " KiB of shared memory, %d rows at a time",
             kib(plan.bytes), on->shared_bytes / KIB, (int)plan.rows);
  return w;
}

static path_verdict assess_cluster(const tt_cohort *c, const tt_path_context *on)
{
  tt_cluster_plan plan;
  path_verdict w = {0};
  if (on->capability < TT_CLUSTER_MIN_CAPABILITY)
    snprintf(w.why, WHY_BYTES,
             "it needs a GPU of compute capability 9.0 or newer, this one has %d.%d",
             on->capability / 10, on->capability % 10);
  else if (on->precision != TT_PRECISION_fp32)
    return rejected("it trains in fp32 alone");
  else if (on->cluster_unsupported)
    return rejected(on->cluster_unsupported);
  else if (!tt_cluster_plan_make(c, on->shared_bytes, &plan))
    snprintf(w.why, WHY_BYTES,
             "a member needs %" PRId64 " KiB of shared memory, a block has %" PRId64,
             kib(tt_cluster_min_bytes(c)), on->shared_bytes / KIB);
  else
    w.can = 1;
  return w;
}

/* Blocks of their own leave more than half of the GPU idle, clusters would not. */
static int cluster_would_help(const tt_path_context *on, const path_verdict *verdicts)
{
  return on->members > 0 && 2 * on->members < on->multiprocessors &&
         verdicts[TT_GPU_PATH_cluster].can;
}

static tt_err choose_by_shape(const tt_path_context *on, const path_verdict *verdicts,
                              tt_path_choice *out)
{
  const path_verdict *block = &verdicts[TT_GPU_PATH_block],
                     *layered = &verdicts[TT_GPU_PATH_layered];
  if (!verdicts[TT_GPU_PATH_warp].preferred && !block->can && !layered->can)
    return TT_FAIL(UNAVAILABLE,
                   "no way to train these members on this GPU; block: %s; layered: %s; use "
                   "run.device: cpu",
                   block->why, layered->why);
  out->path = verdicts[TT_GPU_PATH_warp].preferred ? TT_GPU_PATH_warp
              : block->can                         ? TT_GPU_PATH_block
                                                   : TT_GPU_PATH_layered;
  const path_verdict *reason = out->path == TT_GPU_PATH_layered ? block : &verdicts[out->path];
  snprintf(out->why, WHY_BYTES, "%s", reason->why);
  size_t used = strlen(out->why);
  if (out->path == TT_GPU_PATH_block && cluster_would_help(on, verdicts))
    snprintf(out->why + used, WHY_BYTES - used, "; few members: try run.gpu_path: cluster");
  return TT_OK;
}

tt_err tt_path_choose(const tt_cohort *c, const tt_path_context *on, tt_gpu_path wanted,
                      tt_path_choice *out)
{
  path_verdict verdicts[TT_GPU_PATH_COUNT] = {0};
  const char *fused_obstacle = tt_cohort_needs_layered(c);
  verdicts[TT_GPU_PATH_warp] = fused_obstacle ? rejected(fused_obstacle) : assess_warp(c, on);
  verdicts[TT_GPU_PATH_block] = fused_obstacle ? rejected(fused_obstacle) : assess_block(c, on);
  verdicts[TT_GPU_PATH_layered].can = !on->layered_unsupported;
  if (on->layered_unsupported) verdicts[TT_GPU_PATH_layered] = rejected(on->layered_unsupported);
  verdicts[TT_GPU_PATH_cluster] = fused_obstacle ? rejected(fused_obstacle) : assess_cluster(c, on);
  if (wanted == TT_GPU_PATH_auto) return choose_by_shape(on, verdicts, out);
  if (!verdicts[wanted].can)
    return TT_FAIL(UNAVAILABLE,
                   "run.gpu_path: %s cannot train these members: %s; use run.gpu_path: auto",
                   tt_choice_gpu_kernel[wanted], verdicts[wanted].why);
  out->path = wanted;
  snprintf(out->why, WHY_BYTES, "as run.gpu_path says");
  return TT_OK;
}
