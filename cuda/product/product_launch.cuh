/* product_launch.cuh — kernels and launch of the products of product.cuh in one chain. */
#ifndef TT_PRODUCT_LAUNCH_CUH
#define TT_PRODUCT_LAUNCH_CUH
#include "cuda/product/product_tile.cuh"

template <class K>
static __global__ void __launch_bounds__(K::TILE::THREADS, TT_PRODUCT_THREADS / K::TILE::THREADS)
    layer_product(tt_product_args a)
{
  TT_SHARED_MEMORY(float, shared);
  tt_product_place place = tt_product_place_of<K>(a);
  if (a.skip && a.skip[place.member]) return;
  bool biases = K::KIND == TT_PRODUCT_GRADIENT && place.column == 0 && threadIdx.x < K::TILE::ROWS;
  float bias = tt_product_compute<K>(a, place, biases, shared);
  int32_t row = place.row + (int32_t)threadIdx.x;
  if (biases && row < a.m) a.bias_gradient[(int64_t)place.member * a.step + row] = bias;
  if (a.vector)
    tt_product_finish<K, 4>(a, place, shared);
  else
    tt_product_finish<K, 1>(a, place, shared);
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

template <tt_product_kind KIND> struct tt_layer_products {
  template <class TILE> static constexpr tt_product_launch<tt_product_args> of()
  {
    typedef tt_product_kernel<TILE, KIND> k;
    return {layer_product<k>, TILE::ROWS, TILE::COLUMNS, TILE::THREADS, k::BYTES};
  }
};

/* tt_multiply for one kind. */
template <tt_product_kind KIND>
static tt_err launch_product(int tile, tt_product_args a, int64_t members, cudaStream_t stream)
{
  return tt_launch_product(tt_product_tile_at<tt_product_args, tt_layer_products<KIND>>(tile), a, a,
                           members, stream);
}
#endif
