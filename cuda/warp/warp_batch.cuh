/* warp_batch.cuh — a piece of a batch inside one warp: forward, loss, backward, gradient of the
 * weights. Device code.
 *
 * R = 32 N rows, N neighboring rows per lane. A lane loads its rows, runs them through the layers
 * and computes dL/dz without data of other lanes: all 32 lanes read the same weights at the same
 * time, one float4 of a row of W. For the gradient, each lane has a unit (or an input) and sums
 * over rows. So the gradient of a layer needs one barrier before it and one after it.
 *
 * Rows past the end of a batch are copies of the last row with dL/do = 0. */
#ifndef TT_WARP_BATCH_CUH
#define TT_WARP_BATCH_CUH
#include "cuda/common/engine_internal.cuh"
#include "cuda/plan/warp_plan.h"

/* Arguments of the kernels. */
typedef struct tt_warp_args {
  tt_cuda_state view;
  tt_warp_plan plan;
  int32_t steps; /* steps per member in this launch */
  tt_member_queue queue;
  int32_t split; /* rows to score: validation in training, any split in evaluation */
  double *loss;  /* [M] mean losses of an evaluation */
} tt_warp_args;

/* F of the functions below: which activation, loss and optimizer a kernel computes. Here those of
 * its cohort, whatever they are: the kernel reads them while it runs and has the code of all. */
struct tt_warp_any_formulas {
  static constexpr int UNITS = 4; /* at a time: more would be more code for each activation */
  static __device__ __forceinline__ tt_activation activation(const tt_warp_args &a)
  {
    return a.view.activation;
  }
  static __device__ __forceinline__ int stores_slope(const tt_warp_args &a)
  {
    return a.plan.stores_slope;
  }
  static __device__ __forceinline__ tt_loss loss(const tt_warp_args &a) { return a.view.loss; }
  static __device__ __forceinline__ tt_optimizer optimizer(const tt_warp_args &a)
  {
    return a.view.optimizer;
  }
  static bool fit(const tt_cuda_state &) { return true; }
};

/* Here these three: the kernel has their code alone, and gives the same bits as the kernel for any.
 */
template <tt_activation ACTIVATION, tt_loss LOSS, tt_optimizer OPTIMIZER>
struct tt_warp_fixed_formulas {
  static constexpr int UNITS = 8;
  static __device__ __forceinline__ tt_activation activation(const tt_warp_args &)
  {
    return ACTIVATION;
  }
  static __device__ __forceinline__ int stores_slope(const tt_warp_args &)
  {
    return tt_act_grad_needs_input(ACTIVATION);
  }
  static __device__ __forceinline__ tt_loss loss(const tt_warp_args &) { return LOSS; }
  static __device__ __forceinline__ tt_optimizer optimizer(const tt_warp_args &)
  {
    return OPTIMIZER;
  }
  static bool fit(const tt_cuda_state &v)
  {
    return v.activation == ACTIVATION && v.loss == LOSS && v.optimizer == OPTIMIZER;
  }
};

__device__ __forceinline__ int tt_warp_lane_index() { return (int)threadIdx.x % TT_WARP_SIZE; }

/* a lane's rows */

template <int N> struct tt_warp_values {
  float v[N];
};
/* ld and rows of the plan as compile-time constants. */
template <int N> struct tt_warp_layout {
  enum { ROWS = TT_WARP_SIZE * N, LD = ROWS + TT_WARP_PADDING };
};
template <int N>
__device__ __forceinline__ tt_warp_values<N> tt_warp_load_values(const float *place)
{
  tt_warp_values<N> x;
  if constexpr (N == 2) {
    TT_CHECK_ALIGNMENT(place, sizeof(float2));
    float2 f = *reinterpret_cast<const float2 *>(place);
    x.v[0] = f.x, x.v[1] = f.y;
  } else {
    x.v[0] = *place;
  }
  return x;
}
template <int N>
__device__ __forceinline__ void tt_warp_store_values(float *place, const tt_warp_values<N> &x)
{
  if constexpr (N == 2) {
    TT_CHECK_ALIGNMENT(place, sizeof(float2));
    *reinterpret_cast<float2 *>(place) = make_float2(x.v[0], x.v[1]);
  } else {
    *place = x.v[0];
  }
}

/* forward */

/* z = W x + b of T units from `unit` on; inputs ascending. */
template <int N, int T>
__device__ __forceinline__ void tt_warp_dot_products(const tt_warp_layer &layer, const float *w,
                                                     const float *x, int unit,
                                                     tt_warp_values<N> (&z)[T])
{
  enum { LD = tt_warp_layout<N>::LD };
  const float *row = w + layer.weight + unit * layer.stride;
#pragma unroll
  for (int t = 0; t < T; t++)
#pragma unroll
    for (int r = 0; r < N; r++) z[t].v[r] = w[layer.bias + unit + t];
  int k = 0;
#pragma unroll 1
  for (; k + 4 <= layer.in; k += 4, x += 4 * LD, row += 4) {
    tt_warp_values<N> u[4];
#pragma unroll
    for (int j = 0; j < 4; j++) u[j] = tt_warp_load_values<N>(x + j * LD);
#pragma unroll
    for (int t = 0; t < T; t++) {
      float4 v = tt_load4(row + t * layer.stride);
#pragma unroll
      for (int r = 0; r < N; r++) {
        z[t].v[r] = tt_fma(u[0].v[r], v.x, z[t].v[r]);
        z[t].v[r] = tt_fma(u[1].v[r], v.y, z[t].v[r]);
        z[t].v[r] = tt_fma(u[2].v[r], v.z, z[t].v[r]);
        z[t].v[r] = tt_fma(u[3].v[r], v.w, z[t].v[r]);
      }
    }
  }
#pragma unroll 1
  for (; k < layer.in; k++, x += LD, row++) {
    tt_warp_values<N> u = tt_warp_load_values<N>(x);
#pragma unroll
    for (int t = 0; t < T; t++)
#pragma unroll
      for (int r = 0; r < N; r++) z[t].v[r] = tt_fma(u.v[r], row[t * layer.stride], z[t].v[r]);
  }
}

/* z -> f(z); f'(z) into slope if it is stored. */
template <tt_activation A, int N, int T>
__device__ __forceinline__ void tt_warp_apply_activation_as(tt_warp_values<N> (&z)[T], float *slope)
{
#pragma unroll
  for (int t = 0; t < T; t++) {
    tt_warp_values<N> y;
#pragma unroll
    for (int r = 0; r < N; r++) y.v[r] = tt_act(A, z[t].v[r]);
    if (slope) {
      tt_warp_values<N> d;
#pragma unroll
      for (int r = 0; r < N; r++) d.v[r] = tt_act_grad(A, z[t].v[r], y.v[r]);
      tt_warp_store_values(slope + t * tt_warp_layout<N>::LD, d);
    }
    z[t] = y;
  }
}

/* Switch on the activation once for all units. */
template <int N, int T>
__device__ __forceinline__ void tt_warp_apply_activation(tt_activation kind,
                                                         tt_warp_values<N> (&z)[T], float *slope)
{
  switch (kind) {
#define X(name, f, df, ...)                                                                        \
  case TT_ACT_##name: tt_warp_apply_activation_as<TT_ACT_##name, N, T>(z, slope); break;
    TT_ACTIVATIONS(X)
#undef X
  default: break;
  }
}

/* Units [unit, unit + T) of layer l. */
template <class F, int N, int T>
__device__ __forceinline__ void tt_warp_forward_units(const tt_warp_args &a, float *own, int l,
                                                      int unit)
{
  const tt_warp_plan &p = a.plan;
  const tt_warp_layer &layer = p.layer[l];
  enum { LD = tt_warp_layout<N>::LD };
  int column = tt_warp_lane_index() * N, at = unit * LD + column;
  tt_warp_values<N> z[T];
  tt_warp_dot_products<N, T>(layer, own + p.weights, own + layer.input + column, unit, z);
  if (l < p.layers - 1)
    tt_warp_apply_activation<N, T>(F::activation(a), z,
                                   F::stores_slope(a) ? own + layer.slope + at : NULL);
#pragma unroll
  for (int t = 0; t < T; t++) tt_warp_store_values(own + layer.output + at + t * LD, z[t]);
}

/* x -> outputs of all layers. */
template <class F, int N>
__device__ __forceinline__ void tt_warp_network_forward(const tt_warp_args &a, float *own)
{
#pragma unroll 1
  for (int l = 0; l < a.plan.layers; l++) {
    int unit = 0, out = a.plan.layer[l].out;
    if constexpr (F::UNITS == 8)
#pragma unroll 1
      for (; unit + 8 <= out; unit += 8) tt_warp_forward_units<F, N, 8>(a, own, l, unit);
#pragma unroll 1
    for (; unit + 4 <= out; unit += 4) tt_warp_forward_units<F, N, 4>(a, own, l, unit);
#pragma unroll 1
    for (; unit < out; unit++) tt_warp_forward_units<F, N, 1>(a, own, l, unit);
  }
}

/* loss */

/* This lane's part of the sum of the losses of the first `rows` rows; the outputs become dL/do *
 * factor. */
template <class F, int N>
__device__ __forceinline__ double tt_warp_loss_backward(const tt_warp_args &a, float *own, int rows,
                                                        const tt_warp_values<N> &weight,
                                                        float factor)
{
  const tt_cuda_state &v = a.view;
  const tt_warp_plan &p = a.plan;
  enum { LD = tt_warp_layout<N>::LD };
  int column = tt_warp_lane_index() * N, two = tt_output_has_variance(v.output);
  float *o = own + p.layer[p.layers - 1].output + column;
  const float *y = own + p.y + column;
  tt_warp_values<N> value = {}, none = {};
#pragma unroll 1
  for (int k = 0; k < v.targets; k++) {
    float *second = o + (v.targets + k) * LD;
    tt_warp_values<N> o0 = tt_warp_load_values<N>(o + k * LD),
                      o1 = two ? tt_warp_load_values<N>(second) : none;
    tt_warp_values<N> want = tt_warp_load_values<N>(y + k * LD);
#pragma unroll
    for (int r = 0; r < N; r++) {
      int there = column + r < rows;
      tt_loss_grad g = tt_loss_two_outputs(F::loss(a), o0.v[r], o1.v[r], want.v[r], v.loss_args);
      value.v[r] += g.value;
      o0.v[r] = there ? g.d0 * (weight.v[r] * factor) : 0.0f;
      o1.v[r] = there ? g.d1 * (weight.v[r] * factor) : 0.0f;
    }
    tt_warp_store_values(o + k * LD, o0);
    if (two) tt_warp_store_values(second, o1);
  }
  double sum = 0.0;
#pragma unroll
  for (int r = 0; r < N; r++)
    if (column + r < rows) sum += (double)weight.v[r] * (double)value.v[r];
  return sum;
}

/* backward */

/* f(z) -> f'(z), for activations whose derivative follows from f(z) alone. */
template <tt_activation A, int N, int T>
__device__ __forceinline__ void tt_warp_output_to_slope_as(tt_warp_values<N> (&h)[T])
{
#pragma unroll
  for (int t = 0; t < T; t++)
#pragma unroll
    for (int r = 0; r < N; r++) h[t].v[r] = tt_act_grad(A, h[t].v[r], h[t].v[r]);
}

/* f'(z) of T units, from f(z) at `place`, or from the array that stores f'(z). */
template <class F, int N, int T>
__device__ __forceinline__ void tt_warp_load_slopes(const tt_warp_args &a, const float *place,
                                                    const float *kept, tt_warp_values<N> (&h)[T])
{
  const float *src = F::stores_slope(a) ? kept : place;
#pragma unroll
  for (int t = 0; t < T; t++) h[t] = tt_warp_load_values<N>(src + t * tt_warp_layout<N>::LD);
  if (F::stores_slope(a)) return;
  switch (F::activation(a)) {
#define X(name, f, df, ...)                                                                        \
  case TT_ACT_##name: tt_warp_output_to_slope_as<TT_ACT_##name, N, T>(h); break;
    TT_ACTIVATIONS(X)
#undef X
  default: break;
  }
}

/* f(z) -> dL/dz for inputs [at, at + T) of layer l, which are units of layer l - 1. */
template <class F, int N, int T>
__device__ __forceinline__ void tt_warp_backward_units(const tt_warp_args &a, float *own, int l,
                                                       int unit)
{
  const tt_warp_plan &p = a.plan;
  const tt_warp_layer &layer = p.layer[l];
  enum { LD = tt_warp_layout<N>::LD };
  int column = tt_warp_lane_index() * N;
  const float *d = own + layer.output + column, *w = own + p.weights + layer.weight + unit;
  float *dst = own + layer.input + unit * LD + column;
  tt_warp_values<N> sum[T] = {}, h[T];
#pragma unroll 2
  for (int o = 0; o < layer.out; o++, d += LD, w += layer.stride) {
    tt_warp_values<N> u = tt_warp_load_values<N>(d);
    float v[T];
    if constexpr (T == 1) v[0] = *w;
#pragma unroll
    for (int t = 0; t + 4 <= T; t += 4) {
      float4 f = tt_load4(w + t);
      v[t] = f.x, v[t + 1] = f.y, v[t + 2] = f.z, v[t + 3] = f.w;
    }
#pragma unroll
    for (int t = 0; t < T; t++)
#pragma unroll
      for (int r = 0; r < N; r++) sum[t].v[r] = tt_fma(u.v[r], v[t], sum[t].v[r]);
  }
  tt_warp_load_slopes<F, N, T>(a, dst, own + p.layer[l - 1].slope + unit * LD + column, h);
#pragma unroll
  for (int t = 0; t < T; t++) {
#pragma unroll
    for (int r = 0; r < N; r++) h[t].v[r] *= sum[t].v[r];
    tt_warp_store_values(dst + t * LD, h[t]);
  }
}

/* gradient */

/* Sums over `rows` rows, in steps of 4: of feature a times T columns from b on, then of feature a
 * itself if BIAS is 1. */
template <int LD, int T, int BIAS>
__device__ __forceinline__ void tt_warp_sum_rows(const float *a, const float *b, int rows,
                                                 float (&sum)[T + BIAS])
{
#pragma unroll
  for (int t = 0; t < T + BIAS; t++) sum[t] = 0.0f;
#pragma unroll 1
  for (int r = 0; r < rows; r += 4, a += 4, b += 4) {
    float4 u = tt_load4(a);
    if constexpr (BIAS) sum[T] += u.x, sum[T] += u.y, sum[T] += u.z, sum[T] += u.w;
#pragma unroll
    for (int t = 0; t < T; t++) {
      float4 v = tt_load4(b + t * LD);
      sum[t] = tt_fma(u.x, v.x, sum[t]);
      sum[t] = tt_fma(u.y, v.y, sum[t]);
      sum[t] = tt_fma(u.z, v.z, sum[t]);
      sum[t] = tt_fma(u.w, v.w, sum[t]);
    }
  }
}

/* The sums of all groups of `across` lanes, in every lane. */
template <int COUNT>
__device__ __forceinline__ void tt_warp_sum_groups(float (&sum)[COUNT], int across)
{
#pragma unroll 1
  for (int bits = across; bits < TT_WARP_SIZE; bits *= 2)
#pragma unroll
    for (int t = 0; t < COUNT; t++) sum[t] += tt_shuffle_xor(sum[t], bits);
}

__device__ __forceinline__ void tt_warp_accumulate(float *place, float x, int overwrite)
{
  *place = (overwrite ? 0.0f : *place) + x;
}

/* Work of a lane for the gradient of a layer's weights: its rows, and where its sums go. */
typedef struct tt_warp_gradient_task {
  const float *a, *b;        /* [rows] column of this lane's feature; first column that it is
                              * multiplied with; from the lane's first row on */
  float *weights, *bias;     /* of the product with column b; of feature a */
  int across, weight_stride; /* lanes side by side; distance of the weights of two columns */
  int rows;                  /* may be below 1: none */
  int writes, writes_bias;   /* 1: it writes sums that several lanes have; its feature is a unit */
  int overwrite;             /* 1: overwrite the gradient; 0: add to it */
} tt_warp_gradient_task;

/* The lane's feature and T others from number `unit` on. */
template <int LD, int T, int BIAS>
__device__ __forceinline__ void tt_warp_weight_gradient(const tt_warp_gradient_task &task, int unit)
{
  float sum[T + BIAS], *dst = task.weights + unit * task.weight_stride;
  tt_warp_sum_rows<LD, T, BIAS>(task.a, task.b + unit * LD, task.rows, sum);
  tt_warp_sum_groups(sum, task.across);
  if (task.writes)
#pragma unroll
    for (int t = 0; t < T; t++)
      tt_warp_accumulate(dst + t * task.weight_stride, sum[t], task.overwrite);
  if constexpr (BIAS)
    if (task.writes_bias) tt_warp_accumulate(task.bias, sum[T], task.overwrite);
}

/* All weights of the lane's feature; its bias together with the first weights. */
template <int LD>
__device__ __forceinline__ void tt_warp_feature_gradient(const tt_warp_gradient_task &task,
                                                         int others)
{
  int index = 0;
  if (others >= 4)
    tt_warp_weight_gradient<LD, 4, 1>(task, index), index += 4;
  else
    tt_warp_weight_gradient<LD, 1, 1>(task, index++);
#pragma unroll 1
  for (; index + 4 <= others; index += 4) tt_warp_weight_gradient<LD, 4, 0>(task, index);
#pragma unroll 1
  for (; index < others; index++) tt_warp_weight_gradient<LD, 1, 0>(task, index);
}

/* Biases of a layer with few units: every lane sums its rows, then the lanes are summed. */
template <int N>
__device__ __forceinline__ void tt_warp_bias_gradient(const tt_warp_layer &layer, const float *own,
                                                      float *g, int overwrite)
{
  const float *d = own + layer.output + tt_warp_lane_index() * N;
#pragma unroll 1
  for (int o = 0; o < layer.out; o++) {
    tt_warp_values<N> x = tt_warp_load_values<N>(d + o * tt_warp_layout<N>::LD);
    float sum = x.v[0];
    if constexpr (N == 2) sum += x.v[1];
    sum = tt_warp_sum(sum);
    if (tt_warp_lane_index() == 0) tt_warp_accumulate(g + layer.bias + o, sum, overwrite);
  }
}

/* dL/dz of a layer and its inputs -> the gradient of its weights. */
template <int N>
__device__ __forceinline__ void tt_warp_layer_gradient(const tt_warp_args &a, float *own,
                                                       const tt_warp_layer &layer, int rows,
                                                       int overwrite)
{
  enum { LD = tt_warp_layout<N>::LD };
  int group = tt_warp_lane_index() / layer.across, rows_each = N * layer.across,
      first = group * rows_each;
  int by_output = layer.by_output, count = by_output ? layer.out : layer.in;
  float *g = own + a.plan.gradient;
#pragma unroll 1
  for (int base = 0; base < count; base += layer.across) {
    int feature = base + tt_warp_lane_index() % layer.across, f = min(feature, count - 1);
    tt_warp_gradient_task task;
    task.a = own + (by_output ? layer.output : layer.input) + f * LD + first;
    task.b = own + (by_output ? layer.input : layer.output) + first;
    task.weights = g + layer.weight + f * (by_output ? layer.stride : 1);
    task.bias = g + layer.bias + f;
    task.across = layer.across;
    task.weight_stride = by_output ? 1 : layer.stride;
    task.rows = min(rows_each, rows - first);
    task.writes = feature < count && group == 0;
    task.overwrite = overwrite;
    task.writes_bias = task.writes && by_output;
    tt_warp_feature_gradient<LD>(task, by_output ? layer.in : layer.out);
  }
  if (!by_output) tt_warp_bias_gradient<N>(layer, own, g, overwrite);
}

/* dL/do -> the gradient of all layers. Ends with a barrier. */
template <class F, int N>
__device__ __forceinline__ void tt_warp_network_backward(const tt_warp_args &a, float *own,
                                                         int rows, int overwrite)
{
#pragma unroll 1
  for (int l = a.plan.layers - 1;; l--) {
    const tt_warp_layer &layer = a.plan.layer[l];
    __syncwarp(); /* all lanes have written their rows */
    tt_warp_layer_gradient<N>(a, own, layer, rows, overwrite);
    __syncwarp(); /* all lanes have read them */
    if (l == 0) return;
    int index = 0;
    if constexpr (F::UNITS == 8)
#pragma unroll 1
      for (; index + 8 <= layer.in; index += 8) tt_warp_backward_units<F, N, 8>(a, own, l, index);
#pragma unroll 1
    for (; index + 4 <= layer.in; index += 4) tt_warp_backward_units<F, N, 4>(a, own, l, index);
#pragma unroll 1
    for (; index < layer.in; index++) tt_warp_backward_units<F, N, 1>(a, own, l, index);
  }
}
#endif
