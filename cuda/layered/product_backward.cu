/* product_backward.cu — the kernels of product.cuh for one kind of product. */
#include "cuda/layered/product_launch.cuh"

tt_err tt_layered_multiply_backward(int tile, const tt_product_args &args, int64_t members,
                                    cudaStream_t stream)
{
  tt_product_args a = args;
  return launch_product(
      launch_of_tile<tt_product_args, tt_describe<TT_PRODUCT_BACKWARD>::product>(tile), a, a,
      members, stream);
}
