/* products_tile.cuh — the three products of a layer inside one thread block, in register tiles.
 * Device code.
 *
 * All arrays are row-major in shared memory. A lane sums TM rows x TN columns, the 32 lanes of a
 * warp cover 32 rows x TM TN columns, and the tiles are distributed over the warps. float4 values
 * are read along the inner index where it is contiguous, else along the columns. Row strides are
 * odd numbers of float4 (block_plan.h), so that lanes on neighboring rows have no bank conflict.
 *
 * Columns past the end of a layer are summed from valid memory and dropped. Values behind the
 * last column of a row, or in rows past the batch, enter no result. */
#ifndef TT_PRODUCTS_TILE_CUH
#define TT_PRODUCTS_TILE_CUH
#include "cuda/common/device.cuh"
#include "cuda/plan/block_plan.h"

#include "core/formulas/elementwise.h"

/* A matrix [rows][ld] in shared memory. */
typedef struct tt_block_matrix {
  float *at;
  int ld;
} tt_block_matrix;

__device__ __forceinline__ int tt_block_warp_index() { return (int)threadIdx.x / TT_WARP_SIZE; }
__device__ __forceinline__ int tt_block_warp_count() { return (int)blockDim.x / TT_WARP_SIZE; }
__device__ __forceinline__ int tt_block_lane_index() { return (int)threadIdx.x % TT_WARP_SIZE; }

/* Position of a lane in a warp's tile. */
template <int TM, int TN> struct tt_block_lane_layout {
  enum { DOWN = TT_BLOCK_TILE_ROWS / TM, ACROSS = TT_WARP_SIZE / DOWN, WIDTH = ACROSS * TN };

  static __device__ __forceinline__ int down() { return tt_lane_down<ACROSS>(); }
  static __device__ __forceinline__ int across() { return tt_lane_across<ACROSS>(); }
};

/* The products below apply relu themselves, because it takes one or two instructions. All other
 * activations are applied after the product, by functions of block_pass.cuh. */
__device__ __forceinline__ float tt_relu(float z) { return tt_act(TT_ACT_relu, z); }
__device__ __forceinline__ float tt_relu_slope(float y) { return tt_act_grad(TT_ACT_relu, y, y); }

/* forward: Z = X W^T + b */

/* sum[i][j] += sum over k of a[i][k] * b[j][k], k ascending. */
template <int TM, int TN>
__device__ __forceinline__ void tt_block_dot_products(const float *const (&a)[TM],
                                                      const float *const (&b)[TN], int count,
                                                      float (&sum)[TM][TN])
{
  int k = 0;
#pragma unroll 1
  for (; k + 4 <= count; k += 4) {
    float4 u[TM];
#pragma unroll
    for (int i = 0; i < TM; i++) u[i] = tt_load4(a[i] + k);
#pragma unroll
    for (int j = 0; j < TN; j++) {
      float4 v = tt_load4(b[j] + k);
#pragma unroll
      for (int i = 0; i < TM; i++) {
        sum[i][j] = tt_fma(u[i].x, v.x, sum[i][j]);
        sum[i][j] = tt_fma(u[i].y, v.y, sum[i][j]);
        sum[i][j] = tt_fma(u[i].z, v.z, sum[i][j]);
        sum[i][j] = tt_fma(u[i].w, v.w, sum[i][j]);
      }
    }
  }
#pragma unroll 1
  for (; k < count; k++) {
    float u[TM];
#pragma unroll
    for (int i = 0; i < TM; i++) u[i] = a[i][k];
#pragma unroll
    for (int j = 0; j < TN; j++) {
      float v = b[j][k];
#pragma unroll
      for (int i = 0; i < TM; i++) sum[i][j] = tt_fma(u[i], v, sum[i][j]);
    }
  }
}

/*   w     padded parameters [Q];   x [rows][in] -> z [rows][out]
 *   relu  1: z is relu of the sums */
template <int TM, int TN>
__device__ __forceinline__ void tt_block_forward(const tt_block_layer &layer, const float *w,
                                                 tt_block_matrix x, tt_block_matrix z, int rows,
                                                 int relu)
{
  typedef tt_block_lane_layout<TM, TN> lanes;
  int down = (rows + TT_BLOCK_TILE_ROWS - 1) / TT_BLOCK_TILE_ROWS;
  int items = down * ((layer.out + lanes::WIDTH - 1) / lanes::WIDTH);
  for (int item = tt_block_warp_index(); item < items; item += tt_block_warp_count()) {
    int row = item % down * TT_BLOCK_TILE_ROWS + lanes::down();
    int column = item / down * lanes::WIDTH + lanes::across();
    const float *a[TM], *b[TN];
    float sum[TM][TN];
#pragma unroll
    for (int i = 0; i < TM; i++) a[i] = x.at + (row + i * lanes::DOWN) * x.ld;
#pragma unroll
    for (int j = 0; j < TN; j++) {
      int o = min(column + j * lanes::ACROSS, layer.out - 1);
      b[j] = w + layer.weight + o * layer.stride;
#pragma unroll
      for (int i = 0; i < TM; i++) sum[i][j] = w[layer.bias + o];
    }
    tt_block_dot_products<TM, TN>(a, b, layer.in, sum);
    if (relu)
#pragma unroll
      for (int k = 0; k < TM * TN; k++) sum[k / TN][k % TN] = tt_relu(sum[k / TN][k % TN]);
#pragma unroll
    for (int j = 0; j < TN; j++) {
      int o = column + j * lanes::ACROSS;
      if (o >= layer.out) break;
#pragma unroll
      for (int i = 0; i < TM; i++) z.at[(row + i * lanes::DOWN) * z.ld + o] = sum[i][j];
    }
  }
}

/* backward: H = (D W) * slope */

/* V neighboring floats: one float4, or one float. */
template <int V> struct tt_block_vector {
  float v[V];
};
__device__ __forceinline__ tt_block_vector<1> tt_load_vector(const float *place, tt_block_vector<1>)
{
  tt_block_vector<1> x = {{*place}};
  return x;
}
__device__ __forceinline__ tt_block_vector<4> tt_load_vector(const float *place, tt_block_vector<4>)
{
  float4 f = tt_load4(place);
  tt_block_vector<4> x = {{f.x, f.y, f.z, f.w}};
  return x;
}
__device__ __forceinline__ void tt_store_vector(float *place, tt_block_vector<1> x)
{
  *place = x.v[0];
}
__device__ __forceinline__ void tt_store_vector(float *place, tt_block_vector<4> x)
{
  tt_store4(place, make_float4(x.v[0], x.v[1], x.v[2], x.v[3]));
}

/* sum[i][j] += a[i] * row[column of j], for one row of W. */
template <int TM, int TN, int V>
__device__ __forceinline__ void tt_block_outer_product(const float (&a)[TM], const float *row,
                                                       const int (&column)[TN / V],
                                                       float (&sum)[TM][TN])
{
#pragma unroll
  for (int c = 0; c < TN / V; c++) {
    tt_block_vector<V> b = tt_load_vector(row + column[c], tt_block_vector<V>());
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
      for (int q = 0; q < V; q++) sum[i][c * V + q] = tt_fma(a[i], b.v[q], sum[i][c * V + q]);
  }
}

/* sum[i][j] += sum over o of d[i][o] * w[o][column of j], o ascending. */
template <int TM, int TN, int V>
__device__ __forceinline__ void
tt_block_outer_products(const float *const (&d)[TM], const float *w, int stride, int count,
                        const int (&column)[TN / V], float (&sum)[TM][TN])
{
  int o = 0;
#pragma unroll 1
  for (; o + 4 <= count; o += 4) {
    float u[4][TM];
#pragma unroll
    for (int i = 0; i < TM; i++) {
      float4 f = tt_load4(d[i] + o);
      u[0][i] = f.x, u[1][i] = f.y, u[2][i] = f.z, u[3][i] = f.w;
    }
#pragma unroll
    for (int q = 0; q < 4; q++)
      tt_block_outer_product<TM, TN, V>(u[q], w + (o + q) * stride, column, sum);
  }
#pragma unroll 1
  for (; o < count; o++) {
    float u[TM];
#pragma unroll
    for (int i = 0; i < TM; i++) u[i] = d[i][o];
    tt_block_outer_product<TM, TN, V>(u, w + o * stride, column, sum);
  }
}

/* h[rows][in] = (d[rows][out] W) * slope[rows][in]; slope may be h itself.
 *   relu  1: `slope` has outputs of relu, from which the slopes follow */
template <int TM, int TN>
__device__ __forceinline__ void tt_block_backward(const tt_block_layer &layer, const float *w,
                                                  tt_block_matrix d, tt_block_matrix h,
                                                  const float *slope, int rows, int relu)
{
  typedef tt_block_lane_layout<TM, TN> lanes;
  enum { V = TN < 4 ? 1 : 4, C = TN / V };
  int down = (rows + TT_BLOCK_TILE_ROWS - 1) / TT_BLOCK_TILE_ROWS;
  int items = down * ((layer.in + lanes::WIDTH - 1) / lanes::WIDTH);
  int last = (layer.in + V - 1) / V * V - V; /* last column at which a read may begin */
  for (int item = tt_block_warp_index(); item < items; item += tt_block_warp_count()) {
    int row = item % down * TT_BLOCK_TILE_ROWS + lanes::down();
    int first = item / down * lanes::WIDTH + lanes::across() * V;
    const float *a[TM];
    int column[C];
    float sum[TM][TN] = {};
#pragma unroll
    for (int i = 0; i < TM; i++) a[i] = d.at + (row + i * lanes::DOWN) * d.ld;
#pragma unroll
    for (int c = 0; c < C; c++) column[c] = min(first + c * lanes::ACROSS * V, last);
    tt_block_outer_products<TM, TN, V>(a, w + layer.weight, layer.stride, layer.out, column, sum);
#pragma unroll
    for (int c = 0; c < C; c++) {
      if (first + c * lanes::ACROSS * V > last) break;
#pragma unroll
      for (int i = 0; i < TM; i++) {
        int index = (row + i * lanes::DOWN) * h.ld + column[c];
        tt_block_vector<V> x = tt_load_vector(slope + index, tt_block_vector<V>());
#pragma unroll
        for (int q = 0; q < V; q++)
          x.v[q] = (relu ? tt_relu_slope(x.v[q]) : x.v[q]) * sum[i][c * V + q];
        tt_store_vector(h.at + index, x);
      }
    }
  }
}

/* gradient: G (+)= D^T X, gb (+)= column sums of D */

/* Rows [first, end) of a piece of a batch; empty for a group behind the last row. */
typedef struct tt_block_row_range {
  int first, end;
} tt_block_row_range;

__device__ __forceinline__ tt_block_row_range tt_block_group_rows(const tt_block_layer &layer,
                                                                  int rows, int group)
{
  tt_block_row_range s = {min(rows, group * layer.share), min(rows, (group + 1) * layer.share)};
  return s;
}

/* A warp's tile of 32 outputs x WIDTH inputs; the parts of a lane are float4 apart, as it reads
 * them. */
template <int TM, int TN> struct tt_block_weight_gradient_tile {
  typedef tt_block_lane_layout<TM, TN> lanes;
  int o[TM / 4], i[TN / 4];
  float sum[TM][TN];

  static __device__ __forceinline__ int count(const tt_block_layer &layer)
  {
    return (layer.out + TT_BLOCK_TILE_ROWS - 1) / TT_BLOCK_TILE_ROWS *
           ((layer.in + lanes::WIDTH - 1) / lanes::WIDTH);
  }

  __device__ __forceinline__ void add_rows(const tt_block_layer &layer, int tile, tt_block_matrix d,
                                           tt_block_matrix x, tt_block_row_range rows)
  {
    int down = (layer.out + TT_BLOCK_TILE_ROWS - 1) / TT_BLOCK_TILE_ROWS;
    const float *dr = d.at + rows.first * d.ld, *xr = x.at + rows.first * x.ld;
    int read[TM / 4], wanted[TN / 4]; /* where reads begin: never past the padded row */
#pragma unroll
    for (int c = 0; c < TM / 4; c++) {
      o[c] = tile % down * TT_BLOCK_TILE_ROWS + (c * lanes::DOWN + lanes::down()) * 4;
      read[c] = min(o[c], (layer.out - 1) / 4 * 4);
    }
#pragma unroll
    for (int c = 0; c < TN / 4; c++) {
      i[c] = tile / down * lanes::WIDTH + (c * lanes::ACROSS + lanes::across()) * 4;
      wanted[c] = min(i[c], (layer.in - 1) / 4 * 4);
    }
#pragma unroll
    for (int a = 0; a < TM; a++)
#pragma unroll
      for (int b = 0; b < TN; b++) sum[a][b] = 0.0f;
#pragma unroll 2
    for (int r = rows.first; r < rows.end; r++, dr += d.ld, xr += x.ld) {
      float u[TM];
#pragma unroll
      for (int c = 0; c < TM / 4; c++) {
        float4 f = tt_load4(dr + read[c]);
        u[4 * c] = f.x, u[4 * c + 1] = f.y, u[4 * c + 2] = f.z, u[4 * c + 3] = f.w;
      }
      tt_block_outer_product<TM, TN, 4>(u, xr, wanted, sum);
    }
  }

  /* Write into the padded gradient; the padding stays zero. */
  __device__ __forceinline__ void store(const tt_block_layer &layer, float *g, int first) const
  {
#pragma unroll
    for (int a = 0; a < TM; a++) {
      int out = o[a / 4] + a % 4;
      if (out >= layer.out) continue;
#pragma unroll
      for (int c = 0; c < TN / 4; c++) {
        float *place = g + layer.weight + out * layer.stride + i[c];
        if (i[c] >= layer.in) continue;
        float4 old = first ? make_float4(0.0f, 0.0f, 0.0f, 0.0f) : tt_load4(place);
        old.x += sum[a][4 * c];
        if (i[c] + 1 < layer.in) old.y += sum[a][4 * c + 1];
        if (i[c] + 2 < layer.in) old.z += sum[a][4 * c + 2];
        if (i[c] + 3 < layer.in) old.w += sum[a][4 * c + 3];
        tt_store4(place, old);
      }
    }
  }
};

/* For narrow layers: 32 consecutive weights, one per lane. */
template <> struct tt_block_weight_gradient_tile<1, 1> {
  int index;
  float sum;

  static __device__ __forceinline__ int count(const tt_block_layer &layer)
  {
    return (layer.out * layer.in + TT_WARP_SIZE - 1) / TT_WARP_SIZE;
  }

  __device__ __forceinline__ void add_rows(const tt_block_layer &layer, int tile, tt_block_matrix d,
                                           tt_block_matrix x, tt_block_row_range rows)
  {
    index = tile * TT_WARP_SIZE + tt_block_lane_index();
    int own = min(index, layer.out * layer.in - 1);
    const float *dr = d.at + rows.first * d.ld + own / layer.in;
    const float *xr = x.at + rows.first * x.ld + own % layer.in;
    sum = 0.0f;
#pragma unroll 4
    for (int r = rows.first; r < rows.end; r++, dr += d.ld, xr += x.ld) sum = tt_fma(*dr, *xr, sum);
  }

  __device__ __forceinline__ void store(const tt_block_layer &layer, float *g, int first) const
  {
    if (index >= layer.out * layer.in) return;
    float *dst = g + layer.weight + index / layer.in * layer.stride + index % layer.in;
    *dst = (first ? 0.0f : *dst) + sum;
  }
};

/* Sums over groups of rows begin at zero; the groups add them to the gradient one after the other,
 * with a barrier in between. All threads take part.
 *   TILE   tile type of a warp
 *   apart  floats between the gradients of the groups, which are added elsewhere; 0: they are added
 *          here
 *   first  1: overwrite the gradient; 0: add to it */
template <class TILE>
__device__ __forceinline__ void tt_block_weight_gradient(const tt_block_layer &layer,
                                                         tt_block_matrix d, tt_block_matrix x,
                                                         int rows, float *g, int apart, int first)
{
  TILE mine;
  int tiles = mine.count(layer), warps = tt_block_warp_count(), items = tiles * layer.groups;
#pragma unroll 1
  for (int base = 0; base < items; base += warps) {
    int item = base + tt_block_warp_index(), group = item / tiles;
    mine.add_rows(layer, item % tiles, d, x, tt_block_group_rows(layer, rows, group));
    if (apart) {
      if (group < layer.groups) mine.store(layer, g + group * apart, 1);
      continue;
    }
    int last = (min(base + warps, items) - 1) / tiles;
#pragma unroll 1
    for (int turn = base / tiles; turn <= last; turn++) {
      if (turn == group) mine.store(layer, g, first && turn == 0);
      if (layer.groups > 1) __syncthreads();
    }
  }
}

/* Column sums of D, over the same groups, in an order that does not depend on the number of
 * warps: a group has four parts, part s has the rows s, s + 4, ..., and its sum is (0 + 1) + (2
 * + 3). The lanes of a warp take a power of two of columns, as many groups as there are lanes
 * left, and the four parts of each. */
__device__ __forceinline__ void tt_block_bias_gradient(const tt_block_layer &layer,
                                                       tt_block_matrix d, int rows, float *g,
                                                       int apart, int first)
{
  enum { PARTS = 4, PLACES = TT_WARP_SIZE / PARTS };
  int columns = 1, lane = tt_block_lane_index(), warps = tt_block_warp_count();
  while (columns < PLACES && columns * warps < layer.out) columns *= 2;
  int column = lane % columns, own = lane % PLACES / columns, at_once = PLACES / columns;
  for (int c = tt_block_warp_index() * columns; c < layer.out; c += warps * columns) {
    int o = min(c + column, layer.out - 1), stores = c + column < layer.out;
    float total = first || apart ? 0.0f : g[layer.bias + o];
#pragma unroll 1
    for (int group = 0; group < layer.groups; group += at_once) {
      tt_block_row_range range = tt_block_group_rows(layer, rows, group + own);
      float sum = 0.0f;
#pragma unroll 4
      for (int r = range.first + lane / PLACES; r < range.end; r += PARTS)
        sum += d.at[r * d.ld + o];
      sum += tt_shuffle_xor(sum, PLACES);
      sum += tt_shuffle_xor(sum, 2 * PLACES);
      if (apart) {
        if (lane < PLACES && stores && group + own < layer.groups)
          g[(group + own) * apart + layer.bias + o] = 0.0f + sum;
        continue;
      }
      int more = min(at_once, layer.groups - group);
      for (int k = 0; k < more; k++) total += tt_shuffle_from(sum, k * columns + column);
    }
    if (!apart && lane < columns && stores) g[layer.bias + o] = total;
  }
}
#endif
