/* cluster_plan.h — whether and how a member fits into a cluster of thread blocks: number of blocks,
 * shared memory of each block. Plain C, no CUDA.
 *
 * C blocks, the ranks, train one member: each has all weights and a share of the rows of every
 * batch; each keeps the optimizer slots of one slice of the parameters and updates this slice.
 * The plan depends only on the shape, the batch size, the optimizer and the shared memory of the
 * device, never on the number of members or of idle multiprocessors: C decides the order of
 * sums, hence the bits. */
#ifndef TT_CLUSTER_PLAN_H
#define TT_CLUSTER_PLAN_H
#include "cuda/plan/block_plan.h"
TT_BEGIN_C

enum {
  TT_CLUSTER_MIN_RANKS = 2,       /* ranks */
  TT_CLUSTER_MAX_RANKS = 8,       /* supported by every GPU with clusters */
  TT_CLUSTER_EXCHANGE_FLOATS = 36 /* floats of tt_cluster_exchange */
};

/* Offsets in floats, as in the plan of a block. */
typedef struct tt_cluster_plan {
  tt_block_plan part; /* of one rank, for its share of a batch */
  int64_t bytes;      /* of shared memory of a rank: the part's, then what follows */
  int32_t ranks;      /* C */
  int32_t slice; /* parameters of [Q] that a rank updates: rank r has [r slice, (r + 1) slice) */
  int32_t slots; /* of the optimizer */
  int32_t slot, note; /* [slots][slice], [TT_CLUSTER_EXCHANGE_FLOATS] */
} tt_cluster_plan;

/* Bytes of shared memory of a rank of the smallest plan. */
int64_t tt_cluster_min_bytes(const tt_cohort *c);

/* Plan for the cohort if a block can have `shared_bytes`, in fp32. The number of ranks gives
 * each lane of a warp one row of a batch, if the batch has enough rows; there are more ranks if
 * the slots need them. Returns 1; 0 if the cohort does not fit: *out is unchanged, and
 * tt_cluster_min_bytes gives the bytes needed. Local. */
int tt_cluster_plan_make(const tt_cohort *c, int64_t shared_bytes, tt_cluster_plan *out);
TT_END_C
#endif
