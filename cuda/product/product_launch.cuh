/* product_launch.cuh — launches of the tiles of products (product_tile.cuh). */
#ifndef TT_PRODUCT_LAUNCH_CUH
#define TT_PRODUCT_LAUNCH_CUH
#include "cuda/product/product_tile.cuh"

/* What a launch of a tile needs. */
template <class ARGS> struct tt_product_launch {
  void (*kernel)(ARGS);
  int rows, columns, threads, bytes;
};

/* DESCRIBE<TILE>::launch() of tile number `tile`. */
template <class ARGS, template <class> class DESCRIBE>
static const tt_product_launch<ARGS> &tt_launch_of_tile(int tile)
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

/* Launch a product `a` for `members` members, which is part of the arguments `args`. */
template <class ARGS>
static tt_err tt_launch_product(const tt_product_launch<ARGS> &t, tt_product_args &a, ARGS &args,
                                int64_t members, cudaStream_t stream)
{
  a.across = (int32_t)tt_grid_size(a.n > 0 ? a.n : 1, t.columns);
  a.parts = a.across * (int32_t)tt_grid_size(a.m, t.rows);
  return tt_launch(t.kernel, (unsigned)members * (unsigned)a.parts, (unsigned)t.threads,
                   (size_t)t.bytes, stream, args);
}
#endif
