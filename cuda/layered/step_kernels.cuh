/* step_kernels.cuh — kernels of the layered path for the parts of a step outside the layers:
 * rows, loss, optimizer. */
#ifndef TT_STEP_KERNELS_CUH
#define TT_STEP_KERNELS_CUH
#include "cuda/layered/rows.cuh"
#include "cuda/layered/update.cuh"

enum { TT_STEP_BLOCK_ELEMENTS = 1024 }; /* elements per block */

/* Gather the next batch of every member, or a part of it. */
static __global__ void gather_batch(tt_step_kernel_args a)
{
  TT_SHARED_MEMORY(int32_t, row); /* [TT_GATHER_ROWS] */
  const tt_cuda_state &v = a.v;
  int i = (int)(blockIdx.x / (unsigned)a.parts);
  int32_t most = tt_gather_tile(v.inputs), begin = (int32_t)(blockIdx.x % (unsigned)a.parts) * most;
  int32_t tile = min(a.rows - begin, most);
  if (v.status[i] != TT_STATUS_training) return;
  tt_batch_rows rows = tt_next_rows(v, i, a.batch_part);
  int32_t t = (int32_t)threadIdx.x;
  int64_t offset = (int64_t)i * a.rows + begin, slot = rows.slot + rows.first + begin + t;
  if (t < tile) {
    row[t] = begin + t < rows.count ? tt_cuda_epoch_row(v, i, a.order[i], (int32_t)slot) : -1;
    a.row[offset + t] = row[t];
  }
  __syncthreads();
  tt_gather_target target = {a.x, a.y, a.weight, offset, tile, v.member[i].ensemble};
  tt_gather_rows(v, row, target);
}

/* Add label noise to the batch that gather_batch has loaded; the same formula as in
 * cuda/plan/host_batches.c, for the same bits. */
static __global__ void add_label_noise(tt_step_kernel_args a)
{
  const tt_cuda_state &v = a.v;
  int i = (int)(blockIdx.x / (unsigned)a.parts);
  const tt_member &m = v.member[i];
  uint32_t first = blockIdx.x % (unsigned)a.parts * TT_STEP_BLOCK_ELEMENTS;
  uint32_t count = (uint32_t)a.rows * (uint32_t)v.targets;
  uint32_t last = count - first < TT_STEP_BLOCK_ELEMENTS ? count : first + TT_STEP_BLOCK_ELEMENTS;
  if (v.status[i] != TT_STATUS_training || !(m.hyper.label_noise > 0.0f)) return;
  const int32_t *column = v.column + (int64_t)m.ensemble * v.targets;
  for (uint32_t k = first + threadIdx.x; k < last; k += blockDim.x) {
    int32_t row = a.row[(int64_t)i * a.rows + k / (uint32_t)v.targets];
    uint32_t y = (uint32_t)column[k % (uint32_t)v.targets];
    if (row < 0) continue;
    a.y[(int64_t)i * count + k] +=
        m.hyper.label_noise * tt_label_noise(v.seed, m.stream, y, (uint32_t)(row % v.rows));
  }
}

/* Record the loss of member i's batch: stop the member if it diverged, else count the step. One
 * thread. */
__device__ __forceinline__ void tt_record_batch_loss(const tt_step_kernel_args &a, int i,
                                                     double loss)
{
  const tt_cuda_state &v = a.v;
  if (!isfinite(loss)) {
    v.status[i] = TT_STATUS_diverged;
    return;
  }
  v.loss_sum[i] += loss;
  v.batch[i]++;
  v.step[i]++;
  a.step[i] = tt_cuda_step_args(v, i, v.step[i]);
  v.averaged[i] += tt_uses_ema(v, i);
}

/* The loss of member i's batch, or of a part of it: then the sum over the parts counts. One
 * thread. */
__device__ __forceinline__ void tt_end_batch_loss(const tt_step_kernel_args &a, int i, double sum)
{
  a.pending_loss[i] = sum;
  if (a.v.batch_parts == 1) tt_record_batch_loss(a, i, sum);
}

/* Loss and its gradient; one block per member. Once the loss is recorded, the member is one
 * batch further. ERRORS as for tt_row_loss. */
template <int ERRORS>
__device__ __forceinline__ void tt_batch_loss(const tt_step_kernel_args &a, double *sums)
{
  const tt_cuda_state &v = a.v;
  int i = (int)blockIdx.x;
  int64_t offset = (int64_t)i * a.rows;
  int32_t outputs = tt_row_outputs(v);
  if (a.v.status[i] != TT_STATUS_training) return;
  tt_batch_rows rows = tt_next_rows(v, i, a.batch_part);
  float loss_factor = 1.0f / (float)rows.batch;
  double sum = 0.0;
  for (int32_t r = (int32_t)threadIdx.x; r < a.rows; r += (int32_t)blockDim.x) {
    float *d = a.delta + (offset + r) * outputs;
    for (int32_t o = 0; r >= rows.count && o < outputs; o++) d[o] = 0.0f;
    if (r >= rows.count) continue;
    float weight = v.weighted ? a.weight[offset + r] : 1.0f;
    tt_label_errors errors = {};
    if (ERRORS)
      errors = tt_label_errors_of(v, a.label_variance, a.row[offset + r], v.member[i].ensemble);
    double value =
        tt_row_loss<ERRORS>(v, a.output + (offset + r) * outputs, a.y + (offset + r) * v.targets,
                            weight * loss_factor, d, errors);
    sum += (double)weight * value;
  }
  sum = tt_block_sum(sum, sums);
  if (threadIdx.x == 0) tt_end_batch_loss(a, i, sum);
}

static __global__ void batch_loss(tt_step_kernel_args a)
{
  TT_SHARED_MEMORY(double, sums);
  tt_batch_loss<0>(a, sums);
}

/* The same where the errors of the labels are known. */
static __global__ void batch_loss_with_errors(tt_step_kernel_args a)
{
  TT_SHARED_MEMORY(double, sums);
  tt_batch_loss<1>(a, sums);
}

static __global__ void record_losses(tt_step_kernel_args a)
{
  int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < a.v.members && a.v.status[i] == TT_STATUS_training)
    tt_record_batch_loss(a, i, a.pending_loss[i]);
}

/* A step whose loss the caller has computed: the member has diverged if its gradient is not finite;
 * one block per member. */
static __global__ void record_given_step(tt_step_kernel_args a)
{
  TT_SHARED_MEMORY(double, sums);
  const tt_cuda_state &v = a.v;
  int i = (int)blockIdx.x;
  const float *g = a.gradient + (int64_t)i * v.param_stride;
  double bad = 0.0;
  if (v.status[i] != TT_STATUS_training) return;
  for (int32_t p = (int32_t)threadIdx.x; p < v.params; p += (int32_t)blockDim.x)
    if (!isfinite(g[p])) bad = 1.0;
  bad = tt_block_sum(bad, sums);
  if (threadIdx.x == 0) tt_record_batch_loss(a, i, bad > 0.0 ? (double)NAN : 0.0);
}

/* Of parameter p; running values of batch_norm have no gradient (tt_model_same_use). */
__device__ __forceinline__ double tt_gradient_square(const tt_step_kernel_args &a, const float *g,
                                                     int32_t p)
{
  return a.rate && a.rate[p] < 0.0f ? 0.0 : (double)g[p] * (double)g[p];
}

/* tt_clip_factor of every member; one block per member. */
static __global__ void clip_factor(tt_step_kernel_args a)
{
  TT_SHARED_MEMORY(double, sums);
  const tt_cuda_state &v = a.v;
  int i = (int)blockIdx.x;
  float limit = v.member[i].hyper.clip_norm;
  if (v.status[i] != TT_STATUS_training) return;
  const float *g = a.gradient + (int64_t)i * v.param_stride;
  double sum = 0.0;
  for (int32_t p = (int32_t)threadIdx.x; limit > 0.0f && p < v.params; p += (int32_t)blockDim.x)
    sum += tt_gradient_square(a, g, p);
  sum = tt_block_sum(sum, sums);
  if (threadIdx.x == 0) a.scale[i] = tt_clip_factor(sum, limit);
}

/* Add the gradient and the loss of further parts; what lies behind the last parameter is zero. */
static __global__ void add_parts(tt_step_kernel_args a)
{
  const tt_cuda_state &v = a.v;
  int64_t i = (int64_t)(blockIdx.x / (unsigned)a.parts), at = i * v.param_stride;
  int32_t part = (int32_t)(blockIdx.x % (unsigned)a.parts), first = part * TT_STEP_BLOCK_ELEMENTS;
  int32_t last = min(v.params, first + TT_STEP_BLOCK_ELEMENTS);
  if (v.status[i] != TT_STATUS_training) return;
  for (int32_t p = first + 4 * (int32_t)threadIdx.x; p < last; p += 4 * (int32_t)blockDim.x) {
    float4 sum = tt_load4(a.gradient + at + p), more = tt_load4(a.add + at + p);
    sum.x += more.x;
    sum.y += more.y;
    sum.z += more.z;
    sum.w += more.w;
    tt_store4(a.gradient + at + p, sum);
  }
  if (part == 0 && threadIdx.x == 0) a.pending_loss[i] += a.add_loss[i];
}

/* The sum of squares of each block of TT_NORM_BLOCK parameters of clipped members. */
static __global__ void block_squares(tt_step_kernel_args a)
{
  TT_SHARED_MEMORY(double, sums);
  const tt_cuda_state &v = a.v;
  int64_t i = (int64_t)(blockIdx.x / (unsigned)a.parts);
  int32_t block = (int32_t)(blockIdx.x % (unsigned)a.parts), first = block * TT_NORM_BLOCK;
  int32_t last = min(v.params, first + TT_NORM_BLOCK);
  if (v.status[i] != TT_STATUS_training || !(v.member[i].hyper.clip_norm > 0.0f)) return;
  const float *g = a.gradient + i * v.param_stride;
  double sum = 0.0;
  for (int32_t p = first + (int32_t)threadIdx.x; p < last; p += (int32_t)blockDim.x)
    sum += tt_gradient_square(a, g, p);
  sum = tt_block_sum(sum, sums);
  if (threadIdx.x == 0) a.squares[i * a.squares_each + block] = sum;
}

/* tt_clip_factor of every member from its sums of squares; one thread per member. */
static __global__ void clip_by_squares(tt_step_kernel_args a)
{
  int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= a.v.members || a.v.status[i] != TT_STATUS_training) return;
  float limit = a.v.member[i].hyper.clip_norm;
  double sum = 0.0;
  for (int32_t k = 0; limit > 0.0f && k < a.squares_each; k++)
    sum += a.squares[(int64_t)i * a.squares_each + k];
  a.scale[i] = tt_clip_factor(sum, limit);
}

/* The optimizer arguments of the next step, before it is recorded. */
static __global__ void prepare_step(tt_step_kernel_args a)
{
  int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < a.v.members && a.v.status[i] == TT_STATUS_training)
    a.step[i] = tt_cuda_step_args(a.v, i, a.v.step[i] + 1);
}

/* Four gradients: the sum of those of the chunks, in the order of their rows. Three loads at a time
 * are on their way; x + -0 is x, whatever x is. */
__device__ __forceinline__ tt_floats<4> tt_add_copies(const tt_step_kernel_args &a, int64_t offset)
{
  enum { MORE = 3 };
  tt_floats<4> g = tt_load_floats<4>(a.gradient + offset);
#pragma unroll 1
  for (int32_t c = 1; c < a.copies; c += MORE) {
    tt_floats<4> more[MORE];
#pragma unroll
    for (int k = 0; k < MORE; k++) {
      more[k] = {{-0.0f, -0.0f, -0.0f, -0.0f}};
      if (c + k < a.copies)
        more[k] = tt_load_floats<4>(a.gradient + (c + k) * a.copy_step + offset);
    }
#pragma unroll
    for (int k = 0; k < MORE; k++)
#pragma unroll
      for (int q = 0; q < 4; q++) g.v[q] += more[k].v[q];
  }
  return g;
}

/* The sum takes the place of the gradient of the first chunk. */
static __global__ void add_copies(tt_step_kernel_args a)
{
  int64_t i = (int64_t)(blockIdx.x / (unsigned)a.parts), at = i * a.v.param_stride;
  int32_t first = (int32_t)(blockIdx.x % (unsigned)a.parts) * TT_STEP_BLOCK_ELEMENTS;
  int32_t last = min(a.v.params, first + TT_STEP_BLOCK_ELEMENTS);
  if (a.v.status[i] != TT_STATUS_training) return;
  for (int32_t p = first + 4 * (int32_t)threadIdx.x; p < last; p += 4 * (int32_t)blockDim.x)
    tt_store_floats(a.gradient + at + p, tt_add_copies(a, at + p));
}

/* Add new weights to their average (ema), as an update does it for its own. */
static __global__ void average_weights(tt_step_kernel_args a)
{
  const tt_cuda_state &v = a.v;
  int64_t i = (int64_t)(blockIdx.x / (unsigned)a.parts), at = i * v.param_stride;
  int32_t first = (int32_t)(blockIdx.x % (unsigned)a.parts) * TT_STEP_BLOCK_ELEMENTS;
  int32_t last = min(v.params, first + TT_STEP_BLOCK_ELEMENTS);
  if (v.status[i] != TT_STATUS_training || !tt_uses_ema(v, i)) return;
  float decay = v.member[i].hyper.average_decay;
  for (int32_t p = first + (int32_t)threadIdx.x; p < last; p += (int32_t)blockDim.x)
    v.average[at + p] =
        tt_ema_update(v.average[at + p], v.weights[at + p], decay, v.averaged[i] - 1);
}

template <int RATES, int COPIES>
__device__ __forceinline__ void tt_layered_step(const tt_step_kernel_args &a)
{
  enum { V = TT_VECTOR };
  const tt_cuda_state &v = a.v;
  int64_t i = (int64_t)(blockIdx.x / (unsigned)a.parts), at = i * v.param_stride;
  if (v.status[i] != TT_STATUS_training) return;
  int32_t first = (int32_t)(blockIdx.x % (unsigned)a.parts) * TT_STEP_BLOCK_ELEMENTS;
  int32_t last = min(v.params, first + TT_STEP_BLOCK_ELEMENTS);
  tt_layered_with_optimizer<V, RATES>(a, i, [&](auto update) {
    for (int32_t p = first + V * (int32_t)threadIdx.x; p < last; p += V * (int32_t)blockDim.x)
      update(p, COPIES ? tt_add_copies(a, at + p) : tt_load_floats<V>(a.gradient + at + p));
  });
}

static __global__ void optimizer_step(tt_step_kernel_args a) { tt_layered_step<0, 0>(a); }

/* The same with gradients of chunks. */
static __global__ void optimizer_step_of_chunks(tt_step_kernel_args a) { tt_layered_step<0, 1>(a); }

/* The same with factors on the learning rate. */
static __global__ void optimizer_step_by_layer(tt_step_kernel_args a) { tt_layered_step<1, 0>(a); }

/* Row order of every member's running epoch. */
static __global__ void make_epoch_orders(tt_step_kernel_args a)
{
  int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < a.v.members && a.v.status[i] == TT_STATUS_training)
    a.order[i] = tt_cuda_epoch_order(a.v, i);
}
#endif
