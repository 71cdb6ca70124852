/* rows.cuh — rows of a batch of the layered path: which they are, how they are gathered from the
 * data set, the loss of one row. Device code. */
#ifndef TT_ROWS_CUH
#define TT_ROWS_CUH
#include "cuda/layered/layered_internal.cuh"
#include "cuda/product/vector.cuh"

enum {
  TT_BLOCK_SUM_BYTES = (TT_MAX_WARPS + 1) * sizeof(double) /* of tt_block_sum, and one value */
};

/* The rows of a member's next batch that a pass computes: one part of the batch, or all rows. */
typedef struct tt_batch_rows {
  int32_t first, count; /* in the batch */
  int32_t batch;        /* rows of the batch */
  int64_t slot;         /* of the first row of the batch in the epoch */
} tt_batch_rows;

__device__ __forceinline__ tt_batch_rows tt_next_rows(const tt_cuda_state &v, int64_t i,
                                                      int32_t batch_part)
{
  int64_t slot = (int64_t)v.batch[i] * v.batch_size, left = v.epoch_rows[i] - slot;
  int32_t batch = (int32_t)(left < v.batch_size ? left : v.batch_size);
  if (v.given_rows) batch = v.given_rows;
  tt_batch_rows r = {0, batch, batch, slot};
  if (v.batch_parts > 1) {
    tt_slice part = tt_part_rows(batch, v.batch_parts, batch_part);
    r.first = (int32_t)part.first;
    r.count = (int32_t)part.count;
  }
  return r;
}

/* Destination of one block of a gather: `tile` rows from row `begin` of the buffers on. */
typedef struct tt_gather_target {
  float *x, *y, *weight;
  int64_t begin;
  int32_t tile, ensemble;
} tt_gather_target;

enum {
#ifdef TT_CUDA_DOUBLE
  TT_GATHER_VALUES = 40, /* few, so that tests reach it */
#else
  TT_GATHER_VALUES = 4096, /* inputs that a block gathers, at most, if it has several rows */
#endif
};

/* Rows that a block gathers: fewer than TT_GATHER_ROWS if they are wide. */
TT_HD int32_t tt_gather_tile(int32_t inputs)
{
  return max(1, min((int32_t)TT_GATHER_ROWS, (int32_t)TT_GATHER_VALUES / inputs));
}

/* Gather the inputs, V at a time; V divides D. Some reads of a thread are on their way together. */
template <int V>
__device__ __forceinline__ void tt_gather_inputs(const tt_cuda_state &v, const int32_t *row,
                                                 const tt_gather_target &dst)
{
  enum { READS = 4 };
  int32_t d = v.inputs / V, step = (int32_t)blockDim.x, all = dst.tile * d;
  for (int32_t j = (int32_t)threadIdx.x; j < all; j += READS * step) {
    tt_floats<V> x[READS] = {};
#pragma unroll
    for (int32_t i = 0, k = j; i < READS; i++, k += step) {
      int32_t source = k < all ? row[k / d] : -1;
      if (source >= 0) x[i] = tt_load_floats<V>(v.x + ((int64_t)source * d + k % d) * V);
    }
#pragma unroll
    for (int32_t i = 0, k = j; i < READS && k < all; i++, k += step)
      tt_store_floats(dst.x + (dst.begin * d + k) * V, x[i]);
  }
}

/* Gather rows row[0..tile) of the data set, zeros where the row is -1. All threads take part;
 * call it after a barrier. */
__device__ __forceinline__ void tt_gather_rows(const tt_cuda_state &v, const int32_t *row,
                                               const tt_gather_target &dst)
{
  const int32_t *column = v.column + (int64_t)dst.ensemble * v.targets;
  int32_t t = (int32_t)threadIdx.x, threads = (int32_t)blockDim.x, k = v.targets;
  if (v.inputs % TT_VECTOR == 0)
    tt_gather_inputs<TT_VECTOR>(v, row, dst);
  else
    tt_gather_inputs<1>(v, row, dst);
  for (int32_t j = t; j < dst.tile * k; j += threads) {
    int32_t source = row[j / k];
    dst.y[dst.begin * k + j] = source < 0 ? 0.0f : v.y[(int64_t)source * v.columns + column[j % k]];
  }
  for (int32_t j = t; v.weight && j < dst.tile; j += threads)
    dst.weight[dst.begin + j] = row[j] < 0 ? 0.0f : v.weight[row[j]];
}

/* Known variances of the errors of the labels of one row, [T] of the data set, and the columns of
 * the targets of the ensemble. */
typedef struct tt_label_errors {
  const float *variance;
  const int32_t *column;
} tt_label_errors;

__device__ __forceinline__ tt_label_errors tt_label_errors_of(const tt_cuda_state &v,
                                                              const float *variance, int32_t row,
                                                              int32_t ensemble)
{
  tt_label_errors s = {variance + (int64_t)row * v.columns,
                       v.column + (int64_t)ensemble * v.targets};
  return s;
}

/* Loss of one row and head, without its weight; d [O] gets its gradient times `factor`, unless it
 * is NULL.
 *   ERRORS  1: the errors of the labels are known; 0: `errors` is not used */
template <int ERRORS>
__device__ __forceinline__ float tt_head_loss(const tt_cuda_state &v, const float *o,
                                              const float *y, float factor, float *d,
                                              tt_label_errors errors)
{
  float value = 0.0f;
  for (int32_t k = 0; k < v.targets; k++) {
    tt_loss_sample w;
    w.n = v.outputs / v.targets;
    w.level = v.model->level;
    w.o = o + k;
    w.d = d ? d + k : NULL;
    w.step = v.targets;
    w.y = y[k];
    w.factor = factor;
    value += tt_loss_target(
        v.loss, &w,
        ERRORS ? tt_loss_args_of_label(v.loss, errors.variance[errors.column[k]], v.loss_args)
               : v.loss_args);
  }
  return value;
}

/* Outputs of a member for one row: those of head 0 first. */
__device__ __forceinline__ int32_t tt_row_outputs(const tt_cuda_state &v)
{
  return v.heads * v.outputs;
}

/* The mean over the heads; each has the gradient of its own loss. */
template <int ERRORS>
__device__ __forceinline__ double tt_row_loss(const tt_cuda_state &v, const float *o,
                                              const float *y, float factor, float *d,
                                              tt_label_errors errors)
{
  double sum = 0.0;
  for (int32_t h = 0; h < v.heads; h++)
    sum += (double)tt_head_loss<ERRORS>(v, o + h * v.outputs, y, factor,
                                        d ? d + h * v.outputs : NULL, errors);
  return sum / (double)v.heads;
}
#endif
