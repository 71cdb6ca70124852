/* cluster_plan.c — see cluster_plan.h. */
#include "cuda/plan/cluster_plan.h"

#include "core/formulas/optimizer.h"

static int64_t ceil_div(int64_t whole, int64_t part) { return (whole + part - 1) / part; }

/* Parameters per rank: whole float4. */
static int64_t slice_floats(const tt_cohort *c, int64_t ranks)
{
  return 4 * ceil_div(tt_block_padded_params(c) / 4, ranks);
}

/* Bytes of a rank besides those of its block plan. */
static int64_t extra_bytes(const tt_cohort *c, int64_t ranks)
{
  int64_t floats =
      tt_optimizer_slots(c->optimizer) * slice_floats(c, ranks) + TT_CLUSTER_EXCHANGE_FLOATS;
  return floats * (int64_t)sizeof(float);
}

int64_t tt_cluster_min_bytes(const tt_cohort *c)
{
  int64_t gradient = tt_block_padded_params(c) * (int64_t)sizeof(float);
  return tt_block_min_bytes(c, TT_PRECISION_fp32) + gradient + extra_bytes(c, TT_CLUSTER_MAX_RANKS);
}

int tt_cluster_plan_make(const tt_cohort *c, int64_t shared_bytes, tt_cluster_plan *out)
{
  for (int ranks = TT_CLUSTER_MIN_RANKS; ranks <= TT_CLUSTER_MAX_RANKS; ranks *= 2) {
    tt_block_plan part;
    int64_t rows = ceil_div(c->batch_size, ranks), more = extra_bytes(c, ranks);
    if (rows > TT_BLOCK_TILE_ROWS && ranks < TT_CLUSTER_MAX_RANKS) continue;
    if (!tt_block_plan_make_rank(c, TT_PRECISION_fp32, rows, shared_bytes - more, &part)) continue;
    int32_t slice = (int32_t)slice_floats(c, ranks), slots = tt_optimizer_slots(c->optimizer);
    int32_t end = (int32_t)(part.bytes / (int64_t)sizeof(float));
    *out =
        (tt_cluster_plan){part, part.bytes + more, ranks, slice, slots, end, end + slots * slice};
    return 1;
  }
  return 0;
}

void tt_path_assess_cluster(const tt_cohort *c, const tt_path_context *on, tt_path_verdict *out)
{
  tt_cluster_plan plan;
  out->supported = tt_cluster_plan_make(c, on->shared_bytes, &plan);
  if (!out->supported) tt_block_too_large(tt_cluster_min_bytes(c), on, out);
}
