/* cluster_plan.h — does a member fit into a cluster of thread blocks, and how: how many, what each
 * of them keeps in its shared memory. Floor 3; plain C, no CUDA.
 *
 * C blocks, the ranks, train one member: each has all weights and takes a share of the rows of
 * every batch; each keeps the optimiser's slots of one slice of the parameters and steps that
 * slice. The plan depends on the shape, the batch size, the optimiser and the shared memory of the
 * device alone, never on how many members or idle multiprocessors there are: C decides the order
 * of sums, hence the bits. */
#ifndef TT_CLUSTER_PLAN_H
#define TT_CLUSTER_PLAN_H
#include "cuda/plan/block_plan.h"
#ifdef __cplusplus
extern "C" {
#endif

enum {
  TT_CLUSTER_MIN_RANKS = 2,       /* ranks */
  TT_CLUSTER_MAX_RANKS = 8,       /* that every GPU with clusters has */
  TT_CLUSTER_EXCHANGE_FLOATS = 36 /* floats for what ranks tell one another */
};

/* Offsets in floats, as in the plan of a block. */
typedef struct tt_cluster_plan {
  tt_block_plan part; /* of one rank, for its share of a batch */
  int64_t bytes;      /* of shared memory of a rank: the part's, then what follows */
  int32_t ranks;      /* C */
  int32_t slice;      /* of [Q] that a rank steps: r has [r slice, (r + 1) slice) */
  int32_t slots;      /* of the optimiser */
  int32_t slot, note; /* [slots][slice], [TT_CLUSTER_EXCHANGE_FLOATS] */
} tt_cluster_plan;

/* Bytes of shared memory of a rank of the smallest plan. */
int64_t tt_cluster_min_bytes(const tt_cohort *c);

/* Plan for the cohort where a block can have `shared_bytes`, in fp32: so many ranks that a share of
 * a batch is one row for each lane of a warp, if there are as many; more if the slots ask for them.
 * Returns 1, or 0 if the cohort does not fit, then *out is untouched: tt_cluster_min_bytes says
 * what it would take. Local. */
int tt_cluster_plan_make(const tt_cohort *c, int64_t shared_bytes, tt_cluster_plan *out);
#ifdef __cplusplus
}
#endif
#endif
