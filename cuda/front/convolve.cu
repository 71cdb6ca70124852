/* convolve.cu — convolutions of a front: forward, dL/d(inputs), dL/d(weights). Products read their
 * inputs where they are; nothing is copied into another order. See front.cuh. */
#include "cuda/front/front_layer.cuh"

enum {
  PANEL = 2048,        /* weights in shared memory: 8 KiB */
  GRADIENT_OUTPUTS = 8 /* output channels of a block of the gradient */
};

typedef enum direction { FORWARD, BACKWARD } direction;

/* A group of a conv: sums over `inner` channels and the positions of the kernel. Backward, results
 * are dL/d(inputs), and the inner channels those of dL/dz. */
typedef struct group_shape {
  int32_t results, inner;            /* channels */
  int32_t places, from_places, taps; /* positions of a result, an inner channel, the kernel */
  int32_t result_step, inner_step;   /* of the weights, from one channel to the next */
} group_shape;

template <direction D> TT_HD group_shape shape_of(const tt_front_layer &l)
{
  int32_t out = l.channels / l.groups, in = l.in_channels / l.groups;
  int32_t taps = l.size[0] * l.size[1];
  group_shape forward = {out, in, l.out[0] * l.out[1], l.in[0] * l.in[1], taps, in * taps, taps};
  group_shape backward = {in, out, forward.from_places, forward.places, taps, taps, in * taps};
  return D == FORWARD ? forward : backward;
}

/* Copy the weights of T results from number k on to a panel [.][T]; zeros where a result is
 * missing. Weight k belongs to inner channel k % inner and position k / inner of the kernel. */
template <int T>
__device__ __forceinline__ void load_panel(const group_shape &s, const float *w, int32_t results,
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
template <direction D, int T>
__device__ __forceinline__ void convolve(const tt_front_layer &l, const group_shape &s,
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
      int32_t input = position < 0   ? -1
                      : D == FORWARD ? tt_front_position_read(&l, position, tap)
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
template <direction D, int T> static __global__ void convolve_group(tt_front_layer_args a)
{
  TT_SHARED_MEMORY(float, panel); /* [PANEL] */
  tt_front_block b = tt_front_block_of(a);
  const tt_front_layer &l = a.layer;
  const group_shape s = shape_of<D>(l);
  if (!b.active) return;
  int32_t tiles = (s.results + T - 1) / T, tile = b.part % (tiles * l.groups);
  int32_t group = tile / tiles, first = tile % tiles * T, left = s.results - first;
  int32_t place = b.part / (tiles * l.groups) * TT_FRONT_THREADS + (int32_t)threadIdx.x;
  int32_t row = place / s.places, position = row < a.rows ? place % s.places : -1;
  int64_t inner = (int64_t)l.groups * s.inner * s.from_places;
  const float *w = a.w + b.member * a.w_step + l.weight;
  w += (int64_t)group * l.channels / l.groups * (l.in_channels / l.groups) * s.taps;
  const float *x = D == FORWARD ? a.x + b.member * a.x_step : a.d + b.member * a.d_step;
  if (position >= 0) x += row * inner + (int64_t)group * s.inner * s.from_places;
  float sum[T];
  const float *bias = a.w + b.member * a.w_step + l.bias + group * s.results + first;
  int biased = D == FORWARD && l.bias >= 0;
#pragma unroll
  for (int o = 0; o < T; o++) sum[o] = biased && o < left ? bias[o] : 0.0f;
  convolve<D, T>(l, s, w + (int64_t)first * s.result_step, left, x, position, panel, sum);
  if (position < 0) return;
  int32_t index = ((row * l.groups + group) * s.results + first) * s.places + position;
  float *result = a.result + b.member * a.step + index;
#pragma unroll
  for (int o = 0; o < T; o++)
    if (o < left) result[o * s.places] = sum[o];
#pragma unroll 1
  for (int o = 0; o < T && o < left; o++) {
    if (D == FORWARD)
      tt_front_finish_forward(a, b.member, index + o * s.places, result[o * s.places]);
    else
      tt_front_finish_backward(a, b.member, index + o * s.places, result[o * s.places]);
  }
}

template <direction D, int T>
static tt_err launch_tiles(const tt_front_layer_args &a, int32_t members, cudaStream_t stream)
{
  group_shape s = shape_of<D>(a.layer);
  int64_t parts = (int64_t)a.layer.groups * ((s.results + T - 1) / T);
  parts *= tt_grid_size((int64_t)a.rows * s.places, TT_FRONT_THREADS);
  return tt_front_launch(convolve_group<D, T>, a, parts, members, PANEL * sizeof(float), stream);
}

/* With as many results of a thread as there are, up to 16; their number changes no bit. */
template <direction D>
static tt_err launch_group(const tt_front_layer_args &a, int32_t members, cudaStream_t stream)
{
  int32_t results = shape_of<D>(a.layer).results;
  if (results > 8) return launch_tiles<D, 16>(a, members, stream);
  if (results > 4) return launch_tiles<D, 8>(a, members, stream);
  return launch_tiles<D, 4>(a, members, stream);
}

tt_err tt_front_conv_forward(const tt_front_layer_args &a, int32_t members, cudaStream_t stream)
{
  return launch_group<FORWARD>(a, members, stream);
}

tt_err tt_front_conv_backward(const tt_front_layer_args &a, int32_t members, cudaStream_t stream)
{
  return launch_group<BACKWARD>(a, members, stream);
}

/* Distance of channel k from the first one; that of the last channel where there is none. */
static __device__ int32_t channel_at(int32_t k, int32_t channels, int32_t places)
{
  return (k < channels ? k : channels - 1) * places;
}

/* The thread's part of the sums over rows and positions of d[o] x[i]; sums of channels that are not
 * there are those of the last one. */
template <int I>
__device__ __forceinline__ void add_rows(const tt_front_layer &l, int32_t rows, const float *d,
                                         int32_t outputs, const float *x, int32_t inputs,
                                         int32_t tap, float (&sum)[GRADIENT_OUTPUTS][I])
{
  int32_t places = tt_front_places(l), from_places = tt_front_places_in(l);
  int64_t step_d = (int64_t)l.channels * places, step_x = (int64_t)l.in_channels * from_places;
  tt_front_share s = tt_front_share_of(places);
  for (int32_t p = s.position; p < places; p += s.places_step) {
    const float *at_d[GRADIENT_OUTPUTS], *at_x[I];
    int32_t input = tt_front_position_read(&l, p, tap);
    if (input < 0) continue;
#pragma unroll
    for (int o = 0; o < GRADIENT_OUTPUTS; o++)
      at_d[o] = d + s.row * step_d + channel_at(o, outputs, places) + p;
#pragma unroll
    for (int i = 0; i < I; i++)
      at_x[i] = x + s.row * step_x + channel_at(i, inputs, from_places) + input;
    for (int32_t r = s.row; r < rows; r += s.rows_step) {
      float v[I];
#pragma unroll
      for (int i = 0; i < I; i++) v[i] = *at_x[i], at_x[i] += s.rows_step * step_x;
#pragma unroll
      for (int o = 0; o < GRADIENT_OUTPUTS; o++) {
        float delta = *at_d[o];
        at_d[o] += s.rows_step * step_d;
#pragma unroll
        for (int i = 0; i < I; i++) sum[o][i] = tt_fma(delta, v[i], sum[o][i]);
      }
    }
  }
}

/* A block has the weights of some output and I input channels at one position of the kernel. Its
 * threads divide rows and positions, and their sums are added lane by lane, then warp by warp. */
template <int I> static __global__ void convolve_gradient(tt_front_layer_args a)
{
  TT_SHARED_MEMORY(float, sums); /* [TT_FRONT_WARPS][GRADIENT_OUTPUTS * I] */
  enum { SUMS = GRADIENT_OUTPUTS * I };
  tt_front_block b = tt_front_block_of(a);
  const tt_front_layer &l = a.layer;
  const group_shape s = shape_of<FORWARD>(l);
  if (!b.active) return;
  int32_t across = (s.inner + I - 1) / I, t = (int32_t)threadIdx.x;
  int32_t down = (s.results + GRADIENT_OUTPUTS - 1) / GRADIENT_OUTPUTS;
  int32_t tap = b.part % s.taps, tile = b.part / s.taps;
  int32_t input = tile % across * I, output = tile / across % down * GRADIENT_OUTPUTS;
  int32_t group = tile / (across * down);
  const float *d = a.d + b.member * a.d_step + (int64_t)(group * s.results + output) * s.places;
  const float *x = a.x + b.member * a.x_step + (int64_t)(group * s.inner + input) * s.from_places;
  float sum[GRADIENT_OUTPUTS][I] = {};
  add_rows<I>(l, a.rows, d, s.results - output, x, s.inner - input, tap, sum);
#pragma unroll
  for (int k = 0; k < SUMS; k++) {
    float all = tt_warp_sum(sum[k / I][k % I]);
    if (t % TT_WARP_SIZE == 0) sums[t / TT_WARP_SIZE * SUMS + k] = all;
  }
  __syncthreads();
  int32_t o = output + t / I, i = input + t % I;
  if (t >= SUMS || o >= s.results || i >= s.inner) return;
  float all = sums[t];
  for (int warp = 1; warp < TT_FRONT_WARPS; warp++) all += sums[warp * SUMS + t];
  a.gradient[b.member * a.w_step + l.weight + (int64_t)(group * s.results + o) * s.result_step +
             i * s.inner_step + tap] = all;
}

template <int I>
static tt_err launch_gradient(const tt_front_layer_args &a, int32_t members, cudaStream_t stream)
{
  group_shape s = shape_of<FORWARD>(a.layer);
  int64_t parts = (int64_t)a.layer.groups * ((s.inner + I - 1) / I) * s.taps;
  parts *= (s.results + GRADIENT_OUTPUTS - 1) / GRADIENT_OUTPUTS;
  return tt_front_launch(convolve_gradient<I>, a, parts, members,
                         TT_FRONT_WARPS * GRADIENT_OUTPUTS * I * sizeof(float), stream);
}

tt_err tt_front_conv_gradient(const tt_front_layer_args &a, int32_t members, cudaStream_t stream)
{
  return a.layer.in_channels / a.layer.groups < 4 ? launch_gradient<1>(a, members, stream)
                                                  : launch_gradient<4>(a, members, stream);
}
