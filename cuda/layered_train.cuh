/* layered_train.cuh — kernels of the layered path for what lies around the layers in a step: rows,
 * loss, optimiser. Floor 3. */
#ifndef TT_LAYERED_TRAIN_CUH
#define TT_LAYERED_TRAIN_CUH
#include "cuda/layered_rows.cuh"

enum { TT_STEP_PARAMS = 1024 }; /* of a block */

typedef struct tt_train_args {
  tt_view v;
  int32_t rows, parts; /* rows of a batch that are computed; blocks of a member */
  int clips;
  float *x, *y, *weight;
  const float *output; /* [M][rows][O] */
  float *delta;        /* [M][rows][O] */
  float *gradient, *scale;
  tt_order *order;
  tt_step_args *step;
} tt_train_args;

/* Rows of member i's next batch, and the slot of the first one in its epoch. */
__device__ __forceinline__ int32_t tt_batch_rows(const tt_view &v, int64_t i, int64_t *first)
{
  *first = (int64_t)v.batch[i] * v.batch_size;
  int64_t left = v.epoch_rows[i] - *first;
  return (int32_t)(left < v.batch_size ? left : v.batch_size);
}

/* The next batch of every member. */
static __global__ void gather_batch(tt_train_args a)
{
  TT_SHARED(int32_t, row); /* [TT_GATHER_ROWS] */
  const tt_view &v = a.v;
  int i = (int)(blockIdx.x / (unsigned)a.parts);
  int32_t begin = (int32_t)(blockIdx.x % (unsigned)a.parts) * TT_GATHER_ROWS;
  int32_t tile = a.rows - begin < TT_GATHER_ROWS ? a.rows - begin : TT_GATHER_ROWS;
  int64_t first;
  if (v.status[i] != TT_STATUS_training) return;
  int32_t rows = tt_batch_rows(v, i, &first), t = (int32_t)threadIdx.x;
  if (t < tile)
    row[t] = begin + t < rows ? tt_view_row(v, i, a.order[i], (int32_t)(first + begin + t)) : -1;
  __syncthreads();
  tt_gather_to to = {a.x, a.y, a.weight, (int64_t)i * a.rows + begin, tile, v.member[i].ensemble};
  tt_gather_rows(v, row, to);
}

/* The loss of member i's batch is known: freeze it, or count the step. One thread. */
__device__ __forceinline__ void tt_settle(const tt_train_args &a, int i, double loss)
{
  const tt_view &v = a.v;
  if (!isfinite(loss)) {
    v.status[i] = TT_STATUS_diverged;
    return;
  }
  v.loss_sum[i] += loss;
  v.batch[i]++;
  v.step[i]++;
  a.step[i] = tt_view_step(v, i, v.step[i]);
}

/* Loss and its gradient; a block has one member. From here on the member is one batch further. */
static __global__ void batch_loss(tt_train_args a)
{
  TT_SHARED(double, sums);
  const tt_view &v = a.v;
  int i = (int)blockIdx.x;
  int64_t first, at = (int64_t)i * a.rows;
  if (v.status[i] != TT_STATUS_training) return;
  int32_t rows = tt_batch_rows(v, i, &first);
  float share = 1.0f / (float)rows;
  double sum = 0.0;
  for (int32_t r = (int32_t)threadIdx.x; r < a.rows; r += (int32_t)blockDim.x) {
    float *d = a.delta + (at + r) * v.outputs;
    for (int32_t o = 0; r >= rows && o < v.outputs; o++) d[o] = 0.0f;
    if (r >= rows) continue;
    float weight = v.weighted ? a.weight[at + r] : 1.0f;
    float value = tt_row_loss(v, a.output + (at + r) * v.outputs, a.y + (at + r) * v.targets,
                              weight * share, d);
    sum += (double)weight * (double)value;
  }
  sum = tt_block_sum(sum, sums);
  if (threadIdx.x == 0) tt_settle(a, i, sum);
}

/* By how much member i's gradient is scaled down, as torch.nn.utils.clip_grad_norm_; a block has
 * one member. */
static __global__ void clip_scale(tt_train_args a)
{
  TT_SHARED(double, sums);
  const tt_view &v = a.v;
  int i = (int)blockIdx.x;
  float limit = v.member[i].hyper.clip_norm;
  if (v.status[i] != TT_STATUS_training) return;
  const float *g = a.gradient + (int64_t)i * v.params;
  double sum = 0.0;
  for (int32_t p = (int32_t)threadIdx.x; limit > 0.0f && p < v.params; p += (int32_t)blockDim.x)
    sum += (double)g[p] * (double)g[p];
  double norm = sqrt(tt_block_sum(sum, sums));
  if (threadIdx.x) return;
  int over = limit > 0.0f && norm + 1e-6 > (double)limit;
  a.scale[i] = over ? (float)((double)limit / (norm + 1e-6)) : 1.0f;
}

static __global__ void step_all(tt_train_args a)
{
  const tt_view &v = a.v;
  int64_t i = (int64_t)(blockIdx.x / (unsigned)a.parts), at = i * v.params;
  if (v.status[i] != TT_STATUS_training) return;
  uint32_t first = blockIdx.x % (unsigned)a.parts * TT_STEP_PARAMS, count = (uint32_t)v.params;
  uint32_t last = count - first < TT_STEP_PARAMS ? count : first + TT_STEP_PARAMS;
  tt_step_args args = a.step[i];
  float scale = a.clips ? a.scale[i] : 1.0f;
  float *s0 = v.slots + i * v.slot_count * v.params, *s1 = v.slot_count > 1 ? s0 + v.params : s0;
  float *s2 = v.slot_count > 2 ? s1 + v.params : s0;
  for (uint32_t p = first + threadIdx.x; p < last; p += blockDim.x)
    tt_step(v.optimizer, v.weights + at + p, a.gradient[at + p] * scale, s0 + p, s1 + p, s2 + p, args);
}

/* The order of every member's running epoch. */
static __global__ void make_orders(tt_train_args a)
{
  int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < a.v.members && a.v.status[i] == TT_STATUS_training) a.order[i] = tt_view_order(a.v, i);
}
#endif
