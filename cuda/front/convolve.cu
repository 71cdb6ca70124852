/* convolve.cu — convolutions of a front: forward, dL/d(inputs), dL/d(weights), by tiles
 * (conv_product.cuh) or, with few output channels, by the kernels here, which read the inputs where
 * they are. See front.cuh. */
#include "cuda/front/conv_shape.cuh"
#include "cuda/plan/layered_sizes.h"

enum { PANEL = 2048 }; /* weights in shared memory: 8 KiB */

/* Copy the weights of T results from number k on to a panel [.][T]; zeros where a result is
 * missing. Weight k belongs to inner channel k % inner and position k / inner of the kernel. */
template <int T>
__device__ __forceinline__ void load_panel(const tt_conv_shape &s, const float *w, int32_t results,
                                           int32_t k, float *panel)
{
  for (int32_t j = (int32_t)threadIdx.x; j < PANEL; j += TT_FRONT_THREADS) {
    int32_t o = j % T, position = k + j / T, tap = position / s.inner;
    panel[j] = tap < s.taps && o < results
                   ? w[(int64_t)o * s.result_step + position % s.inner * s.inner_step + tap]
                   : 0.0f;
  }
}

/* Add to the sums of T results the products of `count` inner channels at one position. */
template <int T>
__device__ __forceinline__ void add_products(const float *x, int32_t step, int32_t count,
                                             const float *panel, float (&sum)[T])
{
  for (int32_t i = 0; i < count; i++, x += step, panel += T) {
    float v = *x;
#pragma unroll
    for (int o = 0; o < T; o += 4) {
      float4 w = tt_load4(panel + o);
      sum[o] = tt_fma(w.x, v, sum[o]);
      sum[o + 1] = tt_fma(w.y, v, sum[o + 1]);
      sum[o + 2] = tt_fma(w.z, v, sum[o + 2]);
      sum[o + 3] = tt_fma(w.w, v, sum[o + 3]);
    }
  }
}

/* The sums of T results at a position of a row: a chain over the positions of the kernel, then the
 * channels. Panels pass through shared memory, so all threads take part; `position` is -1 in a
 * thread without a result. */
template <tt_product_kind KIND, int T>
__device__ __forceinline__ void convolve(const tt_front_layer &l, const tt_conv_shape &s,
                                         const float *w, int32_t results, const float *x,
                                         int32_t position, float *panel, float (&sum)[T])
{
  const int32_t all = s.taps * s.inner, most = PANEL / T;
  int32_t tap = 0, channel = 0;
  for (int32_t k = 0; k < all;) {
    int32_t end = all - k < most ? all : k + most;
    const float *weights = panel;
    __syncthreads();
    load_panel<T>(s, w, results, k, panel);
    __syncthreads();
    while (k < end) {
      int32_t left = s.inner - channel, count = end - k < left ? end - k : left;
      int32_t input = position < 0                 ? -1
                      : KIND == TT_PRODUCT_FORWARD ? tt_front_position_read(&l, position, tap)
                                                   : tt_front_position_reader(&l, position, tap);
      if (input >= 0)
        add_products<T>(x + channel * s.from_places + input, s.from_places, count, weights, sum);
      weights += count * T;
      k += count;
      channel += count;
      if (channel == s.inner) channel = 0, tap++;
    }
  }
}

/* A block has T results of a group at TT_FRONT_THREADS positions of rows; blocks with the same
 * positions follow each other. The sums wait in the array of the results, because T copies of all
 * activations would make the kernel long. */
template <tt_product_kind KIND, int T> static __global__ void convolve_group(tt_front_layer_args a)
{
  TT_SHARED_MEMORY(float, panel); /* [PANEL] */
  tt_front_block b = tt_front_block_of(a);
  const tt_front_layer &l = a.layer;
  const tt_conv_shape s = tt_conv_shape_of(l, KIND);
  if (!b.active) return;
  int32_t tiles = (s.results + T - 1) / T, tile = b.part % (tiles * l.groups);
  int32_t group = tile / tiles, first = tile % tiles * T, left = s.results - first;
  int32_t place = b.part / (tiles * l.groups) * TT_FRONT_THREADS + (int32_t)threadIdx.x;
  int32_t row = place / s.places, position = row < a.rows ? place % s.places : -1;
  int64_t inner = (int64_t)l.groups * s.inner * s.from_places;
  const float *w = a.w + b.member * a.w_step + l.weight;
  w += (int64_t)group * l.channels / l.groups * (l.in_channels / l.groups) * s.taps;
  const float *x =
      KIND == TT_PRODUCT_FORWARD ? a.x + b.member * a.x_step : a.d + b.member * a.d_step;
  if (position >= 0) x += row * inner + (int64_t)group * s.inner * s.from_places;
  float sum[T];
  const float *bias = a.w + b.member * a.w_step + l.bias + group * s.results + first;
  int biased = KIND == TT_PRODUCT_FORWARD && l.bias >= 0;
#pragma unroll
  for (int o = 0; o < T; o++) sum[o] = biased && o < left ? bias[o] : 0.0f;
  convolve<KIND, T>(l, s, w + (int64_t)first * s.result_step, left, x, position, panel, sum);
  if (position < 0) return;
  int32_t index = ((row * l.groups + group) * s.results + first) * s.places + position;
  float *result = a.result + b.member * a.step + index;
#pragma unroll
  for (int o = 0; o < T; o++)
    if (o < left) result[o * s.places] = sum[o];
#pragma unroll 1
  for (int o = 0; o < T && o < left; o++) {
    if (KIND == TT_PRODUCT_FORWARD)
      tt_front_finish_forward(a, b.member, index + o * s.places, result[o * s.places]);
    else
      tt_front_finish_backward(a, b.member, index + o * s.places, result[o * s.places]);
  }
}

template <tt_product_kind KIND, int T>
static tt_err launch_tiles(const tt_front_layer_args &a, int32_t members, cudaStream_t stream)
{
  tt_conv_shape s = tt_conv_shape_of(a.layer, KIND);
  int64_t parts = (int64_t)a.layer.groups * ((s.results + T - 1) / T);
  parts *= tt_grid_size((int64_t)a.rows * s.places, TT_FRONT_THREADS);
  return tt_front_launch(convolve_group<KIND, T>, a, parts, members, PANEL * sizeof(float), stream);
}

/* With as many results of a thread as there are, up to 16; their number changes no bit. */
template <tt_product_kind KIND>
static tt_err launch_group(const tt_front_layer_args &a, int32_t members, cudaStream_t stream)
{
  int32_t results = tt_conv_shape_of(a.layer, KIND).results;
  if (results > 8) return launch_tiles<KIND, 16>(a, members, stream);
  if (results > 4) return launch_tiles<KIND, 8>(a, members, stream);
  return launch_tiles<KIND, 4>(a, members, stream);
}

tt_err tt_conv_read_in_place(tt_product_kind kind, const tt_front_layer_args &a, int32_t members,
                             cudaStream_t stream)
{
  return kind == TT_PRODUCT_FORWARD ? launch_group<TT_PRODUCT_FORWARD>(a, members, stream)
                                    : launch_group<TT_PRODUCT_BACKWARD>(a, members, stream);
}

/* By the tiles, or in fp32, with few results, by the kernel above, which reads an input in fewer
 * instructions (cuda/README.md): from the layer and the precision alone. */
static tt_err compute(tt_product_kind kind, const tt_front_layer_args &a, int32_t members,
                      cudaStream_t stream)
{
  const tt_conv_shape s = tt_conv_shape_of(a.layer, kind);
  return s.results >= 64 || tt_conv_precision(a, s) != TT_PRECISION_fp32
             ? tt_conv_multiply(kind, -1, a, members, stream)
             : tt_conv_read_in_place(kind, a, members, stream);
}

tt_err tt_front_conv_forward(const tt_front_layer_args &a, int32_t members, cudaStream_t stream)
{
  return compute(TT_PRODUCT_FORWARD, a, members, stream);
}

tt_err tt_front_conv_backward(const tt_front_layer_args &a, int32_t members, cudaStream_t stream)
{
  return compute(TT_PRODUCT_BACKWARD, a, members, stream);
}

tt_err tt_front_conv_gradient(const tt_front_layer_args &a, int32_t members, cudaStream_t stream)
{
  int64_t chunks = tt_layered_conv_chunks(&a.layer, a.rows);
  int fits = members * chunks * tt_front_weights(&a.layer) <= a.most_chunk_sums;
  return tt_conv_multiply_gradient(-1, fits ? (int32_t)chunks : 1, a, members, stream);
}
