/* product_tile.cuh — what a block of a product (product.cuh) computes: one tile of the result of
 * one member. Device code.
 *
 * Panels of TT_PANEL inner indices of both factors come to shared memory by asynchronous copies, a
 * few stages ahead, with zeros past the ends of the matrices. The results go through shared memory
 * once more, so that neighboring threads have neighboring results in what follows.
 *
 * A factor whose rows run along the inner index lies in its panel row by row, and a thread reads
 * four inner indices at once; the other kind lies there index by index, and a thread reads up to
 * four neighbors at once. All strides are constants: the inner loop computes no addresses. */
#ifndef TT_PRODUCT_TILE_CUH
#define TT_PRODUCT_TILE_CUH
#include "cuda/common/copy_async.cuh"
#include "cuda/common/mma.cuh"
#include "cuda/product/product_ends.cuh"
#include "cuda/product/product_tables.cuh"

enum {
  TT_PANEL = 32,
  TT_PRODUCT_THREADS = 512 /* of a multiprocessor at least: 128 registers each */
};

/* threadIdx.x, read anew: what follows from it is not kept in registers during a loop. */
__device__ __forceinline__ int tt_product_thread()
{
#ifdef TT_CUDA_DOUBLE
  return (int)threadIdx.x;
#else
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
#endif
}

/* The panel of one factor: SIDE rows or columns of the result. A thread has T of them, LANES
 * threads of a warp are side by side. ALONG: the rows of the factor run along the inner index. */
template <int SIDE, int T, int LANES, bool ALONG_, int PADDING = 0> struct tt_product_panel {
  static constexpr bool ALONG = ALONG_;
  enum {
    LINES = ALONG ? SIDE : TT_PANEL,
    LENGTH = ALONG ? TT_PANEL : SIDE,
    LD = ALONG ? TT_PANEL + 4 : SIDE + PADDING, /* ALONG: rows begin in other banks */
    FLOATS = LINES * LD,
    V = T < 4 ? T : 4 /* neighbors that a thread has, if not ALONG */
  };

  /* Number of the thread's row or column i among those of its warp; `lane` of LANES. */
  static __device__ __forceinline__ int place(int lane, int i)
  {
    return ALONG ? i * LANES + lane : (i / V * LANES + lane) * V + i % V;
  }
  /* Where the reads of a thread begin. */
  static __device__ __forceinline__ const float *begin(const float *panel, int first, int lane)
  {
    return panel + (ALONG ? (first + lane) * LD : first + lane * V);
  }
  /* Inner indices 0 to 3 of row i, if ALONG. */
  static __device__ __forceinline__ void read_row(const float *at, int i, float (&x)[4])
  {
    float4 f = tt_load4(at + i * LANES * LD);
    x[0] = f.x, x[1] = f.y, x[2] = f.z, x[3] = f.w;
  }
  /* All columns of inner index k, if not ALONG. */
  static __device__ __forceinline__ void read_index(const float *at, int k, float (&x)[T])
  {
#pragma unroll
    for (int c = 0; c < T; c += V) {
      tt_floats<V> f = tt_load_floats<V>(at + k * LD + c * LANES);
#pragma unroll
      for (int q = 0; q < V; q++) x[c + q] = f.v[q];
    }
  }

  /* Start to copy the panel from `src` on, W floats at a time; there are `lines` lines of `length`
   * floats, what lies behind them is 0. */
  template <int W, int THREADS>
  static __device__ __forceinline__ void copy(float *dst, const float *src, int32_t ld,
                                              int32_t lines, int32_t length)
  {
    enum { EACH = LENGTH / W, STEP = THREADS / EACH, UNROLL = W == 4 ? 8 : 1 };
    static_assert(THREADS % EACH == 0 && LINES % STEP == 0, "every thread has as many copies");
    int thread = tt_product_thread(), line = thread / EACH, place = thread % EACH * W;
    bool inside = place < length;
    dst += line * LD + place;
    src += line * ld + place;
#pragma unroll UNROLL
    for (int c = 0; c < LINES / STEP; c++, line += STEP, dst += STEP * LD, src += STEP * ld)
      tt_copy_async<W>(dst, src, inside && line < lines);
  }
  /* The same for the next panel, and step over it; there are `side` rows or columns of the result
   * and `inner` inner indices. */
  template <int THREADS>
  static __device__ __forceinline__ void load(float *dst, const tt_factor &f, const float *&at,
                                              int32_t side, int32_t inner)
  {
    int32_t lines = ALONG ? side : inner, length = ALONG ? inner : side;
    if (f.vector)
      copy<4, THREADS>(dst, at, f.ld, lines, length);
    else
      copy<1, THREADS>(dst, at, f.ld, lines, length);
    at += ALONG ? (int32_t)TT_PANEL : (int32_t)TT_PANEL * f.ld;
  }
  /* Where the first panel of a member begins. */
  static __device__ __forceinline__ const float *first(const tt_factor &f, int32_t member,
                                                       int32_t side)
  {
    return f.at + member * f.step + (ALONG ? (int64_t)side * f.ld : side);
  }
};

/* A panel for tensor cores: a lane reads the numbers of a fragment one by one, from other banks
 * than the other lanes. */
template <int SIDE, bool ALONG> struct tt_tensor_panel : tt_product_panel<SIDE, 4, 8, ALONG, 8> {
  typedef tt_product_panel<SIDE, 4, 8, ALONG, 8> panel;
  static_assert((int)panel::LD % (ALONG ? 32 : 16) == (ALONG ? 4 : 8),
                "lanes read from different banks");

  /* Where the reads of a lane begin. */
  static __device__ __forceinline__ const float *begin(const float *place, int first, int lane)
  {
    int side = first + lane / 4, inner = lane % 4;
    return place + (ALONG ? side * panel::LD + inner : inner * panel::LD + side);
  }
  /* Read the fragment whose first row (of the right factor: column) is number `side`, and round it.
   * A lane has COUNT / 2 rows of it, and of each the inner indices lane % 4 and lane % 4 + 4. */
  template <int COUNT>
  static __device__ __forceinline__ void read_fragment(const float *place, int side,
                                                       tt_mma_fragment<COUNT> &dst)
  {
    enum { SIDES = COUNT / 2 };
#pragma unroll
    for (int q = 0; q < COUNT; q++) {
      int line = side + 8 * (q % SIDES), inner = TT_MMA_INNER / 2 * (q / SIDES);
      float x = place[ALONG ? line * panel::LD + inner : inner * panel::LD + line];
      dst.v[q] = tt_round_to_tf32(x);
    }
  }
};

/* A tile of TT_PRODUCT_TILES, and the position of a thread in it. */
template <int TM_, int TN_, int DOWN_, int WARPS_DOWN, int WARPS_ACROSS, int STAGES_>
struct tt_product_tile {
  enum {
    TM = TM_,
    TN = TN_,
    DOWN = DOWN_, /* lanes of a warp below each other */
    STAGES = STAGES_,
    ACROSS = TT_WARP_SIZE / DOWN,
    ROWS = TM * DOWN * WARPS_DOWN,
    COLUMNS = TN * ACROSS * WARPS_ACROSS,
    THREADS = TT_WARP_SIZE * WARPS_DOWN * WARPS_ACROSS,
    OWN_ROWS = TM, /* of the results of a thread */
    OWN_COLUMNS = TN,
    SUMS = TM * TN,
    RESULT_LD = COLUMNS + 8 /* in shared memory: lanes below each other use other banks */
  };
  typedef float sums[TM][TN];
  static __device__ __forceinline__ float &result(sums &s, int i, int j) { return s[i][j]; }
  static constexpr bool TENSOR = false;
  template <bool ALONG> using left = tt_product_panel<ROWS, TM, DOWN, ALONG>;
  template <bool ALONG> using right = tt_product_panel<COLUMNS, TN, ACROSS, ALONG>;

  static __device__ __forceinline__ int warp() { return (int)threadIdx.x / TT_WARP_SIZE; }
  static __device__ __forceinline__ int down() { return tt_lane_down<ACROSS>(); }
  static __device__ __forceinline__ int across() { return tt_lane_across<ACROSS>(); }
  static __device__ __forceinline__ int warp_row() { return warp() % WARPS_DOWN * TM * DOWN; }
  static __device__ __forceinline__ int warp_column() { return warp() / WARPS_DOWN * TN * ACROSS; }
};

/* The same for a tile of TT_TENSOR_TILES. */
template <int M_, int N_, int WARPS_DOWN, int WARPS_ACROSS, int STAGES_> struct tt_tensor_tile {
  enum {
    M = M_,
    N = N_,
    STAGES = STAGES_,
    ROWS = TT_MMA_ROWS * M * WARPS_DOWN,
    COLUMNS = TT_MMA_COLUMNS * N * WARPS_ACROSS,
    THREADS = TT_WARP_SIZE * WARPS_DOWN * WARPS_ACROSS,
    OWN_ROWS = 2 * M,
    OWN_COLUMNS = 2 * N,
    SUMS = 4 * M * N,
    RESULT_LD = COLUMNS + 8
  };
  typedef float sums[M][N][4];
  static __device__ __forceinline__ float &result(sums &s, int i, int j)
  {
    return s[i / 2][j / 2][i % 2 * 2 + j % 2];
  }
  static constexpr bool TENSOR = true;
  template <bool ALONG> using left = tt_tensor_panel<ROWS, ALONG>;
  template <bool ALONG> using right = tt_tensor_panel<COLUMNS, ALONG>;

  static __device__ __forceinline__ int warp() { return (int)threadIdx.x / TT_WARP_SIZE; }
  static __device__ __forceinline__ int lane() { return (int)threadIdx.x % TT_WARP_SIZE; }
  static __device__ __forceinline__ int down() { return lane(); }
  static __device__ __forceinline__ int across() { return lane(); }
  static __device__ __forceinline__ int warp_row() { return warp() % WARPS_DOWN * TT_MMA_ROWS * M; }
  static __device__ __forceinline__ int warp_column()
  {
    return warp() / WARPS_DOWN * TT_MMA_COLUMNS * N;
  }
};

/* The panels of a kernel; TABLE: floats that follow those of each stage. */
template <class TILE_, bool LEFT_ALONG, bool RIGHT_ALONG, int TABLE = 0> struct tt_product_panels {
  typedef TILE_ TILE;
  /* Inner indices at a time. With both factors index by index many results leave few registers to
   * read ahead, few results take many loops. */
  static constexpr int INDICES = TILE::TENSOR                ? TT_MMA_INNER
                                 : LEFT_ALONG || RIGHT_ALONG ? 4
                                 : (int)TILE::SUMS == 64     ? 2
                                 : (int)TILE::SUMS == 4      ? 8
                                                             : 4;
  typedef typename TILE::template left<LEFT_ALONG> LEFT;
  typedef typename TILE::template right<RIGHT_ALONG> RIGHT;
  enum {
    STAGE = (int)LEFT::FLOATS + (int)RIGHT::FLOATS + TABLE,
    PANELS = (int)TILE::STAGES * STAGE,
    RESULT = (int)TILE::ROWS * (int)TILE::RESULT_LD,
    BYTES = (int)sizeof(float) * (PANELS > RESULT ? (int)PANELS : (int)RESULT)
  };
  static_assert(BYTES <= 99 * 1024, "every GPU from compute capability 8.0 on can run it");
};

template <class TILE, tt_product_kind KIND_>
struct tt_product_kernel
    : tt_product_panels<TILE, KIND_ != TT_PRODUCT_GRADIENT, KIND_ == TT_PRODUCT_FORWARD> {
  static constexpr tt_product_kind KIND = KIND_;
};

/* The tile of a block. */
typedef struct tt_product_place {
  int32_t member, row, column; /* of the tile the first ones */
} tt_product_place;

/* sum += products of INDICES inner indices. */
template <class K>
__device__ __forceinline__ void tt_product_add(const float *left, const float *right,
                                               typename K::TILE::sums &sum)
{
  if constexpr (K::TILE::TENSOR) {
    tt_mma_fragment<4> u[K::TILE::M];
    tt_mma_fragment<2> v[K::TILE::N];
#pragma unroll
    for (int i = 0; i < K::TILE::M; i++) K::LEFT::read_fragment(left, TT_MMA_ROWS * i, u[i]);
#pragma unroll
    for (int j = 0; j < K::TILE::N; j++) K::RIGHT::read_fragment(right, TT_MMA_COLUMNS * j, v[j]);
    tt_mma_multiply_add(sum, u, v);
  } else {
    enum { TM = K::TILE::TM, TN = K::TILE::TN };
    float u[TM][4];
#pragma unroll
    for (int i = 0; K::LEFT::ALONG && i < TM; i++) K::LEFT::read_row(left, i, u[i]);
    if constexpr (K::RIGHT::ALONG) {
#pragma unroll
      for (int j = 0; j < TN; j++) {
        float v[4];
        K::RIGHT::read_row(right, j, v);
#pragma unroll
        for (int q = 0; q < 4; q++)
#pragma unroll
          for (int i = 0; i < TM; i++) sum[i][j] = tt_fma(u[i][q], v[q], sum[i][j]);
      }
    } else {
#pragma unroll
      for (int q = 0; q < K::INDICES; q++) {
        float w[TM], v[TN];
        if constexpr (!K::LEFT::ALONG) K::LEFT::read_index(left, q, w);
        K::RIGHT::read_index(right, q, v);
#pragma unroll
        for (int i = 0; i < TM; i++)
#pragma unroll
          for (int j = 0; j < TN; j++)
            sum[i][j] = tt_fma(K::LEFT::ALONG ? u[i][q] : w[i], v[j], sum[i][j]);
      }
    }
  }
}

/* sum += products of the next `depth` inner indices of a panel; depth is a multiple of INDICES.
 * For tensor cores a whole panel is unrolled: the next fragments are read while others multiply. */
template <class K>
__device__ __forceinline__ void tt_product_multiply(const float *left, const float *right,
                                                    int depth, typename K::TILE::sums &sum)
{
  enum {
    LEFT = K::INDICES * (K::LEFT::ALONG ? 1 : (int)K::LEFT::LD),
    RIGHT = K::INDICES * (K::RIGHT::ALONG ? 1 : (int)K::RIGHT::LD)
  };
  if (K::TILE::TENSOR && depth == TT_PANEL) {
#pragma unroll
    for (int q = 0; q < TT_PANEL / K::INDICES; q++)
      tt_product_add<K>(left + q * LEFT, right + q * RIGHT, sum);
    return;
  }
#pragma unroll 1
  for (; depth > 0; depth -= K::INDICES, left += LEFT, right += RIGHT)
    tt_product_add<K>(left, right, sum);
}

/* Starts to copy the panels of matrices, one after the other. */
template <class K> struct tt_product_loader {
  const tt_product_args &a;
  tt_product_place place;
  const float *left, *right; /* of the next panel */

  __device__ __forceinline__ tt_product_loader(const tt_product_args &args, tt_product_place first)
      : a(args), place(first), left(K::LEFT::first(a.left, first.member, first.row)),
        right(K::RIGHT::first(a.right, first.member, first.column))
  {
  }
  __device__ __forceinline__ void operator()(float *stage, float *, int32_t inner)
  {
    enum { THREADS = K::TILE::THREADS };
    K::LEFT::template load<THREADS>(stage, a.left, left, a.m - place.row, inner);
    K::RIGHT::template load<THREADS>(stage + K::LEFT::FLOATS, a.right, right, a.n - place.column,
                                     inner);
  }
};

/* The sums of a tile over `inner` inner indices. load(stage, next, rest) starts to copy the next
 * panels, of `rest` inner indices or more; those after them come to stage `next`, NULL for the
 * first ones. With `biases` also adds up the columns of the left factor; returns that of row
 * threadIdx.x of the tile. `after` is called with it after each panel. */
template <class K, class LOAD, class AFTER>
__device__ __forceinline__ float tt_product_sums(int32_t inner, bool biases, float *shared,
                                                 typename K::TILE::sums &sum, LOAD load,
                                                 AFTER after)
{
  typedef typename K::TILE tile;
  enum { AHEAD = tile::STAGES - 1 };
  float bias = 0.0f, *stage = shared;
  /* Nothing if there are no more. */
  auto load_next = [&](float *next, float *after_next) {
    if (inner > 0) load(next, after_next, inner);
    inner -= TT_PANEL;
    tt_copy_commit();
  };
#pragma unroll 1
  for (int p = 0; p < AHEAD; p++) load_next(shared + p * K::STAGE, NULL);
#pragma unroll 1
  while (inner > -AHEAD * TT_PANEL) {
    int rest = inner + AHEAD * TT_PANEL;
    int depth = rest < TT_PANEL ? (rest + 7) / 8 * 8 : TT_PANEL;
    tt_copy_wait<AHEAD - 1>();
    __syncthreads(); /* and the stage before this one is not read any more */
    load_next(stage == shared ? shared + AHEAD * K::STAGE : stage - K::STAGE, stage);
    tt_product_multiply<K>(
        K::LEFT::begin(stage, tile::warp_row(), tile::down()),
        K::RIGHT::begin(stage + K::LEFT::FLOATS, tile::warp_column(), tile::across()), depth, sum);
    for (int q = 0; biases && q < depth; q++) bias += stage[q * K::LEFT::LD + threadIdx.x];
    after(bias);
    stage = stage == shared + AHEAD * K::STAGE ? shared : stage + K::STAGE;
  }
  return bias;
}

/* With chunks: the sum of one is added to `total`, and the next one begins. -0 + x is x, whatever x
 * is. */
template <int N>
__device__ __forceinline__ void tt_product_end_chunk(float (&sum)[N], float (&total)[N])
{
#pragma unroll
  for (int i = 0; i < N; i++) {
    total[i] += sum[i];
    sum[i] = 0.0f;
  }
}

/* The row of result number i of a thread, and its column number j, among those of its warp. */
template <class K> __device__ __forceinline__ int tt_product_row(int i)
{
  typedef typename K::TILE tile;
  if constexpr (tile::TENSOR)
    return i * TT_MMA_ROWS / 2 + tile::lane() / 4;
  else
    return K::LEFT::place(tile::down(), i);
}
template <class K> __device__ __forceinline__ int tt_product_column(int j)
{
  typedef typename K::TILE tile;
  if constexpr (tile::TENSOR)
    return j / 2 * TT_MMA_COLUMNS + tile::lane() % 4 * 2 + j % 2;
  else
    return K::RIGHT::place(tile::across(), j);
}

/* f(results, i, j) for each V neighboring results of a thread, with their row number i and the
 * first of their column numbers. */
template <class K, class F>
__device__ __forceinline__ void tt_product_each(typename K::TILE::sums &sum, F f)
{
  typedef typename K::TILE tile;
  enum { V = tile::TENSOR ? 2 : K::RIGHT::ALONG ? 1 : (int)K::RIGHT::V };
#pragma unroll
  for (int i = 0; i < tile::OWN_ROWS; i++)
#pragma unroll
    for (int j = 0; j < tile::OWN_COLUMNS; j += V)
      f(reinterpret_cast<float(&)[V]>(tile::result(sum, i, j)), i, j);
}

/* Put the results of a thread where they belong in the tile. */
template <class K>
__device__ __forceinline__ void tt_product_spread(typename K::TILE::sums &sum, float *dst)
{
  typedef typename K::TILE tile;
  dst += tile::warp_row() * tile::RESULT_LD + tile::warp_column();
  tt_product_each<K>(sum, [&](auto &x, int i, int j) {
    enum { V = sizeof x / sizeof *x };
    tt_floats<V> f;
#pragma unroll
    for (int q = 0; q < V; q++) f.v[q] = x[q];
    tt_store_floats(dst + tt_product_row<K>(i) * tile::RESULT_LD + tt_product_column<K>(j), f);
  });
}

/* f(index, results) for all results of the tile, V neighbors at a time. */
template <class K, int V, class F>
__device__ __forceinline__ void
tt_product_each_result(const tt_product_args &a, tt_product_place place, const float *tile, F f)
{
  enum { EACH = K::TILE::COLUMNS / V, ROWS = K::TILE::THREADS / EACH };
  static_assert(K::TILE::THREADS % EACH == 0, "a thread has one group of columns");
  int column = (int)threadIdx.x % EACH * V, row = (int)threadIdx.x / EACH;
  int32_t last = a.m - place.row < K::TILE::ROWS ? a.m - place.row : (int32_t)K::TILE::ROWS;
  if (place.column + column >= a.n) return;
#pragma unroll 1
  for (; row < last; row += ROWS)
    f((place.row + row) * a.n + place.column + column,
      tt_load_floats<V>(tile + row * K::TILE::RESULT_LD + column));
}

/* What follows, for all results of the tile, V at a time. */
template <class K, int V>
__device__ __forceinline__ void tt_product_finish(const tt_product_args &a, tt_product_place place,
                                                  const float *tile)
{
  tt_product_end end = tt_product_end_of(a, place.member);
  tt_product_each_result<K, V>(a, place, tile, [&](int32_t index, const tt_floats<V> &x) {
    tt_finish_product<K::KIND, V>(end, index, x);
  });
}

/* The tile of a block. */
template <class K>
__device__ __forceinline__ tt_product_place tt_product_place_of(const tt_product_args &a)
{
  int32_t part = (int32_t)(blockIdx.x % (unsigned)a.parts);
  return {(int32_t)(blockIdx.x / (unsigned)a.parts), part / a.across * (int32_t)K::TILE::ROWS,
          part % a.across * (int32_t)K::TILE::COLUMNS};
}

/* The sums of a tile, in shared memory. Those of a forward product begin with the bias. Returns
 * what tt_product_sums does. */
template <class K>
__device__ __forceinline__ float
tt_product_compute(const tt_product_args &a, tt_product_place place, bool biases, float *shared)
{
  typedef typename K::TILE tile;
  typename tile::sums sum;
  float begin[tile::OWN_COLUMNS];
#pragma unroll
  for (int j = 0; j < tile::OWN_COLUMNS; j++) {
    int32_t column = place.column + tile::warp_column() + tt_product_column<K>(j);
    begin[j] = 0.0f;
    if (K::KIND == TT_PRODUCT_FORWARD && column < a.n)
      begin[j] = a.bias[(int64_t)place.member * a.bias_step + column];
  }
  tt_product_each<K>(sum, [&](auto &x, int, int j) {
#pragma unroll
    for (int q = 0; q < (int)(sizeof x / sizeof *x); q++) x[q] = begin[j + q];
  });
  float bias =
      tt_product_sums<K>(a.k, biases, shared, sum, tt_product_loader<K>(a, place), [](float) {});
  __syncthreads(); /* the results take the place of the panels */
  tt_product_spread<K>(sum, shared);
  __syncthreads();
  return bias;
}
#endif
