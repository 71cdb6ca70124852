/* channel_mask.cu — dropout of whole channels of a front; one thread per value. See front.cuh. */
#include "cuda/front/front_layer.cuh"

/* Multiply a value by the factor of its channel. */
static __device__ float masked(const tt_front_layer_args &a, int64_t member, int32_t index, float x)
{
  int64_t channels = (int64_t)a.rows * a.layer.channels;
  return a.mask ? x * a.mask[member * channels + index / tt_front_places(a.layer)] : x;
}

/* The value of this thread; -1: none. */
static __device__ int32_t value_of(const tt_front_layer_args &a, const tt_front_block &b)
{
  int64_t offset = (int64_t)b.part * TT_FRONT_THREADS + threadIdx.x;
  int64_t values = (int64_t)a.rows * a.layer.channels * tt_front_places(a.layer);
  return b.active && offset < values ? (int32_t)offset : -1;
}

static __global__ void mask_channels(tt_front_layer_args a)
{
  tt_front_block b = tt_front_block_of(a);
  int32_t index = value_of(a, b);
  if (index < 0) return;
  float x = a.x[b.member * a.x_step + index];
  tt_front_finish_forward(a, b.member, index, masked(a, b.member, index, x));
}

static __global__ void mask_channels_backward(tt_front_layer_args a)
{
  tt_front_block b = tt_front_block_of(a);
  int32_t index = value_of(a, b);
  if (index < 0) return;
  float d = a.d[b.member * a.d_step + index];
  tt_front_finish_backward(a, b.member, index, masked(a, b.member, index, d));
}

static int64_t parts_of(const tt_front_layer_args &a)
{
  return tt_grid_size(a.rows * tt_front_values(&a.layer), TT_FRONT_THREADS);
}

tt_err tt_front_mask_forward(const tt_front_layer_args &a, int32_t members, cudaStream_t stream)
{
  return tt_front_launch(mask_channels, a, parts_of(a), members, 0, stream);
}

tt_err tt_front_mask_backward(const tt_front_layer_args &a, int32_t members, cudaStream_t stream)
{
  return tt_front_launch(mask_channels_backward, a, parts_of(a), members, 0, stream);
}
