/* batch_norm.cu — batch_norm of a front, by the formulas of core/formulas/layer_norm.h, and the
 * gradients of a parameter per channel: gains and shifts, and the biases of a conv. See front.cuh.
 *
 * A block has a channel of a member: all rows and positions. */
#include "cuda/front/front_layer.cuh"

#include "core/formulas/layer_norm.h"

enum {
#ifdef TT_CUDA_DOUBLE
  MANY_VALUES = 200, /* few, so that tests reach it */
#else
  MANY_VALUES = 4096, /* of a channel, for which a block is large */
#endif
  LARGE_BLOCK = 1024,
  READS = 4 /* of a thread that are on their way together */
};

/* Moments of a channel, in memory, and the rows that they are from: other parts of a batch may have
 * their forward pass before the backward pass of this one. */
enum { MEAN, INVERSE_STD, MEAN_CHANGE, VARIANCE_CHANGE, ROWS, MOMENTS };
static_assert((int)MOMENTS == (int)TT_BATCH_NORM_MOMENTS, "layer_norm.h");

static __device__ float *moments_of(const tt_front_layer_args &a, const tt_front_block &b)
{
  return a.moments + MOMENTS * (b.member * a.layer.channels + b.part);
}

/* Place in a member of position p of channel c in row r. */
static __device__ int32_t place_of(const tt_front_layer &l, int32_t r, int32_t c, int32_t p)
{
  return (r * l.channels + c) * tt_front_places(l) + p;
}

/* Mean and variance of the channel over the rows of the batch; 0 and 1 without rows. */
static __device__ void take_moments(const tt_front_layer_args &a, const tt_front_block &b,
                                    double *sums, float *mean, float *variance)
{
  const tt_front_layer &l = a.layer;
  const float *x = a.x + b.member * a.x_step;
  int32_t places = tt_front_places(l), rows = a.batch[b.member].rows;
  tt_front_share s = tt_front_share_of(places);
  double sum = 0.0, squares = 0.0, count = (double)rows * places;
  for (int32_t p = s.position; p < places; p += s.places_step)
#pragma unroll READS
    for (int32_t r = s.row; r < rows; r += s.rows_step) sum += (double)x[place_of(l, r, b.part, p)];
  double center = tt_block_sum(sum, sums) / count;
  for (int32_t p = s.position; p < places; p += s.places_step)
#pragma unroll READS
    for (int32_t r = s.row; r < rows; r += s.rows_step) {
      double d = (double)x[place_of(l, r, b.part, p)] - center;
      squares += d * d;
    }
  double all = tt_block_sum(squares, sums) / count;
  *mean = rows ? (float)center : 0.0f;
  *variance = rows ? (float)all : 1.0f;
}

/* Normalize the channel, with missing rows. */
static __device__ void normalize(const tt_front_layer_args &a, const tt_front_block &b, float mean,
                                 float inverse_std)
{
  const tt_front_layer &l = a.layer;
  const float *x = a.x + b.member * a.x_step, *w = a.w + b.member * a.w_step + b.part;
  int32_t places = tt_front_places(l);
  tt_front_share s = tt_front_share_of(places);
  for (int32_t p = s.position; p < places; p += s.places_step)
    for (int32_t r = s.row; r < a.rows; r += s.rows_step) {
      int32_t index = place_of(l, r, b.part, p);
      float normalized = tt_layer_norm_normalized(x[index], mean, inverse_std);
      tt_front_finish_forward(a, b.member, index,
                              tt_layer_norm_output(normalized, w[l.weight], w[l.bias]));
    }
}

/* With the moments of the batch. */
static __global__ void normalize_batch(tt_front_layer_args a)
{
  TT_SHARED_MEMORY(double, sums); /* [TT_MAX_WARPS] */
  tt_front_block b = tt_front_block_of(a);
  const tt_front_layer &l = a.layer;
  float mean, variance;
  if (!b.active) return;
  take_moments(a, b, sums, &mean, &variance);
  float inverse_std = tt_layer_norm_inverse_std(variance, 1.0f);
  normalize(a, b, mean, inverse_std);
  if (threadIdx.x) return;
  const float *running = a.w + b.member * a.w_step + l.running + b.part;
  tt_batch_norm_rows batch = a.batch[b.member];
  float *moments = moments_of(a, b);
  moments[MEAN] = mean;
  moments[INVERSE_STD] = inverse_std;
  moments[ROWS] = (float)batch.rows;
  moments[MEAN_CHANGE] = batch.running_share * (mean - running[0]);
  moments[VARIANCE_CHANGE] = tt_batch_norm_variance_change(
      variance, (int64_t)batch.rows * tt_front_places(l), running[l.channels], batch.running_share);
}

/* With the running moments. */
static __global__ void normalize_by_running(tt_front_layer_args a)
{
  tt_front_block b = tt_front_block_of(a);
  if (!b.active) return;
  const float *running = a.w + b.member * a.w_step + a.layer.running + b.part;
  normalize(a, b, running[0], tt_layer_norm_inverse_std(running[a.layer.channels], 1.0f));
}

/* The gradients of a channel's gain and shift, and what is added to its running moments. */
static __device__ void store_gradient(const tt_front_layer_args &a, const tt_front_block &b,
                                      float plain, float along)
{
  const tt_front_layer &l = a.layer;
  const float *moments = moments_of(a, b);
  float *gradient = a.gradient + b.member * a.w_step + b.part;
  if (threadIdx.x) return;
  gradient[l.bias] = plain;
  gradient[l.weight] = along;
  gradient[l.running] = moments[MEAN_CHANGE];
  gradient[l.running + l.channels] = moments[VARIANCE_CHANGE];
}

/* With the gradients of the parameters. */
static __global__ void normalize_batch_backward(tt_front_layer_args a)
{
  TT_SHARED_MEMORY(double, sums); /* [TT_MAX_WARPS] */
  tt_front_block b = tt_front_block_of(a);
  const tt_front_layer &l = a.layer;
  if (!b.active) return;
  const float *x = a.x + b.member * a.x_step, *d = a.d + b.member * a.d_step;
  const float *moments = moments_of(a, b);
  float gain = a.w[b.member * a.w_step + l.weight + b.part], mean = moments[MEAN];
  float inverse_std = moments[INVERSE_STD];
  int32_t places = tt_front_places(l), rows = (int32_t)moments[ROWS];
  tt_front_share s = tt_front_share_of(places);
  double plain = 0.0, along = 0.0, count = (double)rows * places;
  for (int32_t p = s.position; p < places; p += s.places_step)
#pragma unroll READS
    for (int32_t r = s.row; r < rows; r += s.rows_step) {
      int32_t index = place_of(l, r, b.part, p);
      plain += (double)d[index];
      along += (double)d[index] * (double)tt_layer_norm_normalized(x[index], mean, inverse_std);
    }
  plain = tt_block_sum(plain, sums);
  along = tt_block_sum(along, sums);
  store_gradient(a, b, (float)plain, (float)along);
  float mean_plain = gain * (float)(plain / count), mean_along = gain * (float)(along / count);
  for (int32_t p = s.position; p < places; p += s.places_step)
    for (int32_t r = s.row; r < a.rows; r += s.rows_step) {
      int32_t index = place_of(l, r, b.part, p);
      float normalized = tt_layer_norm_normalized(x[index], mean, inverse_std);
      float delta =
          tt_layer_norm_delta(gain * d[index], mean_plain, mean_along, normalized, inverse_std);
      tt_front_finish_backward(a, b.member, index, r < rows ? delta : 0.0f);
    }
}

/* Running moments do not depend on the batch, so that dL/dx is dL/dy times a factor. */
static __global__ void normalize_by_running_backward(tt_front_layer_args a)
{
  tt_front_block b = tt_front_block_of(a);
  const tt_front_layer &l = a.layer;
  if (!b.active) return;
  const float *d = a.d + b.member * a.d_step, *w = a.w + b.member * a.w_step + b.part;
  int32_t places = tt_front_places(l);
  float factor = w[l.weight] * tt_layer_norm_inverse_std(w[l.running + l.channels], 1.0f);
  tt_front_share s = tt_front_share_of(places);
  for (int32_t p = s.position; p < places; p += s.places_step)
    for (int32_t r = s.row; r < a.rows; r += s.rows_step) {
      int32_t index = place_of(l, r, b.part, p);
      tt_front_finish_backward(a, b.member, index, factor * d[index]);
    }
}

/* Moments of a norm for the channel in row 0, and the distance to those of the next row. */
static __device__ const float *moments_of_rows(const tt_front_layer_args &a,
                                               const tt_front_block &b, int32_t *step)
{
  const tt_front_layer &l = a.layer;
  *step = 0;
  if (l.kind == TT_FRONT_batch_norm) return moments_of(a, b);
  *step = 2 * l.groups;
  return a.moments + 2 * (b.member * a.rows * l.groups + b.part / (l.channels / l.groups));
}

static __global__ void channel_gradient(tt_front_layer_args a)
{
  TT_SHARED_MEMORY(float, sums); /* [TT_MAX_WARPS] */
  tt_front_block b = tt_front_block_of(a);
  const tt_front_layer &l = a.layer;
  if (!b.active) return;
  int32_t c = b.part, places = tt_front_places(l);
  int32_t step = 0;
  const float *moments = l.kind == TT_FRONT_conv ? NULL : moments_of_rows(a, b, &step);
  tt_front_share s = tt_front_share_of(places);
  float sum = 0.0f, along = 0.0f;
  for (int32_t p = s.position; p < places; p += s.places_step)
#pragma unroll READS
    for (int32_t r = s.row; r < a.rows; r += s.rows_step) {
      int32_t index = place_of(l, r, c, p);
      float d = a.d[b.member * a.d_step + index];
      sum += d;
      if (!moments) continue;
      const float *m = moments + r * step;
      float x = a.x[b.member * a.x_step + index];
      along = tt_fma(d, tt_layer_norm_normalized(x, m[MEAN], m[INVERSE_STD]), along);
    }
  sum = tt_block_sum(sum, sums);
  along = tt_block_sum(along, sums);
  if (l.running >= 0) store_gradient(a, b, sum, along);
  if (threadIdx.x) return;
  float *gradient = a.gradient + b.member * a.w_step + c;
  gradient[l.bias] = sum;
  if (moments) gradient[l.weight] = along;
}

static tt_err launch_channels(void (*kernel)(tt_front_layer_args), tt_front_layer_args a,
                              int32_t members, cudaStream_t stream)
{
  int64_t values = (int64_t)a.rows * a.layer.out[0] * a.layer.out[1];
  a.parts = a.layer.channels;
  return tt_launch(kernel, (unsigned)members * (unsigned)a.parts,
                   values < MANY_VALUES ? (unsigned)TT_FRONT_THREADS : (unsigned)LARGE_BLOCK,
                   TT_MAX_WARPS * sizeof(double), stream, a);
}

tt_err tt_front_batch_norm_forward(const tt_front_layer_args &a, int32_t members,
                                   cudaStream_t stream)
{
  return launch_channels(a.moments ? normalize_batch : normalize_by_running, a, members, stream);
}

tt_err tt_front_batch_norm_backward(const tt_front_layer_args &a, int32_t members,
                                    cudaStream_t stream)
{
  return launch_channels(a.moments ? normalize_batch_backward : normalize_by_running_backward, a,
                         members, stream);
}

tt_err tt_front_channel_gradient(const tt_front_layer_args &a, int32_t members, cudaStream_t stream)
{
  return launch_channels(channel_gradient, a, members, stream);
}
