/* layer_kernels.cuh — kernels of the layered path for one layer at a time.
 *
 * A launch has `parts` blocks for each member, member by member. */
#ifndef TT_LAYER_KERNELS_CUH
#define TT_LAYER_KERNELS_CUH
#include "cuda/layered/vector.cuh"

enum {
  TT_NARROW_TILE_OUTPUTS = 64, /* outputs of a block of narrow_input_forward */
  TT_NARROW_TILE_ROWS = 64,    /* its rows */
  TT_BLOCK_ELEMENTS = 1024,    /* elements per block in kernels that run over all elements */
  TT_ROW_PARTIALS = 8,         /* partial sums of a sum over rows */
  TT_LAYERED_WARPS = TT_LAYERED_THREADS / TT_WARP_SIZE
};

/* Member `m` counts from the first member of the pass; pointers are those of that member. */
typedef struct tt_layer_args {
  const int8_t *skip; /* [members] or NULL */
  const float *w;     /* the layer's weights, then its biases; next member: + params */
  const float *x;     /* [rows][in]; next member: + x_stride */
  float *y;           /* [members][rows][out] */
  float *slope;       /* same shape, f'(z); NULL if it is not stored */
  const float *h;     /* same shape, f(z) in the backward pass if f'(z) follows from it; or NULL */
  const float *delta; /* [members][rows][out] */
  float *input_delta; /* [members][rows][in] W^T delta */
  float *gradient;    /* of the layer; next member: + params */
  int64_t x_stride, params;
  int32_t rows, in, out, parts;
  tt_activation activation;
} tt_layer_args;

typedef struct tt_member_block {
  int64_t member;
  int32_t part, active;
} tt_member_block;

__device__ __forceinline__ tt_member_block tt_member_block_of(int32_t parts, const int8_t *skip)
{
  tt_member_block p;
  p.member = (int64_t)(blockIdx.x / (unsigned)parts);
  p.part = (int32_t)(blockIdx.x % (unsigned)parts);
  p.active = !skip || skip[p.member] == 0;
  return p;
}

/* y = f(z), and slope = f'(z) unless slope is NULL, for V elements. */
template <class ACTIVATION, int V>
__device__ __forceinline__ void tt_store_activations(const tt_floats<V> &z, float *y, float *slope)
{
  tt_floats<V> f;
#pragma unroll
  for (int q = 0; q < V; q++) f.v[q] = tt_act(ACTIVATION::KIND, z.v[q]);
  tt_store_floats(y, f);
  if constexpr (ACTIVATION::NEEDS_INPUT) {
    if (!slope) return;
#pragma unroll
    for (int q = 0; q < V; q++) f.v[q] = tt_act_grad(ACTIVATION::KIND, z.v[q], f.v[q]);
    tt_store_floats(slope, f);
  }
}

/* The same for one element. */
__device__ __forceinline__ void tt_store_activation(const tt_layer_args &a, int64_t at, float z)
{
  float y = tt_act(a.activation, z);
  a.y[at] = y;
  if (a.slope) a.slope[at] = tt_act_grad(a.activation, z, y);
}

/* Few inputs: a block computes TT_NARROW_TILE_OUTPUTS outputs of TT_NARROW_TILE_ROWS rows. */
static __global__ void narrow_input_forward(tt_layer_args a)
{
  TT_SHARED_MEMORY(float, w); /* [in][wide + 1] transposed */
  tt_member_block p = tt_member_block_of(a.parts, a.skip);
  if (!p.active) return;
  int32_t across = (a.out + TT_NARROW_TILE_OUTPUTS - 1) / TT_NARROW_TILE_OUTPUTS,
          threads = (int32_t)blockDim.x;
  int32_t o0 = p.part % across * TT_NARROW_TILE_OUTPUTS, r0 = p.part / across * TT_NARROW_TILE_ROWS;
  int32_t wide = a.out - o0 < TT_NARROW_TILE_OUTPUTS ? a.out - o0 : TT_NARROW_TILE_OUTPUTS;
  int32_t tall = a.rows - r0 < TT_NARROW_TILE_ROWS ? a.rows - r0 : TT_NARROW_TILE_ROWS;
  const float *from = a.w + p.member * a.params, *bias = from + (int64_t)a.in * a.out + o0;
  for (int32_t k = (int32_t)threadIdx.x; k < wide * a.in; k += threads)
    w[k % a.in * (wide + 1) + k / a.in] = from[(int64_t)o0 * a.in + k];
  __syncthreads();
  for (int32_t k = (int32_t)threadIdx.x; k < tall * wide; k += threads) {
    int32_t r = k / wide, o = k % wide;
    const float *x = a.x + p.member * a.x_stride + (int64_t)(r0 + r) * a.in;
    float z = bias[o];
    for (int32_t i = 0; i < a.in; i++) z = tt_fma(w[i * (wide + 1) + o], x[i], z);
    tt_store_activation(a, (p.member * a.rows + r0 + r) * a.out + o0 + o, z);
  }
}

/* Few outputs: one warp per row, its lanes take the inputs in turn. */
static __global__ void narrow_output_forward(tt_layer_args a)
{
  tt_member_block p = tt_member_block_of(a.parts, a.skip);
  if (!p.active) return;
  int32_t lane = (int32_t)threadIdx.x % TT_WARP_SIZE;
  int32_t row = p.part * TT_LAYERED_WARPS + (int32_t)threadIdx.x / TT_WARP_SIZE;
  if (row >= a.rows) return;
  const float *x = a.x + p.member * a.x_stride + (int64_t)row * a.in;
  const float *w = a.w + p.member * a.params, *bias = w + (int64_t)a.in * a.out;
  for (int32_t o = 0; o < a.out; o++, w += a.in) {
    float sum = 0.0f;
    for (int32_t i = lane; i < a.in; i += TT_WARP_SIZE) sum = tt_fma(w[i], x[i], sum);
    sum = tt_warp_sum(sum);
    if (lane == 0) tt_store_activation(a, (p.member * a.rows + row) * a.out + o, sum + bias[o]);
  }
}

/* After a cuBLAS product: y holds W x. V divides out, and the biases begin at a multiple of V. */
template <int V> static __global__ void add_bias(tt_layer_args a)
{
  tt_member_block p = tt_member_block_of(a.parts, a.skip);
  if (!p.active) return;
  const float *bias = a.w + p.member * a.params + (int64_t)a.in * a.out;
  uint32_t count = (uint32_t)a.rows * (uint32_t)a.out, first = (uint32_t)p.part * TT_BLOCK_ELEMENTS;
  uint32_t last = count - first < TT_BLOCK_ELEMENTS ? count : first + TT_BLOCK_ELEMENTS;
  float *y = a.y + p.member * (int64_t)count;
  float *slope = a.slope ? a.slope + p.member * (int64_t)count : NULL;
  tt_with_activation(a.activation, [&](auto activation) {
    for (uint32_t k = first + V * threadIdx.x; k < last; k += V * blockDim.x) {
      tt_floats<V> z = tt_load_floats<V>(y + k), b = tt_load_floats<V>(bias + k % (uint32_t)a.out);
#pragma unroll
      for (int q = 0; q < V; q++) z.v[q] += b.v[q];
      tt_store_activations<decltype(activation)>(z, y + k, slope ? slope + k : NULL);
    }
  });
}

/* Add rows r, r + TT_ROW_PARTIALS, ... of V columns of delta to `sum`, after multiply(at, d) has
 * multiplied them by f'(z). Returns to memory what it has changed if STORES.
 *   at  index of row 0 */
template <bool STORES, int V, class F>
__device__ __forceinline__ void tt_sum_delta_rows(const tt_layer_args &a, int64_t at, int32_t r,
                                                  tt_floats<V> &sum, F multiply)
{
#pragma unroll 4
  for (; r < a.rows; r += TT_ROW_PARTIALS) {
    int64_t here = at + (int64_t)r * a.out;
    tt_floats<V> d = tt_load_floats<V>(a.y + here);
    multiply(here, d);
    if (STORES) tt_store_floats(a.y + here, d);
#pragma unroll
    for (int q = 0; q < V; q++) sum.v[q] += d.v[q];
  }
}

/* delta *= f'(z), from slope or h unless both are NULL, and the gradient of the biases: a block has
 * 32 V outputs, its warps take the rows in turn. V as in add_bias. */
template <int V> static __global__ void delta_bias_gradient(tt_layer_args a)
{
  TT_SHARED_MEMORY(float, sums); /* [TT_ROW_PARTIALS][TT_WARP_SIZE * V] */
  enum { WIDTH = TT_WARP_SIZE * V };
  tt_member_block p = tt_member_block_of(a.parts, a.skip);
  if (!p.active) return;
  int32_t column = (int32_t)threadIdx.x % TT_WARP_SIZE * V;
  int32_t lane = (int32_t)threadIdx.x / TT_WARP_SIZE, o = p.part * WIDTH + column;
  int32_t first = o < a.out ? lane : a.rows;
  int64_t at = p.member * a.rows * a.out + o;
  tt_floats<V> sum = {};
  if (a.slope) {
    tt_sum_delta_rows<true>(a, at, first, sum, [&](int64_t here, tt_floats<V> &d) {
      tt_floats<V> slope = tt_load_floats<V>(a.slope + here);
#pragma unroll
      for (int q = 0; q < V; q++) d.v[q] *= slope.v[q];
    });
  } else if (a.h) {
    tt_with_activation(a.activation, [&](auto activation) {
      typedef decltype(activation) row;
      if constexpr (!row::NEEDS_INPUT)
        tt_sum_delta_rows<true>(a, at, first, sum, [&](int64_t here, tt_floats<V> &d) {
          tt_floats<V> h = tt_load_floats<V>(a.h + here);
#pragma unroll
          for (int q = 0; q < V; q++) d.v[q] *= tt_act_grad(row::KIND, h.v[q], h.v[q]);
        });
    });
  } else {
    tt_sum_delta_rows<false>(a, at, first, sum, [](int64_t, tt_floats<V> &) {});
  }
  tt_store_floats(sums + lane * WIDTH + column, sum);
  __syncthreads();
  if (lane || o >= a.out) return;
  for (int32_t k = 1; k < TT_ROW_PARTIALS; k++)
#pragma unroll
    for (int q = 0; q < V; q++) sum.v[q] += sums[k * WIDTH + column + q];
  tt_store_floats(a.gradient + p.member * a.params + (int64_t)a.in * a.out + o, sum);
}

/* The two factors of the gradient of a narrow layer's weights: columns of the wide one, at most
 * TT_NARROW_WIDTH of the narrow one. */
typedef struct tt_narrow_factors {
  const float *wide, *narrow; /* [rows][width], [rows][others] */
  int32_t width, others;
  int32_t wide_step, narrow_step; /* from one weight of W [out][in] to the next */
} tt_narrow_factors;

__device__ __forceinline__ tt_narrow_factors tt_narrow_factors_of(const tt_layer_args &a,
                                                                  int64_t member)
{
  const float *x = a.x + member * a.x_stride, *delta = a.delta + member * a.rows * a.out;
  tt_narrow_factors by_input = {x, delta, a.in, a.out, 1, a.in};
  tt_narrow_factors by_output = {delta, x, a.out, a.in, a.in, 1};
  return a.out < a.in ? by_input : by_output;
}

/* Gradient of the weights of a narrow layer: a block has 32 columns of the wide factor and all of
 * the narrow one, so that both are read once; its warps take the rows in turn. */
static __global__ void narrow_weight_gradient(tt_layer_args a)
{
  TT_SHARED_MEMORY(float, shared); /* [rows of a tile][TT_NARROW_WIDTH], then the sums: see below */
  enum { ROWS = TT_NARROW_TILE_ROWS, OTHERS = TT_NARROW_WIDTH };
  tt_member_block p = tt_member_block_of(a.parts, a.skip);
  if (!p.active) return;
  tt_narrow_factors of = tt_narrow_factors_of(a, p.member);
  int32_t t = (int32_t)threadIdx.x, lane = t / TT_WARP_SIZE;
  int32_t column = p.part * TT_WARP_SIZE + t % TT_WARP_SIZE;
  float sum[OTHERS] = {};
  for (int32_t first = 0; first < a.rows; first += ROWS) {
    int32_t tall = a.rows - first < ROWS ? a.rows - first : ROWS;
    for (int32_t k = t; k < tall * of.others; k += TT_LAYERED_THREADS)
      shared[k / of.others * OTHERS + k % of.others] = of.narrow[(int64_t)first * of.others + k];
    __syncthreads();
    for (int32_t r = lane; column < of.width && r < tall; r += TT_ROW_PARTIALS) {
      float wide = of.wide[(int64_t)(first + r) * of.width + column];
#pragma unroll
      for (int32_t j = 0; j < OTHERS; j += TT_VECTOR) {
        if (j >= of.others) break;
        float4 narrow = tt_load4(shared + r * OTHERS + j);
        sum[j] = tt_fma(wide, narrow.x, sum[j]);
        sum[j + 1] = tt_fma(wide, narrow.y, sum[j + 1]);
        sum[j + 2] = tt_fma(wide, narrow.z, sum[j + 2]);
        sum[j + 3] = tt_fma(wide, narrow.w, sum[j + 3]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int32_t j = 0; j < OTHERS; j++) /* [others][TT_ROW_PARTIALS][TT_WARP_SIZE] */
    if (j < of.others) shared[j * TT_LAYERED_THREADS + t] = sum[j];
  __syncthreads();
  for (int32_t j = lane; column < of.width && j < of.others; j += TT_LAYERED_WARPS) {
    const float *part = shared + j * TT_LAYERED_THREADS + t % TT_WARP_SIZE;
    float all = part[0];
    for (int32_t k = 1; k < TT_ROW_PARTIALS; k++) all += part[k * TT_WARP_SIZE];
    a.gradient[p.member * a.params + (int64_t)column * of.wide_step + j * of.narrow_step] = all;
  }
}

/* input_delta = W^T delta of a narrow layer. V divides in, and W begins at a multiple of V. */
template <int V> static __global__ void narrow_input_gradient(tt_layer_args a)
{
  tt_member_block p = tt_member_block_of(a.parts, a.skip);
  if (!p.active) return;
  const float *w = a.w + p.member * a.params;
  const float *delta = a.delta + p.member * a.rows * a.out;
  uint32_t count = (uint32_t)a.rows * (uint32_t)a.in, first = (uint32_t)p.part * TT_BLOCK_ELEMENTS;
  uint32_t last = count - first < TT_BLOCK_ELEMENTS ? count : first + TT_BLOCK_ELEMENTS;
  for (uint32_t k = first + V * threadIdx.x; k < last; k += V * blockDim.x) {
    uint32_t r = k / (uint32_t)a.in, i = k % (uint32_t)a.in;
    const float *d = delta + (int64_t)r * a.out;
    tt_floats<V> sum = {};
    for (int32_t o = 0; o < a.out; o++) {
      tt_floats<V> weight = tt_load_floats<V>(w + (int64_t)o * a.in + i);
#pragma unroll
      for (int q = 0; q < V; q++) sum.v[q] = tt_fma(weight.v[q], d[o], sum.v[q]);
    }
    tt_store_floats(a.input_delta + p.member * (int64_t)count + k, sum);
  }
}
#endif
