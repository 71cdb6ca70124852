/* layer_kernels.cuh — kernels of the layered path for one layer at a time.
 *
 * A launch has `parts` blocks for each member, member by member. */
#ifndef TT_LAYER_KERNELS_CUH
#define TT_LAYER_KERNELS_CUH
#include "cuda/layered/layered_internal.cuh"

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
  float *slope;       /* same shape, f'(z), or NULL */
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

/* y = f(z), slope = f'(z). */
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

/* After a cuBLAS product: y holds W x. */
static __global__ void add_bias(tt_layer_args a)
{
  tt_member_block p = tt_member_block_of(a.parts, a.skip);
  if (!p.active) return;
  const float *bias = a.w + p.member * a.params + (int64_t)a.in * a.out;
  uint32_t count = (uint32_t)a.rows * (uint32_t)a.out, first = (uint32_t)p.part * TT_BLOCK_ELEMENTS;
  uint32_t last = count - first < TT_BLOCK_ELEMENTS ? count : first + TT_BLOCK_ELEMENTS;
  int64_t base = p.member * (int64_t)count;
  for (uint32_t k = first + threadIdx.x; k < last; k += blockDim.x)
    tt_store_activation(a, base + k, a.y[base + k] + bias[k % (uint32_t)a.out]);
}

/* delta *= slope, unless slope is NULL, and the gradient of the biases: a block has 32 outputs,
 * its warps take the rows in turn. */
static __global__ void delta_bias_gradient(tt_layer_args a)
{
  TT_SHARED_MEMORY(float, sums); /* [TT_ROW_PARTIALS][TT_WARP_SIZE] */
  tt_member_block p = tt_member_block_of(a.parts, a.skip);
  if (!p.active) return;
  int32_t column = (int32_t)threadIdx.x % TT_WARP_SIZE, lane = (int32_t)threadIdx.x / TT_WARP_SIZE;
  int32_t o = p.part * TT_WARP_SIZE + column;
  float sum = 0.0f;
  for (int32_t r = lane; o < a.out && r < a.rows; r += TT_ROW_PARTIALS) {
    int64_t at = (p.member * a.rows + r) * a.out + o;
    if (a.slope) a.y[at] *= a.slope[at];
    sum += a.y[at];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (lane || o >= a.out) return;
  for (int32_t k = 1; k < TT_ROW_PARTIALS; k++) sum += sums[k * TT_WARP_SIZE + column];
  a.gradient[p.member * a.params + (int64_t)a.in * a.out + o] = sum;
}

/* Gradient of the weights of a narrow layer: a block has 32 of them, its warps take the rows in
 * turn. */
static __global__ void narrow_weight_gradient(tt_layer_args a)
{
  TT_SHARED_MEMORY(float, sums); /* [TT_ROW_PARTIALS][TT_WARP_SIZE] */
  tt_member_block p = tt_member_block_of(a.parts, a.skip);
  if (!p.active) return;
  int32_t column = (int32_t)threadIdx.x % TT_WARP_SIZE, lane = (int32_t)threadIdx.x / TT_WARP_SIZE;
  int32_t k = p.part * TT_WARP_SIZE + column, count = a.in * a.out, o = k / a.in, i = k % a.in;
  const float *x = a.x + p.member * a.x_stride + i;
  const float *delta = a.delta + p.member * a.rows * a.out + o;
  float sum = 0.0f;
  for (int32_t r = lane; k < count && r < a.rows; r += TT_ROW_PARTIALS)
    sum = tt_fma(delta[(int64_t)r * a.out], x[(int64_t)r * a.in], sum);
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (lane || k >= count) return;
  for (int32_t j = 1; j < TT_ROW_PARTIALS; j++) sum += sums[j * TT_WARP_SIZE + column];
  a.gradient[p.member * a.params + k] = sum;
}

/* input_delta = W^T delta of a narrow layer. */
static __global__ void narrow_input_gradient(tt_layer_args a)
{
  tt_member_block p = tt_member_block_of(a.parts, a.skip);
  if (!p.active) return;
  const float *w = a.w + p.member * a.params;
  const float *delta = a.delta + p.member * a.rows * a.out;
  uint32_t count = (uint32_t)a.rows * (uint32_t)a.in, first = (uint32_t)p.part * TT_BLOCK_ELEMENTS;
  uint32_t last = count - first < TT_BLOCK_ELEMENTS ? count : first + TT_BLOCK_ELEMENTS;
  for (uint32_t k = first + threadIdx.x; k < last; k += blockDim.x) {
    uint32_t r = k / (uint32_t)a.in, i = k % (uint32_t)a.in;
    const float *d = delta + (int64_t)r * a.out;
    float sum = 0.0f;
    for (int32_t o = 0; o < a.out; o++) sum = tt_fma(w[(int64_t)o * a.in + i], d[o], sum);
    a.input_delta[p.member * (int64_t)count + k] = sum;
  }
}
#endif
