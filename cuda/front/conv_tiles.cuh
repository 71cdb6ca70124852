/* conv_tiles.cuh — the kernels of conv_product.cuh, forward and backward, and their launch. Device
 * code. */
#ifndef TT_CONV_TILES_CUH
#define TT_CONV_TILES_CUH
#include "cuda/front/conv_product.cuh"

static __device__ __forceinline__ tt_product_end tt_conv_end_of(const tt_conv_args &c,
                                                                const tt_conv_tile &t)
{
  const tt_front_layer_args &a = c.a;
  int64_t group = (int64_t)t.group * c.s.results * c.s.places, offset = t.member * a.step + group;
  tt_product_end e;
  e.result = a.result + offset;
  e.slope = a.slope ? a.slope + offset : NULL;
  e.before_slope = a.before_slope ? a.before_slope + offset : NULL;
  e.h = a.y ? a.y + offset : NULL;
  e.residual = a.add ? a.add + t.member * a.add_step + group : NULL;
  e.activates_sum = a.layer.activates_sum;
  e.activation = a.activation;
  return e;
}

/* The results of a thread before the first product. */
template <class K>
static __device__ __forceinline__ void
tt_conv_begin_sums(const tt_conv_args &c, const tt_conv_tile &t, typename K::TILE::sums &sum)
{
  typedef typename K::TILE tile;
  const tt_front_layer &l = c.a.layer;
  float begin[tile::OWN_ROWS];
#pragma unroll
  for (int i = 0; i < tile::OWN_ROWS; i++) {
    int32_t row = tile::warp_row() + tt_product_row<K>(i);
    begin[i] = 0.0f;
    if (K::KIND == TT_PRODUCT_FORWARD && l.bias >= 0 && row < t.rows)
      begin[i] = c.a.w[t.member * c.a.w_step + l.bias + t.group * c.s.results + t.row + row];
  }
  tt_product_each<K>(sum, [&](auto &x, int i, int) {
#pragma unroll
    for (int q = 0; q < (int)(sizeof x / sizeof *x); q++) x[q] = begin[i];
  });
}

template <class K>
static __global__ void __launch_bounds__(K::TILE::THREADS, TT_PRODUCT_THREADS / K::TILE::THREADS)
    conv_product(tt_conv_args c)
{
  TT_SHARED_MEMORY(float, shared);
  const tt_conv_block<K> b = {shared};
  if (!b.begin(c)) return;
  const tt_conv_tile &t = b.tile();
  typename K::TILE::sums sum;
  tt_conv_begin_sums<K>(c, t, sum);
  tt_product_sums<K>(
      t.end - t.first, false, shared, sum,
      [&](float *stage, float *next, int32_t rest) { b.load(c, stage, next, rest); }, [](float) {});
  __syncthreads(); /* the results take the place of the panels */
  tt_product_spread<K>(sum, shared);
  __syncthreads();
  tt_product_end end = tt_conv_end_of(c, t);
  auto finish = [&](int32_t place, const auto &z) {
    enum { V = sizeof z / sizeof(float) };
    if (K::KIND == TT_PRODUCT_FORWARD)
      tt_finish_forward<V, true>(end, place, z);
    else
      tt_finish_backward<V>(end, place, z);
  };
  if (c.vector)
    b.template finish<4>(c.s.places, finish);
  else
    b.template finish<1>(c.s.places, finish);
}

template <tt_product_kind KIND> struct tt_conv_kernels {
  template <class TILE> static constexpr tt_product_launch<tt_conv_args> of()
  {
    typedef tt_conv_kernel<TILE, KIND> k;
    return {conv_product<k>, TILE::ROWS, TILE::COLUMNS, TILE::THREADS, k::BYTES};
  }
};

/* All phases, some in a launch. */
template <tt_conv_direction D>
static tt_err tt_conv_multiply(int tile, const tt_front_layer_args &a, int32_t members,
                               cudaStream_t stream)
{
  constexpr tt_product_kind KIND = D == TT_CONV_FORWARD ? TT_PRODUCT_FORWARD : TT_PRODUCT_BACKWARD;
  const auto &t = tt_product_tile_at<tt_conv_args, tt_conv_kernels<KIND>>(tile);
  tt_conv_args c;
  for (int32_t first = 0, all = 1; first < all; first += TT_CONV_PHASES) {
    all = tt_conv_describe(KIND, a, first, &c);
    TT_TRY(tt_launch_conv(t, c, tt_conv_columns<D>(a), members, stream));
  }
  return TT_OK;
}
#endif
