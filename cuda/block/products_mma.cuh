/* products_mma.cuh — the three products of a layer inside one thread block, on tensor cores. Device
 * code. The arrays and the distribution of work over warps are those of products_tile.cuh.
 *
 * A warp sums 32 rows x 8 N columns in fragments of 16 x 8 (mma.cuh). Terms past the end of the
 * inner dimension count as zero. For rows and columns past the end of a layer, the last one or
 * unused memory is read and the result is dropped.
 *
 * Rows of a matrix are an odd number of float4 apart. To read different banks, a lane has the
 * inner indices pair and pair + 4 where a fragment runs along rows, and 2 pair and 2 pair + 1
 * where it runs along columns. */
#ifndef TT_PRODUCTS_MMA_CUH
#define TT_PRODUCTS_MMA_CUH
#include "cuda/block/products_tile.cuh"
#include "cuda/common/mma.cuh"

/* Size of a warp's tile: fragments down (M), columns (WIDTH). */
template <int N> struct tt_block_mma_tile {
  enum { M = TT_BLOCK_TILE_ROWS / TT_MMA_ROWS, WIDTH = N * TT_MMA_COLUMNS };
};

/* Layout of fragments in the arrays; it decides which two of eight inner indices a lane has. */
enum tt_block_inner_layout { TT_INNER_CONTIGUOUS, TT_INNER_STRIDED };

__device__ __forceinline__ int tt_block_mma_row() { return tt_block_lane_index() / 4; }
__device__ __forceinline__ int tt_block_mma_pair() { return tt_block_lane_index() % 4; }

/* Add eight terms to all sums, from inner index k of this lane on; LAST: terms past `count` are 0.
 *   a(r, k)  of row 8 r of the lane's rows;   b(j, k)  of column 8 j of its columns */
template <tt_block_inner_layout INNER, bool LAST, int M, int N, class A, class B>
__device__ __forceinline__ void tt_block_mma_inner_step(float (&sum)[M][N][4], int k, int count,
                                                        A a, B b)
{
  enum { NEXT = INNER == TT_INNER_CONTIGUOUS ? TT_MMA_INNER / 2 : 1 };
  tt_mma_fragment<4> u[M];
  tt_mma_fragment<2> v[N];
#pragma unroll
  for (int i = 0; i < M; i++)
#pragma unroll
    for (int q = 0; q < 4; q++) {
      int index = k + q / 2 * NEXT;
      u[i].v[q] = tt_round_to_tf32(LAST && index >= count ? 0.0f : a(2 * i + q % 2, index));
    }
#pragma unroll
  for (int j = 0; j < N; j++)
#pragma unroll
    for (int q = 0; q < 2; q++) {
      int index = k + q * NEXT;
      v[j].v[q] = tt_round_to_tf32(LAST && index >= count ? 0.0f : b(j, index));
    }
  tt_mma_multiply_add(sum, u, v);
}

/* sum += a b over the inner indices [0, count). */
template <tt_block_inner_layout INNER, int M, int N, class A, class B>
__device__ __forceinline__ void tt_block_mma_sum(float (&sum)[M][N][4], int count, A a, B b)
{
  int own = tt_block_mma_pair() * (INNER == TT_INNER_CONTIGUOUS ? 1 : 2), done = 0;
#pragma unroll 1
  for (; done + TT_MMA_INNER <= count; done += TT_MMA_INNER)
    tt_block_mma_inner_step<INNER, false>(sum, done + own, count, a, b);
  if (done < count) tt_block_mma_inner_step<INNER, true>(sum, done + own, count, a, b);
}

/* Z = X W^T + b; see tt_block_forward. */
template <int N>
__device__ __forceinline__ void tt_block_mma_forward(const tt_block_layer &layer, const float *w,
                                                     tt_block_matrix x, tt_block_matrix z, int rows,
                                                     int relu)
{
  typedef tt_block_mma_tile<N> tile;
  int down = (rows + TT_BLOCK_TILE_ROWS - 1) / TT_BLOCK_TILE_ROWS;
  int items = down * ((layer.out + tile::WIDTH - 1) / tile::WIDTH);
  for (int item = tt_block_warp_index(); item < items; item += tt_block_warp_count()) {
    tt_block_quotient place = tt_block_divide(item, down);
    int row = place.remainder * TT_BLOCK_TILE_ROWS + tt_block_mma_row();
    int first = place.quotient * tile::WIDTH, left = first + 2 * tt_block_mma_pair();
    const float *src = x.at + row * x.ld, *weight[N];
    float sum[tile::M][N][4];
#pragma unroll
    for (int j = 0; j < N; j++) {
      int o = min(first + j * TT_MMA_COLUMNS + tt_block_mma_row(), layer.out - 1);
      weight[j] = w + layer.weight + o * layer.stride;
#pragma unroll
      for (int q = 0; q < 4; q++)
#pragma unroll
        for (int i = 0; i < tile::M; i++)
          sum[i][j][q] = w[layer.bias + min(left + j * TT_MMA_COLUMNS + q % 2, layer.out - 1)];
    }
    tt_block_mma_sum<TT_INNER_CONTIGUOUS>(
        sum, layer.in, [&](int r, int k) { return src[8 * r * x.ld + k]; },
        [&](int j, int k) { return weight[j][k]; });
#pragma unroll
    for (int j = 0; j < N; j++) {
      int o = left + j * TT_MMA_COLUMNS;
      if (o >= layer.out) continue;
#pragma unroll
      for (int r = 0; r < 2 * tile::M; r++) {
        const float *c = sum[r / 2][j] + r % 2 * 2;
        float2 f = relu ? make_float2(tt_relu(c[0]), tt_relu(c[1])) : make_float2(c[0], c[1]);
        tt_store2(z.at + (row + 8 * r) * z.ld + o, f);
      }
    }
  }
}

/* h = (d W) * slope; see tt_block_backward. */
template <int N>
__device__ __forceinline__ void tt_block_mma_backward(const tt_block_layer &layer, const float *w,
                                                      tt_block_matrix d, tt_block_matrix h,
                                                      const float *slope, int rows, int relu)
{
  typedef tt_block_mma_tile<N> tile;
  int down = (rows + TT_BLOCK_TILE_ROWS - 1) / TT_BLOCK_TILE_ROWS;
  int items = down * ((layer.in + tile::WIDTH - 1) / tile::WIDTH);
  for (int item = tt_block_warp_index(); item < items; item += tt_block_warp_count()) {
    tt_block_quotient place = tt_block_divide(item, down);
    int row = place.remainder * TT_BLOCK_TILE_ROWS + tt_block_mma_row();
    int first = place.quotient * tile::WIDTH, left = first + 2 * tt_block_mma_pair();
    const float *src = d.at + row * d.ld, *weight = w + layer.weight;
    int column[N];
    float sum[tile::M][N][4] = {};
#pragma unroll
    for (int j = 0; j < N; j++)
      column[j] = min(first + j * TT_MMA_COLUMNS + tt_block_mma_row(), layer.in - 1);
    tt_block_mma_sum<TT_INNER_STRIDED>(
        sum, layer.out, [&](int r, int o) { return src[8 * r * d.ld + o]; },
        [&](int j, int o) { return weight[o * layer.stride + column[j]]; });
#pragma unroll
    for (int j = 0; j < N; j++) {
      int i = left + j * TT_MMA_COLUMNS;
      if (i >= layer.in) continue;
#pragma unroll
      for (int r = 0; r < 2 * tile::M; r++) {
        const float *c = sum[r / 2][j] + r % 2 * 2;
        int index = (row + 8 * r) * h.ld + i;
        float2 s = tt_load2(slope + index);
        if (relu) s = make_float2(tt_relu_slope(s.x), tt_relu_slope(s.y));
        tt_store2(h.at + index, make_float2(s.x * c[0], s.y * c[1]));
      }
    }
  }
}

/* A warp's tile of the gradient of the weights, 32 outputs x WIDTH inputs; see
 * tt_block_weight_gradient_tile. */
template <int N> struct tt_block_mma_weight_gradient_tile {
  typedef tt_block_mma_tile<N> tile;
  enum { PARTS = 1 };
  int o, i;              /* the first indices of this lane */
  int outs, ins, stride; /* of the gradient from there on */
  float *place;
  float sum[tile::M][N][4];

  static __device__ __forceinline__ int count(const tt_block_layer &layer)
  {
    return (layer.out + TT_BLOCK_TILE_ROWS - 1) / TT_BLOCK_TILE_ROWS *
           ((layer.in + tile::WIDTH - 1) / tile::WIDTH);
  }

  __device__ __forceinline__ void add_rows(const tt_block_layer &layer, int number,
                                           tt_block_matrix d, tt_block_matrix x,
                                           tt_block_row_range rows)
  {
    int down = (layer.out + TT_BLOCK_TILE_ROWS - 1) / TT_BLOCK_TILE_ROWS, from[2 * tile::M], to[N];
    const float *dr = d.at + rows.first * d.ld, *xr = x.at + rows.first * x.ld;
    tt_block_quotient place = tt_block_divide(number, down);
    o = place.remainder * TT_BLOCK_TILE_ROWS + tt_block_mma_row();
    i = place.quotient * tile::WIDTH + 2 * tt_block_mma_pair();
#pragma unroll
    for (int r = 0; r < 2 * tile::M; r++) from[r] = min(o + 8 * r, layer.out - 1);
#pragma unroll
    for (int j = 0; j < N; j++)
      to[j] =
          min(place.quotient * tile::WIDTH + j * TT_MMA_COLUMNS + tt_block_mma_row(), layer.in - 1);
#pragma unroll
    for (int m = 0; m < tile::M; m++)
#pragma unroll
      for (int j = 0; j < N; j++)
#pragma unroll
        for (int q = 0; q < 4; q++) sum[m][j][q] = 0.0f;
    tt_block_mma_sum<TT_INNER_STRIDED>(
        sum, rows.end - rows.first, [&](int r, int k) { return dr[k * d.ld + from[r]]; },
        [&](int j, int k) { return xr[k * x.ld + to[j]]; });
  }

  /* Before store: where the padded gradient is. */
  __device__ __forceinline__ void locate(const tt_block_layer &layer, float *g)
  {
    place = g + layer.weight + o * layer.stride + i;
    stride = layer.stride;
    outs = layer.out - o;
    ins = layer.in - i;
  }

  /* Write into the gradient; the padding stays zero. */
  __device__ __forceinline__ void store(int first, int) const
  {
#pragma unroll
    for (int r = 0; r < 2 * tile::M; r++)
#pragma unroll
      for (int j = 0; j < N; j++) {
        int left = ins - j * TT_MMA_COLUMNS;
        float *target = place + 8 * r * stride + j * TT_MMA_COLUMNS;
        if (8 * r >= outs || left <= 0) continue;
        float2 old = first ? make_float2(0.0f, 0.0f) : tt_load2(target);
        old.x += sum[r / 2][j][r % 2 * 2];
        if (left > 1) old.y += sum[r / 2][j][r % 2 * 2 + 1];
        tt_store2(target, old);
      }
  }
};

/* choice of tiles */

/* Compile-time configuration of a kernel: its tiles, and whether the block is one of a cluster. */
template <int LARGEST> struct tt_block_kernel_config {
  static constexpr bool in_cluster = false;
  static constexpr bool mma = LARGEST >= TT_BLOCK_TILE_mma16;
  static constexpr __host__ __device__ bool has_tile(int tile)
  {
    bool same = mma == (tile >= TT_BLOCK_TILE_mma16);
    return tile <= TT_BLOCK_TILE_4x4 || (same && tile <= LARGEST);
  }
  /* The tile that does the same in fp32. */
  static __device__ __forceinline__ int fp32_tile(int tile)
  {
    return mma && tile >= TT_BLOCK_TILE_mma16 ? TT_BLOCK_TILE_4x4 : tile;
  }
};

/* One case of the switch: CALL for register tiles, with rows and columns; MMA for tensor core
 * tiles. */
#define TT_BLOCK_CASE(tile_, ...)                                                                  \
  case TT_BLOCK_TILE_##tile_:                                                                      \
    if constexpr (KIND::has_tile(TT_BLOCK_TILE_##tile_)) __VA_ARGS__;                              \
    break;

/* A case for every tile that the kernel contains. */
#define TT_BLOCK_SWITCH(tile_, CALL, MMA)                                                          \
  switch (tile_) {                                                                                 \
    TT_BLOCK_CASE(1x1, CALL(1, 1))                                                                 \
    TT_BLOCK_CASE(4x4, CALL(4, 4))                                                                 \
    TT_BLOCK_CASE(8x4, CALL(8, 4))                                                                 \
    TT_BLOCK_CASE(8x8, CALL(8, 8))                                                                 \
    TT_BLOCK_CASE(mma16, MMA(2))                                                                   \
    TT_BLOCK_CASE(mma32, MMA(4))                                                                   \
    TT_BLOCK_CASE(mma64, MMA(8))                                                                   \
  default: break;                                                                                  \
  }
#endif
