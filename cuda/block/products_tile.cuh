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

/* a = b * quotient + remainder, for a small quotient: without the long division of a GPU. */
typedef struct tt_block_quotient {
  int quotient, remainder;
} tt_block_quotient;
__device__ __forceinline__ tt_block_quotient tt_block_divide(int a, int b)
{
  tt_block_quotient x = {0, a};
#pragma unroll 1
  for (; x.remainder >= b; x.remainder -= b) x.quotient++;
  return x;
}

/* Position of a lane in a warp's tile. */
template <int TM, int TN> struct tt_block_lane_layout {
  enum { DOWN = TT_BLOCK_TILE_ROWS / TM, ACROSS = TT_WARP_SIZE / DOWN, WIDTH = ACROSS * TN };

  static __device__ __forceinline__ int down() { return tt_lane_down<ACROSS>(); }
  static __device__ __forceinline__ int across() { return tt_lane_across<ACROSS>(); }
};

/* Part q of four neighbors, for q that is known to the compiler. */
__device__ __forceinline__ float tt_part_of(const float4 &f, int q)
{
  return q < 2 ? (q ? f.y : f.x) : (q == 2 ? f.z : f.w);
}

/* The products below apply relu themselves, because it takes one or two instructions. All other
 * activations are applied after the product, by functions of block_pass.cuh. */
__device__ __forceinline__ float tt_relu(float z) { return tt_act(TT_ACT_relu, z); }
__device__ __forceinline__ float tt_relu_slope(float y) { return tt_act_grad(TT_ACT_relu, y, y); }

/* forward: Z = X W^T + b */

/* Four neighboring floats from each pointer on. */
template <int T>
__device__ __forceinline__ void tt_block_load_parts(const float *const (&from)[T], float4 (&u)[T])
{
#pragma unroll
  for (int i = 0; i < T; i++) u[i] = tt_load4(from[i]);
}

/* Move the pointers by `step` floats. */
template <int T> __device__ __forceinline__ void tt_block_advance(const float *(&a)[T], int step)
{
#pragma unroll
  for (int i = 0; i < T; i++) a[i] += step;
}

/* sum[i][j] += sum over k of a[i][k] * b[j][k], k ascending. */
template <int TM, int TN>
__device__ __forceinline__ void tt_block_dot_products(const float *(&a)[TM], const float *(&b)[TN],
                                                      int count, float (&sum)[TM][TN])
{
  enum { STEPS = TM * TN == 32 ? 1 : 2 }; /* a kernel with 8 x 4 tiles has half of the registers */
#pragma unroll(STEPS)
  for (int left = count / 4; left > 0; left--) {
    float4 u[TM];
    tt_block_load_parts<TM>(a, u);
#pragma unroll
    for (int j = 0; j < TN; j++) {
      float4 v = tt_load4(b[j]);
#pragma unroll
      for (int i = 0; i < TM; i++) {
        sum[i][j] = tt_fma(u[i].x, v.x, sum[i][j]);
        sum[i][j] = tt_fma(u[i].y, v.y, sum[i][j]);
        sum[i][j] = tt_fma(u[i].z, v.z, sum[i][j]);
        sum[i][j] = tt_fma(u[i].w, v.w, sum[i][j]);
      }
    }
    tt_block_advance<TM>(a, 4);
    tt_block_advance<TN>(b, 4);
  }
#pragma unroll 1
  for (int k = 0; k < count % 4; k++)
#pragma unroll
    for (int j = 0; j < TN; j++) {
      float v = b[j][k];
#pragma unroll
      for (int i = 0; i < TM; i++) sum[i][j] = tt_fma(a[i][k], v, sum[i][j]);
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
    tt_block_quotient place = tt_block_divide(item, down);
    int row = place.remainder * TT_BLOCK_TILE_ROWS + lanes::down();
    int column = place.quotient * lanes::WIDTH + lanes::across();
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
    float *target = z.at + row * z.ld + column;
#pragma unroll
    for (int k = 0; k < TM * TN; k++) {
      int i = k % TM, j = k / TM;
      if (column + j * lanes::ACROSS < layer.out)
        target[i * lanes::DOWN * z.ld + j * lanes::ACROSS] = sum[i][j];
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
tt_block_outer_products(const float *(&d)[TM], const float *w, int stride, int count,
                        const int (&column)[TN / V], float (&sum)[TM][TN])
{
  enum { STEPS = TM * TN == 32 ? 1 : 2 }; /* a kernel with 8 x 4 tiles has half of the registers */
#pragma unroll(STEPS)
  for (int left = count / 4; left > 0; left--, w += 4 * stride) {
    float4 u[TM];
    tt_block_load_parts<TM>(d, u);
#pragma unroll
    for (int q = 0; q < 4; q++) {
      float a[TM];
#pragma unroll
      for (int i = 0; i < TM; i++) a[i] = tt_part_of(u[i], q);
      tt_block_outer_product<TM, TN, V>(a, w + q * stride, column, sum);
    }
    tt_block_advance<TM>(d, 4);
  }
#pragma unroll 1
  for (int o = 0; o < count % 4; o++) {
    float a[TM];
#pragma unroll
    for (int i = 0; i < TM; i++) a[i] = d[i][o];
    tt_block_outer_product<TM, TN, V>(a, w + o * stride, column, sum);
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
    tt_block_quotient place = tt_block_divide(item, down);
    int row = place.remainder * TT_BLOCK_TILE_ROWS + lanes::down();
    int first = place.quotient * lanes::WIDTH + lanes::across() * V;
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
      int index = row * h.ld + column[c], down = lanes::DOWN * h.ld;
      tt_block_vector<V> x[TM]; /* all loads are in flight at the same time */
#pragma unroll
      for (int i = 0; i < TM; i++)
        x[i] = tt_load_vector(slope + index + i * down, tt_block_vector<V>());
#pragma unroll
      for (int i = 0; i < TM; i++) {
#pragma unroll
        for (int q = 0; q < V; q++)
          x[i].v[q] = (relu ? tt_relu_slope(x[i].v[q]) : x[i].v[q]) * sum[i][c * V + q];
        tt_store_vector(h.at + index + i * down, x[i]);
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
  enum { PARTS = TM / 4 }; /* in which it is stored */
  int o[TM / 4], i[TN / 4];
  int outs, ins, stride; /* from this lane's first weight on */
  float *place;
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
    int left = rows.end - rows.first;
    tt_block_quotient place = tt_block_divide(tile, down);
    const float *dr[TM / 4], *xr[TN / 4]; /* a read never begins past the padded row */
#pragma unroll
    for (int c = 0; c < TM / 4; c++) {
      o[c] = place.remainder * TT_BLOCK_TILE_ROWS + (c * lanes::DOWN + lanes::down()) * 4;
      dr[c] = d.at + rows.first * d.ld + min(o[c], (layer.out - 1) / 4 * 4);
    }
#pragma unroll
    for (int c = 0; c < TN / 4; c++) {
      i[c] = place.quotient * lanes::WIDTH + (c * lanes::ACROSS + lanes::across()) * 4;
      xr[c] = x.at + rows.first * x.ld + min(i[c], (layer.in - 1) / 4 * 4);
    }
#pragma unroll
    for (int a = 0; a < TM; a++)
#pragma unroll
      for (int b = 0; b < TN; b++) sum[a][b] = 0.0f;
#pragma unroll 2
    for (; left > 0; left--) {
      float4 u[TM / 4], v[TN / 4];
      tt_block_load_parts<TM / 4>(dr, u);
      tt_block_load_parts<TN / 4>(xr, v);
      tt_block_advance<TM / 4>(dr, d.ld);
      tt_block_advance<TN / 4>(xr, x.ld);
      add_row(u, v);
    }
    if (layer.in % 4) clear_padding(layer);
  }

  __device__ __forceinline__ void add_row(const float4 (&u)[TM / 4], const float4 (&v)[TN / 4])
  {
#pragma unroll
    for (int a = 0; a < TM; a++)
#pragma unroll
      for (int c = 0; c < TN / 4; c++) {
        float d = tt_part_of(u[a / 4], a % 4);
        sum[a][4 * c] = tt_fma(d, v[c].x, sum[a][4 * c]);
        sum[a][4 * c + 1] = tt_fma(d, v[c].y, sum[a][4 * c + 1]);
        sum[a][4 * c + 2] = tt_fma(d, v[c].z, sum[a][4 * c + 2]);
        sum[a][4 * c + 3] = tt_fma(d, v[c].w, sum[a][4 * c + 3]);
      }
  }

  /* Terms of inputs that do not exist come from undefined values. */
  __device__ __forceinline__ void clear_padding(const tt_block_layer &layer)
  {
#pragma unroll
    for (int b = 0; b < TN; b++)
#pragma unroll
      for (int a = 0; a < TM; a++)
        if (i[b / 4] + b % 4 >= layer.in) sum[a][b] = 0.0f;
  }

  /* Before store: where the padded gradient is. */
  __device__ __forceinline__ void locate(const tt_block_layer &layer, float *g)
  {
    place = g + layer.weight + o[0] * layer.stride + i[0];
    stride = layer.stride;
    outs = layer.out - o[0];
    ins = layer.in - i[0];
  }

  /* Write part q, four outputs of each lane, into the gradient; the padding stays zero. */
  __device__ __forceinline__ void store(int first, int q) const
  {
    int below = 4 * lanes::DOWN * q, before = 4 * lanes::ACROSS * (TN / 4 - 1);
    if (outs >= below + 4 && ins > before)
      store_some(first, q, 4, lanes::WIDTH);
    else if (outs > below && ins > 0)
      store_some(first, q, outs - below, ins);
  }

  /* The same for `outs` of four outputs and the inputs below `ins`. */
  __device__ __forceinline__ void store_some(int first, int q, int outs, int ins) const
  {
    float4 total[4][TN / 4] = {}; /* all loads are in flight at the same time */
    float *part = place + 4 * lanes::DOWN * q * stride;
    if (!first)
#pragma unroll
      for (int k = 0; k < TN; k++)
        if (k % 4 < outs && 4 * lanes::ACROSS * (k / 4) < ins)
          total[k % 4][k / 4] = tt_load4(part + k % 4 * stride + 4 * lanes::ACROSS * (k / 4));
#pragma unroll
    for (int k = 0; k < TN; k++) {
      float4 t = total[k % 4][k / 4];
      const float *own = sum[4 * q + k % 4] + 4 * (k / 4);
      if (k % 4 < outs && 4 * lanes::ACROSS * (k / 4) < ins)
        tt_store4(part + k % 4 * stride + 4 * lanes::ACROSS * (k / 4),
                  make_float4(t.x + own[0], t.y + own[1], t.z + own[2], t.w + own[3]));
    }
  }
};

/* For narrow layers: 32 consecutive weights, one per lane. */
template <> struct tt_block_weight_gradient_tile<1, 1> {
  enum { PARTS = 1 };
  int place; /* where the weight is in the padded parameters; -1: the lane has none */
  float *gradient;
  float sum;

  static __device__ __forceinline__ int count(const tt_block_layer &layer)
  {
    return (layer.out * layer.in + TT_WARP_SIZE - 1) / TT_WARP_SIZE;
  }

  __device__ __forceinline__ void add_rows(const tt_block_layer &layer, int tile, tt_block_matrix d,
                                           tt_block_matrix x, tt_block_row_range rows)
  {
    int index = tile * TT_WARP_SIZE + tt_block_lane_index(), exists = index < layer.out * layer.in;
    int o = exists ? index / layer.in : 0, i = exists ? index - o * layer.in : 0;
    const float *dr = d.at + rows.first * d.ld + o, *xr = x.at + rows.first * x.ld + i;
    place = exists ? layer.weight + o * layer.stride + i : -1;
    sum = 0.0f;
#pragma unroll 8
    for (int left = rows.end - rows.first; left > 0; left--, dr += d.ld, xr += x.ld)
      sum = tt_fma(*dr, *xr, sum);
  }

  __device__ __forceinline__ void locate(const tt_block_layer &, float *g) { gradient = g + place; }
  __device__ __forceinline__ void store(int first, int) const
  {
    if (place >= 0) *gradient = (first ? 0.0f : *gradient) + sum;
  }
};

/* Sum of column o of D: four parts, part s has the rows s, s + 4, ..., and the sum is
 * (0 + 1) + (2 + 3). */
__device__ __forceinline__ float tt_block_column_sum(tt_block_matrix d, int o,
                                                     tt_block_row_range rows)
{
  enum { AHEAD = 16 }; /* loads in flight at the same time */
  float part[4] = {}, v[AHEAD];
  const float *value = d.at + rows.first * d.ld + o;
  int left = rows.end - rows.first;
#pragma unroll 1
  for (; left >= AHEAD; left -= AHEAD, value += AHEAD * d.ld) {
#pragma unroll
    for (int r = 0; r < AHEAD; r++) v[r] = value[r * d.ld];
#pragma unroll
    for (int r = 0; r < AHEAD; r++) part[r % 4] += v[r];
  }
  if (left > 0)
#pragma unroll
    for (int r = 0; r < AHEAD - 1; r++)
      if (r < left) part[r % 4] += value[r * d.ld];
  return (part[0] + part[1]) + (part[2] + part[3]);
}

/* Sums over groups of rows begin at zero; the groups add them to the gradient one after the other,
 * part by part, with a barrier in between: while one group adds a part, the next one adds the part
 * before. The warps with the first tiles also sum 32 biases each. All threads take part.
 *   TILE   tile type of a warp
 *   apart  floats between the gradients of the groups, which are added elsewhere; 0: they are added
 *          here
 *   first  1: overwrite the gradient; 0: add to it */
template <class TILE>
__device__ __forceinline__ void tt_block_gradient(const tt_block_layer &layer, tt_block_matrix d,
                                                  tt_block_matrix x, int rows, float *g, int apart,
                                                  int first)
{
  TILE mine;
  int tiles = mine.count(layer), warps = tt_block_warp_count(), items = tiles * layer.groups;
#pragma unroll 1
  for (int base = 0; base < items; base += warps) {
    tt_block_quotient item = tt_block_divide(base + tt_block_warp_index(), tiles);
    int group = item.quotient, o = item.remainder * TT_WARP_SIZE + tt_block_lane_index();
    tt_block_row_range range = tt_block_group_rows(layer, rows, group);
    float bias = o < layer.out ? tt_block_column_sum(d, o, range) : 0.0f;
    mine.add_rows(layer, item.remainder, d, x, range);
    int start = tt_block_divide(base, tiles).quotient, turns = TILE::PARTS;
    if (!apart) turns += tt_block_divide(min(base + warps, items) - 1, tiles).quotient - start;
    int own = !apart ? group - start : group < layer.groups ? 0 : -TILE::PARTS;
    int overwrites = apart || (first && group == 0);
    float *place = g + group * apart, *b = place + layer.bias + o;
    mine.locate(layer, place);
#pragma unroll 1
    for (int turn = 0; turn < turns; turn++) {
      int adds = turn == own && o < layer.out;
      /* Loaded before the weights are stored: a load after them would wait for the stores. */
      float total = adds && !overwrites ? *b : 0.0f;
#pragma unroll
      for (int q = 0; q < TILE::PARTS; q++)
        if (turn == own + q) mine.store(overwrites, q);
      if (adds) *b = total + bias;
      if (!apart && layer.groups > 1) __syncthreads();
    }
  }
}
#endif
