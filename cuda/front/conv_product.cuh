/* conv_product.cuh — a conv as a product of the tiles of cuda/product/product_tile.cuh:
 *   forward   [channels][rows, positions] = W [channels][in channels, taps] X, then the activation
 *   backward  dL/dX [in channels][rows, positions] = W^T D, for one phase of the positions
 *   gradient  dL/dW [channels][in channels, taps] = D X^T, in chunks of the rows and positions
 * where X [in channels, taps][rows, positions], or D backward, is not stored: its panels are copied
 * from the values where they are, with zeros outside. The place of a value is a sum of two entries,
 * one of its position and one of its tap, which are in shared memory: those of the columns of a
 * tile for the whole sum, those of the inner indices behind each panel.
 *
 * A result is one chain in ascending order of the inner index, channel by channel, to which forward
 * adds the bias; in training steps, where there are long chains and few results, and of a gradient
 * it is one chain for each chunk, added in their order. The chunks follow from the layer and the
 * rows of a batch alone. */
#ifndef TT_CONV_PRODUCT_CUH
#define TT_CONV_PRODUCT_CUH
#include "cuda/front/conv_shape.cuh"
#include "cuda/product/product_tile.cuh"

/* Where a value is: the sum of two entries has its place in the right factor, and its coordinates
 * there; `other` is a place in the left factor or, of a column, in the result. */
struct alignas(16) tt_conv_entry {
  int32_t place, y, x, other;
};

/* The entries of rows and positions, or of inner channels and taps: index k = (a size[0] + j)
 * size[1] + i has first + a step[0] + j step[1] + i step[2]. */
typedef struct tt_conv_index {
  tt_conv_entry first, step[3];
  int32_t size[2], count;
} tt_conv_index;

/* Backward, positions of an axis have as many phases, (position + pad) % stride, as its stride:
 * those of a phase are read by the same taps. Forward there is one. */
typedef struct tt_conv_phase {
  tt_conv_index position, tap;
} tt_conv_phase;

enum { TT_CONV_PHASES = 4 }; /* of a launch */

typedef struct tt_conv_args {
  tt_front_layer_args a;
  tt_conv_shape s;
  const float *left, *right;       /* of the first member */
  int64_t left_step, right_step;   /* from one member to the next */
  int64_t left_group, right_group; /* from one group to the next */
  int32_t side_step;               /* of the left factor, from one row of the result to the next */
  int32_t height, width;           /* of a channel of the right factor */
  int left_vector, right_vector, vector; /* 1: as in tt_factor and tt_product_args */
  int32_t chunk, copies;                 /* as in tt_gradients; chunk 0: copies of equal length */
  float *result;                         /* gradient or sums of chunks [members][copies][...] */
  int64_t step, copy_step;               /* of it, from one member and one copy to the next */
  int32_t down, across;    /* tiles below each other; side by side, of a phase; set by the launch */
  int32_t phases, columns; /* columns: of the result, of a phase at most */
  tt_conv_phase phase[TT_CONV_PHASES];
} tt_conv_args;

/* All but what a launch sets, and the chunks and the result of a gradient; the phases from number
 * `first` on. Returns the number of all phases. */
int32_t tt_conv_describe(tt_product_kind kind, const tt_front_layer_args &a, int32_t first,
                         tt_conv_args *out);

/* What a block computes; in shared memory. */
typedef struct tt_conv_tile {
  const float *left, *right;
  int64_t member;
  int32_t group, phase, copy, row, column; /* row, column: of the tile the first ones */
  int32_t rows, first, end;                /* rows that are left; inner indices */
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
  static __device__ __forceinline__ const tt_conv_index &columns(const tt_conv_phase &p)
  {
    return KIND == TT_PRODUCT_GRADIENT ? p.tap : p.position;
  }
  static __device__ __forceinline__ const tt_conv_index &inner(const tt_conv_phase &p)
  {
    return KIND == TT_PRODUCT_GRADIENT ? p.position : p.tap;
  }
};

/* Behind the end, an entry that is outside of the right factor, whatever is added to y; `other` is
 * negative, and a multiple of the size of a vector as all places are. */
static __device__ __forceinline__ tt_conv_entry tt_conv_entry_of(const tt_conv_index &x, int32_t k,
                                                                 int32_t end)
{
  if (k >= end) return {0, INT32_MIN / 2, 0, -4};
  int32_t i = k % x.size[1], rest = k / x.size[1], j = rest % x.size[0], a = rest / x.size[0];
  auto sum = [&](int32_t tt_conv_entry::*of) {
    return x.first.*of + a * (x.step[0].*of) + j * (x.step[1].*of) + i * (x.step[2].*of);
  };
  return {sum(&tt_conv_entry::place), sum(&tt_conv_entry::y), sum(&tt_conv_entry::x),
          sum(&tt_conv_entry::other)};
}

/* Blocks of a member, from the last number to the first: phase, tile across, copy, group, tile
 * down, so that neighbors have the same right factor. */
template <class K>
static __device__ __forceinline__ tt_conv_tile tt_conv_tile_of(const tt_conv_args &c)
{
  tt_conv_tile t;
  int32_t part = (int32_t)(blockIdx.x % (unsigned)c.a.parts), groups = c.a.layer.groups;
  t.member = blockIdx.x / (unsigned)c.a.parts;
  t.row = part % c.down * (int32_t)K::TILE::ROWS;
  part /= c.down;
  t.group = part % groups;
  part /= groups;
  t.copy = part % c.copies;
  part /= c.copies;
  t.column = part % c.across * (int32_t)K::TILE::COLUMNS;
  t.phase = part / c.across;
  t.rows = c.s.results - t.row;
  t.end = K::inner(c.phase[t.phase]).count;
  int32_t chunk = c.chunk; /* 0: as many of the phase as there are copies */
  if (!chunk) chunk = ((t.end + c.copies - 1) / c.copies + TT_PANEL - 1) / TT_PANEL * TT_PANEL;
  t.first = t.copy * chunk;
  if (c.copies > 1 && t.end - t.first > chunk) t.end = t.first + chunk;
  t.left = c.left + t.member * c.left_step + t.group * c.left_group + (int64_t)t.row * c.side_step;
  t.right = c.right + t.member * c.right_step + t.group * c.right_group;
  return t;
}

/* Start to copy a panel, W floats at a time: source(line, place, &valid) is the address of a value.
 * Several addresses are computed before the copies begin, because a read of shared memory between
 * two copies makes the second one wait. */
template <class K, class PANEL, int W, class SOURCE>
static __device__ __forceinline__ void tt_conv_copy(float *dst, SOURCE source)
{
  enum { EACH = PANEL::LENGTH / W, STEP = K::TILE::THREADS / EACH, LINES = PANEL::LINES / STEP };
  enum { MOST = K::TILE::SUMS < 64 || K::TILE::TENSOR ? 8 : 2 }; /* for which there are registers */
  enum { BATCH = (int)LINES < (int)MOST ? (int)LINES : (int)MOST };
  static_assert((int)LINES % (int)BATCH == 0, "whole batches");
  int thread = tt_product_thread(), line = thread / EACH, place = thread % EACH * W;
  dst += line * PANEL::LD + place;
  auto at = source(place);
#pragma unroll 1
  for (int c = 0; c < LINES; c += BATCH, line += BATCH * STEP, dst += BATCH * STEP * PANEL::LD) {
    const float *src[BATCH];
    bool valid[BATCH];
#pragma unroll
    for (int i = 0; i < BATCH; i++) src[i] = at(line + i * STEP, valid[i]);
#pragma unroll
    for (int i = 0; i < BATCH; i++) tt_copy_async<W>(dst + i * STEP * PANEL::LD, src[i], valid[i]);
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
   * part; returns 0 if the member is skipped, or the tile has no columns. */
  __device__ __forceinline__ int begin(const tt_conv_args &c) const
  {
    tt_conv_tile &t = tile();
    int thread = (int)threadIdx.x;
    if (c.a.skip && c.a.skip[blockIdx.x / (unsigned)c.a.parts]) return 0;
    if (thread == 0) t = tt_conv_tile_of<K>(c);
    __syncthreads();
    const tt_conv_phase &p = c.phase[t.phase];
    int32_t count = K::columns(p).count;
    if (t.column >= count) return 0;
    for (int j = thread; j < K::TILE::COLUMNS; j += K::TILE::THREADS)
      columns()[j] = tt_conv_entry_of(K::columns(p), t.column + j, count);
    for (int j = thread; j < K::TILE::STAGES * TT_PANEL; j += K::TILE::THREADS)
      entries(shared + j / TT_PANEL * K::STAGE)[j % TT_PANEL] =
          tt_conv_entry_of(K::inner(p), t.first + j, t.end);
    __syncthreads();
    return 1;
  }

  template <int W>
  __device__ __forceinline__ void copy_left(const tt_conv_args &c, float *dst,
                                            const tt_conv_entry *inner) const
  {
    const tt_conv_tile &t = tile();
    const float *left = t.left;
    int32_t rows = t.rows, step = c.side_step;
    tt_conv_copy<K, typename K::LEFT, W>(dst, [&](int place) {
      int32_t other = K::LEFT::ALONG ? inner[place].other : place < rows ? 0 : -4;
      const float *src = left + (K::LEFT::ALONG ? other : (int64_t)place * step);
      return [=](int line, bool &valid) {
        if (K::LEFT::ALONG) {
          valid = other >= 0 && line < rows;
          return src + (int64_t)line * step;
        }
        int32_t offset = inner[line].other;
        valid = offset >= 0 && other >= 0;
        return src + offset;
      };
    });
  }

  template <int W>
  __device__ __forceinline__ void copy_right(const tt_conv_args &c, float *dst,
                                             const tt_conv_entry *inner) const
  {
    const float *right = tile().right;
    uint32_t height = (uint32_t)c.height, width = (uint32_t)c.width;
    const tt_conv_entry *along = K::RIGHT::ALONG ? inner : columns();
    const tt_conv_entry *lines = K::RIGHT::ALONG ? columns() : inner;
    tt_conv_copy<K, typename K::RIGHT, W>(dst, [&](int place) {
      const tt_conv_entry fixed = along[place];
      return [=](int line, bool &valid) {
        tt_conv_entry e = lines[line];
        valid = (uint32_t)(fixed.y + e.y) < height && (uint32_t)(fixed.x + e.x) < width;
        return right + (fixed.place + e.place);
      };
    });
  }

  /* For tt_product_sums. A warp also computes the entries of the panel after this one, if `begin`
   * has not done so. */
  __device__ __forceinline__ void load(const tt_conv_args &c, float *stage, float *next,
                                       int32_t rest) const
  {
    enum { WARPS = K::TILE::THREADS / TT_WARP_SIZE };
    const tt_conv_tile &t = tile();
    if (c.left_vector)
      copy_left<4>(c, stage, entries(stage));
    else
      copy_left<1>(c, stage, entries(stage));
    if (c.right_vector)
      copy_right<4>(c, stage + K::LEFT::FLOATS, entries(stage));
    else
      copy_right<1>(c, stage + K::LEFT::FLOATS, entries(stage));
    int32_t k = t.end - rest + TT_PANEL, thread = tt_product_thread();
    if (next && thread / TT_WARP_SIZE == k / TT_PANEL % WARPS)
      entries(next)[thread % TT_PANEL] =
          tt_conv_entry_of(K::inner(c.phase[t.phase]), k + thread % TT_PANEL, t.end);
  }

  /* f(place in the result, channel, V results), for all results of the tile; `step`: from one
   * channel of the result to the next. */
  template <int V, class F>
  __device__ __forceinline__ void finish(const tt_conv_args &c, int32_t step, F f) const
  {
    enum { EACH = K::TILE::COLUMNS / V, ROWS = K::TILE::THREADS / EACH };
    const tt_conv_tile &t = tile();
    int column = (int)threadIdx.x % EACH * V, row = (int)threadIdx.x / EACH;
    int32_t place = columns()[column].other, last = min(t.rows, (int32_t)K::TILE::ROWS);
    int32_t channel = t.group * c.s.results + t.row;
    if (place < 0) return;
#pragma unroll 1
    for (; row < last; row += ROWS)
      f(place + (channel + row) * step, channel + row,
        tt_load_floats<V>(shared + row * K::TILE::RESULT_LD + column));
  }
};
static_assert((int)TT_PANEL == (int)TT_WARP_SIZE, "a warp has the entries of a panel");

/* Launch the kernel `t` of a tile. */
static inline tt_err tt_launch_conv(const tt_product_launch<tt_conv_args> &t, tt_conv_args c,
                                    int32_t members, cudaStream_t stream)
{
  c.down = (int32_t)tt_grid_size(c.s.results, t.rows);
  c.across = (int32_t)tt_grid_size(c.columns, t.columns);
  c.a.parts = c.phases * c.a.layer.groups * c.copies * c.down * c.across;
  return tt_launch(t.kernel, (unsigned)members * (unsigned)c.a.parts, (unsigned)t.threads,
                   (size_t)t.bytes, stream, c);
}
#endif
