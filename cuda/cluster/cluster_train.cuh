/* cluster_train.cuh — the blocks of a cluster train one member: device code of the cluster path.
 *
 * Every rank has all weights and some groups of rows of a batch; it computes the gradient of each
 * group as the block path does. After a barrier of the cluster, a rank sums its slice of the
 * gradients over the groups of all ranks, in the order of the rows, so with the bits of the block
 * path, updates the slice with the optimizer and writes the new weights to all ranks. A second
 * barrier follows. Validation rows are divided in the same way.
 *
 * Each rank has its own tt_block_context with the same values in all ranks: they follow from
 * sums over the ranks, which every rank adds in the same order, and from values that rank 0
 * sends. Only rank 0 writes status, counters and history of the member. */
#ifndef TT_CLUSTER_TRAIN_CUH
#define TT_CLUSTER_TRAIN_CUH
#include "cuda/block/block_train.cuh"
#include "cuda/common/thread_block_cluster.cuh"
#include "cuda/plan/cluster_plan.h"

/* Compile-time configuration of a kernel of the cluster path. */
template <int LARGEST> struct tt_cluster_kernel_config : tt_block_kernel_config<LARGEST> {
  static constexpr bool in_cluster = true;
};

/* Arguments of the kernel. */
typedef struct tt_cluster_args {
  tt_block_args block;
  int32_t ranks, slice, slots, slot, exchange; /* from the plan */
} tt_cluster_args;

/* Values written by other ranks; valid after a barrier of the cluster. */
typedef struct tt_cluster_exchange {
  double loss[TT_BLOCK_CHUNKS], square[TT_BLOCK_CHUNKS]; /* of the parts and slices of all ranks */
  int32_t member, best, training;                        /* written by rank 0 */
} tt_cluster_exchange;
static_assert(sizeof(tt_cluster_exchange) <= TT_CLUSTER_EXCHANGE_FLOATS * sizeof(float), "it fits");

__device__ __forceinline__ tt_cluster_exchange *tt_cluster_exchange_of(const tt_cluster_args &a,
                                                                       float *shared)
{
  return reinterpret_cast<tt_cluster_exchange *>(shared + a.exchange);
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

/* Sum of the numbers of all ranks in the order of the ranks; every thread of every rank gets the
 * same bits.
 *   own  [TT_BLOCK_CHUNKS / ranks] in shared memory, the same for all threads of a rank
 *   place  [TT_BLOCK_CHUNKS] in tt_cluster_exchange; free for reuse after the next barrier */
__device__ __forceinline__ double tt_cluster_sum(const tt_cluster_args &a, const double *own,
                                                 double *place)
{
  int thread = (int)threadIdx.x, each = TT_BLOCK_CHUNKS / a.ranks;
  if (thread < TT_BLOCK_CHUNKS) /* one number to one rank */
    *tt_cluster_map_shared(place + tt_cluster_rank() * each + thread % each, thread / each) =
        own[thread % each];
  tt_cluster_sync();
  return tt_block_sum_chunks(place);
}

/* load and store a member */

__device__ __forceinline__ void tt_cluster_load_member(const tt_cluster_args &a, float *shared)
{
  const tt_cuda_state &v = a.block.view;
  int64_t i = tt_block_context_of(shared)->member;
  tt_block_zero(shared + a.slot, a.slots * a.slice);
  tt_block_load_member(a.block, shared);
  for (int k = 0; k < a.slots; k++) {
    const float *src = v.slots + (i * a.slots + k) * v.param_stride;
    float *dst = tt_cluster_slot_array(a, shared, k);
    tt_cluster_for_each_param(a, [&](int q, int p) { dst[q] = src[p]; });
  }
  __syncthreads();
}

/* Store the slices of this rank; no barrier at the end. */
__device__ __forceinline__ void tt_cluster_store_member(const tt_cluster_args &a, float *shared)
{
  const tt_cuda_state &v = a.block.view;
  const tt_block_context *ctx = tt_block_context_of(shared);
  int64_t i = ctx->member;
  const float *src = shared + a.block.plan.weights;
  float *dst = v.weights + i * v.param_stride;
  tt_cluster_for_each_param(a, [&](int q, int p) { dst[p] = src[q]; });
  for (int k = 0; k < a.slots; k++) {
    src = tt_cluster_slot_array(a, shared, k);
    dst = v.slots + (i * a.slots + k) * v.param_stride;
    tt_cluster_for_each_param(a, [&](int q, int p) { dst[p] = src[q]; });
  }
  if (tt_cluster_rank() != 0 || threadIdx.x != 0) return;
  v.batch[i] = ctx->batch;
  v.step[i] = ctx->step;
  v.loss_sum[i] = ctx->loss_sum;
}

/* a pass */

/* Loss of `count` rows from `first` on, in every thread of every rank; each rank passes over its
 * groups of a batch, or its chunks of validation rows. For a batch, also the gradients of the
 * groups. */
template <class KIND>
__device__ __forceinline__ double tt_cluster_pass(const tt_cluster_args &a, float *shared,
                                                  int validating, int first, int count)
{
  const tt_block_plan &p = a.block.plan;
  int share = tt_block_loss_chunk(p, validating) * tt_block_loss_part(p, validating, count) *
              (TT_BLOCK_CHUNKS / a.ranks);
  int before = min(count, tt_cluster_rank() * share), own = min(share, count - before);
  if (!validating && own == 0)
    tt_block_zero(tt_block_gradient_array(a.block, shared), p.copies * p.params);
  tt_block_pass<KIND>(a.block, shared, validating, first + before, own, count);
  if (own == 0) { /* no piece */
    if (!validating && threadIdx.x == 0) tt_block_set_step_args(a.block, shared);
    __syncthreads();
  }
  return tt_cluster_sum(a, tt_block_context_of(shared)->loss,
                        tt_cluster_exchange_of(a, shared)->loss);
}

/* the optimizer */

/* Sum of the gradient of four parameters over the groups of all ranks, in their order. */
__device__ __forceinline__ float4 tt_cluster_sum_gradient4(const tt_cluster_args &a,
                                                           float *gradient)
{
  enum { AT_ONCE = 8 };
  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  int rank = 0, copy = 0, copies = a.block.plan.copies;
  while (rank < a.ranks) {
    float4 part[AT_ONCE]; /* all loads are in flight at the same time */
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) {
      part[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (rank >= a.ranks) continue;
      part[k] = tt_load4(tt_cluster_map_shared(gradient + copy * a.block.plan.params, rank));
      if (++copy == copies) copy = 0, rank++;
    }
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) {
      sum.x += part[k].x;
      sum.y += part[k].y;
      sum.z += part[k].z;
      sum.w += part[k].w;
    }
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
 * The thread that updates a parameter has also summed it, so a barrier is needed for the squares
 * alone. Returns tt_clip_factor. */
__device__ __forceinline__ float tt_cluster_reduce_gradient(const tt_cluster_args &a, float *shared)
{
  tt_block_context *ctx = tt_block_context_of(shared);
  float limit = a.block.view.member[ctx->member].hyper.clip_norm;
  float *gradient = tt_block_gradient_array(a.block, shared);
  tt_cluster_for_each_float4(
      a, [&](int q) { tt_store4(gradient + q, tt_cluster_sum_gradient4(a, gradient + q)); });
  if (!(limit > 0.0f)) return 1.0f;
  int slices = TT_BLOCK_CHUNKS / a.ranks;
  __syncthreads();
  tt_block_slices_squares(a.block, shared, gradient, tt_cluster_rank() * slices, slices);
  return tt_clip_factor(tt_cluster_sum(a, ctx->sums, tt_cluster_exchange_of(a, shared)->square),
                        limit);
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
  tt_block_context *ctx = tt_block_context_of(shared);
  tt_cluster_exchange *exchange = tt_cluster_exchange_of(a, shared);
  int i = ctx->member;
  if (tt_cluster_rank() == 0 && threadIdx.x == 0) {
    v.loss_sum[i] = ctx->loss_sum;
    int best = tt_cuda_end_epoch(v, i, all_finite, loss);
    int training = tt_cuda_keeps_training(v, i);
    for (int r = 0; r < a.ranks; r++) {
      tt_cluster_exchange *dst = tt_cluster_map_shared(exchange, r);
      dst->best = best;
      dst->training = training;
    }
  }
  tt_cluster_sync();
  if (threadIdx.x == 0) {
    ctx->loss_sum = 0.0;
    ctx->batch = 0;
    ctx->training = exchange->training;
    if (exchange->training) ctx->order = tt_cuda_epoch_order(v, i);
  }
  if (exchange->best) {
    const float *w = shared + a.block.plan.weights;
    float *best = v.best_weights + (int64_t)i * v.param_stride;
    tt_cluster_for_each_param(a, [&](int q, int p) { best[p] = w[q]; });
  }
  __syncthreads();
}

/* The blocks of a cluster; see tt_block_train_member. */
template <class KIND> struct tt_cluster_team {
  const tt_cluster_args &a;
  float *shared;

  __device__ __forceinline__ const tt_block_args &block() const { return a.block; }
  __device__ __forceinline__ void load() const { tt_cluster_load_member(a, shared); }
  __device__ __forceinline__ void store() const { tt_cluster_store_member(a, shared); }
  __device__ __forceinline__ int leads() const
  {
    return tt_cluster_rank() == 0 && threadIdx.x == 0;
  }
  __device__ __forceinline__ double pass(int validating, int first, int count) const
  {
    return tt_cluster_pass<KIND>(a, shared, validating, first, count);
  }
  __device__ __forceinline__ void step(double loss) const
  {
    tt_cluster_optimizer_step(a, shared, loss);
  }
  __device__ __forceinline__ void end_epoch(int all_finite, double loss) const
  {
    tt_cluster_end_epoch(a, shared, all_finite, loss);
  }
};
#endif
