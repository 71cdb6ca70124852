/* forward_tile.cuh — dense layers of one member over a tile of rows, for evaluation and prediction.
 * Device code. The arithmetic does not depend on the path that trained the member.
 *
 * A tile is feature-major, [feature][TT_TILE_ROWS], in two buffers as wide as the widest layer,
 * which the layers fill in turn. Products add in index order from the bias on, as in every
 * engine. */
#ifndef TT_FORWARD_TILE_CUH
#define TT_FORWARD_TILE_CUH
#include "cuda/common/device.cuh"

#include "core/formulas/layer_norm.h"
#include "core/model/model.h"

enum { TT_TILE_ROWS = 2 * TT_WARP_SIZE, TT_TILE_THREADS = 128, TT_TILE_OUTPUTS = 4 };

/* Floats of the buffers of one block. */
static inline int64_t tt_tile_floats(const tt_model *model)
{
  int64_t widest = model->layer[0].in;
  for (int l = 0; l < model->layers; l++)
    widest = model->layer[l].out > widest ? model->layer[l].out : widest;
  return 2 * widest * TT_TILE_ROWS;
}

/* Load rows x[row[0..count)][inputs], or x[0..count)[inputs] without a list, into a tile; the
 * rows behind them are zero. */
__device__ __forceinline__ void tt_tile_load(const float *x, int32_t inputs, const int32_t *row,
                                             int32_t count, float *dst)
{
  for (int32_t k = (int32_t)threadIdx.x; k < inputs * TT_TILE_ROWS; k += (int32_t)blockDim.x) {
    int32_t r = k % TT_TILE_ROWS, i = k / TT_TILE_ROWS;
    int64_t source = r < count ? (row ? row[r] : r) : 0;
    dst[k] = r < count ? x[source * inputs + i] : 0.0f;
  }
}

/* Add to z the products of all inputs, in ascending order, V inputs at a time; V divides their
 * number, and rows of W begin at a multiple of V.
 *   a  rows of W;   x  the first of the thread's two rows of the tile */
template <int V>
__device__ __forceinline__ void tt_tile_dot_products(const float *const (&a)[TT_TILE_OUTPUTS],
                                                     const float *x, int32_t in,
                                                     float2 (&z)[TT_TILE_OUTPUTS])
{
  for (int32_t i = 0; i < in; i += V) {
    float2 u[V];
#pragma unroll
    for (int32_t k = 0; k < V; k++) u[k] = tt_load2(x + (i + k) * TT_TILE_ROWS);
#pragma unroll
    for (int32_t j = 0; j < TT_TILE_OUTPUTS; j++) {
      float v[V];
      if constexpr (V == 4) {
        float4 f = tt_load4(a[j] + i);
        v[0] = f.x, v[1] = f.y, v[2] = f.z, v[3] = f.w;
      } else {
        v[0] = a[j][i];
      }
#pragma unroll
      for (int32_t k = 0; k < V; k++) {
        z[j].x = tt_fma(v[k], u[k].x, z[j].x);
        z[j].y = tt_fma(v[k], u[k].y, z[j].y);
      }
    }
  }
}

/* One layer. A thread computes two neighboring rows and TT_TILE_OUTPUTS outputs at a time, so that
 * each value read is used several times; outputs past the last one repeat it and are dropped.
 *   w  parameters of the member, at a multiple of 16 bytes */
__device__ __forceinline__ void tt_tile_layer(const tt_layer &layer, tt_activation activation,
                                              const float *w, const float *x, float *y)
{
  int32_t row = 2 * ((int32_t)threadIdx.x % TT_WARP_SIZE), in = (int32_t)layer.in,
          out = (int32_t)layer.out, vectors = in % 4 == 0 && layer.weight % 4 == 0;
  int32_t first = TT_TILE_OUTPUTS * ((int32_t)threadIdx.x / TT_WARP_SIZE);
  for (int32_t o = first; o < out; o += TT_TILE_OUTPUTS * ((int32_t)blockDim.x / TT_WARP_SIZE)) {
    const float *a[TT_TILE_OUTPUTS];
    float2 z[TT_TILE_OUTPUTS];
#pragma unroll
    for (int32_t j = 0; j < TT_TILE_OUTPUTS; j++) {
      int32_t index = o + j < out ? o + j : out - 1;
      a[j] = w + layer.weight + (int64_t)index * in;
      z[j].x = z[j].y = w[layer.bias + index];
    }
    if (vectors)
      tt_tile_dot_products<4>(a, x + row, in, z);
    else
      tt_tile_dot_products<1>(a, x + row, in, z);
#pragma unroll
    for (int32_t j = 0; j < TT_TILE_OUTPUTS; j++)
      if (o + j < out)
        tt_store2(y + (o + j) * TT_TILE_ROWS + row,
                  make_float2(tt_act(activation, z[j].x), tt_act(activation, z[j].y)));
  }
}

/* z of one layer with a layer_norm, in place: a thread has one row. */
__device__ __forceinline__ void tt_tile_layer_norm(const tt_layer &layer, const float *w, float *y)
{
  int32_t out = (int32_t)layer.out;
  const float *gain = w + layer.norm, *shift = gain + out;
  for (int32_t r = (int32_t)threadIdx.x; r < TT_TILE_ROWS; r += (int32_t)blockDim.x) {
    float *z = y + r, sum = 0.0f, squares = 0.0f, share = 1.0f / (float)out;
    for (int32_t o = 0; o < out; o++) sum += z[o * TT_TILE_ROWS];
    float mean = sum * share;
    for (int32_t o = 0; o < out; o++) {
      float d = z[o * TT_TILE_ROWS] - mean;
      squares = tt_fma(d, d, squares);
    }
    float inverse_std = tt_layer_norm_inverse_std(squares, share);
    for (int32_t o = 0; o < out; o++) {
      float normalized = tt_layer_norm_normalized(z[o * TT_TILE_ROWS], mean, inverse_std);
      z[o * TT_TILE_ROWS] = tt_layer_norm_output(normalized, gain[o], shift[o]);
    }
  }
}

/* layer_norm, activation and residual of a layer; y holds z. */
__device__ __forceinline__ void tt_tile_layer_extras(const tt_layer &layer, const float *w,
                                                     const float *x, float *y)
{
  int32_t count = (int32_t)layer.out * TT_TILE_ROWS;
  if (layer.norm >= 0) tt_tile_layer_norm(layer, w, y);
  __syncthreads();
  for (int32_t k = (int32_t)threadIdx.x; k < count; k += (int32_t)blockDim.x) {
    float f = tt_act(layer.activation, y[k]);
    y[k] = layer.residual ? f + x[k] : f;
  }
}

/* All layers, from the tile at `buffer` on. All threads take part; there is a barrier before the
 * first layer and after every one. Returns the outputs [O][TT_TILE_ROWS], inside the buffer.
 *   floats  tt_tile_floats */
__device__ __forceinline__ const float *tt_tile_forward(const tt_model &model, const float *w,
                                                        float *buffer, int64_t floats)
{
  float *x = buffer, *y = buffer + floats / 2;
  __syncthreads();
  for (int l = 0; l < model.layers; l++) {
    const tt_layer &layer = model.layer[l];
    int plain = layer.norm < 0 && !layer.residual;
    tt_tile_layer(layer, plain ? layer.activation : TT_ACT_identity, w, x, y);
    __syncthreads();
    if (!plain) {
      tt_tile_layer_extras(layer, w, x, y);
      __syncthreads();
    }
    float *swap = x;
    x = y;
    y = swap;
  }
  return x;
}

/* Where the blocks of a launch keep their tiles: in shared memory if a tile fits, else in a
 * scratch array in device memory, whose size limits the number of blocks. A kernel has a version
 * for each, so that the compiler knows the kind of memory. */
typedef struct tt_tile_plan {
  int64_t floats; /* per block */
  int64_t blocks;
  size_t shared_bytes;
  float *scratch; /* [blocks][floats], or NULL; owned: tt_tile_plan_free */
} tt_tile_plan;

/* work      number of blocks of work
 *   reserved  bytes of shared memory that the kernel needs besides the tile
 * Errors: MEM. */
tt_err tt_tile_plan_make(const tt_dev *dev, const tt_model *model, int64_t work, size_t reserved,
                         tt_tile_plan *out);
void tt_tile_plan_free(tt_tile_plan *plan);
#endif
