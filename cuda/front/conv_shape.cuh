/* conv_shape.cuh — a conv of a front as sums over channels and positions of the kernel: which value
 * a result reads. Device code. */
#ifndef TT_CONV_SHAPE_CUH
#define TT_CONV_SHAPE_CUH
#include "cuda/front/front_layer.cuh"

typedef enum tt_conv_direction { TT_CONV_FORWARD, TT_CONV_BACKWARD } tt_conv_direction;

/* A group of a conv: sums over `inner` channels and the positions of the kernel. Backward, results
 * are dL/d(inputs), and the inner channels those of dL/dz. */
typedef struct tt_conv_shape {
  int32_t results, inner;            /* channels */
  int32_t places, from_places, taps; /* positions of a result, an inner channel, the kernel */
  int32_t result_step, inner_step;   /* of the weights, from one channel to the next */
} tt_conv_shape;

template <tt_conv_direction D> TT_HD tt_conv_shape tt_conv_shape_of(const tt_front_layer &l)
{
  int32_t out = l.channels / l.groups, in = l.in_channels / l.groups;
  int32_t taps = l.size[0] * l.size[1];
  tt_conv_shape forward = {out, in, l.out[0] * l.out[1], l.in[0] * l.in[1], taps, in * taps, taps};
  tt_conv_shape backward = {in, out, forward.from_places, forward.places, taps, taps, in * taps};
  return D == TT_CONV_FORWARD ? forward : backward;
}

/* Phases of the positions of an axis (conv_product.cuh). */
template <tt_conv_direction D> TT_HD int32_t tt_conv_phases(const tt_front_layer &l, int i)
{
  int32_t padded = l.in[i] + l.pad[i], phases = l.stride[i] < padded ? l.stride[i] : padded;
  return D == TT_CONV_FORWARD ? 1 : phases;
}

/* Positions of all rows, of a phase at most. */
template <tt_conv_direction D> TT_HD int64_t tt_conv_columns(const tt_front_layer_args &a)
{
  const tt_front_layer &l = a.layer;
  int64_t columns = a.rows;
  for (int i = 0; i < 2; i++)
    columns *= D == TT_CONV_FORWARD ? l.out[i] : (l.in[i] + l.stride[i] - 1) / l.stride[i];
  return columns;
}

/* Whether a sum is long enough, and has enough results, for the tiles of product_tile.cuh; else
 * the kernels of convolve.cu compute it. It follows from the layer and the precision alone. */
TT_HD tt_precision tt_conv_precision(const tt_front_layer_args &a, const tt_conv_shape &s)
{
  const int32_t narrow = 16;
  return s.results > narrow && s.inner * s.taps > narrow ? a.precision : TT_PRECISION_fp32;
}
TT_HD int tt_conv_has_tiles(const tt_front_layer_args &a, const tt_conv_shape &s)
{
  return s.results > 32 || tt_conv_precision(a, s) != TT_PRECISION_fp32;
}

/* With tile number `tile`, as in product.cuh; conv_forward.cu, conv_backward.cu. Asynchronous, may
 * be captured. Errors: INTERNAL. */
tt_err tt_conv_multiply_forward(int tile, const tt_front_layer_args &a, int32_t members,
                                cudaStream_t stream);
tt_err tt_conv_multiply_backward(int tile, const tt_front_layer_args &a, int32_t members,
                                 cudaStream_t stream);

/* The gradient of the weights with tile number `tile` of the chunk tiles; conv_gradient.cu.
 *   copies  1: a block computes all chunks; or the number of chunks, and a.chunk_sums is used */
tt_err tt_conv_multiply_gradient(int tile, int32_t copies, const tt_front_layer_args &a,
                                 int32_t members, cudaStream_t stream);
#endif
