/* fused_layers.cuh — kernels of the layered path that compute a layer and what is next to it:
 *   entry  the rows of a batch, and the first layer
 *   head   the last layer, the losses of the rows, and dL/dz of this layer and of the layer before
 * The bits are those of the products (product.cuh), of gather_batch and of batch_loss. Device code.
 */
#ifndef TT_FUSED_LAYERS_CUH
#define TT_FUSED_LAYERS_CUH
#include "cuda/common/copy_async.cuh"
#include "cuda/layered/step_kernels.cuh"
#include "cuda/product/product_ends.cuh"

enum { TT_HEAD_ROWS = 32 }; /* of a block, at most */

typedef struct tt_head_args {
  tt_step_kernel_args step; /* delta: dL/dz of the last layer */
  tt_product_args product;  /* backward; right [k][n] and bias [k] are those of the last layer */
  const float *x;           /* [M][rows][n] its inputs */
  double *row_loss;         /* [M][rows] */
  int32_t *arrived;         /* [M] number of blocks that are done */
  int32_t rows;             /* of a block */
} tt_head_args;

/* What a block has in shared memory. */
typedef struct tt_head_shared {
  float *x, *w, *bias;   /* [TT_HEAD_ROWS][ld], [k][ld], [k] */
  float *output, *delta; /* [TT_HEAD_ROWS][k] */
  int32_t *is_last;
  int32_t ld;
} tt_head_shared;

/* Floats from one row to the next: neighboring rows begin in different banks of shared memory. */
static inline __host__ __device__ int32_t tt_head_ld(int32_t n) { return (n + 3) / 4 * 4 + 4; }

static inline size_t tt_head_bytes(int32_t n, int32_t k)
{
  int32_t floats = (TT_HEAD_ROWS + k) * tt_head_ld(n) + 2 * TT_HEAD_ROWS * k + k + 1;
  size_t bytes = sizeof(float) * (size_t)floats;
  return bytes > (size_t)TT_BLOCK_SUM_BYTES ? bytes : (size_t)TT_BLOCK_SUM_BYTES;
}

__device__ __forceinline__ tt_head_shared tt_head_shared_of(float *shared, int32_t n, int32_t k)
{
  tt_head_shared s;
  s.ld = tt_head_ld(n);
  s.x = shared;
  s.w = s.x + TT_HEAD_ROWS * s.ld;
  s.bias = s.w + k * s.ld;
  s.output = s.bias + k;
  s.delta = s.output + TT_HEAD_ROWS * k;
  s.is_last = reinterpret_cast<int32_t *>(s.delta + TT_HEAD_ROWS * k);
  return s;
}

/* Start to copy `lines` lines of n floats, V at a time. */
template <int V>
__device__ __forceinline__ void tt_head_copy(float *dst, const float *src, int32_t lines, int32_t n,
                                             int32_t ld)
{
  for (int32_t j = V * (int32_t)threadIdx.x; j < lines * n; j += V * (int32_t)blockDim.x)
    tt_copy_async<V>(dst + j / n * ld + j % n, src + j, true);
}

/* The end of a chain of n products: the zeros at the end of a panel make 0 of -0. */
__device__ __forceinline__ float tt_end_chain(float sum, int32_t n)
{
  return n % 8 ? sum + 0.0f : sum;
}

/* the rows and the first layer */

typedef struct tt_entry_args {
  tt_step_kernel_args step;
  tt_product_args product; /* forward */
} tt_entry_args;

typedef struct tt_entry_shared {
  float *w, *x, *z; /* [n][ld], [TT_GATHER_ROWS][ld], [TT_GATHER_ROWS][n] */
  int32_t *row;     /* [TT_GATHER_ROWS], -1: there is none */
  int32_t ld;
} tt_entry_shared;

__device__ __forceinline__ tt_entry_shared tt_entry_shared_of(float *shared,
                                                              const tt_product_args &p)
{
  tt_entry_shared s;
  s.ld = tt_head_ld(p.k);
  s.w = shared;
  s.x = s.w + p.n * s.ld;
  s.z = s.x + TT_GATHER_ROWS * s.ld;
  s.row = reinterpret_cast<int32_t *>(s.z + TT_GATHER_ROWS * p.n);
  return s;
}

/* The number of row r of the next batch of member i, or of its part; -1: there is none. */
__device__ __forceinline__ int32_t tt_entry_row(const tt_step_kernel_args &a, int i, int32_t r)
{
  tt_batch_rows rows = tt_next_rows(a.v, i, a.batch_part);
  if (r >= rows.count) return -1;
  return tt_cuda_epoch_row(a.v, i, a.order[i], (int32_t)(rows.slot + rows.first + r));
}

/* Compute z of all rows; each thread computes a column. */
template <int V>
__device__ __forceinline__ void tt_entry_products(const tt_product_args &p, const float *bias,
                                                  const tt_entry_shared &s)
{
  for (int32_t c = (int32_t)threadIdx.x; c < p.n; c += (int32_t)blockDim.x) {
    float sum[TT_GATHER_ROWS], begin = bias[c];
#pragma unroll
    for (int r = 0; r < TT_GATHER_ROWS; r++) sum[r] = begin;
#pragma unroll 1
    for (int32_t k = 0; k < p.k; k += V) {
      tt_floats<V> w = tt_load_floats<V>(s.w + c * s.ld + k);
#pragma unroll
      for (int r = 0; r < TT_GATHER_ROWS; r++) {
        tt_floats<V> x = tt_load_floats<V>(s.x + r * s.ld + k);
#pragma unroll
        for (int q = 0; q < V; q++) sum[r] = tt_fma(x.v[q], w.v[q], sum[r]);
      }
    }
#pragma unroll
    for (int r = 0; r < TT_GATHER_ROWS; r++) s.z[r * p.n + c] = tt_end_chain(sum[r], p.k);
  }
}

/* V: as in last_layer_and_loss. */
template <int V> static __global__ void rows_and_first_layer(tt_entry_args a)
{
  TT_SHARED_MEMORY(float, shared);
  const tt_cuda_state &v = a.step.v;
  const tt_product_args &p = a.product;
  int i = (int)(blockIdx.x / (unsigned)a.step.parts);
  int32_t first = (int32_t)(blockIdx.x % (unsigned)a.step.parts) * TT_GATHER_ROWS;
  int32_t rows = min((int32_t)TT_GATHER_ROWS, a.step.rows - first), t = (int32_t)threadIdx.x;
  int64_t offset = (int64_t)i * a.step.rows + first;
  if (v.status[i] != TT_STATUS_training) return;
  tt_entry_shared s = tt_entry_shared_of(shared, p);
  tt_head_copy<V>(s.w, p.right.at + i * p.right.step, p.n, p.k, s.ld);
  if (t < TT_GATHER_ROWS) s.row[t] = tt_entry_row(a.step, i, first + t);
  if (t < rows) a.step.row[offset + t] = s.row[t];
  __syncthreads();
  for (int32_t j = V * t; j < TT_GATHER_ROWS * p.k; j += V * (int32_t)blockDim.x) {
    int32_t source = s.row[j / p.k];
    tt_copy_async<V>(s.x + j / p.k * s.ld + j % p.k, v.x + (int64_t)source * p.k + j % p.k,
                     source >= 0);
  }
  tt_copy_commit();
  tt_gather_rows(v, s.row, {a.step.x, a.step.y, a.step.weight, offset, rows, v.member[i].ensemble});
  tt_copy_wait<0>();
  __syncthreads();
  tt_entry_products<V>(p, p.bias + i * p.bias_step, s);
  __syncthreads();
  tt_product_end end = tt_product_end_of(p, i);
  for (int32_t j = V * t; j < rows * p.n; j += V * (int32_t)blockDim.x)
    tt_finish_forward<V>(end, first * p.n + j, tt_load_floats<V>(s.z + j));
}

/* the last layer and the loss */

/* Compute an output: one chain of multiply-adds, which begins with the bias. */
template <int V>
__device__ __forceinline__ float tt_head_output(const float *x, const float *w, int32_t n,
                                                float sum)
{
#pragma unroll 8
  for (int32_t c = 0; c < n; c += V) {
    tt_floats<V> a = tt_load_floats<V>(x + c), b = tt_load_floats<V>(w + c);
#pragma unroll
    for (int q = 0; q < V; q++) sum = tt_fma(a.v[q], b.v[q], sum);
  }
  return tt_end_chain(sum, n);
}

/* The loss of row r of the batch and its gradient. */
__device__ __forceinline__ double tt_head_row_loss(const tt_step_kernel_args &a, tt_batch_rows rows,
                                                   int i, int32_t r, const float *output, float *d)
{
  const tt_cuda_state &v = a.v;
  int32_t outputs = tt_row_outputs(v);
  int64_t offset = (int64_t)i * a.rows + r;
  float loss_factor = 1.0f / (float)rows.batch, weight = v.weighted ? a.weight[offset] : 1.0f;
  for (int32_t o = 0; r >= rows.count && o < outputs; o++) d[o] = 0.0f;
  if (r >= rows.count) return 0.0;
  double value = tt_row_loss<0>(v, output, a.y + offset * v.targets, weight * loss_factor, d, {});
  return (double)weight * value;
}

/* Compute dL/dz of the layer before the last one.
 *   x  the first of the rows that are in shared memory */
template <int V>
__device__ __forceinline__ void tt_head_backward(const tt_product_args &a, int i, int32_t first,
                                                 int32_t rows, const float *x,
                                                 const tt_head_shared &s)
{
  tt_product_end end = tt_product_end_of(a, i);
  int has_h = end.h + first * a.n == x;
  for (int32_t j = V * (int32_t)threadIdx.x; j < rows * a.n; j += V * (int32_t)blockDim.x) {
    int32_t r = j / a.n, c = j % a.n;
    tt_floats<V> sum = {};
    for (int32_t o = 0; o < a.k; o++) {
      float d = s.delta[r * a.k + o];
      tt_floats<V> w = tt_load_floats<V>(s.w + o * s.ld + c);
#pragma unroll
      for (int q = 0; q < V; q++) sum.v[q] = tt_fma(d, w.v[q], sum.v[q]);
    }
#pragma unroll
    for (int q = 0; q < V; q++) sum.v[q] = tt_end_chain(sum.v[q], a.k);
    tt_finish_backward<V>(end, first * a.n + j, sum, has_h ? s.x + r * s.ld + c : nullptr);
  }
}

/* Whether this block is the last one of its member; what the others have written is visible then.
 * All threads take part. */
__device__ __forceinline__ int tt_head_is_last(int32_t *arrived, int32_t blocks, int32_t *is_last)
{
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    *is_last = atomicAdd(arrived, 1) == blocks - 1;
    if (*is_last) *arrived = 0;
  }
  __syncthreads();
  if (!*is_last) return 0;
  __threadfence();
  return 1;
}

/* The sum of the losses of a batch, in the order of batch_loss, as the last step of its last block:
 * then the member is one batch further. */
__device__ __forceinline__ void tt_head_end(const tt_head_args &a, int i, int32_t count,
                                            double *sums)
{
  const volatile double *loss = a.row_loss + (int64_t)i * a.step.rows;
  double sum = 0.0;
  for (int32_t r = (int32_t)threadIdx.x; r < count; r += (int32_t)blockDim.x) sum += loss[r];
  sum = tt_block_sum(sum, sums);
  if (threadIdx.x == 0) tt_end_batch_loss(a.step, i, sum);
}

/* V: floats of one load or store: 4 if each row begins at a multiple of 16 bytes, else 1. */
template <int V> static __global__ void last_layer_and_loss(tt_head_args a)
{
  TT_SHARED_MEMORY(float, shared);
  const tt_product_args &p = a.product;
  int i = (int)(blockIdx.x / (unsigned)a.step.parts);
  int32_t first = (int32_t)(blockIdx.x % (unsigned)a.step.parts) * a.rows;
  int32_t rows = min(a.rows, a.step.rows - first), t = (int32_t)threadIdx.x;
  int64_t offset = (int64_t)i * a.step.rows + first;
  if (a.step.v.status[i] != TT_STATUS_training) return;
  tt_batch_rows batch = tt_next_rows(a.step.v, i, a.step.batch_part);
  tt_head_shared s = tt_head_shared_of(shared, p.n, p.k);
  tt_head_copy<V>(s.x, a.x + offset * p.n, rows, p.n, s.ld);
  tt_head_copy<V>(s.w, p.right.at + i * p.right.step, p.k, p.n, s.ld);
  tt_head_copy<1>(s.bias, p.bias + i * p.bias_step, 1, p.k, 0);
  tt_copy_commit();
  tt_copy_wait<0>();
  __syncthreads();
  for (int32_t j = t; j < rows * p.k; j += (int32_t)blockDim.x)
    s.output[j] =
        tt_head_output<V>(s.x + j / p.k * s.ld, s.w + j % p.k * s.ld, p.n, s.bias[j % p.k]);
  __syncthreads();
  if (t < rows)
    a.row_loss[offset + t] =
        tt_head_row_loss(a.step, batch, i, first + t, s.output + t * p.k, s.delta + t * p.k);
  __syncthreads();
  for (int32_t j = t; j < rows * p.k; j += (int32_t)blockDim.x)
    a.step.delta[offset * p.k + j] = s.delta[j];
  tt_head_backward<V>(p, i, first, rows, a.x + offset * p.n, s);
  if (tt_head_is_last(a.arrived + i, a.step.parts, s.is_last))
    tt_head_end(a, i, batch.count, reinterpret_cast<double *>(shared));
}
#endif
