/* product_gradient.cu — the kernels of product.cuh for one kind of product. */
#include "cuda/layered/product_tile.cuh"

tt_err tt_layered_multiply_gradient(int tile, const tt_product_args &args, int64_t members,
                                    cudaStream_t stream)
{
  return launch_product<TT_PRODUCT_GRADIENT>(tile, args, members, stream);
}
