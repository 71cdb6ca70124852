/* cluster_plan.c — see cluster_plan.h. */
#include "cuda/plan/cluster_plan.h"

#include "core/formulas/optimizer.h"

#include <inttypes.h>
#include <stdio.h>

/* Two barriers of a cluster, of 770 to 980 cycles on an H100 (bench/kit/micro.cu), and reads of the
 * gradients of the other ranks, an estimate. */
enum { EXCHANGE_CYCLES = 3000 };

int tt_cluster_plan_make(const tt_cohort *c, int64_t shared_bytes, int ranks, tt_cluster_plan *out)
{
  tt_block_plan alone, part;
  if (!tt_block_plan_make(c, TT_PRECISION_fp32, shared_bytes, &alone)) return 0;
  int32_t slice = TT_BLOCK_CHUNKS / ranks * tt_block_slice_floats(alone.params);
  int32_t slots = tt_optimizer_slots(c->optimizer);
  int64_t more = (int64_t)sizeof(float) * (slots * slice + TT_CLUSTER_EXCHANGE_FLOATS);
  if (!tt_block_plan_make_rank(c, &alone, ranks, shared_bytes - more, &part)) return 0;
  int32_t end = (int32_t)(part.bytes / (int64_t)sizeof(float));
  *out = (tt_cluster_plan){part, part.bytes + more, ranks, slice, slots, end, end + slots * slice};
  return 1;
}

/* Whether clusters for all members run at the same time. */
static int all_at_once(const tt_path_context *context, int ranks)
{
  return context->members * ranks <= context->multiprocessors;
}

int tt_cluster_plan_choose(const tt_cohort *c, const tt_path_context *context, tt_cluster_plan *out)
{
  int found = 0;
  for (int ranks = TT_CLUSTER_MIN_RANKS; ranks <= TT_CLUSTER_MAX_RANKS; ranks *= 2) {
    tt_cluster_plan p;
    if (!tt_cluster_plan_make(c, context->shared_bytes, ranks, &p)) continue;
    if (found && (!all_at_once(context, ranks) || p.part.cycles >= out->part.cycles)) continue;
    *out = p;
    found = 1;
  }
  return found;
}

/* Whether a member finishes a step clearly earlier in a cluster than in one block. */
static int is_faster(const tt_cohort *c, const tt_path_context *context, const tt_cluster_plan *p)
{
  tt_block_plan alone;
  if (context->members < 1 || p->ranks < 2 || !all_at_once(context, p->ranks)) return 0;
  if (!tt_block_plan_make(c, TT_PRECISION_fp32, context->shared_bytes, &alone)) return 0;
  return 10 * (p->part.cycles + EXCHANGE_CYCLES) < 9 * alone.cycles;
}

static void explain_refusal(const tt_cohort *c, const tt_path_context *context,
                            tt_path_verdict *out)
{
  tt_block_plan alone, part;
  if (!tt_block_plan_make(c, TT_PRECISION_fp32, context->shared_bytes, &alone)) {
    tt_block_too_large(tt_block_min_bytes(c, TT_PRECISION_fp32), context, out);
    return;
  }
  for (int ranks = TT_CLUSTER_MAX_RANKS; ranks >= TT_CLUSTER_MIN_RANKS; ranks /= 2) {
    if (!tt_block_plan_make_rank(c, &alone, ranks, INT32_MAX, &part)) continue;
    tt_block_too_large(part.bytes, context, out);
    return;
  }
  snprintf(out->why, sizeof out->why,
           "a block sums the %" PRId64
           " rows of a batch in groups that up to 8 blocks cannot share",
           c->batch_size);
}

void tt_path_assess_cluster(const tt_cohort *c, const tt_path_context *context,
                            tt_path_verdict *out)
{
  tt_cluster_plan plan;
  out->supported = tt_cluster_plan_choose(c, context, &plan);
  if (!out->supported) {
    explain_refusal(c, context, out);
    return;
  }
  out->ranks = plan.ranks;
  out->preferred = is_faster(c, context, &plan);
  snprintf(out->why, sizeof out->why,
           "%" PRId64 " member%s on %" PRId64 " multiprocessors, %d block%s for each member",
           context->members, context->members == 1 ? "" : "s", context->multiprocessors,
           (int)plan.ranks, plan.ranks == 1 ? "" : "s");
}
