/* multiply.cu — see multiply.cuh. */
#include "cuda/product/multiply.cuh"
#include "cuda/product/product_ends.cuh"

#include "core/base/int.h"

enum { FINISH_ELEMENTS = 1024, FINISH_THREADS = 256 }; /* of a block */

typedef struct tile_numbers {
  int64_t rows, columns;
  int alone, full; /* per cent */
} tile_numbers;

static const tile_numbers tiles[TT_ALL_TILE_COUNT] = {
#define X(tm, tn, down, warps_down, warps_across, stages, alone, full)                             \
  {(tm) * (down) * (warps_down), (tn) * (32 / (down)) * (warps_across), alone, full},
    TT_PRODUCT_TILES(X)
#undef X
#define X(m, n, warps_down, warps_across, stages, alone, full)                                     \
  {16 * (m) * (warps_down), 8 * (n) * (warps_across), alone, full},
        TT_TENSOR_TILES(X)
#undef X
};

/* The time of `all` blocks. A multiprocessor has `blocks` of them at the most, which share its
 * arithmetic. */
static double time_of(const tile_numbers *t, int64_t all, int multiprocessors)
{
  double blocks = (double)tt_ceil_div(all, multiprocessors), rate = blocks * t->alone;
  return blocks * (double)(t->rows * t->columns) / (rate < t->full ? rate : t->full);
}

/* The fastest of the tiles [begin, end) for `copies` products of each shape of `g`. */
static int choose(const tt_gradients &g, int64_t copies, int multiprocessors, int begin, int end)
{
  int best = begin;
  double least = 0.0;
  for (int k = begin; k < end; k++) {
    const tile_numbers *t = &tiles[k];
    int64_t all = 0;
    for (int l = 0; l < g.layers; l++)
      all += tt_ceil_div(g.layer[l].m, t->rows) * tt_ceil_div(g.layer[l].n, t->columns) * copies;
    double time = time_of(t, all, multiprocessors);
    if (k > begin && time >= least) continue;
    least = time;
    best = k;
  }
  return best;
}

int tt_choose_product_tile(int64_t m, int64_t n, int64_t members, int multiprocessors,
                           tt_precision precision)
{
  tt_gradients one = {};
  one.layers = 1;
  one.layer[0].m = (int32_t)m;
  one.layer[0].n = (int32_t)n;
  return precision == TT_PRECISION_fp32
             ? choose(one, members, multiprocessors, 0, TT_PRODUCT_TILE_COUNT)
             : choose(one, members, multiprocessors, TT_PRODUCT_TILE_COUNT, TT_ALL_TILE_COUNT);
}

int tt_choose_chunk_tile(const tt_gradients &g, int64_t members, int multiprocessors,
                         tt_precision precision)
{
  enum {
    FIRST = TT_PRODUCT_TILE_COUNT - TT_CHUNK_TILE_COUNT,
    FIRST_TENSOR = TT_ALL_TILE_COUNT - TT_TENSOR_CHUNK_TILE_COUNT
  };
  int64_t copies = members * g.copies;
  if (precision == TT_PRECISION_fp32)
    return choose(g, copies, multiprocessors, FIRST, TT_PRODUCT_TILE_COUNT) - FIRST;
  return choose(g, copies, multiprocessors, FIRST_TENSOR, TT_ALL_TILE_COUNT) - FIRST_TENSOR +
         TT_CHUNK_TILE_COUNT;
}

tt_err tt_multiply(tt_product_kind kind, int tile, const tt_product_args &args, int64_t members,
                   cudaStream_t stream)
{
  if (kind == TT_PRODUCT_FORWARD) return tt_multiply_forward(tile, args, members, stream);
  if (kind == TT_PRODUCT_BACKWARD) return tt_multiply_backward(tile, args, members, stream);
  return tt_multiply_gradient(tile, args, members, stream);
}

template <int V> static __global__ void finish_backward(tt_product_args a)
{
  int64_t member = blockIdx.x / (unsigned)a.parts;
  uint32_t count = (uint32_t)a.m * (uint32_t)a.n,
           first = blockIdx.x % (unsigned)a.parts * FINISH_ELEMENTS;
  uint32_t last = count - first < FINISH_ELEMENTS ? count : first + FINISH_ELEMENTS;
  if (a.skip && a.skip[member]) return;
  tt_product_end end = tt_product_end_of(a, member);
  for (uint32_t k = first + V * threadIdx.x; k < last; k += V * blockDim.x)
    tt_finish_backward<V>(end, (int32_t)k, tt_load_floats<V>(end.result + k));
}

tt_err tt_multiply_finish_backward(tt_product_args a, int64_t members, cudaStream_t stream)
{
  a.parts = (int32_t)tt_grid_size((int64_t)a.m * a.n, FINISH_ELEMENTS);
  return tt_launch(a.vector ? finish_backward<4> : finish_backward<1>,
                   (unsigned)members * (unsigned)a.parts, FINISH_THREADS, 0, stream, a);
}
