/* block_train.cuh — one thread block trains one member: optimizer, end of an epoch, all steps of
 * a call. */
#ifndef TT_BLOCK_TRAIN_CUH
#define TT_BLOCK_TRAIN_CUH
#include "cuda/block/block_pass.cuh"

/* the optimizer */

/* Sum of the squares of the gradient in one slice of the parameters, in every lane of a warp. */
__device__ __forceinline__ double tt_block_slice_squares(const tt_block_plan &plan,
                                                         const float *gradient, int slice)
{
  int each = tt_block_slice_floats(plan.params), end = min(plan.params, (slice + 1) * each);
  double x = 0.0, y = 0.0, z = 0.0, w = 0.0;
  for (int q = slice * each + 4 * tt_block_lane_index(); q < end; q += 4 * TT_WARP_SIZE) {
    float4 g = tt_load4(gradient + q);
    x += (double)g.x * (double)g.x;
    y += (double)g.y * (double)g.y;
    z += (double)g.z * (double)g.z;
    w += (double)g.w * (double)g.w;
  }
  return tt_warp_sum((x + y) + (z + w));
}

/* Write the sums of squares of `count` slices from `first` on to ctx->sums; a barrier at the
 * end. */
__device__ __forceinline__ void tt_block_slices_squares(const tt_block_args &a, float *shared,
                                                        const float *gradient, int first, int count)
{
  tt_block_context *ctx = tt_block_context_of(shared);
  for (int s = tt_block_warp_index(); s < count; s += tt_block_warp_count()) {
    double squares = tt_block_slice_squares(a.plan, gradient, first + s);
    if (tt_block_lane_index() == 0) ctx->sums[s] = squares;
  }
  __syncthreads();
}

/* tt_clip_factor of the member's gradient, in every thread. */
__device__ __forceinline__ float tt_block_clip_factor(const tt_block_args &a, float *shared)
{
  tt_block_context *ctx = tt_block_context_of(shared);
  float limit = a.view.member[ctx->member].hyper.clip_norm;
  if (!(limit > 0.0f)) return 1.0f;
  tt_block_slices_squares(a, shared, tt_block_gradient_array(a, shared), 0, TT_BLOCK_CHUNKS);
  return tt_clip_factor(tt_block_sum_chunks(ctx->sums), limit);
}

/* Update the slots of four parameters from q on and return their new weights. */
template <class OPTIMIZER>
__device__ __forceinline__ float4 tt_block_update4(const float *weights, const float *gradient,
                                                   float *slot0, float *slot1, int q, float scale,
                                                   const tt_optimizer_args &args)
{
  constexpr bool two = OPTIMIZER::SLOTS > 1;
  float4 w = tt_load4(weights + q), g = tt_load4(gradient + q);
  float4 s0 = tt_load4(slot0 + q), s1 = two ? tt_load4(slot1 + q) : s0;
  OPTIMIZER::step(&w.x, g.x * scale, &s0.x, &s1.x, args);
  OPTIMIZER::step(&w.y, g.y * scale, &s0.y, &s1.y, args);
  OPTIMIZER::step(&w.z, g.z * scale, &s0.z, &s1.z, args);
  OPTIMIZER::step(&w.w, g.w * scale, &s0.w, &s1.w, args);
  tt_store4(slot0 + q, s0);
  if (two) tt_store4(slot1 + q, s1);
  return w;
}

/* Count a step. No barrier at the end. */
__device__ __forceinline__ void tt_block_count_step(float *shared, double loss)
{
  tt_block_context *ctx = tt_block_context_of(shared);
  if (threadIdx.x != 0) return;
  ctx->loss_sum += loss;
  ctx->batch++;
  ctx->step++;
}

/* The padding between parameters is updated too: its gradient is zero. */
template <class OPTIMIZER>
__device__ __forceinline__ void tt_block_optimizer_step_as(const tt_block_args &a, float *shared,
                                                           float scale)
{
  tt_optimizer_args args = tt_block_context_of(shared)->args;
  float *weights = shared + a.plan.weights, *slot0 = tt_block_slot_array(a, shared, 0);
  float *slot1 = OPTIMIZER::SLOTS > 1 ? tt_block_slot_array(a, shared, 1) : slot0;
  const float *gradient = tt_block_gradient_array(a, shared);
#pragma unroll 2
  for (int q = 4 * (int)threadIdx.x; q < a.plan.params; q += 4 * (int)blockDim.x)
    tt_store4(weights + q,
              tt_block_update4<OPTIMIZER>(weights, gradient, slot0, slot1, q, scale, args));
}

/* One step with the gradient of a batch whose losses sum to `loss`. */
__device__ __forceinline__ void tt_block_optimizer_step(const tt_block_args &a, float *shared,
                                                        double loss)
{
  tt_block_count_step(shared, loss);
  float scale = tt_block_clip_factor(a, shared);
  __syncthreads();
  tt_cuda_with_optimizer(a.view.optimizer, [&](auto optimizer) {
    tt_block_optimizer_step_as<decltype(optimizer)>(a, shared, scale);
  });
  __syncthreads();
}

/* the end of an epoch */

/* 1 in every thread if all weights are finite. */
__device__ __forceinline__ int tt_block_weights_finite(const tt_block_args &a, float *shared)
{
  float probe = 0.0f; /* 0 * finite = 0; 0 * Inf and 0 * NaN are NaN */
  const float *w = shared + a.plan.weights;
  tt_block_for_each_param(a.plan, [&](int q, int) { probe += 0.0f * w[q]; });
  return __syncthreads_and(probe == 0.0f);
}

/* loss  mean over the validation rows; ignored without validation rows */
__device__ __forceinline__ void tt_block_end_epoch(const tt_block_args &a, float *shared,
                                                   int all_finite, double loss)
{
  const tt_cuda_state &v = a.view;
  tt_block_context *ctx = tt_block_context_of(shared);
  int i = ctx->member;
  if (threadIdx.x == 0) {
    v.loss_sum[i] = ctx->loss_sum;
    ctx->best = tt_cuda_end_epoch(v, i, all_finite, loss);
    ctx->loss_sum = 0.0;
    ctx->batch = 0;
    ctx->training = tt_cuda_keeps_training(v, i);
    if (ctx->training) ctx->order = tt_cuda_epoch_order(v, i);
  }
  __syncthreads();
  if (!ctx->best) return;
  const float *w = shared + a.plan.weights;
  float *best = v.best_weights + (int64_t)i * v.param_stride;
  tt_block_for_each_param(a.plan, [&](int q, int p) { best[p] = w[q]; });
}

/* all steps of one member */

/* Train the member of tt_block_context, at most a.steps steps.
 *
 * TEAM has the threads that train a member, a block or the blocks of a cluster:
 *   block()                        arguments of a block's kernel
 *   load(), store()                state of the member; load ends with a barrier
 *   pass(validating, first, count) sum of the losses of rows, in every thread, and the gradient of
 *                                  a batch
 *   step(loss)                     one optimizer step
 *   end_epoch(all_finite, loss)    history, best weights, what follows
 *   leads()                        1 in the one thread that writes the status */
template <class TEAM> __device__ __forceinline__ void tt_block_train_member(const TEAM &team)
{
  const tt_cuda_state &v = team.block().view;
  const tt_block_context *ctx = tt_block_context_of(team.shared);
  int validating = 0;
  team.load();
  while (validating || (ctx->training && ctx->step < ctx->last)) {
    int first = validating ? 0 : ctx->batch * v.batch_size;
    int count = validating ? ctx->validation_rows : min(v.batch_size, ctx->rows - first);
    double loss = team.pass(validating, first, count);
    if (!validating) {
      if (!isfinite(loss)) {
        if (team.leads()) v.status[ctx->member] = TT_STATUS_diverged;
        break;
      }
      team.step(loss);
      if (ctx->batch * v.batch_size < ctx->rows) continue;
    }
    int all_finite = validating || tt_block_weights_finite(team.block(), team.shared);
    validating = !validating && all_finite && ctx->validation_rows > 0;
    if (!validating) team.end_epoch(all_finite, loss / (double)ctx->validation_rows);
  }
  team.store();
}

/* One block; see tt_block_train_member. */
template <class KIND> struct tt_block_team {
  const tt_block_args &a;
  float *shared;

  __device__ __forceinline__ const tt_block_args &block() const { return a; }
  __device__ __forceinline__ void load() const { tt_block_load_member(a, shared); }
  __device__ __forceinline__ void store() const { tt_block_store_member(a, shared); }
  __device__ __forceinline__ int leads() const { return threadIdx.x == 0; }
  __device__ __forceinline__ double pass(int validating, int first, int count) const
  {
    tt_block_pass<KIND>(a, shared, validating, first, count, count);
    return tt_block_sum_chunks(tt_block_context_of(shared)->loss);
  }
  __device__ __forceinline__ void step(double loss) const
  {
    tt_block_optimizer_step(a, shared, loss);
  }
  __device__ __forceinline__ void end_epoch(int all_finite, double loss) const
  {
    tt_block_end_epoch(a, shared, all_finite, loss);
  }
};

/* Take members from the queue until it is empty. */
template <class KIND>
__device__ __forceinline__ void tt_block_train_queue(const tt_block_args &a, float *shared)
{
  tt_block_context *ctx = tt_block_context_of(shared);
  tt_block_team<KIND> team = {a, shared};
  tt_block_zero(tt_block_gradient_array(a, shared), a.plan.params);
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) ctx->member = tt_cuda_take_member(a.queue);
    __syncthreads();
    if (ctx->member < 0) return;
    if (a.view.status[ctx->member] == TT_STATUS_training) tt_block_train_member(team);
  }
}
#endif
