/* product_tables.cuh — the launches of all kernels of a kind, one for each tile of product.cuh. */
#ifndef TT_PRODUCT_TABLES_CUH
#define TT_PRODUCT_TABLES_CUH
#include "cuda/product/product.cuh"

template <int TM, int TN, int DOWN, int WARPS_DOWN, int WARPS_ACROSS, int STAGES>
struct tt_product_tile;
template <int M, int N, int WARPS_DOWN, int WARPS_ACROSS, int STAGES> struct tt_tensor_tile;

/* What a launch of a tile needs. */
template <class ARGS> struct tt_product_launch {
  void (*kernel)(ARGS);
  int rows, columns, threads, bytes;
};

/* The launch KERNELS::of<TILE>() of tile number `tile`. */
template <class ARGS, class KERNELS>
static const tt_product_launch<ARGS> &tt_product_tile_at(int tile)
{
  static const tt_product_launch<ARGS> tiles[] = {
#define X(tm, tn, down, warps_down, warps_across, stages, ...)                                     \
  KERNELS::template of<tt_product_tile<tm, tn, down, warps_down, warps_across, stages>>(),
      TT_PRODUCT_TILES(X)
#undef X
#define X(m, n, warps_down, warps_across, stages, ...)                                             \
  KERNELS::template of<tt_tensor_tile<m, n, warps_down, warps_across, stages>>(),
          TT_TENSOR_TILES(X)
#undef X
  };
  return tiles[tile];
}

/* The same for gradients in chunks. */
template <class ARGS, class KERNELS>
static const tt_product_launch<ARGS> &tt_chunk_tile_at(int tile)
{
  static const tt_product_launch<ARGS> tiles[] = {
#define X(tm, tn, down, warps_down, warps_across, stages, ...)                                     \
  KERNELS::template of<tt_product_tile<tm, tn, down, warps_down, warps_across, stages>>(),
      TT_CHUNK_TILES(X)
#undef X
#define X(m, n, warps_down, warps_across, stages, ...)                                             \
  KERNELS::template of<tt_tensor_tile<m, n, warps_down, warps_across, stages>>(),
          TT_TENSOR_CHUNK_TILES(X)
#undef X
  };
  return tiles[tile];
}
#endif
