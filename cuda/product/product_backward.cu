/* product_backward.cu — the kernels of product.cuh for one kind of product. */
#include "cuda/product/product_launch.cuh"

tt_err tt_multiply_backward(int tile, const tt_product_args &args, int64_t members,
                            cudaStream_t stream)
{
  return launch_product<TT_PRODUCT_BACKWARD>(tile, args, members, stream);
}
