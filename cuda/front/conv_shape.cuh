/* conv_shape.cuh — a conv of a front as sums over channels and positions of the kernel. */
#ifndef TT_CONV_SHAPE_CUH
#define TT_CONV_SHAPE_CUH
#include "cuda/front/front_layer.cuh"
#include "cuda/product/product.cuh"

/* A group of a conv: sums over `inner` channels and the positions of the kernel, its taps.
 * Backward, results are dL/d(inputs), and the inner channels those of dL/dz. */
typedef struct tt_conv_shape {
  int32_t results, inner;            /* channels */
  int32_t places, from_places, taps; /* positions of a result, an inner channel, the kernel */
  int32_t result_step, inner_step;   /* of the weights, from one channel to the next */
} tt_conv_shape;

TT_HD tt_conv_shape tt_conv_shape_of(const tt_front_layer &l, tt_product_kind kind)
{
  int32_t out = l.channels / l.groups, in = l.in_channels / l.groups;
  int32_t places = l.out[0] * l.out[1], read = l.in[0] * l.in[1], taps = l.size[0] * l.size[1];
  tt_conv_shape forward = {out, in, places, read, taps, in * taps, taps};
  tt_conv_shape backward = {in, out, read, places, taps, taps, in * taps};
  return kind == TT_PRODUCT_BACKWARD ? backward : forward;
}

/* Layers with fewer results than a fragment, or short sums, have no use for tensor cores. */
TT_HD tt_precision tt_conv_precision(const tt_front_layer_args &a, const tt_conv_shape &s)
{
  const int32_t least = 16;
  return s.results >= least && s.inner * s.taps > least ? a.precision : TT_PRECISION_fp32;
}

/* Forward and backward, with the tiles of cuda/product, and the gradient of the weights. Bits
 * depend on layer, rows and precision alone. Asynchronous, may be captured. Errors: INTERNAL.
 *   tile    number of the tile, of a gradient that for chunks; -1: the fastest
 *   copies  1: a block computes all chunks; or the number of chunks, and a.chunk_sums is used */
tt_err tt_conv_multiply(tt_product_kind kind, int tile, const tt_front_layer_args &a,
                        int32_t members, cudaStream_t stream);
tt_err tt_conv_multiply_gradient(int tile, int32_t copies, const tt_front_layer_args &a,
                                 int32_t members, cudaStream_t stream);
#endif
