/* cublas.cpp — the double of what bench/peers needs of cuBLAS. */
#include "tests/double/runtime/core.h"

#include <algorithm>
#include <cublas_v2.h>

using namespace tt_double;

struct cublasContext {
  cudaStream_t stream;
  void *workspace;
  cublasMath_t math;
};

namespace
{
struct operand {
  const float *at;
  int64_t rows, columns, ld, stride; /* as stored */
  bool transposed;
};

struct product {
  int64_t m, n, k, batch;
  float alpha, beta;
  operand a, b, c; /* c is written */
  bool tf32;
};

cublasStatus_t begin()
{
  cudaError_t e = begin_call();
  return e == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

/* Element (row, column) of op(x). */
float element(const operand &x, const float *matrix, int64_t row, int64_t column, bool tf32)
{
  float value = x.transposed ? matrix[row * x.ld + column] : matrix[column * x.ld + row];
  return tf32 ? tt_double_tf32(value) : value;
}

void check(const operand &x, int64_t batch, const char *call)
{
  if (!x.rows || !x.columns || !batch) return;
  int64_t last = (batch - 1) * x.stride + (x.columns - 1) * x.ld + x.rows;
  check_device_range(x.at, (size_t)last * sizeof(float), false, call);
}

/* One matrix of the batch, column by column; `left` is room for op(A). */
void multiply(const product &p, const float *a, const float *b, float *c, std::vector<float> &left)
{
  std::vector<float> sum((size_t)p.m);
  for (int64_t inner = 0; p.n && inner < p.k; inner++)
    for (int64_t row = 0; row < p.m; row++)
      left[(size_t)(inner * p.m + row)] = element(p.a, a, row, inner, p.tf32);
  for (int64_t column = 0; column < p.n; column++) {
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (int64_t inner = 0; inner < p.k; inner++) {
      float factor = element(p.b, b, inner, column, p.tf32);
      const float *from = left.data() + inner * p.m;
      for (int64_t row = 0; row < p.m; row++) sum[(size_t)row] += from[row] * factor;
    }
    float *out = c + column * p.c.ld;
    for (int64_t row = 0; row < p.m; row++) {
      float old = p.beta == 0.0f ? 0.0f : p.beta * out[row];
      out[row] = p.alpha * sum[(size_t)row] + old;
    }
  }
}

void do_product(const product &p)
{
  device_access open;
  check(p.a, p.batch, "cublasSgemmStridedBatched: A");
  check(p.b, p.batch, "cublasSgemmStridedBatched: B");
  check(p.c, p.batch, "cublasSgemmStridedBatched: C");
  std::vector<float> left((size_t)(p.m * p.k));
  for (int64_t i = 0; i < p.batch; i++)
    multiply(p, p.a.at + i * p.a.stride, p.b.at + i * p.b.stride,
             const_cast<float *>(p.c.at) + i * p.c.stride, left);
}

/* A factor op(x) of `rows` x `columns`. */
operand factor(const float *at, cublasOperation_t op, int64_t rows, int64_t columns, int64_t ld,
               int64_t stride)
{
  bool transposed = op == CUBLAS_OP_T;
  return {at, transposed ? columns : rows, transposed ? rows : columns, ld, stride, transposed};
}

bool fits(const operand &x)
{
  return x.rows >= 0 && x.columns >= 0 && x.ld >= std::max<int64_t>(1, x.rows);
}
} // namespace

cublasStatus_t cublasCreate(cublasHandle_t *out)
{
  *out = nullptr;
  if (fail_if_capturing() != cudaSuccess) return CUBLAS_STATUS_ALLOC_FAILED;
  if (cublasStatus_t s = begin()) return s;
  *out = new cublasContext{};
  counts().handles++;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle)
{
  wait_for_all();
  cublasStatus_t s = begin();
  delete handle;
  counts().handles--;
  return s;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream)
{
  if (cublasStatus_t s = begin()) return s;
  handle->stream = stream;
  handle->workspace = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *workspace, size_t bytes)
{
  if (cublasStatus_t s = begin()) return s;
  check_device_range(workspace, bytes, false, "cublasSetWorkspace");
  handle->workspace = workspace;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
  if (cublasStatus_t s = begin()) return s;
  handle->math = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t op_a,
                                         cublasOperation_t op_b, int m, int n, int k,
                                         const float *alpha, const float *a, int lda,
                                         long long int stride_a, const float *b, int ldb,
                                         long long int stride_b, const float *beta, float *c,
                                         int ldc, long long int stride_c, int batch)
{
  if (cublasStatus_t s = begin()) return s;
  product p = {m,
               n,
               k,
               batch,
               *alpha,
               *beta,
               factor(a, op_a, m, k, lda, stride_a),
               factor(b, op_b, k, n, ldb, stride_b),
               factor(c, CUBLAS_OP_N, m, n, ldc, stride_c),
               handle->math == CUBLAS_TF32_TENSOR_OP_MATH};
  if (batch < 0 || !fits(p.a) || !fits(p.b) || !fits(p.c)) return CUBLAS_STATUS_INVALID_VALUE;
  if (is_capturing(handle->stream) && !handle->workspace)
    fail_hard("cublasSgemmStridedBatched is captured without a workspace: call cublasSetWorkspace "
              "after cublasSetStream");
  cudaError_t e = submit(handle->stream, [p] { do_product(p); });
  return e == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
