/* warp_train.cuh — one warp trains one member: the device code of the warp path. Floor 3.
 *
 * What tt_block_train does with a block, for members so small that a block's barriers would cost
 * more than its threads bring: weights, optimiser state and a piece of a batch lie in the warp's
 * part of shared memory for all steps of a visit, and no warp waits for another one.
 *
 * Two things that every step needs a little of are worked out for many steps at once, so that all
 * lanes have a share: the rows of the next TT_WARP_AHEAD slots of the epoch, and the corrections of
 * the optimiser for 32 steps. All sums have an order that the plan alone decides. */
#ifndef TT_WARP_CUH
#define TT_WARP_CUH
#include "cuda/warp/warp_batch.cuh"

/* A visit, the same in every lane. What is looked at once a step or an epoch stays in the view:
 * registers are what limits how many members a multiprocessor has. */
typedef struct tt_warp_visit {
  int32_t member;
  int32_t batch; /* batches done */
  int32_t known; /* slots of the epoch whose rows are known */
  int64_t step;  /* steps taken */
} tt_warp_visit;

__device__ __forceinline__ tt_order *tt_warp_order(float *own)
{
  return reinterpret_cast<tt_order *>(own);
}
static_assert(sizeof(tt_order) <= TT_WARP_HEAD * sizeof(float), "it fits in front");

/* x, but the compiler does not know it: addresses that follow from it are worked out where they are
 * needed, once a step or an epoch, and take no registers from the first use to the last. */
__device__ __forceinline__ int tt_warp_afresh(int x)
{
  asm volatile("" : "+r"(x));
  return x;
}

__device__ __forceinline__ int tt_warp_ensemble(const tt_view &v, const tt_warp_visit &now)
{
  return v.member[tt_warp_afresh(now.member)].ensemble;
}
__device__ __forceinline__ int tt_warp_epoch_rows(const tt_view &v, const tt_warp_visit &now)
{
  return v.epoch_rows[tt_warp_afresh(now.member)];
}

__device__ __forceinline__ int tt_warp_held_out(const tt_view &v, const tt_warp_visit &now)
{
  return v.lists[tt_warp_ensemble(v, now)].count[TT_VALIDATION];
}

/* f(q, p) for every parameter: its place q in the padded [Q], p in [P]. */
template <class F>
__device__ __forceinline__ void tt_warp_params(const tt_warp_plan &plan, F f)
{
#pragma unroll 1
  for (int l = 0; l < plan.layers; l++) {
    const tt_warp_layer &n = plan.layer[l];
#pragma unroll 1
    for (int o = 0; o < n.out; o++)
      for (int i = tt_warp_lane(); i < n.in; i += TT_WARP)
        f(n.weight + o * n.stride + i, n.source + o * n.in + i);
    for (int o = tt_warp_lane(); o < n.out; o += TT_WARP)
      f(n.bias + o, n.source + n.out * n.in + o);
  }
}

/* from [P] -> to [Q], the gaps stay as they are. */
__device__ __forceinline__ void tt_warp_take(const tt_warp_plan &plan, float *to, const float *from)
{
  tt_warp_params(plan, [&](int q, int p) { to[q] = from[p]; });
}
__device__ __forceinline__ void tt_warp_give(const tt_warp_plan &plan, float *to, const float *from)
{
  tt_warp_params(plan, [&](int q, int p) { to[p] = from[q]; });
}

/* ---- a visit begins and ends ---- */

/* Zero everywhere: the gaps are to have it, and an infinite learning rate leaves NaN there. */
__device__ __forceinline__ void tt_warp_clear(const tt_warp_plan &plan, float *own)
{
  for (int q = tt_warp_lane(); q < plan.params; q += TT_WARP) {
    own[plan.weights + q] = own[plan.gradient + q] = 0.0f;
    for (int k = 0; k < plan.slots; k++) own[plan.slot + k * plan.params + q] = 0.0f;
  }
  __syncwarp();
}

__device__ __forceinline__ tt_warp_visit tt_warp_load(const tt_warp_args &a, float *own, int i)
{
  const tt_view &v = a.view;
  const tt_warp_plan &plan = a.plan;
  tt_warp_visit now = {};
  tt_warp_clear(plan, own);
  now.member = i;
  now.batch = v.batch[i];
  now.step = v.step[i];
  if (tt_warp_lane() == 0) *tt_warp_order(own) = tt_view_order(v, i);
  tt_warp_take(plan, own + plan.weights, v.weights + (int64_t)i * v.params);
  for (int k = 0; k < plan.slots; k++)
    tt_warp_take(plan, own + plan.slot + k * plan.params,
                 v.slots + ((int64_t)i * plan.slots + k) * v.params);
  __syncwarp();
  return now;
}

__device__ __forceinline__ void tt_warp_save(const tt_warp_args &a, float *own,
                                             const tt_warp_visit &now)
{
  const tt_view &v = a.view;
  const tt_warp_plan &plan = a.plan;
  int i = tt_warp_afresh(now.member);
  tt_warp_give(plan, v.weights + (int64_t)i * v.params, own + plan.weights);
  for (int k = 0; k < plan.slots; k++)
    tt_warp_give(plan, v.slots + ((int64_t)i * plan.slots + k) * v.params,
                 own + plan.slot + k * plan.params);
  __syncwarp(); /* the others have seen v.step as it was, and read what the next visit clears */
  if (tt_warp_lane() == 0) {
    v.batch[i] = now.batch;
    v.step[i] = now.step;
  }
}

/* ---- rows ---- */

/* Row numbers of the next slots, in a ring: slot s lies at s % TT_WARP_AHEAD. */
__device__ __forceinline__ int32_t *tt_warp_ring(const tt_warp_args &a, float *own)
{
  return reinterpret_cast<int32_t *>(own + a.plan.row);
}

/* Work out the rows of the slots from `first` on, as many as the ring takes; after a barrier that
 * followed the last look at it: a visit's first, or a gradient's. A lane that has found
 * one goes on to its next at once: how often the shuffle has to walk differs from slot to slot. */
__device__ __forceinline__ void tt_warp_look_ahead(const tt_warp_args &a, float *own,
                                                   tt_warp_visit &now, int first)
{
  const tt_view &v = a.view;
  const tt_order *order = tt_warp_order(own);
  const int32_t *list = v.lists[tt_warp_ensemble(v, now)].row[TT_TRAIN];
  int32_t *ring = tt_warp_ring(a, own);
  int begin = max(now.known, first) + tt_warp_lane();
  now.known = min(first + TT_WARP_AHEAD, tt_warp_epoch_rows(v, now));
  if (v.replay) {
    for (int s = begin; s < now.known; s += TT_WARP)
      ring[s % TT_WARP_AHEAD] = tt_view_row(v, tt_warp_afresh(now.member), *order, s);
  } else {
    tt_shuffle shuffle = order->epoch;
    uint32_t at = (uint32_t)begin;
#pragma unroll 1
    for (int s = begin; s < now.known;) {
      at = tt_shuffle_pass(&shuffle, at);
      if (at >= shuffle.n) continue;
      ring[s % TT_WARP_AHEAD] = (int32_t)at;
      s += TT_WARP;
      at = (uint32_t)s;
    }
#pragma unroll 1
    for (int s = begin; s < now.known; s += TT_WARP) {
      int32_t *slot = ring + s % TT_WARP_AHEAD;
      *slot = list[tt_order_draw(order, (uint32_t)*slot)];
    }
  }
  __syncwarp();
}

/* x and y of the data set's rows number[0..N) into this lane's columns. */
template <int N>
__device__ __forceinline__ void tt_warp_copy(const tt_warp_args &a, float *own, int ensemble,
                                             const int32_t (&number)[N])
{
  const tt_view &v = a.view;
  const int32_t *column = v.column + ensemble * v.targets;
  enum { LD = tt_warp_sizes<N>::LD };
  float *x = own + a.plan.x + tt_warp_lane() * N, *y = own + a.plan.y + tt_warp_lane() * N;
  const float *from[N];
#pragma unroll
  for (int r = 0; r < N; r++) from[r] = v.x + (int64_t)number[r] * v.inputs;
  int i = 0;
#pragma unroll 1
  for (; v.inputs % 4 == 0 && i < v.inputs; i += 4) {
    tt_warp_rows<N> f[4];
#pragma unroll
    for (int r = 0; r < N; r++) {
      float4 u = tt_load4(from[r] + i);
      f[0].v[r] = u.x, f[1].v[r] = u.y, f[2].v[r] = u.z, f[3].v[r] = u.w;
    }
#pragma unroll
    for (int j = 0; j < 4; j++) tt_warp_set(x + (i + j) * LD, f[j]);
  }
#pragma unroll 1
  for (; i < v.inputs; i++)
#pragma unroll
    for (int r = 0; r < N; r++) x[i * LD + r] = from[r][i];
#pragma unroll 1
  for (int k = 0; k < v.targets; k++)
#pragma unroll
    for (int r = 0; r < N; r++) y[k * LD + r] = v.y[(int64_t)number[r] * v.columns + column[k]];
}

/* `rows` rows from slot `first` of the epoch on, or from there in the list of a.split: x and y into
 * shared memory; the weights of this lane's rows. */
template <int N>
__device__ __forceinline__ tt_warp_rows<N> tt_warp_fetch(const tt_warp_args &a, float *own,
                                                         int ensemble, int scoring, int first,
                                                         int rows)
{
  int32_t number[N];
  tt_warp_rows<N> weight;
  const int32_t *list = a.view.lists[ensemble].row[a.split], *ring = tt_warp_ring(a, own);
#pragma unroll
  for (int r = 0; r < N; r++) {
    int s = first + min(tt_warp_lane() * N + r, rows - 1);
    number[r] = scoring ? list[s] : ring[s % TT_WARP_AHEAD];
  }
  tt_warp_copy<N>(a, own, ensemble, number);
#pragma unroll
  for (int r = 0; r < N; r++) weight.v[r] = a.view.weight ? a.view.weight[number[r]] : 1.0f;
  return weight;
}

/* ---- a pass ---- */

/* Sum of the losses of `count` rows from `first` on, in every lane; of a batch also the gradient of
 * their mean.
 *   scoring  1: rows of the list of a.split, 0: slots of the epoch */
template <int N>
__device__ __forceinline__ double tt_warp_pass(const tt_warp_args &a, float *own,
                                               tt_warp_visit &now, int scoring, int first,
                                               int count)
{
  double sum = 0.0;
#pragma unroll 1
  for (int done = 0; done < count; done += tt_warp_sizes<N>::ROWS) {
    int rows = min((int)tt_warp_sizes<N>::ROWS, count - done), at = first + done;
    if (!scoring && at + rows > now.known) tt_warp_look_ahead(a, own, now, at);
    int ensemble = tt_warp_ensemble(a.view, now);
    tt_warp_rows<N> weight = tt_warp_fetch<N>(a, own, ensemble, scoring, at, rows);
    tt_warp_all_forward<N>(a, own);
    sum += tt_warp_loss<N>(a, own, rows, weight, 1.0f / (float)count);
    if (!scoring) tt_warp_all_backward<N>(a, own, rows, done == 0);
  }
  return tt_warp_sum(sum);
}

/* ---- the optimiser ---- */

/* Arguments of the running step. The corrections take divisions and roots in double: at the first
 * step of a visit, then every 32 steps, each lane works out one step's. Where the learning rate
 * follows a schedule, that too, and afresh at the first step of an epoch: a lane takes its step for
 * one of the running epoch. */
__device__ __forceinline__ tt_step_args tt_warp_step_args(const tt_warp_args &a, float *own,
                                                          const tt_warp_visit &now)
{
  const tt_view &v = a.view;
  int i = tt_warp_afresh(now.member), at = (int)(now.step % TT_WARP);
  float *step_size = own + a.plan.step, *root_scale = step_size + TT_WARP;
  tt_step_args args = tt_view_hyper(v, i);
  if (at == 0 || now.step == v.step[i] || (v.paced && now.batch == 0)) {
    int64_t t = now.step - at + tt_warp_lane() + 1;
    if (v.paced) root_scale[TT_WARP + tt_warp_lane()] = args.learning_rate = tt_view_rate(v, i, t);
    tt_step_correct(&args, t);
    step_size[tt_warp_lane()] = args.step_size;
    root_scale[tt_warp_lane()] = args.root_scale;
    __syncwarp();
  }
  args.step_size = step_size[at];
  args.root_scale = root_scale[at];
  if (v.paced) args.learning_rate = root_scale[TT_WARP + at];
  return args;
}

/* As tt_block_clip. */
__device__ __forceinline__ float tt_warp_clip(const tt_warp_args &a, const float *own, int member)
{
  double limit = (double)a.view.member[member].hyper.clip_norm, sum = 0.0;
  if (!(limit > 0.0)) return 1.0f;
  const float *g = own + a.plan.gradient;
  for (int q = tt_warp_lane(); q < a.plan.params; q += TT_WARP)
    sum += (double)g[q] * (double)g[q];
  double norm = sqrt(tt_warp_sum(sum));
  return norm + 1e-6 > limit ? (float)(limit / (norm + 1e-6)) : 1.0f;
}

/* The gaps take part: their gradient is zero. */
template <tt_optimizer KIND>
__device__ __forceinline__ void tt_warp_step_as(const tt_warp_args &a, float *own,
                                                const tt_step_args &args, float scale)
{
  constexpr bool two = KIND != TT_OPT_sgd;
  float *slot0 = own + a.plan.slot, *slot1 = two ? slot0 + a.plan.params : slot0;
  const float *gradient = own + a.plan.gradient;
  float *weights = own + a.plan.weights;
#pragma unroll 1
  for (int q = 2 * tt_warp_lane(); q < a.plan.params; q += 2 * TT_WARP) {
    tt_warp_rows<2> w = tt_warp_get<2>(weights + q), g = tt_warp_get<2>(gradient + q);
    tt_warp_rows<2> s0 = tt_warp_get<2>(slot0 + q), s1 = two ? tt_warp_get<2>(slot1 + q) : s0;
#pragma unroll
    for (int k = 0; k < 2; k++)
      tt_step(KIND, &w.v[k], g.v[k] * scale, &s0.v[k], &s1.v[k], &s1.v[k], args);
    tt_warp_set(weights + q, w);
    tt_warp_set(slot0 + q, s0);
    if (two) tt_warp_set(slot1 + q, s1);
  }
}

/* One step with the gradient of a batch of that loss. */
__device__ __forceinline__ void tt_warp_step(const tt_warp_args &a, float *own, tt_warp_visit &now,
                                             double loss)
{
  tt_step_args args = tt_warp_step_args(a, own, now);
  float scale = tt_warp_clip(a, own, tt_warp_afresh(now.member));
  switch (a.view.optimizer) {
#define X(name, slots, source) \
  case TT_OPT_##name: \
    if constexpr (slots <= TT_FUSED_SLOTS) tt_warp_step_as<TT_OPT_##name>(a, own, args, scale); \
    break;
    TT_OPTIMIZERS(X)
#undef X
  default: break;
  }
  if (tt_warp_lane() == 0) a.view.loss_sum[tt_warp_afresh(now.member)] += loss;
  now.batch++;
  now.step++;
  __syncwarp();
}

/* ---- the end of an epoch ---- */

/* 1 in every lane if all weights are finite. */
__device__ __forceinline__ int tt_warp_sound(const tt_warp_args &a, const float *own)
{
  float probe = 0.0f; /* 0 * finite = 0; anything else is NaN for ever */
  for (int q = tt_warp_lane(); q < a.plan.params; q += TT_WARP)
    probe += 0.0f * own[a.plan.weights + q];
  return __all_sync(TT_FULL_WARP, probe == 0.0f);
}

/* History and the best weights. Returns 1 in every lane if the member goes on.
 *   loss  mean over the validation rows; not looked at without them */
__device__ __forceinline__ int tt_warp_end_epoch(const tt_warp_args &a, float *own,
                                                 tt_warp_visit &now, int sound, double loss)
{
  const tt_view &v = a.view;
  int i = tt_warp_afresh(now.member);
  if (tt_warp_lane() == 0) {
    tt_view_end_epoch(v, i, sound, loss);
    if (tt_view_goes_on(v, i)) *tt_warp_order(own) = tt_view_order(v, i);
  }
  __syncwarp();
  now.batch = now.known = 0;
  if (v.best_epoch[i] == v.epoch[i] - 1) /* this one */
    tt_warp_give(a.plan, v.best_weights + (int64_t)i * v.params, own + a.plan.weights);
  return tt_view_goes_on(v, i);
}

/* ---- a visit ---- */

/* Up to a.steps steps of a member that is training; v.step is as it was until the end. */
template <int N>
__device__ __forceinline__ void tt_warp_train(const tt_warp_args &a, float *own, int member)
{
  const tt_view &v = a.view;
  tt_warp_visit now = tt_warp_load(a, own, member);
  int validating = 0;
#pragma unroll 1
  while (validating || now.step - v.step[tt_warp_afresh(member)] < a.steps) {
    int first = validating ? 0 : now.batch * v.batch_size;
    int count = validating ? tt_warp_held_out(v, now)
                           : min(v.batch_size, tt_warp_epoch_rows(v, now) - first);
    double loss = tt_warp_pass<N>(a, own, now, validating, first, count);
    int sound = 1;
    if (!validating) {
      if (!isfinite(loss)) {
        if (tt_warp_lane() == 0) v.status[tt_warp_afresh(member)] = TT_STATUS_diverged;
        break;
      }
      tt_warp_step(a, own, now, loss);
      if (now.batch * v.batch_size < tt_warp_epoch_rows(v, now)) continue;
      sound = tt_warp_sound(a, own);
      validating = sound && tt_warp_held_out(v, now) > 0;
      if (validating) continue;
    }
    if (!tt_warp_end_epoch(a, own, now, sound, loss / tt_warp_held_out(v, now))) break;
    validating = 0;
  }
  tt_warp_save(a, own, now);
}

/* ---- what a warp of the grid does ---- */

__device__ __forceinline__ float *tt_warp_own(const tt_warp_args &a, float *shared)
{
  return shared + (int)threadIdx.x / TT_WARP * (int)(a.plan.bytes / (int64_t)sizeof(float));
}

/* Members from the queue until there are none left. */
template <int N>
__device__ __forceinline__ void tt_warp_train_all(const tt_warp_args &a, float *shared)
{
  float *own = tt_warp_own(a, shared);
#pragma unroll 1
  for (;;) {
    int i = tt_warp_lane() == 0 ? atomicAdd(a.next, 1) : 0;
    i = __shfl_sync(TT_FULL_WARP, i, 0);
    if (i >= a.view.members) return;
    if (a.view.status[i] == TT_STATUS_training) tt_warp_train<N>(a, own, i);
  }
}

/* The mean loss of every member over a split, with the sums of its validation. No barrier at the
 * end of a member: a sum holds what all lanes have read. */
template <int N>
__device__ __forceinline__ void tt_warp_evaluate_all(const tt_warp_args &a, float *shared)
{
  const tt_view &v = a.view;
  float *own = tt_warp_own(a, shared);
  int warps = (int)(blockDim.x / TT_WARP);
#pragma unroll 1
  for (int i = (int)(blockIdx.x * warps + threadIdx.x / TT_WARP); i < v.members;
       i += (int)gridDim.x * warps) {
    tt_warp_visit now = {};
    now.member = i;
    int rows = v.lists[v.member[i].ensemble].count[a.split];
    const float *w = (v.best_epoch[i] >= 0 ? v.best_weights : v.weights) + (int64_t)i * v.params;
    tt_warp_take(a.plan, own + a.plan.weights, w);
    __syncwarp();
    double sum = tt_warp_pass<N>(a, own, now, 1, 0, rows);
    if (tt_warp_lane() == 0) a.loss[i] = rows ? sum / (double)rows : (double)NAN;
  }
}
#endif
