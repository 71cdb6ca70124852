/* warp_train.cuh — one warp trains one member: device code of the warp path.
 *
 * As tt_block_train_member, for members so small that the barriers of a block would cost more than
 * its threads gain: weights, optimizer state and a piece of a batch stay in the warp's part of
 * shared memory for all steps of a launch, and no warp waits for another one.
 *
 * Two small tasks of every step are done for many steps at once, so that all lanes have work:
 * the rows of the next TT_WARP_PREFETCH_ROWS slots of the epoch, and the bias corrections of the
 * optimizer for 32 steps. The plan alone decides the order of all sums. */
#ifndef TT_WARP_TRAIN_CUH
#define TT_WARP_TRAIN_CUH
#include "cuda/warp/warp_batch.cuh"

/* State of the running member, the same in every lane. Values read once per step or epoch stay
 * in tt_cuda_state: registers limit the number of members per multiprocessor. */
typedef struct tt_warp_context {
  int32_t member;
  int32_t batch;      /* batches done */
  int32_t prefetched; /* slots of the epoch whose rows are known */
  int32_t done;       /* steps of this launch */
} tt_warp_context;

__device__ __forceinline__ tt_sampler *tt_warp_epoch_order(float *own)
{
  return reinterpret_cast<tt_sampler *>(own);
}
static_assert(sizeof(tt_sampler) <= TT_WARP_HEADER_FLOATS * sizeof(float), "it fits in front");

/* Returns x, but hides its value from the compiler: addresses that follow from x are computed
 * where they are used, once per step or epoch, and hold no registers in between. */
__device__ __forceinline__ int tt_warp_opaque(int x)
{
  asm volatile("" : "+r"(x));
  return x;
}

__device__ __forceinline__ int tt_warp_ensemble(const tt_cuda_state &v, const tt_warp_context &ctx)
{
  return v.member[tt_warp_opaque(ctx.member)].ensemble;
}
__device__ __forceinline__ int tt_warp_epoch_rows(const tt_cuda_state &v,
                                                  const tt_warp_context &ctx)
{
  return v.epoch_rows[tt_warp_opaque(ctx.member)];
}

__device__ __forceinline__ int tt_warp_validation_rows(const tt_cuda_state &v,
                                                       const tt_warp_context &ctx)
{
  return v.lists[tt_warp_ensemble(v, ctx)].count[TT_VALIDATION];
}

/* Call f(q, p) for every parameter: index q in the padded [Q], p in [P]. */
template <class F>
__device__ __forceinline__ void tt_warp_for_each_param(const tt_warp_plan &plan, F f)
{
#pragma unroll 1
  for (int l = 0; l < plan.layers; l++) {
    const tt_warp_layer &n = plan.layer[l];
#pragma unroll 1
    for (int o = 0; o < n.out; o++)
      for (int i = tt_warp_lane_index(); i < n.in; i += TT_WARP_SIZE)
        f(n.weight + o * n.stride + i, n.source + o * n.in + i);
    for (int o = tt_warp_lane_index(); o < n.out; o += TT_WARP_SIZE)
      f(n.bias + o, n.source + n.out * n.in + o);
  }
}

/* Copy [P] -> [Q]; the padding does not change. */
__device__ __forceinline__ void tt_warp_load_params(const tt_warp_plan &plan, float *dst,
                                                    const float *src)
{
  tt_warp_for_each_param(plan, [&](int q, int p) { dst[q] = src[p]; });
}
__device__ __forceinline__ void tt_warp_store_params(const tt_warp_plan &plan, float *dst,
                                                     const float *src)
{
  tt_warp_for_each_param(plan, [&](int q, int p) { dst[p] = src[q]; });
}

/* load and store a member */

/* Set all to zero: the padding must be zero, and an infinite learning rate leaves NaN there. */
__device__ __forceinline__ void tt_warp_zero(const tt_warp_plan &plan, float *own)
{
  for (int q = tt_warp_lane_index(); q < plan.params; q += TT_WARP_SIZE) {
    own[plan.weights + q] = own[plan.gradient + q] = 0.0f;
    for (int k = 0; k < plan.slots; k++) own[plan.slot + k * plan.params + q] = 0.0f;
  }
  __syncwarp();
}

__device__ __forceinline__ tt_warp_context tt_warp_load_member(const tt_warp_args &a, float *own,
                                                               int i)
{
  const tt_cuda_state &v = a.view;
  const tt_warp_plan &plan = a.plan;
  tt_warp_context ctx = {};
  tt_warp_zero(plan, own);
  ctx.member = i;
  ctx.batch = v.batch[i];
  if (tt_warp_lane_index() == 0) *tt_warp_epoch_order(own) = tt_cuda_epoch_order(v, i);
  tt_warp_load_params(plan, own + plan.weights, v.weights + (int64_t)i * v.param_stride);
  for (int k = 0; k < plan.slots; k++)
    tt_warp_load_params(plan, own + plan.slot + k * plan.params,
                        v.slots + ((int64_t)i * plan.slots + k) * v.param_stride);
  __syncwarp();
  return ctx;
}

__device__ __forceinline__ void tt_warp_store_member(const tt_warp_args &a, float *own,
                                                     const tt_warp_context &ctx)
{
  const tt_cuda_state &v = a.view;
  const tt_warp_plan &plan = a.plan;
  int i = tt_warp_opaque(ctx.member);
  tt_warp_store_params(plan, v.weights + (int64_t)i * v.param_stride, own + plan.weights);
  for (int k = 0; k < plan.slots; k++)
    tt_warp_store_params(plan, v.slots + ((int64_t)i * plan.slots + k) * v.param_stride,
                         own + plan.slot + k * plan.params);
  __syncwarp(); /* all lanes have read the old v.step and what the next member clears */
  if (tt_warp_lane_index() == 0) {
    v.batch[i] = ctx.batch;
    v.step[i] += ctx.done;
  }
}

/* rows */

/* Row numbers of the next slots, in a ring buffer: slot s is at s % TT_WARP_PREFETCH_ROWS. */
__device__ __forceinline__ int32_t *tt_warp_row_ring(const tt_warp_args &a, float *own)
{
  return reinterpret_cast<int32_t *>(own + a.plan.row);
}

/* Compute the rows of the slots from `first` on, as many as the ring buffer holds. Call it after
 * a barrier that follows the last read of the buffer: the first barrier of a member, or that of
 * a gradient. A lane that has found a row continues with its next slot at once, because the
 * number of rounds of the shuffle differs from slot to slot. */
__device__ __forceinline__ void tt_warp_prefetch_order(const tt_warp_args &a, float *own,
                                                       tt_warp_context &ctx, int first)
{
  const tt_cuda_state &v = a.view;
  const tt_sampler *order = tt_warp_epoch_order(own);
  const int32_t *list = v.lists[tt_warp_ensemble(v, ctx)].row[TT_TRAIN];
  int32_t *ring = tt_warp_row_ring(a, own);
  int begin = max(ctx.prefetched, first) + tt_warp_lane_index();
  ctx.prefetched = min(first + TT_WARP_PREFETCH_ROWS, tt_warp_epoch_rows(v, ctx));
  if (v.replay) {
    for (int s = begin; s < ctx.prefetched; s += TT_WARP_SIZE)
      ring[s % TT_WARP_PREFETCH_ROWS] = tt_cuda_epoch_row(v, tt_warp_opaque(ctx.member), *order, s);
  } else {
    tt_shuffle shuffle = order->epoch;
    uint32_t index = (uint32_t)begin;
#pragma unroll 1
    for (int s = begin; s < ctx.prefetched;) {
      index = tt_shuffle_pass(&shuffle, index);
      if (index >= shuffle.n) continue;
      ring[s % TT_WARP_PREFETCH_ROWS] = (int32_t)index;
      s += TT_WARP_SIZE;
      index = (uint32_t)s;
    }
#pragma unroll 1
    for (int s = begin; s < ctx.prefetched; s += TT_WARP_SIZE) {
      int32_t *slot = ring + s % TT_WARP_PREFETCH_ROWS;
      *slot = list[tt_sampler_resample(order, (uint32_t)*slot)];
    }
  }
  __syncwarp();
}

/* Load x and y of the data set's rows number[0..N) into this lane's columns. */
template <int N>
__device__ __forceinline__ void tt_warp_copy_rows(const tt_warp_args &a, float *own, int ensemble,
                                                  const int32_t (&number)[N])
{
  const tt_cuda_state &v = a.view;
  const int32_t *column = v.column + ensemble * v.targets;
  enum { LD = tt_warp_layout<N>::LD };
  float *x = own + a.plan.x + tt_warp_lane_index() * N,
        *y = own + a.plan.y + tt_warp_lane_index() * N;
  const float *src[N];
#pragma unroll
  for (int r = 0; r < N; r++) src[r] = v.x + (int64_t)number[r] * v.inputs;
  int i = 0;
#pragma unroll 1
  for (; v.inputs % 4 == 0 && i < v.inputs; i += 4) {
    tt_warp_values<N> f[4];
#pragma unroll
    for (int r = 0; r < N; r++) {
      float4 u = tt_load4(src[r] + i);
      f[0].v[r] = u.x, f[1].v[r] = u.y, f[2].v[r] = u.z, f[3].v[r] = u.w;
    }
#pragma unroll
    for (int j = 0; j < 4; j++) tt_warp_store_values(x + (i + j) * LD, f[j]);
  }
#pragma unroll 1
  for (; i < v.inputs; i++)
#pragma unroll
    for (int r = 0; r < N; r++) x[i * LD + r] = src[r][i];
#pragma unroll 1
  for (int k = 0; k < v.targets; k++)
#pragma unroll
    for (int r = 0; r < N; r++) y[k * LD + r] = v.y[(int64_t)number[r] * v.columns + column[k]];
}

/* Load `rows` rows from slot `first` of the epoch on, or from there in the list of a.split: x
 * and y into shared memory; the weights of this lane's rows. */
template <int N>
__device__ __forceinline__ tt_warp_values<N>
tt_warp_load_rows(const tt_warp_args &a, float *own, int ensemble, int scoring, int first, int rows)
{
  int32_t number[N];
  tt_warp_values<N> weight;
  const int32_t *list = a.view.lists[ensemble].row[a.split], *ring = tt_warp_row_ring(a, own);
#pragma unroll
  for (int r = 0; r < N; r++) {
    int s = first + min(tt_warp_lane_index() * N + r, rows - 1);
    number[r] = scoring ? list[s] : ring[s % TT_WARP_PREFETCH_ROWS];
  }
  tt_warp_copy_rows<N>(a, own, ensemble, number);
#pragma unroll
  for (int r = 0; r < N; r++) weight.v[r] = a.view.weight ? a.view.weight[number[r]] : 1.0f;
  return weight;
}

/* a pass */

/* Sum of the losses of `count` rows from `first` on, in every lane. For a batch, also the gradient
 * of their mean.
 *   scoring  1: rows of the list of a.split, 0: slots of the epoch */
template <class F, int N>
__device__ __forceinline__ double tt_warp_pass(const tt_warp_args &a, float *own,
                                               tt_warp_context &ctx, int scoring, int first,
                                               int count)
{
  double sum = 0.0;
#pragma unroll 1
  for (int done = 0; done < count; done += tt_warp_layout<N>::ROWS) {
    int rows = min((int)tt_warp_layout<N>::ROWS, count - done), at = first + done;
    if (!scoring && at + rows > ctx.prefetched) tt_warp_prefetch_order(a, own, ctx, at);
    int ensemble = tt_warp_ensemble(a.view, ctx);
    tt_warp_values<N> weight = tt_warp_load_rows<N>(a, own, ensemble, scoring, at, rows);
    tt_warp_network_forward<F, N>(a, own);
    sum += tt_warp_loss_backward<F, N>(a, own, rows, weight, 1.0f / (float)count);
    if (!scoring) tt_warp_network_backward<F, N>(a, own, rows, done == 0);
  }
  return tt_warp_sum(sum);
}

/* the optimizer */

/* Arguments of the running step. The bias corrections take divisions and square roots in double:
 * at the first step of a launch, then every 32 steps, each lane computes those of one step. If
 * the learning rate varies, each lane also computes the rate of its step, again at the first
 * step of an epoch, because a lane assumes that its step belongs to the running epoch. */
__device__ __forceinline__ tt_optimizer_args tt_warp_step_args(const tt_warp_args &a, float *own,
                                                               const tt_warp_context &ctx)
{
  const tt_cuda_state &v = a.view;
  int i = tt_warp_opaque(ctx.member);
  int64_t step = v.step[i] + ctx.done;
  int place = (int)(step % TT_WARP_SIZE); /* among the steps computed at once */
  float *step_size = own + a.plan.step, *root_scale = step_size + TT_WARP_SIZE;
  tt_optimizer_args args = tt_cuda_step_args_base(v, i);
  if (place == 0 || ctx.done == 0 || (v.lr_varies && ctx.batch == 0)) {
    int64_t t = step - place + tt_warp_lane_index() + 1;
    if (v.lr_varies)
      root_scale[TT_WARP_SIZE + tt_warp_lane_index()] = args.learning_rate =
          tt_cuda_learning_rate(v, i, t);
    tt_optimizer_bias_correction(&args, t);
    step_size[tt_warp_lane_index()] = args.step_size;
    root_scale[tt_warp_lane_index()] = args.root_scale;
    __syncwarp();
  }
  args.step_size = step_size[place];
  args.root_scale = root_scale[place];
  if (v.lr_varies) args.learning_rate = root_scale[TT_WARP_SIZE + place];
  return args;
}

/* tt_clip_factor of the member's gradient, in every lane. */
__device__ __forceinline__ float tt_warp_clip_factor(const tt_warp_args &a, const float *own,
                                                     int member)
{
  float limit = a.view.member[member].hyper.clip_norm;
  double sum = 0.0;
  if (!(limit > 0.0f)) return 1.0f;
  const float *g = own + a.plan.gradient;
  for (int q = tt_warp_lane_index(); q < a.plan.params; q += TT_WARP_SIZE)
    sum += (double)g[q] * (double)g[q];
  return tt_clip_factor(tt_warp_sum(sum), limit);
}

/* The padding between parameters is updated too: its gradient is zero. */
template <class OPTIMIZER>
__device__ __forceinline__ void tt_warp_optimizer_step_as(const tt_warp_args &a, float *own,
                                                          const tt_optimizer_args &args,
                                                          float scale)
{
  constexpr int SLOTS = OPTIMIZER::SLOTS;
  float *slot = own + a.plan.slot;
  const float *gradient = own + a.plan.gradient;
  float *weights = own + a.plan.weights;
#pragma unroll 1
  for (int q = 2 * tt_warp_lane_index(); q < a.plan.params; q += 2 * TT_WARP_SIZE) {
    tt_warp_values<2> w = tt_warp_load_values<2>(weights + q),
                      g = tt_warp_load_values<2>(gradient + q), s[SLOTS];
#pragma unroll
    for (int k = 0; k < SLOTS; k++) s[k] = tt_warp_load_values<2>(slot + k * a.plan.params + q);
#pragma unroll
    for (int k = 0; k < 2; k++)
      OPTIMIZER::step(&w.v[k], g.v[k] * scale, &s[0].v[k], &s[SLOTS - 1].v[k], args);
    tt_warp_store_values(weights + q, w);
#pragma unroll
    for (int k = 0; k < SLOTS; k++) tt_warp_store_values(slot + k * a.plan.params + q, s[k]);
  }
}

/* One step with the gradient of a batch whose losses sum to `loss`. */
template <class F>
__device__ __forceinline__ void tt_warp_optimizer_step(const tt_warp_args &a, float *own,
                                                       tt_warp_context &ctx, double loss)
{
  tt_optimizer_args args = tt_warp_step_args(a, own, ctx);
  float scale = tt_warp_clip_factor(a, own, tt_warp_opaque(ctx.member));
  tt_cuda_with_optimizer(F::optimizer(a), [&](auto optimizer) {
    tt_warp_optimizer_step_as<decltype(optimizer)>(a, own, args, scale);
  });
  if (tt_warp_lane_index() == 0) a.view.loss_sum[tt_warp_opaque(ctx.member)] += loss;
  ctx.batch++;
  ctx.done++;
  __syncwarp();
}

/* the end of an epoch */

/* 1 in every lane if all weights are finite. */
__device__ __forceinline__ int tt_warp_weights_finite(const tt_warp_args &a, const float *own)
{
  float probe = 0.0f; /* 0 * finite = 0; 0 * Inf and 0 * NaN are NaN */
  for (int q = tt_warp_lane_index(); q < a.plan.params; q += TT_WARP_SIZE)
    probe += 0.0f * own[a.plan.weights + q];
  return __all_sync(TT_FULL_WARP_MASK, probe == 0.0f);
}

/* Update the history and the best weights. Returns 1 in every lane if the member continues.
 *   loss  mean over the validation rows; ignored without validation rows */
__device__ __forceinline__ int tt_warp_end_epoch(const tt_warp_args &a, float *own,
                                                 tt_warp_context &ctx, int all_finite, double loss)
{
  const tt_cuda_state &v = a.view;
  int i = tt_warp_opaque(ctx.member);
  if (tt_warp_lane_index() == 0) {
    tt_cuda_end_epoch(v, i, all_finite, loss);
    if (tt_cuda_keeps_training(v, i)) *tt_warp_epoch_order(own) = tt_cuda_epoch_order(v, i);
  }
  __syncwarp();
  ctx.batch = ctx.prefetched = 0;
  if (v.best_epoch[i] == v.epoch[i] - 1) /* this epoch is the best */
    tt_warp_store_params(a.plan, v.best_weights + (int64_t)i * v.param_stride,
                         own + a.plan.weights);
  return tt_cuda_keeps_training(v, i);
}

/* all steps of one member */

/* Train a member, at most a.steps steps; v.step does not change until the end. */
template <class F, int N>
__device__ __forceinline__ void tt_warp_train_member(const tt_warp_args &a, float *own, int member)
{
  const tt_cuda_state &v = a.view;
  tt_warp_context ctx = tt_warp_load_member(a, own, member);
  int validating = 0;
#pragma unroll 1
  while (validating || ctx.done < a.steps) {
    int first = validating ? 0 : ctx.batch * v.batch_size;
    int count = validating ? tt_warp_validation_rows(v, ctx)
                           : min(v.batch_size, tt_warp_epoch_rows(v, ctx) - first);
    double loss = tt_warp_pass<F, N>(a, own, ctx, validating, first, count);
    int all_finite = 1;
    if (!validating) {
      if (!isfinite(loss)) {
        if (tt_warp_lane_index() == 0) v.status[tt_warp_opaque(member)] = TT_STATUS_diverged;
        break;
      }
      tt_warp_optimizer_step<F>(a, own, ctx, loss);
      if (ctx.batch * v.batch_size < tt_warp_epoch_rows(v, ctx)) continue;
      all_finite = tt_warp_weights_finite(a, own);
      validating = all_finite && tt_warp_validation_rows(v, ctx) > 0;
      if (validating) continue;
    }
    if (!tt_warp_end_epoch(a, own, ctx, all_finite, loss / tt_warp_validation_rows(v, ctx))) break;
    validating = 0;
  }
  tt_warp_store_member(a, own, ctx);
}

/* loops over members */

__device__ __forceinline__ float *tt_warp_shared_memory(const tt_warp_args &a, float *shared)
{
  return shared + (int)threadIdx.x / TT_WARP_SIZE * (int)(a.plan.bytes / (int64_t)sizeof(float));
}

/* Take members from the queue until it is empty. */
template <class F, int N>
__device__ __forceinline__ void tt_warp_train_queue(const tt_warp_args &a, float *shared)
{
  float *own = tt_warp_shared_memory(a, shared);
#pragma unroll 1
  for (;;) {
    int i = tt_warp_lane_index() == 0 ? tt_cuda_take_member(a.queue) : 0;
    i = __shfl_sync(TT_FULL_WARP_MASK, i, 0);
    if (i < 0) return;
    if (a.view.status[i] == TT_STATUS_training) tt_warp_train_member<F, N>(a, own, i);
  }
}

/* Mean loss of every member over a split, with the sums of its validation. */
template <class F, int N>
__device__ __forceinline__ void tt_warp_evaluate_members(const tt_warp_args &a, float *shared)
{
  const tt_cuda_state &v = a.view;
  float *own = tt_warp_shared_memory(a, shared);
  int warps = (int)(blockDim.x / TT_WARP_SIZE);
#pragma unroll 1
  for (int i = (int)(blockIdx.x * warps + threadIdx.x / TT_WARP_SIZE); i < v.members;
       i += (int)gridDim.x * warps) {
    tt_warp_context ctx = {};
    ctx.member = i;
    int rows = v.lists[v.member[i].ensemble].count[a.split];
    const float *w = tt_cuda_prediction_weights(v, i);
    __syncwarp(); /* all lanes must have read the previous member's weights; __shfl_sync does not
                     order memory */
    tt_warp_load_params(a.plan, own + a.plan.weights, w);
    __syncwarp();
    double sum = tt_warp_pass<F, N>(a, own, ctx, 1, 0, rows);
    if (tt_warp_lane_index() == 0) a.loss[i] = rows ? sum / (double)rows : (double)NAN;
  }
}
#endif
