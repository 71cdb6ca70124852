/* conv_product.cuh — a conv as a product of the tiles of cuda/product/product_tile.cuh:
 *   forward   [channels][rows, positions] = W [channels][in channels, taps] X, then the activation
 *   backward  dL/dX [in channels][rows, positions] = W^T D, for one phase of the positions
 *   gradient  dL/dW [channels][in channels, taps] = D X^T, in chunks of the rows and positions
 * where X [in channels, taps][rows, positions], or D backward, is not stored: its panels are copied
 * from the values where they are, with zeros outside. The place of a value is a sum of two entries,
 * one of its position and one of its tap, which are in shared memory: those of the columns of a
 * tile for the whole sum, those of the inner indices behind each panel. Device code.
 *
 * A result is one chain in ascending order of the inner index, channel by channel, which forward
 * begins with the bias; of a gradient one chain for each chunk, added in their order. The chunks
 * follow from the layer and the rows of a batch alone. */
#ifndef TT_CONV_PRODUCT_CUH
#define TT_CONV_PRODUCT_CUH
#include "cuda/front/conv_shape.cuh"
#include "cuda/product/multiply.cuh"
#include "cuda/product/product_tile.cuh"

typedef struct tt_conv_args {
  tt_front_layer_args a;
  int32_t down, across;    /* tiles below each other; side by side, of a phase; set by the launch */
  int32_t phases[2];       /* backward: along each axis; else 1 */
  int32_t chunk, copies;   /* as in tt_gradients */
  float *result;           /* [members][copies][channels][in channels, taps] gradient */
  int64_t step, copy_step; /* from one member to the next, from one copy to the next */
  int left_vector, right_vector, vector; /* 1: as in tt_factor and tt_product_args */
} tt_conv_args;

/* Where a value is: the sum of two entries has its place in the right factor, and its coordinates
 * there; `other` is a place in the left factor or, of a column, in the result. */
struct alignas(16) tt_conv_entry {
  int32_t place, y, x, other;
};

/* The entry behind the last one: outside of the right factor, whatever is added to y; `other` is
 * negative, and a multiple of the size of a vector as all places are. */
static __device__ __forceinline__ tt_conv_entry tt_conv_nowhere()
{
  return {0, INT32_MIN / 2, 0, -4};
}

/* What a block computes; in shared memory. */
typedef struct tt_conv_tile {
  tt_conv_shape s;
  tt_conv_axis axis[2];
  int64_t member;
  int32_t group, copy, row, column; /* of the tile the first row and column */
  int32_t m, n;                     /* rows and columns of the result */
  int32_t first, end;               /* inner indices */
  int32_t height, width;            /* of a channel of the right factor */
  int32_t kernel_width, result_width;
  int32_t row_step, result_row_step; /* from one row of data to the next: right factor, result */
  const float *left, *right;
  int32_t side_step; /* of the left factor, from one row of the result to the next */
} tt_conv_tile;

template <class TILE, tt_product_kind KIND_>
struct tt_conv_kernel : tt_product_panels<TILE, KIND_ != TT_PRODUCT_BACKWARD,
                                          KIND_ == TT_PRODUCT_GRADIENT, 4 * TT_PANEL> {
  typedef tt_product_panels<TILE, KIND_ != TT_PRODUCT_BACKWARD, KIND_ == TT_PRODUCT_GRADIENT,
                            4 * TT_PANEL>
      panels;
  static constexpr tt_product_kind KIND = KIND_;
  enum {
    ENTRIES = (int)panels::LEFT::FLOATS + (int)panels::RIGHT::FLOATS, /* in a stage */
    COLUMNS = (int)panels::BYTES / (int)sizeof(float),                /* entries of the columns */
    TILE_INFO = COLUMNS + 4 * (int)TILE::COLUMNS,
    BYTES = (int)sizeof(float) * TILE_INFO + (int)sizeof(tt_conv_tile)
  };
};

/* The entry of a row of data and a position. */
static __device__ __forceinline__ tt_conv_entry tt_conv_position(const tt_conv_tile &t, int32_t k,
                                                                 int32_t end)
{
  uint32_t across = (uint32_t)t.axis[1].results, all = across * (uint32_t)t.axis[0].results;
  if (k >= end) return tt_conv_nowhere();
  int32_t row = (int32_t)((uint32_t)k / all), left = (int32_t)((uint32_t)k % all);
  int32_t j = (int32_t)((uint32_t)left / across), i = (int32_t)((uint32_t)left % across);
  int32_t y = t.axis[0].read + j * t.axis[0].read_step;
  int32_t x = t.axis[1].read + i * t.axis[1].read_step;
  int32_t result = (t.axis[0].first + j * t.axis[0].step) * t.result_width + t.axis[1].first +
                   i * t.axis[1].step;
  return {row * t.row_step + y * t.width + x, y, x, row * t.result_row_step + result};
}

/* The entry of an inner channel and a tap. */
static __device__ __forceinline__ tt_conv_entry tt_conv_tap(const tt_conv_tile &t, int32_t k,
                                                            int32_t end)
{
  uint32_t across = (uint32_t)t.axis[1].taps, all = across * (uint32_t)t.axis[0].taps;
  if (k >= end) return tt_conv_nowhere();
  int32_t channel = (int32_t)((uint32_t)k / all), left = (int32_t)((uint32_t)k % all);
  int32_t j = (int32_t)((uint32_t)left / across), i = (int32_t)((uint32_t)left % across);
  int32_t y = j * t.axis[0].tap_read, x = i * t.axis[1].tap_read;
  int32_t tap = t.axis[0].tap + j * t.axis[0].tap_step;
  tap = tap * t.kernel_width + t.axis[1].tap + i * t.axis[1].tap_step;
  return {channel * t.s.from_places + y * t.width + x, y, x, channel * t.s.inner_step + tap};
}

template <class K>
static __device__ __forceinline__ tt_conv_entry tt_conv_inner(const tt_conv_tile &t, int32_t k)
{
  return K::KIND == TT_PRODUCT_GRADIENT ? tt_conv_position(t, k, t.end) : tt_conv_tap(t, k, t.end);
}
template <class K>
static __device__ __forceinline__ tt_conv_entry tt_conv_column(const tt_conv_tile &t, int32_t j)
{
  return K::KIND == TT_PRODUCT_GRADIENT ? tt_conv_tap(t, j, t.n) : tt_conv_position(t, j, t.n);
}

/* Results and inner indices of a block. */
template <tt_product_kind KIND>
static __device__ __forceinline__ void tt_conv_measure(const tt_conv_args &c, tt_conv_tile &t)
{
  int32_t positions = c.a.rows * t.axis[0].results * t.axis[1].results;
  int32_t products = t.s.inner * t.axis[0].taps * t.axis[1].taps;
  t.m = t.s.results;
  t.n = KIND == TT_PRODUCT_GRADIENT ? products : positions;
  t.first = t.copy * c.chunk;
  t.end = KIND == TT_PRODUCT_GRADIENT ? positions : products;
  if (c.copies > 1 && t.end - t.first > c.chunk) t.end = t.first + c.chunk;
}

/* Factors of a block. */
template <tt_product_kind KIND>
static __device__ __forceinline__ void tt_conv_find_factors(const tt_conv_args &c, tt_conv_tile &t)
{
  const tt_front_layer_args &a = c.a;
  const tt_conv_shape &s = t.s;
  const float *w = a.w + t.member * a.w_step + a.layer.weight;
  const float *x = a.x + t.member * a.x_step, *d = a.d + t.member * a.d_step;
  bool gradient = KIND == TT_PRODUCT_GRADIENT;
  t.side_step = gradient ? s.places : s.result_step;
  t.left = gradient ? d + (int64_t)t.group * s.results * s.places
                    : w + (int64_t)t.group * s.results * s.inner * s.taps;
  t.left += (int64_t)t.row * t.side_step;
  t.right = KIND == TT_PRODUCT_BACKWARD ? d : x;
  t.right += (int64_t)t.group * s.inner * s.from_places;
}

/* Blocks of a member, from the last number to the first: phase, tile across, copy, group, tile
 * down, so that neighbors have the same right factor. */
template <class K>
static __device__ __forceinline__ tt_conv_tile tt_conv_tile_of(const tt_conv_args &c)
{
  const tt_front_layer &l = c.a.layer;
  enum { BACK = K::KIND == TT_PRODUCT_BACKWARD };
  tt_conv_tile t;
  int32_t part = (int32_t)(blockIdx.x % (unsigned)c.a.parts);
  t.member = blockIdx.x / (unsigned)c.a.parts;
  t.row = part % c.down * (int32_t)K::TILE::ROWS;
  part /= c.down;
  t.group = part % l.groups;
  part /= l.groups;
  t.copy = part % c.copies;
  part /= c.copies;
  t.column = part % c.across * (int32_t)K::TILE::COLUMNS;
  part /= c.across;
  t.s = tt_conv_shape_of < BACK ? TT_CONV_BACKWARD : TT_CONV_FORWARD > (l);
  for (int i = 0; i < 2; i++) {
    int32_t phase = i ? part % c.phases[1] : part / c.phases[1];
    t.axis[i] = BACK ? tt_conv_backward_axis(l, i, phase) : tt_conv_forward_axis(l, i);
  }
  t.height = BACK ? l.out[0] : l.in[0];
  t.width = BACK ? l.out[1] : l.in[1];
  t.kernel_width = l.size[1];
  t.result_width = BACK ? l.in[1] : l.out[1];
  t.row_step = l.groups * t.s.inner * t.s.from_places;
  t.result_row_step = l.groups * t.s.results * t.s.places;
  tt_conv_measure<K::KIND>(c, t);
  tt_conv_find_factors<K::KIND>(c, t);
  return t;
}

/* Start to copy the panel of the left factor, W floats at a time. */
template <class K, int W>
static __device__ __forceinline__ void tt_conv_copy_left(const tt_conv_tile &t, float *dst,
                                                         const tt_conv_entry *inner)
{
  typedef typename K::LEFT panel;
  enum { EACH = panel::LENGTH / W, STEP = K::TILE::THREADS / EACH };
  int thread = tt_product_thread(), line = thread / EACH, place = thread % EACH * W;
  int32_t m = t.m - t.row, step = t.side_step;
  const float *src = t.left;
  dst += line * panel::LD + place;
  if constexpr (panel::ALONG) {
    int32_t other = inner[place].other;
    src += other + (int64_t)line * step;
#pragma unroll 4
    for (int c = 0; c < panel::LINES / STEP; c++, src += (int64_t)STEP * step)
      tt_copy_async<W>(dst + c * STEP * panel::LD, src, other >= 0 && line + c * STEP < m);
  } else {
    src += (int64_t)place * step;
#pragma unroll 4
    for (int c = 0; c < panel::LINES / STEP; c++) {
      int32_t other = inner[line + c * STEP].other;
      tt_copy_async<W>(dst + c * STEP * panel::LD, src + other, other >= 0 && place < m);
    }
  }
}

/* The same of the right factor. Several entries are read before the copies begin, because a read
 * of shared memory between two copies makes the second one wait. */
template <class K, int W>
static __device__ __forceinline__ void tt_conv_copy_right(const tt_conv_tile &t, float *dst,
                                                          const tt_conv_entry *inner,
                                                          const tt_conv_entry *columns)
{
  typedef typename K::RIGHT panel;
  enum { EACH = panel::LENGTH / W, STEP = K::TILE::THREADS / EACH, LINES = panel::LINES / STEP };
  enum { MOST = K::TILE::SUMS < 64 || K::TILE::TENSOR ? 4 : 2 }; /* for which there are registers */
  enum { BATCH = LINES < MOST ? (int)LINES : (int)MOST };
  static_assert(LINES % BATCH == 0, "whole batches");
  int thread = tt_product_thread(), line = thread / EACH, place = thread % EACH * W;
  const tt_conv_entry fixed = (panel::ALONG ? inner : columns)[place];
  const tt_conv_entry *moving = (panel::ALONG ? columns : inner) + line;
  uint32_t height = (uint32_t)t.height, width = (uint32_t)t.width;
  const float *src = t.right;
  dst += line * panel::LD + place;
#pragma unroll 1
  for (int c = 0; c < LINES; c += BATCH) {
    tt_conv_entry e[BATCH];
#pragma unroll
    for (int i = 0; i < BATCH; i++) e[i] = moving[(c + i) * STEP];
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
      bool inside = (uint32_t)(fixed.y + e[i].y) < height && (uint32_t)(fixed.x + e[i].x) < width;
      tt_copy_async<W>(dst + (c + i) * STEP * panel::LD, src + (fixed.place + e[i].place), inside);
    }
  }
}

/* Shared memory of a block. */
template <class K> struct tt_conv_block {
  float *shared;
  __device__ __forceinline__ tt_conv_entry *columns() const
  {
    return reinterpret_cast<tt_conv_entry *>(shared + K::COLUMNS);
  }
  __device__ __forceinline__ tt_conv_tile &tile() const
  {
    return *reinterpret_cast<tt_conv_tile *>(shared + K::TILE_INFO);
  }
  static __device__ __forceinline__ tt_conv_entry *entries(float *stage)
  {
    return reinterpret_cast<tt_conv_entry *>(stage + K::ENTRIES);
  }

  /* The tile of the block, the entries of its columns and of the first panels. All threads take
   * part; returns 0 if the tile has no columns. */
  __device__ __forceinline__ int begin(const tt_conv_args &c) const
  {
    tt_conv_tile &t = tile();
    int thread = (int)threadIdx.x;
    if (thread == 0) t = tt_conv_tile_of<K>(c);
    __syncthreads();
    if (t.column >= t.n) return 0;
    for (int j = thread; j < K::TILE::COLUMNS; j += K::TILE::THREADS)
      columns()[j] = tt_conv_column<K>(t, t.column + j);
    for (int j = thread; j < K::TILE::STAGES * TT_PANEL; j += K::TILE::THREADS)
      entries(shared + j / TT_PANEL * K::STAGE)[j % TT_PANEL] = tt_conv_inner<K>(t, t.first + j);
    __syncthreads();
    return 1;
  }

  /* For tt_product_sums. A warp also computes the entries of the panel after this one, in a stage
   * that is not read now, unless `begin` has done so. */
  __device__ __forceinline__ void load(const tt_conv_args &c, float *stage, int32_t rest) const
  {
    enum { AHEAD = K::TILE::STAGES - 1, WARPS = K::TILE::THREADS / TT_WARP_SIZE };
    const tt_conv_tile &t = tile();
    const tt_conv_entry *inner = entries(stage);
    if (c.left_vector)
      tt_conv_copy_left<K, 4>(t, stage, inner);
    else
      tt_conv_copy_left<K, 1>(t, stage, inner);
    if (c.right_vector)
      tt_conv_copy_right<K, 4>(t, stage + K::LEFT::FLOATS, inner, columns());
    else
      tt_conv_copy_right<K, 1>(t, stage + K::LEFT::FLOATS, inner, columns());
    int32_t next = t.end - rest + TT_PANEL, thread = tt_product_thread();
    if (next - t.first <= AHEAD * TT_PANEL || thread / TT_WARP_SIZE != next / TT_PANEL % WARPS)
      return;
    float *after = stage == shared + AHEAD * K::STAGE ? shared : stage + K::STAGE;
    entries(after)[thread % TT_PANEL] = tt_conv_inner<K>(t, next + thread % TT_PANEL);
  }

  /* What follows, for all results of the tile, V at a time: f(place in the result, values). */
  template <int V, class F> __device__ __forceinline__ void finish(int32_t step, F f) const
  {
    enum { EACH = K::TILE::COLUMNS / V, ROWS = K::TILE::THREADS / EACH };
    const tt_conv_tile &t = tile();
    int column = (int)threadIdx.x % EACH * V, row = (int)threadIdx.x / EACH;
    int32_t last = t.m - t.row < K::TILE::ROWS ? t.m - t.row : (int32_t)K::TILE::ROWS;
    int32_t place = columns()[column].other;
    if (place < 0) return;
    place += t.row * step;
#pragma unroll 1
    for (; row < last; row += ROWS)
      f(place + row * step, tt_load_floats<V>(shared + row * K::TILE::RESULT_LD + column));
  }
};
static_assert((int)TT_PANEL == (int)TT_WARP_SIZE, "a warp has the entries of a panel");
#endif
