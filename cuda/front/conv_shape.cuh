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

/* Results along one axis, and the position that result j reads by tap t:
 * read + j read_step + t tap_read. */
typedef struct tt_conv_axis {
  int32_t results, first, step; /* result j is at position first + j step */
  int32_t read, read_step, tap_read;
  int32_t taps, tap, tap_step; /* tap t is position tap + t tap_step of the kernel */
} tt_conv_axis;

TT_HD tt_conv_axis tt_conv_forward_axis(const tt_front_layer &l, int i)
{
  tt_conv_axis a = {l.out[i], 0, 1, -l.pad[i], l.stride[i], l.dilation[i], l.size[i], 0, 1};
  return a;
}

/* Backward, the positions of an axis have as many phases, (position + pad) % stride: what reads a
 * position of a phase are the same positions of the kernel. */
template <tt_conv_direction D> TT_HD int32_t tt_conv_phases(const tt_front_layer &l, int i)
{
  int32_t padded = l.in[i] + l.pad[i], phases = l.stride[i] < padded ? l.stride[i] : padded;
  return D == TT_CONV_FORWARD ? 1 : phases;
}

/* Positions of all rows, of a phase at most. */
template <tt_conv_direction D> TT_HD int64_t tt_conv_columns(const tt_front_layer_args &a)
{
  int64_t columns = a.rows;
  for (int i = 0; i < 2; i++)
    columns *= D == TT_CONV_FORWARD ? a.layer.out[i]
                                    : (a.layer.in[i] + a.layer.stride[i] - 1) / a.layer.stride[i];
  return columns;
}

/* Whether a position reads one of its own number alone. */
TT_HD int tt_conv_is_plain(const tt_front_layer &l)
{
  int plain = 1;
  for (int i = 0; i < 2; i++) plain &= l.size[i] == 1 && l.stride[i] == 1 && l.pad[i] == 0;
  return plain;
}

TT_HD tt_conv_axis tt_conv_backward_axis(const tt_front_layer &l, int i, int32_t phase)
{
  int32_t stride = l.stride[i], dilation = l.dilation[i], size = l.size[i], tap = 0, tap_step = 1;
  while (tap_step * dilation % stride) tap_step++;
  while (tap < tap_step && tap * dilation % stride != phase) tap++;
  int32_t padding = l.pad[i] - phase; /* before the first position of the phase */
  int32_t skipped = padding > 0 ? (padding + stride - 1) / stride : 0;
  int32_t first = skipped * stride - padding;
  tt_conv_axis a;
  a.results = first < l.in[i] ? (l.in[i] - 1 - first) / stride + 1 : 0;
  a.first = first;
  a.step = stride;
  a.read = skipped - (tap * dilation - phase) / stride;
  a.read_step = 1;
  a.tap_read = -(tap_step * dilation / stride);
  a.taps = tap < tap_step && tap < size ? (size - 1 - tap) / tap_step + 1 : 0;
  a.tap = tap;
  a.tap_step = tap_step;
  return a;
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
