/* cluster_plan.h — whether and how a member fits into a cluster of thread blocks: number of blocks,
 * shared memory of each block. Plain C, no CUDA.
 *
 * C blocks, the ranks, train one member: each has all weights and a share of the rows of every
 * batch; each keeps the optimizer slots of some slices of the parameters and updates them. All sums
 * have the order of the member's block plan (block_plan.h), whatever C is, so a member has the same
 * bits in one block and in a cluster, and C may depend on the number of members. */
#ifndef TT_CLUSTER_PLAN_H
#define TT_CLUSTER_PLAN_H
#include "cuda/plan/block_plan.h"
TT_BEGIN_C

enum {
  TT_CLUSTER_MIN_RANKS = 1,               /* ranks */
  TT_CLUSTER_MAX_RANKS = TT_BLOCK_CHUNKS, /* supported by every GPU with clusters */
  TT_CLUSTER_EXCHANGE_FLOATS = 36         /* floats of tt_cluster_exchange */
};

/* Offsets in floats, as in the plan of a block. */
typedef struct tt_cluster_plan {
  tt_block_plan part; /* of one rank, for its share of a batch */
  int64_t bytes;      /* of shared memory of a rank: the part's, then what follows */
  int32_t ranks;      /* C */
  int32_t slice; /* parameters of [Q] that a rank updates: rank r has [r slice, (r + 1) slice) */
  int32_t slots; /* of the optimizer */
  int32_t slot, exchange; /* [slots][slice], [TT_CLUSTER_EXCHANGE_FLOATS] */
} tt_cluster_plan;

/* Plan with `ranks` ranks, a power of two, if a block can have `shared_bytes`, in fp32. Returns
 * 1; 0 if the groups of rows of the block plan cannot be divided among the ranks, or do not fit:
 * *out is unchanged. Local. */
int tt_cluster_plan_make(const tt_cohort *c, int64_t shared_bytes, int ranks, tt_cluster_plan *out);

/* The plan with the least time of a step in the model of block_plan.c, among those whose
 * clusters all run at the same time; if there is none, the plan with the fewest ranks. Returns 0
 * if no number of ranks is possible: *out is unchanged. Local. */
int tt_cluster_plan_choose(const tt_cohort *c, const tt_path_context *context,
                           tt_cluster_plan *out);
TT_END_C
#endif
