/* product_launch.cuh — the kernel of forward and backward products (product.cuh), and the launches of
 * all tiles. */
#ifndef TT_PRODUCT_LAUNCH_CUH
#define TT_PRODUCT_LAUNCH_CUH
#include "cuda/layered/product_tile.cuh"

/* A forward or backward product. */
template <class K>
static __global__ void __launch_bounds__(K::TILE::THREADS, TT_PRODUCT_THREADS / K::TILE::THREADS)
    layer_product(tt_product_args a)
{
  TT_SHARED_MEMORY(float, shared);
  typedef typename K::TILE tile;
  tt_product_place place = tt_product_place_of<K>(a);
  if (a.skip && a.skip[place.member]) return;
  float begin[tile::OWN_COLUMNS];
#pragma unroll
  for (int j = 0; j < tile::OWN_COLUMNS; j++) {
    int32_t column = place.column + tile::warp_column() + tt_product_column<K>(j);
    begin[j] = 0.0f;
    if (K::KIND == TT_PRODUCT_FORWARD && column < a.n)
      begin[j] = a.bias[(int64_t)place.member * a.bias_step + column];
  }
  tt_product_compute<K>(a, place, begin, shared);
  tt_product_end end = tt_product_end_of(a, place.member);
  if (a.vector)
    tt_product_finish<K, 4>(a, place, shared, [&](int32_t index, const tt_floats<4> &x) {
      tt_finish_product<K::KIND>(end, index, x);
    });
  else
    tt_product_finish<K, 1>(a, place, shared, [&](int32_t index, const tt_floats<1> &x) {
      tt_finish_product<K::KIND>(end, index, x);
    });
}

/* What a launch of a tile needs. */
template <class ARGS> struct tt_product_launch {
  void (*kernel)(ARGS);
  int rows, columns, threads, bytes;
};

/* The launches of all tiles, in the order of their numbers: DESCRIBE<TILE>::launch(). */
template <class ARGS, template <class> class DESCRIBE>
static const tt_product_launch<ARGS> &launch_of_tile(int tile)
{
  static const tt_product_launch<ARGS> tiles[] = {
#define X(tm, tn, down, warps_down, warps_across, stages, ...)                                     \
  DESCRIBE<tt_product_tile<tm, tn, down, warps_down, warps_across, stages>>::launch(),
      TT_PRODUCT_TILES(X)
#undef X
#define X(m, n, warps_down, warps_across, stages, ...)                                             \
  DESCRIBE<tt_tensor_tile<m, n, warps_down, warps_across, stages>>::launch(),
          TT_TENSOR_TILES(X)
#undef X
  };
  return tiles[tile];
}

/* Launch a product for `members` members, whose arguments `a` are `args` or part of them. */
template <class ARGS>
static tt_err launch_product(const tt_product_launch<ARGS> &t, tt_product_args &a, ARGS &args,
                             int64_t members, cudaStream_t stream)
{
  a.across = (int32_t)tt_grid_size(a.n > 0 ? a.n : 1, t.columns);
  a.parts = a.across * (int32_t)tt_grid_size(a.m, t.rows);
  return tt_launch(t.kernel, (unsigned)members * (unsigned)a.parts, (unsigned)t.threads,
                   (size_t)t.bytes, stream, args);
}

template <tt_product_kind KIND> struct tt_describe {
  template <class TILE> struct product {
    static constexpr tt_product_launch<tt_product_args> launch()
    {
      typedef tt_product_kernel<TILE, KIND> k;
      return {layer_product<k>, TILE::ROWS, TILE::COLUMNS, TILE::THREADS, k::BYTES};
    }
  };
};
#endif
