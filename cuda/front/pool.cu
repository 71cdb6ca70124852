/* pool.cu — pools of a front and global_mean, by the formulas of core/formulas/pooling.h; one
 * thread per value. See front.cuh.
 *
 * Backward, a thread adds what each window that contains its value passes on, so that no two
 * threads add to one value. For that it reads the window again, if the derivative depends on it. */
#include "cuda/front/front_layer.cuh"

/* A value of an array [rows][channels][height][width]. */
typedef struct value_place {
  int32_t at, channel, y, x; /* channel: of all rows */
} value_place;

/* The value of this thread; at -1: none. */
static __device__ value_place place_of(const tt_front_block &b, int32_t rows, int32_t channels,
                                       const int32_t size[2])
{
  int64_t offset = (int64_t)b.part * TT_FRONT_THREADS + threadIdx.x;
  int32_t places = size[0] * size[1];
  value_place v = {-1, 0, 0, 0};
  if (offset >= (int64_t)rows * channels * places) return v;
  v.at = (int32_t)offset;
  v.channel = v.at / places;
  v.y = v.at % places / size[1];
  v.x = v.at % size[1];
  return v;
}

static __device__ float window_share(const tt_front_layer &l)
{
  return 1.0f / (float)(l.size[0] * l.size[1]);
}

/* The part of a window that is inside of its channel x: rows [top, bottom), columns [left, right).
 */
typedef struct pool_window {
  const float *x;
  int32_t top, bottom, left, right;
} pool_window;

/* The window of output (y, i). */
static __device__ pool_window window_of(const tt_front_layer &l, const float *x, int32_t y,
                                        int32_t i)
{
  int32_t top = y * l.stride[0] - l.pad[0], left = i * l.stride[1] - l.pad[1];
  return {x, max(top, 0), min(top + l.size[0], l.in[0]), max(left, 0),
          min(left + l.size[1], l.in[1])};
}

template <tt_pooling BY>
static __device__ float window_result(const tt_front_layer &l, const pool_window &w, float share)
{
  float s = tt_pooling_start(BY);
  for (int32_t y = w.top; y < w.bottom; y++)
    for (int32_t i = w.left; i < w.right; i++) s = tt_pooling_next(BY, s, w.x[y * l.in[1] + i]);
  return tt_pooling_result(BY, s, share);
}

/* Derivative of a window's result by its value at (row, column). */
template <tt_pooling BY>
static __device__ float window_slope(const tt_front_layer &l, const pool_window &w, int32_t row,
                                     int32_t column, float share)
{
  float result = window_result<BY>(l, w, share);
  float slope = tt_pooling_slope(BY, w.x[row * l.in[1] + column], result, share);
  if (!tt_pooling_takes_first(BY) || slope == 0.0f) return slope;
  for (int32_t y = w.top; y <= row; y++)
    for (int32_t i = w.left; i < (y < row ? w.right : column); i++)
      if (tt_pooling_slope(BY, w.x[y * l.in[1] + i], result, share) != 0.0f) return 0.0f;
  return slope;
}

template <tt_pooling BY> static __global__ void pool_windows(tt_front_layer_args a)
{
  tt_front_block b = tt_front_block_of(a);
  const tt_front_layer &l = a.layer;
  value_place v = place_of(b, a.rows, l.channels, l.out);
  if (!b.active || v.at < 0) return;
  const float *x = a.x + b.member * a.x_step + (int64_t)v.channel * tt_front_places_in(l);
  tt_front_finish_forward(a, b.member, v.at,
                          window_result<BY>(l, window_of(l, x, v.y, v.x), window_share(l)));
}

/* First of the windows along axis i that contain position `index`, counted from the padding. */
static __device__ int32_t first_window(const tt_front_layer &l, int i, int32_t index)
{
  return index < l.size[i] ? 0 : (index - l.size[i]) / l.stride[i] + 1;
}

template <tt_pooling BY> static __global__ void pool_windows_backward(tt_front_layer_args a)
{
  tt_front_block b = tt_front_block_of(a);
  const tt_front_layer &l = a.layer;
  value_place v = place_of(b, a.rows, l.in_channels, l.in);
  if (!b.active || v.at < 0) return;
  const float *x = a.x + b.member * a.x_step + (int64_t)v.channel * tt_front_places_in(l);
  const float *d = a.d + b.member * a.d_step + (int64_t)v.channel * tt_front_places(l);
  float sum = 0.0f, share = window_share(l);
  int32_t padded_y = v.y + l.pad[0], padded_x = v.x + l.pad[1], left = first_window(l, 1, padded_x);
  for (int32_t y = first_window(l, 0, padded_y); y < l.out[0] && y * l.stride[0] <= padded_y; y++)
    for (int32_t i = left; i < l.out[1] && i * l.stride[1] <= padded_x; i++)
      sum += window_slope<BY>(l, window_of(l, x, y, i), v.y, v.x, share) * d[y * l.out[1] + i];
  tt_front_finish_backward(a, b.member, v.at, sum);
}

/* A thread for each of `values` values of a row. */
static tt_err launch(void (*const *kernels)(tt_front_layer_args), const tt_front_layer_args &a,
                     int64_t values, int32_t members, cudaStream_t stream)
{
  return tt_front_launch(kernels[a.layer.pool], a, tt_grid_size(a.rows * values, TT_FRONT_THREADS),
                         members, 0, stream);
}

tt_err tt_front_pool_forward(const tt_front_layer_args &a, int32_t members, cudaStream_t stream)
{
  static void (*const kernels[])(tt_front_layer_args) = {
#define X(name, ...) pool_windows<TT_POOLING_##name>,
      TT_POOLINGS(X)
#undef X
  };
  return launch(kernels, a, tt_front_values(&a.layer), members, stream);
}

tt_err tt_front_pool_backward(const tt_front_layer_args &a, int32_t members, cudaStream_t stream)
{
  static void (*const kernels[])(tt_front_layer_args) = {
#define X(name, ...) pool_windows_backward<TT_POOLING_##name>,
      TT_POOLINGS(X)
#undef X
  };
  return launch(kernels, a, tt_front_values_in(&a.layer), members, stream);
}
