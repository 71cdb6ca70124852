/* batch_norm.cu — batch_norm of a front, by the formulas of core/formulas/layer_norm.h, and the
 * gradients of a parameter per channel: gains and shifts, and the biases of a conv. See front.cuh.
 *
 * The values of a channel, of all rows and positions, are divided into up to eight parts: a team of
 * TEAM threads adds those of a part, and the sums of the parts are added in their order. Parts and
 * teams follow from the shape. With clusters each part has a block; without, one block has up to
 * four teams, which take the parts in turn: the same bits. */
#include "cuda/common/thread_block_cluster.cuh"
#include "cuda/front/front_layer.cuh"

#include "core/formulas/layer_norm.h"

enum {
#ifdef TT_CUDA_DOUBLE
  PART_VALUES = 16, /* few, so that tests reach it */
#else
  PART_VALUES = 2048, /* of a part, at least */
#endif
  PARTS = 8,
  TEAM = TT_FRONT_THREADS,
  MOST_TEAMS = 4, /* of a block */
  WARPS = TEAM / TT_WARP_SIZE,
  READS = 4 /* of a thread that are on their way together */
};

/* Moments of a channel, in memory, and the rows that they are from: other parts of a batch may have
 * their forward pass before the backward pass of this one. */
enum { MEAN, INVERSE_STD, MEAN_CHANGE, VARIANCE_CHANGE, ROWS, MOMENTS };
static_assert((int)MOMENTS == (int)TT_BATCH_NORM_MOMENTS, "layer_norm.h");

/* What a team has of a channel. Groups are four neighboring values, or one if the channel has no
 * multiple of four positions. */
typedef struct channel {
  tt_front_block block;
  int32_t number, leads; /* leads: 1 in the one thread that stores what belongs to the channel */
  int32_t group, across; /* values of a group, groups of a row */
  int32_t parts, each;   /* of the channel; groups of a part */
  int32_t ranks, first, step; /* blocks of the channel; the team has parts first, first + step... */
  int32_t begin, row_step;    /* place of the first value, and from one row to the next */
  int32_t next_row, next_place; /* from a group of a thread to its next one */
} channel;

TT_HD int32_t count_parts(int64_t values)
{
  int32_t parts = 1;
  while (parts < PARTS && values >= 2 * parts * (int64_t)PART_VALUES) parts *= 2;
  return parts;
}

/* The blocks of a launch for clusters, in code without them, are too many: the first one of a
 * channel has all. */
static __device__ channel channel_of(const tt_front_layer_args &a)
{
  const tt_front_layer &l = a.layer;
  int32_t places = tt_front_places(l), blocks = a.parts / l.channels;
  int32_t teams = (int32_t)blockDim.x / TEAM;
  channel c;
  c.block = tt_front_block_of(a);
  c.number = c.block.part / blocks;
  c.ranks = TT_HAS_CLUSTERS ? blocks : 1;
  int32_t rank = c.block.part % blocks;
  c.block.active = c.block.active && rank < c.ranks;
  c.leads = rank == 0 && threadIdx.x == 0;
  c.group = places % 4 ? 1 : 4;
  c.across = places / c.group;
  c.parts = count_parts((int64_t)a.rows * places);
  c.each = (a.rows * c.across + c.parts - 1) / c.parts;
  c.first = rank * teams + (int32_t)threadIdx.x / TEAM;
  c.step = c.ranks * teams;
  c.begin = c.number * places;
  c.row_step = l.channels * places;
  c.next_row = TEAM / c.across;
  c.next_place = TEAM % c.across;
  return c;
}

/* f(place in a member, row) for V neighboring values of part `part`, of rows [0, rows), one after
 * the other for all values of this thread. */
template <int V, int UNROLL, class F>
static __device__ __forceinline__ void each_of_part(const channel &c, int32_t part, int32_t rows,
                                                    F f)
{
  int32_t k = part * c.each + (int32_t)threadIdx.x % TEAM;
  int32_t end = min(part * c.each + c.each, rows * c.across);
  int32_t row = k / c.across, place = k % c.across;
#pragma unroll UNROLL
  for (; k < end; k += TEAM) {
    for (int32_t q = 0; q < (V > 1 ? V : c.group); q += V)
      f(c.begin + row * c.row_step + place * c.group + q, row);
    row += c.next_row;
    place += c.next_place;
    if (place >= c.across) place -= c.across, row++;
  }
}

template <int V, class F>
static __device__ __forceinline__ void each_value(const channel &c, int32_t rows, F f)
{
  for (int32_t part = c.first; part < c.parts; part += c.step) each_of_part<V, 1>(c, part, rows, f);
}

/* One sum over a channel, in shared memory. */
typedef struct channel_sum {
  double warp[MOST_TEAMS * WARPS], part[PARTS];
} channel_sum;

/* N sums over the values of rows [0, rows): add(place, row, sums) adds V of them. All threads of
 * all blocks of the channel take part, with other `sums` than in the last call. */
template <int N, int V, class ADD>
static __device__ __forceinline__ void sum_channel(const channel &c, int32_t rows,
                                                   channel_sum *sums, double (&total)[N], ADD add)
{
  int32_t t = (int32_t)threadIdx.x, warp = t / TT_WARP_SIZE, n = t % TEAM;
  for (int32_t base = 0; base < c.parts; base += c.step) {
    int32_t part = base + c.first;
    double sum[N] = {};
    if (part < c.parts)
      each_of_part<V, READS>(c, part, rows,
                             [&](int32_t place, int32_t row) { add(place, row, sum); });
#pragma unroll
    for (int i = 0; i < N; i++) {
      double all = tt_warp_sum(sum[i]);
      if (t % TT_WARP_SIZE == 0) sums[i].warp[warp] = all;
    }
    __syncthreads();
    if (n < N && part < c.parts) {
      double all = 0.0;
      for (int w = 0; w < WARPS; w++) all += sums[n].warp[warp + w];
      sums[n].part[part] = all;
    }
    __syncthreads();
  }
  if (c.ranks > 1) tt_cluster_sync();
#pragma unroll
  for (int i = 0; i < N; i++) {
    total[i] = 0.0;
    for (int32_t p = 0; p < c.parts; p++) {
      double *part = &sums[i].part[p];
      total[i] += *(c.ranks > 1 ? tt_cluster_map_shared(part, p) : part);
    }
  }
}

/* Before a block ends, whose sums others read. */
static __device__ void end_channel(const channel &c)
{
  if (c.ranks > 1) tt_cluster_sync();
}

static __device__ float *moments_of(const tt_front_layer_args &a, const channel &c)
{
  return a.moments + MOMENTS * (c.block.member * a.layer.channels + c.number);
}

/* Mean and variance of the channel over the rows of the batch; 0 and 1 without rows. */
template <int V>
static __device__ void take_moments(const tt_front_layer_args &a, const channel &c,
                                    channel_sum *sums, float *mean, float *variance)
{
  const float *x = a.x + c.block.member * a.x_step;
  int32_t rows = a.batch[c.block.member].rows;
  double sum[1], squares[1], count = (double)rows * tt_front_places(a.layer);
  sum_channel<1, V>(c, rows, sums, sum, [&](int32_t place, int32_t, double(&to)[1]) {
    tt_floats<V> f = tt_load_floats<V>(x + place);
#pragma unroll
    for (int q = 0; q < V; q++) to[0] += (double)f.v[q];
  });
  double center = sum[0] / count;
  sum_channel<1, V>(c, rows, sums + 1, squares, [&](int32_t place, int32_t, double(&to)[1]) {
    tt_floats<V> f = tt_load_floats<V>(x + place);
#pragma unroll
    for (int q = 0; q < V; q++) {
      double d = (double)f.v[q] - center;
      to[0] += d * d;
    }
  });
  *mean = rows ? (float)center : 0.0f;
  *variance = rows ? (float)(squares[0] / count) : 1.0f;
}

/* Normalize the channel, with missing rows. */
template <int V>
static __device__ void normalize(const tt_front_layer_args &a, const channel &c, float mean,
                                 float inverse_std)
{
  const float *x = a.x + c.block.member * a.x_step;
  const float *w = a.w + c.block.member * a.w_step + c.number;
  float gain = w[a.layer.weight], shift = w[a.layer.bias];
  const tt_product_end end = tt_front_end_of(a, c.block.member);
  each_value<V>(c, a.rows, [&](int32_t place, int32_t) {
    tt_floats<V> z = tt_load_floats<V>(x + place);
#pragma unroll
    for (int q = 0; q < V; q++)
      z.v[q] =
          tt_layer_norm_output(tt_layer_norm_normalized(z.v[q], mean, inverse_std), gain, shift);
    tt_finish_forward<V, true>(end, place, z);
  });
}

/* With the moments of the batch. */
template <int V>
static __global__ void __launch_bounds__(MOST_TEAMS *TEAM) normalize_batch(tt_front_layer_args a)
{
  TT_SHARED_MEMORY(channel_sum, sums); /* [2] */
  const tt_front_layer &l = a.layer;
  const channel c = channel_of(a);
  float mean, variance;
  if (!c.block.active) return;
  take_moments<V>(a, c, sums, &mean, &variance);
  float inverse_std = tt_layer_norm_inverse_std(variance, 1.0f);
  normalize<V>(a, c, mean, inverse_std);
  end_channel(c);
  if (!c.leads) return;
  const float *running = a.w + c.block.member * a.w_step + l.running + c.number;
  tt_batch_norm_rows batch = a.batch[c.block.member];
  float *moments = moments_of(a, c);
  moments[MEAN] = mean;
  moments[INVERSE_STD] = inverse_std;
  moments[ROWS] = (float)batch.rows;
  moments[MEAN_CHANGE] = batch.running_share * (mean - running[0]);
  moments[VARIANCE_CHANGE] = tt_batch_norm_variance_change(
      variance, (int64_t)batch.rows * tt_front_places(l), running[l.channels], batch.running_share);
}

/* With the running moments. */
template <int V>
static __global__ void __launch_bounds__(MOST_TEAMS *TEAM)
    normalize_by_running(tt_front_layer_args a)
{
  const channel c = channel_of(a);
  if (!c.block.active) return;
  const float *running = a.w + c.block.member * a.w_step + a.layer.running + c.number;
  normalize<V>(a, c, running[0], tt_layer_norm_inverse_std(running[a.layer.channels], 1.0f));
}

/* The gradients of a channel's gain and shift, and what is added to its running moments. */
static __device__ void store_gradient(const tt_front_layer_args &a, const channel &c, float plain,
                                      float along)
{
  const tt_front_layer &l = a.layer;
  const float *moments = moments_of(a, c);
  float *gradient = a.gradient + c.block.member * a.w_step + c.number;
  if (!c.leads) return;
  gradient[l.bias] = plain;
  gradient[l.weight] = along;
  gradient[l.running] = moments[MEAN_CHANGE];
  gradient[l.running + l.channels] = moments[VARIANCE_CHANGE];
}

/* With the gradients of the parameters. */
template <int V>
static __global__ void __launch_bounds__(MOST_TEAMS *TEAM)
    normalize_batch_backward(tt_front_layer_args a)
{
  TT_SHARED_MEMORY(channel_sum, sums); /* [2] */
  const channel c = channel_of(a);
  if (!c.block.active) return;
  const float *x = a.x + c.block.member * a.x_step, *d = a.d + c.block.member * a.d_step;
  const float *moments = moments_of(a, c);
  float gain = a.w[c.block.member * a.w_step + a.layer.weight + c.number], mean = moments[MEAN];
  float inverse_std = moments[INVERSE_STD];
  int32_t rows = (int32_t)moments[ROWS];
  double sum[2], count = (double)rows * tt_front_places(a.layer); /* plain, along */
  sum_channel<2, V>(c, rows, sums, sum, [&](int32_t place, int32_t, double(&to)[2]) {
    tt_floats<V> f = tt_load_floats<V>(x + place), g = tt_load_floats<V>(d + place);
#pragma unroll
    for (int q = 0; q < V; q++) {
      to[0] += (double)g.v[q];
      to[1] += (double)g.v[q] * (double)tt_layer_norm_normalized(f.v[q], mean, inverse_std);
    }
  });
  store_gradient(a, c, (float)sum[0], (float)sum[1]);
  float mean_plain = gain * (float)(sum[0] / count), mean_along = gain * (float)(sum[1] / count);
  const tt_product_end end = tt_front_end_of(a, c.block.member);
  each_value<V>(c, a.rows, [&](int32_t place, int32_t row) {
    tt_floats<V> f = tt_load_floats<V>(x + place), g = tt_load_floats<V>(d + place);
#pragma unroll
    for (int q = 0; q < V; q++) {
      float normalized = tt_layer_norm_normalized(f.v[q], mean, inverse_std);
      float delta =
          tt_layer_norm_delta(gain * g.v[q], mean_plain, mean_along, normalized, inverse_std);
      g.v[q] = row < rows ? delta : 0.0f;
    }
    tt_finish_backward<V>(end, place, g);
  });
  end_channel(c);
}

/* Running moments do not depend on the batch, so that dL/dx is dL/dy times a factor. */
template <int V>
static __global__ void __launch_bounds__(MOST_TEAMS *TEAM)
    normalize_by_running_backward(tt_front_layer_args a)
{
  const tt_front_layer &l = a.layer;
  const channel c = channel_of(a);
  if (!c.block.active) return;
  const float *d = a.d + c.block.member * a.d_step;
  const float *w = a.w + c.block.member * a.w_step + c.number;
  float factor = w[l.weight] * tt_layer_norm_inverse_std(w[l.running + l.channels], 1.0f);
  const tt_product_end end = tt_front_end_of(a, c.block.member);
  each_value<V>(c, a.rows, [&](int32_t place, int32_t) {
    tt_floats<V> g = tt_load_floats<V>(d + place);
#pragma unroll
    for (int q = 0; q < V; q++) g.v[q] *= factor;
    tt_finish_backward<V>(end, place, g);
  });
}

/* Moments of a norm for the channel in row 0, and the distance to those of the next row. */
static __device__ const float *moments_of_rows(const tt_front_layer_args &a, const channel &c,
                                               int32_t *step)
{
  const tt_front_layer &l = a.layer;
  *step = 0;
  if (l.kind == TT_FRONT_conv) return NULL;
  if (l.kind == TT_FRONT_batch_norm) return moments_of(a, c);
  *step = 2 * l.groups;
  return a.moments + 2 * (c.block.member * a.rows * l.groups + c.number / (l.channels / l.groups));
}

template <int V>
static __global__ void __launch_bounds__(MOST_TEAMS *TEAM) channel_gradient(tt_front_layer_args a)
{
  TT_SHARED_MEMORY(channel_sum, sums); /* [2] */
  const tt_front_layer &l = a.layer;
  const channel c = channel_of(a);
  if (!c.block.active) return;
  int32_t step;
  const float *moments = moments_of_rows(a, c, &step);
  const float *x = a.x + c.block.member * a.x_step, *d = a.d + c.block.member * a.d_step;
  double sum[2]; /* plain, along */
  sum_channel<2, V>(c, a.rows, sums, sum, [&](int32_t place, int32_t row, double(&to)[2]) {
    tt_floats<V> g = tt_load_floats<V>(d + place), f = {};
    const float *m = moments + row * step;
    if (moments) f = tt_load_floats<V>(x + place);
#pragma unroll
    for (int q = 0; q < V; q++) {
      to[0] += (double)g.v[q];
      if (moments)
        to[1] += (double)g.v[q] * (double)tt_layer_norm_normalized(f.v[q], m[MEAN], m[INVERSE_STD]);
    }
  });
  end_channel(c);
  if (l.running >= 0) store_gradient(a, c, (float)sum[0], (float)sum[1]);
  if (!c.leads) return;
  float *gradient = a.gradient + c.block.member * a.w_step + c.number;
  gradient[l.bias] = (float)sum[0];
  if (moments) gradient[l.weight] = (float)sum[1];
}

/* Launch kernel[1] if four neighbors may be read at once, else kernel[0]; for parts, in clusters if
 * the GPU has them. */
static tt_err launch_channels(void (*const (&kernel)[2])(tt_front_layer_args),
                              tt_front_layer_args a, int32_t members, cudaStream_t stream)
{
  int64_t places = (int64_t)a.layer.out[0] * a.layer.out[1];
  int32_t parts = count_parts(a.rows * places), ranks = a.clusters ? parts : 1;
  int vectors = tt_front_has_vectors(a, places) && tt_has_vectors(a.x, a.x_step, places) &&
                tt_has_vectors(a.d, a.d_step, places);
  unsigned blocks, threads = (unsigned)TEAM;
  if (ranks == 1) threads *= (unsigned)min(parts, (int32_t)MOST_TEAMS);
  a.parts = a.layer.channels * ranks;
  blocks = (unsigned)members * (unsigned)a.parts;
  if (ranks == 1)
    return tt_launch(kernel[vectors], blocks, threads, 2 * sizeof(channel_sum), stream, a);
  return tt_launch_cluster(kernel[vectors], ranks, blocks, threads, 2 * sizeof(channel_sum), stream,
                           a);
}

tt_err tt_front_batch_norm_forward(const tt_front_layer_args &a, int32_t members,
                                   cudaStream_t stream)
{
  return a.moments ? launch_channels({normalize_batch<1>, normalize_batch<4>}, a, members, stream)
                   : launch_channels({normalize_by_running<1>, normalize_by_running<4>}, a, members,
                                     stream);
}

tt_err tt_front_batch_norm_backward(const tt_front_layer_args &a, int32_t members,
                                    cudaStream_t stream)
{
  return a.moments
             ? launch_channels({normalize_batch_backward<1>, normalize_batch_backward<4>}, a,
                               members, stream)
             : launch_channels({normalize_by_running_backward<1>, normalize_by_running_backward<4>},
                               a, members, stream);
}

tt_err tt_front_channel_gradient(const tt_front_layer_args &a, int32_t members, cudaStream_t stream)
{
  return launch_channels({channel_gradient<1>, channel_gradient<4>}, a, members, stream);
}
