/* layer_extras.cuh — kernels of the layered path for the parts of a layer beyond y = f(W x + b):
 *   y = mask f(norm(W x + b)) / (1 - p) + x
 * with layer_norm, dropout and residual, each only if the model or the member uses it.
 *
 * Forward: the product has written z to y; a warp processes four rows. The slope is f'(n) times
 * the mask, so that dropout costs nothing in the backward pass. */
#ifndef TT_LAYER_EXTRAS_CUH
#define TT_LAYER_EXTRAS_CUH
#include "cuda/layered/rows.cuh"

#include "core/formulas/layer_norm.h"

enum {
  TT_DROPOUT_DRAW_ROWS = 4, /* rows per warp: those that share one random draw of dropout */
  TT_ROW_PARTIALS = 8,      /* partial sums of a sum over rows */
  TT_LAYERED_WARPS = TT_LAYERED_THREADS / TT_WARP_SIZE
};

typedef struct tt_member_block {
  int64_t member;
  int32_t part, active;
} tt_member_block;

/* A launch has `parts` blocks for each member, member by member. */
__device__ __forceinline__ tt_member_block tt_member_block_of(int32_t parts, const int8_t *skip)
{
  tt_member_block p;
  p.member = (int64_t)(blockIdx.x / (unsigned)parts);
  p.part = (int32_t)(blockIdx.x % (unsigned)parts);
  p.active = !skip || skip[p.member] == 0;
  return p;
}

/* Member `m` counts from `first`, the first member of the pass; pointers are those of that
 * member. */
typedef struct tt_layer_extras_args {
  tt_cuda_state v;
  const int8_t *skip;      /* [members] or NULL */
  const float *gain;       /* [out], then the shifts; next member: + params; NULL: no layer_norm */
  const float *x;          /* [rows][in] if the layer is residual, else NULL; next: + x_stride */
  float *y, *slope, *xhat; /* [members][rows][out]; slope and xhat in a training step, else NULL */
  float *rstd;             /* [members][rows] 1 / standard deviation, with xhat */
  float *delta;            /* [members][rows][out] in the backward pass */
  float *gradient;         /* of the gains, then of the shifts; next member: + params */
  int64_t x_stride, params;
  int32_t first, rows, out, parts;
  int32_t unit;         /* index of the layer's first unit among all hidden units */
  int32_t uses_dropout; /* 1: the layer has dropout */
  tt_activation activation;
  int32_t batch_part;        /* part of the batch that the rows are */
  tt_batch_norm_rows *batch; /* [members] of describe_batches */
} tt_layer_extras_args;

/* Dropout of one layer of one member in its running step. */
typedef struct tt_dropout_draw_args {
  uint64_t seed, stream;
  int64_t step;
  uint32_t batch_size, first; /* the first row of the pass in the batch */
  float p, scale;             /* 1 / (1 - p) */
} tt_dropout_draw_args;

__device__ __forceinline__ tt_dropout_draw_args tt_dropout_args_of(const tt_layer_extras_args &a,
                                                                   int64_t member)
{
  int i = a.first + (int)member;
  tt_dropout_draw_args d;
  d.seed = tt_cuda_member_seed(a.v, i);
  d.stream = a.v.member[i].stream;
  d.step = a.v.step[i];
  d.batch_size = (uint32_t)a.v.batch_size;
  d.p = a.uses_dropout ? a.v.member[i].hyper.dropout : 0.0f;
  d.scale = 1.0f / (1.0f - d.p);
  d.first = a.v.batch_parts > 1 ? (uint32_t)tt_next_rows(a.v, i, a.batch_part).first : 0;
  return d;
}

/* One row of z becomes gain (z - mean) / sd + shift. All lanes of a warp take part; a lane
 * computes the units that it uses next. */
__device__ __forceinline__ void tt_layer_norm_row(const tt_layer_extras_args &a, const float *gain,
                                                  int64_t row)
{
  int32_t lane = (int32_t)threadIdx.x % TT_WARP_SIZE;
  float *z = a.y + row * a.out, sum = 0.0f, squares = 0.0f, share = 1.0f / (float)a.out;
  for (int32_t o = lane; o < a.out; o += TT_WARP_SIZE) sum += z[o];
  float mean = tt_warp_sum(sum) * share;
  for (int32_t o = lane; o < a.out; o += TT_WARP_SIZE)
    squares = tt_fma(z[o] - mean, z[o] - mean, squares);
  float rstd = tt_layer_norm_inverse_std(tt_warp_sum(squares), share);
  for (int32_t o = lane; o < a.out; o += TT_WARP_SIZE) {
    float xhat = tt_layer_norm_normalized(z[o], mean, rstd);
    if (a.xhat) a.xhat[row * a.out + o] = xhat;
    z[o] = tt_layer_norm_output(xhat, gain[o], gain[a.out + o]);
  }
  if (a.rstd && lane == 0) a.rstd[row] = rstd;
}

static __global__ void layer_extras_forward(tt_layer_extras_args a)
{
  tt_member_block p = tt_member_block_of(a.parts, a.skip);
  if (!p.active) return;
  int32_t lane = (int32_t)threadIdx.x % TT_WARP_SIZE;
  int32_t warp = p.part * TT_LAYERED_WARPS + (int32_t)threadIdx.x / TT_WARP_SIZE;
  int32_t begin = warp * TT_DROPOUT_DRAW_ROWS;
  int32_t left = a.rows - begin, rows = left < TT_DROPOUT_DRAW_ROWS ? left : TT_DROPOUT_DRAW_ROWS;
  int64_t row = p.member * a.rows + begin;
  tt_dropout_draw_args dropout_args = tt_dropout_args_of(a, p.member);
  for (int32_t r = 0; a.gain && r < rows; r++)
    tt_layer_norm_row(a, a.gain + p.member * a.params, row + r);
  for (int32_t o = lane; o < a.out; o += TT_WARP_SIZE) {
    tt_random4 draw = {};
    if (dropout_args.p > 0.0f)
      draw = tt_dropout_draw(dropout_args.seed, dropout_args.stream, dropout_args.step,
                             (uint32_t)(a.unit + o), dropout_args.first + (uint32_t)begin,
                             dropout_args.batch_size);
#pragma unroll
    for (int32_t r = 0; r < TT_DROPOUT_DRAW_ROWS; r++) {
      if (r >= rows) break;
      int64_t offset = (row + r) * a.out + o;
      float z = a.y[offset], y = tt_act(a.activation, z), slope = tt_act_grad(a.activation, z, y);
      if (dropout_args.p > 0.0f) {
        float mask = tt_uniform(draw.v[r]) >= dropout_args.p ? dropout_args.scale : 0.0f;
        y *= mask;
        slope *= mask;
      }
      if (a.slope) a.slope[offset] = slope;
      a.y[offset] = a.x ? y + a.x[p.member * a.x_stride + (int64_t)(begin + r) * a.out + o] : y;
    }
  }
}

/* Factors of the channels that a front drops, in y [members][rows][out]: a thread has one of `out`
 * channels of four rows. */
static __global__ void draw_channel_masks(tt_layer_extras_args a)
{
  tt_member_block p = tt_member_block_of(a.parts, a.skip);
  int32_t k = p.part * TT_LAYERED_THREADS + (int32_t)threadIdx.x, c = k % a.out;
  int32_t begin = k / a.out * TT_DROPOUT_DRAW_ROWS;
  if (!p.active || begin >= a.rows) return;
  tt_dropout_draw_args args = tt_dropout_args_of(a, p.member);
  tt_random4 draw = tt_dropout_draw(args.seed, args.stream, args.step, (uint32_t)(a.unit + c),
                                    args.first + (uint32_t)begin, args.batch_size);
  for (int32_t r = 0; r < TT_DROPOUT_DRAW_ROWS && begin + r < a.rows; r++)
    a.y[(p.member * a.rows + begin + r) * a.out + c] =
        tt_uniform(draw.v[r]) >= args.p ? args.scale : 0.0f;
}

/* What batch_norm needs of the part of the batch; one block per member. */
static __global__ void describe_batches(tt_layer_extras_args a)
{
  tt_member_block p = tt_member_block_of(a.parts, a.skip);
  if (!p.active || threadIdx.x) return;
  tt_batch_rows rows = tt_next_rows(a.v, a.first + p.member, a.batch_part);
  int32_t parts = a.v.batch_parts < rows.batch ? a.v.batch_parts : rows.batch;
  a.batch[p.member].rows = rows.count;
  a.batch[p.member].running_share =
      rows.count ? tt_batch_norm_share(a.v.batch_parts > 1 ? a.batch_part : 0, parts) : 0.0f;
}

/* The gradients of gains and shifts from dL/dn: a block has 32 units, its warps take the rows in
 * turn. */
static __global__ void layer_norm_gradient(tt_layer_extras_args a)
{
  TT_SHARED_MEMORY(float, sums); /* [2][TT_ROW_PARTIALS][TT_WARP_SIZE] */
  tt_member_block p = tt_member_block_of(a.parts, a.skip);
  if (!p.active) return;
  int32_t column = (int32_t)threadIdx.x % TT_WARP_SIZE, lane = (int32_t)threadIdx.x / TT_WARP_SIZE;
  int32_t o = p.part * TT_WARP_SIZE + column;
  float gain = 0.0f, shift = 0.0f;
  for (int32_t r = lane; o < a.out && r < a.rows; r += TT_ROW_PARTIALS) {
    int64_t offset = (p.member * a.rows + r) * a.out + o;
    float d = a.delta[offset];
    gain = tt_fma(d, a.xhat[offset], gain);
    shift += d;
  }
  sums[threadIdx.x] = gain;
  sums[TT_LAYERED_THREADS + threadIdx.x] = shift;
  __syncthreads();
  if (lane || o >= a.out) return;
  for (int32_t k = 1; k < TT_ROW_PARTIALS; k++) {
    gain += sums[k * TT_WARP_SIZE + column];
    shift += sums[TT_LAYERED_THREADS + k * TT_WARP_SIZE + column];
  }
  float *dst = a.gradient + p.member * a.params;
  dst[o] = gain;
  dst[a.out + o] = shift;
}

/* dL/dn -> dL/dz of a layer_norm; one warp per row. */
static __global__ void layer_norm_backward(tt_layer_extras_args a)
{
  tt_member_block p = tt_member_block_of(a.parts, a.skip);
  if (!p.active) return;
  int32_t lane = (int32_t)threadIdx.x % TT_WARP_SIZE;
  int32_t r = p.part * TT_LAYERED_WARPS + (int32_t)threadIdx.x / TT_WARP_SIZE;
  if (r >= a.rows) return;
  int64_t row = p.member * a.rows + r;
  float *d = a.delta + row * a.out, plain = 0.0f, along = 0.0f;
  const float *xhat = a.xhat + row * a.out, *gain = a.gain + p.member * a.params;
  for (int32_t o = lane; o < a.out; o += TT_WARP_SIZE) {
    float g = gain[o] * d[o];
    plain += g;
    along = tt_fma(g, xhat[o], along);
  }
  float share = 1.0f / (float)a.out;
  plain = tt_warp_sum(plain) * share;
  along = tt_warp_sum(along) * share;
  for (int32_t o = lane; o < a.out; o += TT_WARP_SIZE)
    d[o] = tt_layer_norm_delta(gain[o] * d[o], plain, along, xhat[o], a.rstd[row]);
}
#endif
