/* cluster_train.cuh — the blocks of a cluster train one member: device code of the cluster path.
 *
 * Every rank has all weights and computes the gradient of its rows of a batch as the block path
 * does. After a barrier of the cluster, a rank sums its slice of the gradient over the ranks, in
 * rank order, updates the slice with the optimizer and writes the new weights to all ranks. A
 * second barrier follows. Validation rows are divided in the same way.
 *
 * Each rank has its own tt_block_context with the same values in all ranks: they follow from
 * sums over the ranks, which every rank adds in the same order, and from values that rank 0
 * sends. Only rank 0 writes status, counters and history of the member. */
#ifndef TT_CLUSTER_TRAIN_CUH
#define TT_CLUSTER_TRAIN_CUH
#include "cuda/block/block_train.cuh"
#include "cuda/cluster/thread_block_cluster.cuh"
#include "cuda/plan/cluster_plan.h"

/* Arguments of the kernel. */
typedef struct tt_cluster_args {
  tt_block_args block;
  int32_t ranks, slice, slots, slot, note; /* from the plan */
} tt_cluster_args;

/* Values written by other ranks; valid after a barrier of the cluster. */
typedef struct tt_cluster_exchange {
  double loss[TT_CLUSTER_MAX_RANKS], square[TT_CLUSTER_MAX_RANKS]; /* one per rank */
  int32_t member, best, training;                                  /* written by rank 0 */
} tt_cluster_exchange;
static_assert(sizeof(tt_cluster_exchange) <= TT_CLUSTER_EXCHANGE_FLOATS * sizeof(float), "it fits");

__device__ __forceinline__ tt_cluster_exchange *tt_cluster_exchange_of(const tt_cluster_args &a,
                                                                       float *shared)
{
  return reinterpret_cast<tt_cluster_exchange *>(shared + a.note);
}

/* The parameters [first, end) of this rank. */
typedef struct tt_cluster_slice {
  int first, end;
} tt_cluster_slice;

__device__ __forceinline__ tt_cluster_slice tt_cluster_slice_of(const tt_cluster_args &a)
{
  int first = min(tt_cluster_rank() * a.slice, a.block.plan.params);
  tt_cluster_slice s = {first, min(first + a.slice, a.block.plan.params)};
  return s;
}

/* As tt_block_for_each_param, for the parameters of this rank. */
template <class F>
__device__ __forceinline__ void tt_cluster_for_each_param(const tt_cluster_args &a, F f)
{
  tt_cluster_slice mine = tt_cluster_slice_of(a);
  tt_block_for_each_param(a.block.plan, [&](int q, int p) {
    if (q >= mine.first && q < mine.end) f(q, p);
  });
}

/* Address of slot k of parameter 0 as if this rank had it, so that q of [Q] is the index. */
__device__ __forceinline__ float *tt_cluster_slot_array(const tt_cluster_args &a, float *shared,
                                                        int k)
{
  return shared + a.slot + k * a.slice - tt_cluster_slice_of(a).first;
}

/* Sum of `value` over the ranks. All threads of a rank pass the same value; every thread of every
 * rank gets the same bits.
 *   at  place of rank 0's value in tt_cluster_exchange; free for reuse after the next barrier */
__device__ __forceinline__ double tt_cluster_sum(const tt_cluster_args &a, double value, double *at)
{
  int to = (int)threadIdx.x;
  if (to < a.ranks) *tt_cluster_map_shared(at + tt_cluster_rank(), to) = value;
  tt_cluster_sync();
  double part[TT_CLUSTER_MAX_RANKS], sum = 0.0;
#pragma unroll
  for (int r = 0; r < TT_CLUSTER_MAX_RANKS; r++) part[r] = r < a.ranks ? at[r] : 0.0;
#pragma unroll
  for (int r = 0; r < TT_CLUSTER_MAX_RANKS; r++) sum += part[r];
  return sum;
}

/* load and store a member */

__device__ __forceinline__ void tt_cluster_load_member(const tt_cluster_args &a, float *shared)
{
  const tt_cuda_state &v = a.block.view;
  int64_t i = tt_block_context_of(shared)->member;
  tt_block_zero(shared + a.slot, a.slots * a.slice);
  tt_block_load_member(a.block, shared);
  for (int k = 0; k < a.slots; k++) {
    const float *from = v.slots + (i * a.slots + k) * v.param_stride;
    float *to = tt_cluster_slot_array(a, shared, k);
    tt_cluster_for_each_param(a, [&](int q, int p) { to[q] = from[p]; });
  }
  __syncthreads();
}

/* Store the slices of this rank; no barrier at the end. */
__device__ __forceinline__ void tt_cluster_store_member(const tt_cluster_args &a, float *shared)
{
  const tt_cuda_state &v = a.block.view;
  const tt_block_context *note = tt_block_context_of(shared);
  int64_t i = note->member;
  const float *from = shared + a.block.plan.weights;
  float *to = v.weights + i * v.param_stride;
  tt_cluster_for_each_param(a, [&](int q, int p) { to[p] = from[q]; });
  for (int k = 0; k < a.slots; k++) {
    from = tt_cluster_slot_array(a, shared, k);
    to = v.slots + (i * a.slots + k) * v.param_stride;
    tt_cluster_for_each_param(a, [&](int q, int p) { to[p] = from[q]; });
  }
  if (tt_cluster_rank() != 0 || threadIdx.x != 0) return;
  v.batch[i] = note->batch;
  v.step[i] = note->step;
  v.loss_sum[i] = note->loss_sum;
}

/* a pass */

/* Loss of `count` rows from `first` on, in every thread of every rank; each rank passes over its
 * share of the rows. For a batch, also the gradient of this share. */
template <class KIND>
__device__ __forceinline__ double tt_cluster_pass(const tt_cluster_args &a, float *shared,
                                                  int validating, int first, int count)
{
  int rank = tt_cluster_rank(), more = count % a.ranks;
  int share = count / a.ranks + (rank < more);
  first += count / a.ranks * rank + min(rank, more);
  if (!validating && share == 0)
    tt_block_zero(tt_block_gradient_array(a.block, shared), a.block.plan.params);
  double sum = tt_block_pass<KIND>(a.block, shared, validating, first, share, count);
  return tt_cluster_sum(a, sum, tt_cluster_exchange_of(a, shared)->loss);
}

/* the optimizer */

/* Sum of the gradient of four parameters over the ranks. */
__device__ __forceinline__ float4 tt_cluster_sum_gradient4(float *gradient, int ranks)
{
  float4 part[TT_CLUSTER_MAX_RANKS]; /* all loads are in flight at the same time */
#pragma unroll
  for (int r = 0; r < TT_CLUSTER_MAX_RANKS; r++)
    part[r] = r < ranks ? tt_load4(tt_cluster_map_shared(gradient, r)) : make_float4(0, 0, 0, 0);
  float4 sum = part[0];
#pragma unroll
  for (int r = 1; r < TT_CLUSTER_MAX_RANKS; r++) {
    sum.x += part[r].x;
    sum.y += part[r].y;
    sum.z += part[r].z;
    sum.w += part[r].w;
  }
  return sum;
}

/* Call f(q) for the first of every four parameters of this rank, always in the same thread. */
template <class F>
__device__ __forceinline__ void tt_cluster_for_each_float4(const tt_cluster_args &a, F f)
{
  tt_cluster_slice mine = tt_cluster_slice_of(a);
  for (int q = mine.first + 4 * (int)threadIdx.x; q < mine.end; q += 4 * (int)blockDim.x) f(q);
}

/* Sum this rank's slice of the gradient over the ranks, in place: no other rank reads this part.
 * No barrier: the thread that updates a parameter has also summed it. Returns tt_clip_factor. */
__device__ __forceinline__ float tt_cluster_reduce_gradient(const tt_cluster_args &a, float *shared)
{
  tt_block_context *note = tt_block_context_of(shared);
  float limit = a.block.view.member[note->member].hyper.clip_norm;
  double sum = 0.0;
  float *gradient = tt_block_gradient_array(a.block, shared);
  tt_cluster_for_each_float4(a, [&](int q) {
    float4 g = tt_cluster_sum_gradient4(gradient + q, a.ranks);
    tt_store4(gradient + q, g);
    sum += (double)g.x * (double)g.x + (double)g.y * (double)g.y;
    sum += (double)g.z * (double)g.z + (double)g.w * (double)g.w;
  });
  if (!(limit > 0.0f)) return 1.0f;
  sum = tt_cluster_sum(a, tt_block_sum(sum, note->sums), tt_cluster_exchange_of(a, shared)->square);
  return tt_clip_factor(sum, limit);
}

template <class OPTIMIZER>
__device__ __forceinline__ void tt_cluster_optimizer_step_as(const tt_cluster_args &a,
                                                             float *shared, float scale)
{
  tt_optimizer_args args = tt_block_context_of(shared)->args;
  float *weights = shared + a.block.plan.weights, *slot0 = tt_cluster_slot_array(a, shared, 0);
  float *slot1 = OPTIMIZER::SLOTS > 1 ? tt_cluster_slot_array(a, shared, 1) : slot0;
  const float *gradient = tt_block_gradient_array(a.block, shared);
  tt_cluster_for_each_float4(a, [&](int q) {
    float4 w = tt_block_update4<OPTIMIZER>(weights, gradient, slot0, slot1, q, scale, args);
    for (int r = 0; r < a.ranks; r++) tt_store4(tt_cluster_map_shared(weights + q, r), w);
  });
}

/* One step with the gradients of all ranks for a batch whose losses sum to `loss`. */
__device__ __forceinline__ void tt_cluster_optimizer_step(const tt_cluster_args &a, float *shared,
                                                          double loss)
{
  tt_block_count_step(shared, loss);
  float scale = tt_cluster_reduce_gradient(a, shared);
  tt_cuda_with_optimizer(a.block.view.optimizer, [&](auto optimizer) {
    tt_cluster_optimizer_step_as<decltype(optimizer)>(a, shared, scale);
  });
  tt_cluster_sync();
}

/* the end of an epoch */

/* Rank 0 decides and sends the result; the other ranks have the same numbers but must not write
 * them again.
 *   loss  mean over the validation rows; ignored without validation rows */
__device__ __forceinline__ void tt_cluster_end_epoch(const tt_cluster_args &a, float *shared,
                                                     int all_finite, double loss)
{
  const tt_cuda_state &v = a.block.view;
  tt_block_context *note = tt_block_context_of(shared);
  tt_cluster_exchange *exchange = tt_cluster_exchange_of(a, shared);
  int i = note->member;
  if (tt_cluster_rank() == 0 && threadIdx.x == 0) {
    v.loss_sum[i] = note->loss_sum;
    int best = tt_cuda_end_epoch(v, i, all_finite, loss);
    int training = tt_cuda_keeps_training(v, i);
    for (int r = 0; r < a.ranks; r++) {
      tt_cluster_exchange *to = tt_cluster_map_shared(exchange, r);
      to->best = best;
      to->training = training;
    }
  }
  tt_cluster_sync();
  if (threadIdx.x == 0) {
    note->loss_sum = 0.0;
    note->batch = 0;
    note->training = exchange->training;
    if (exchange->training) note->order = tt_cuda_epoch_order(v, i);
  }
  if (exchange->best) {
    const float *w = shared + a.block.plan.weights;
    float *best = v.best_weights + (int64_t)i * v.param_stride;
    tt_cluster_for_each_param(a, [&](int q, int p) { best[p] = w[q]; });
  }
  __syncthreads();
}

/* all steps of one member */

/* Train the member of tt_block_context, at most a.block.steps steps; see tt_block_train_member. */
template <class KIND>
__device__ __forceinline__ void tt_cluster_train_member(const tt_cluster_args &a, float *shared)
{
  const tt_cuda_state &v = a.block.view;
  const tt_block_context *note = tt_block_context_of(shared);
  int validating = 0, all_finite = 1;
  tt_cluster_load_member(a, shared);
  while (validating || (note->training && note->step < note->last)) {
    int first = validating ? 0 : note->batch * v.batch_size;
    int count = validating ? note->validation_rows : min(v.batch_size, note->rows - first);
    double loss = tt_cluster_pass<KIND>(a, shared, validating, first, count);
    if (!validating) {
      if (!isfinite(loss)) {
        if (tt_cluster_rank() == 0 && threadIdx.x == 0) v.status[note->member] = TT_STATUS_diverged;
        break;
      }
      tt_cluster_optimizer_step(a, shared, loss);
      if (note->batch * v.batch_size < note->rows) continue;
      all_finite = tt_block_weights_finite(a.block, shared);
      validating = all_finite && note->validation_rows > 0;
      if (validating) continue;
    }
    tt_cluster_end_epoch(a, shared, all_finite, loss / (double)count);
    validating = 0;
  }
  tt_cluster_store_member(a, shared);
}
#endif
