/* path.c — see path.h. */
#include "cuda/plan/path.h"

#include "cuda/plan/block_plan.h"
#include "cuda/plan/cluster_plan.h"
#include "cuda/plan/warp_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { KIB = 1024, WHY = sizeof((tt_path_choice *)0)->why };

/* What is to be said of one path. */
typedef struct word {
  int can;       /* it can do it */
  int meant;     /* for it: the warp path alone says so */
  char why[WHY]; /* why it can, or cannot */
} word;

static int64_t kib(int64_t bytes) { return (bytes + KIB - 1) / KIB; }

static word refused(const char *why)
{
  word w = {0};
  snprintf(w.why, WHY, "%s", why);
  return w;
}

static word word_of_warp(const tt_cohort *c, const tt_path_device *on)
{
  tt_warp_plan plan;
  word w = {0};
  int64_t work = c->model.params * c->batch_size;
  if (on->warp_refuses) return refused(on->warp_refuses);
  if (!tt_warp_plan_make(c, on->precision, on->shared_bytes, &plan, w.why, WHY)) return w;
  w.can = 1;
  w.meant = work <= TT_PATH_WARP_WORK && plan.bytes * TT_WARP_CROWD <= on->shared_bytes;
  snprintf(w.why, WHY,
           "%" PRId64 " multiply-adds a batch, %" PRId64 " of %" PRId64
           " KiB of shared memory, %d rows at a time",
           work, kib(plan.bytes), on->shared_bytes / KIB, (int)plan.rows);
  return w;
}

static word word_of_block(const tt_cohort *c, const tt_path_device *on)
{
  tt_block_plan plan;
  word w = {0};
  w.can = tt_block_plan_make(c, on->precision, on->shared_bytes, &plan);
  if (!w.can)
    snprintf(w.why, WHY, "a member needs %" PRId64 " KiB of shared memory, a block has %" PRId64,
             kib(tt_block_least_bytes(c, on->precision)), on->shared_bytes / KIB);
  else if (on->block_refuses)
    return refused(on->block_refuses);
  else
    snprintf(w.why, WHY, "%" PRId64 " of %" PRId64 " KiB of shared memory, %d rows at a time",
             kib(plan.bytes), on->shared_bytes / KIB, (int)plan.rows);
  return w;
}

static word word_of_cluster(const tt_cohort *c, const tt_path_device *on)
{
  tt_cluster_plan plan;
  word w = {0};
  if (on->capability < TT_CLUSTER_CAPABILITY)
    snprintf(w.why, WHY, "it needs a GPU of compute capability 9.0 or newer, this one has %d.%d",
             on->capability / 10, on->capability % 10);
  else if (on->precision != TT_PRECISION_fp32)
    return refused("it trains in fp32 alone");
  else if (on->cluster_refuses)
    return refused(on->cluster_refuses);
  else if (!tt_cluster_plan_make(c, on->shared_bytes, &plan))
    snprintf(w.why, WHY, "a member needs %" PRId64 " KiB of shared memory, a block has %" PRId64,
             kib(tt_cluster_least_bytes(c)), on->shared_bytes / KIB);
  else
    w.can = 1;
  return w;
}

/* Blocks of their own leave more than half of the GPU idle, clusters would not. */
static int advises_cluster(const tt_path_device *on, const word *words)
{
  return on->members > 0 && 2 * on->members < on->multiprocessors && words[TT_PATH_cluster].can;
}

static tt_err choose_by_shape(const tt_path_device *on, const word *words, tt_path_choice *out)
{
  const word *block = &words[TT_PATH_block], *layered = &words[TT_PATH_layered];
  if (!words[TT_PATH_warp].meant && !block->can && !layered->can)
    return TT_FAIL(UNAVAILABLE,
                   "no way to train these members on this GPU; block: %s; layered: %s; use "
                   "run.device: cpu",
                   block->why, layered->why);
  out->path = words[TT_PATH_warp].meant ? TT_PATH_warp
              : block->can              ? TT_PATH_block
                                        : TT_PATH_layered;
  const word *reason = out->path == TT_PATH_layered ? block : &words[out->path];
  snprintf(out->why, WHY, "%s", reason->why);
  size_t used = strlen(out->why);
  if (out->path == TT_PATH_block && advises_cluster(on, words))
    snprintf(out->why + used, WHY - used, "; few members: try run.path: cluster");
  return TT_OK;
}

tt_err tt_path_choose(const tt_cohort *c, const tt_path_device *on, tt_path wanted,
                      tt_path_choice *out)
{
  word words[TT_PATH_COUNT] = {0};
  const char *beyond = tt_cohort_beyond_fused(c);
  words[TT_PATH_warp] = beyond ? refused(beyond) : word_of_warp(c, on);
  words[TT_PATH_block] = beyond ? refused(beyond) : word_of_block(c, on);
  words[TT_PATH_layered].can = !on->layered_refuses;
  if (on->layered_refuses) words[TT_PATH_layered] = refused(on->layered_refuses);
  words[TT_PATH_cluster] = beyond ? refused(beyond) : word_of_cluster(c, on);
  if (wanted == TT_PATH_auto) return choose_by_shape(on, words, out);
  if (!words[wanted].can)
    return TT_FAIL(UNAVAILABLE, "run.path: %s cannot train these members: %s; use run.path: auto",
                   tt_choice_path[wanted], words[wanted].why);
  out->path = wanted;
  snprintf(out->why, WHY, "as run.path says");
  return TT_OK;
}
