/* conv_backward.cu — the kernels of conv_product.cuh for one direction. */
#include "cuda/front/conv_tiles.cuh"

tt_err tt_conv_multiply_backward(int tile, const tt_front_layer_args &a, int32_t members,
                                 cudaStream_t stream)
{
  return tt_conv_multiply<TT_CONV_BACKWARD>(tile, a, members, stream);
}
