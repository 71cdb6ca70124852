/* cublaslt.cpp — the double of cuBLASLt and of what bench/peers needs of cuBLAS. */
#include "tests/double/runtime/core.h"

#include <algorithm>
#include <cublas_v2.h>

using namespace tt_double;

struct cublasLtContext {
};
struct cublasContext {
  cudaStream_t stream;
  void *workspace;
  cublasMath_t math;
};
struct tt_double_matmul_desc {
  bool tf32;
  cublasOperation_t op[2];
};
struct tt_double_matrix_layout {
  int64_t rows, columns, ld, stride;
  int32_t batch;
};
struct tt_double_matmul_preference {
  uint64_t workspace;
  uint32_t schemes, align[4];
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
  int64_t parts; /* interleaved parts into which a sum is cut */
};

cublasStatus_t begin()
{
  cudaError_t e = begin_call();
  return e == cudaSuccess                 ? CUBLAS_STATUS_SUCCESS
         : e == cudaErrorMemoryAllocation ? CUBLAS_STATUS_ALLOC_FAILED
                                          : CUBLAS_STATUS_EXECUTION_FAILED;
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
  int64_t parts = p.parts;
  std::vector<float> sum((size_t)(parts * p.m));
  for (int64_t inner = 0; p.n && inner < p.k; inner++)
    for (int64_t row = 0; row < p.m; row++)
      left[(size_t)(inner * p.m + row)] = element(p.a, a, row, inner, p.tf32);
  for (int64_t column = 0; column < p.n; column++) {
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (int64_t inner = 0; inner < p.k; inner++) {
      float factor = element(p.b, b, inner, column, p.tf32);
      float *to = sum.data() + inner % parts * p.m;
      const float *from = left.data() + inner * p.m;
      for (int64_t row = 0; row < p.m; row++) to[row] += from[row] * factor;
    }
    float *out = c + column * p.c.ld;
    for (int64_t row = 0; row < p.m; row++) {
      float old = p.beta == 0.0f ? 0.0f : p.beta * out[row], all = sum[(size_t)row];
      for (int64_t part = 1; part < parts; part++) all += sum[(size_t)(part * p.m + row)];
      out[row] = p.alpha * all + old;
    }
  }
}

void do_product(const product &p)
{
  device_access open;
  check(p.a, p.batch, "cublasLtMatmul: A");
  check(p.b, p.batch, "cublasLtMatmul: B");
  check(p.c, p.batch, "cublasLtMatmul: C");
  std::vector<float> left((size_t)(p.m * p.k));
  for (int64_t i = 0; i < p.batch; i++)
    multiply(p, p.a.at + i * p.a.stride, p.b.at + i * p.b.stride,
             const_cast<float *>(p.c.at) + i * p.c.stride, left);
}

operand make_operand(const void *at, const tt_double_matrix_layout *x, bool transposed)
{
  return {static_cast<const float *>(at), x->rows, x->columns, x->ld, x->stride, transposed};
}

bool fits(const tt_double_matrix_layout *x)
{
  return x->rows >= 0 && x->columns >= 0 && x->ld >= std::max<int64_t>(1, x->rows);
}

uint64_t mix(uint64_t h, uint64_t part) { return (h ^ part) * 1099511628211ull; }

uint64_t mix_layout(uint64_t h, const tt_double_matrix_layout *x)
{
  for (int64_t part : {x->rows, x->columns, x->ld, (int64_t)x->batch}) h = mix(h, (uint64_t)part);
  return h;
}

/* The alignment of all matrices from `at` on. */
bool has_alignment(const void *at, const tt_double_matrix_layout *x, uint32_t bytes)
{
  uint64_t all = reinterpret_cast<uintptr_t>(at);
  if (x->batch > 1) all |= (uint64_t)x->stride * sizeof(float);
  return all % bytes == 0;
}

template <class T, class... VALUES> cublasStatus_t create(T *&out, VALUES... values)
{
  out = nullptr;
  if (cublasStatus_t s = begin()) return s;
  out = new T{values...};
  counts().handles++;
  return CUBLAS_STATUS_SUCCESS;
}

template <class T> cublasStatus_t destroy(T *which)
{
  cublasStatus_t s = begin();
  delete which;
  counts().handles--;
  return s;
}

template <class T> cublasStatus_t set(T &to, const void *value, size_t bytes)
{
  if (cublasStatus_t s = begin()) return s;
  if (bytes != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
} // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
  *out = nullptr;
  if (fail_if_capturing() != cudaSuccess) return CUBLAS_STATUS_ALLOC_FAILED;
  return create(*out);
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
  wait_for_all();
  return destroy(handle);
}

cublasStatus_t cublasLtGetProperty(libraryPropertyType which, int *value)
{
  *value = which == MAJOR_VERSION ? 13 : 0;
  return CUBLAS_STATUS_SUCCESS;
}

const char *cublasLtGetStatusName(cublasStatus_t s)
{
  switch (s) {
#define X(name, number, text)                                                                      \
  case name: return #name;
    TT_DOUBLE_BLAS_STATUS(X)
#undef X
  }
  return "unknown status";
}

const char *cublasLtGetStatusString(cublasStatus_t s)
{
  switch (s) {
#define X(name, number, text)                                                                      \
  case name: return text;
    TT_DOUBLE_BLAS_STATUS(X)
#undef X
  }
  return "unknown status";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                        cudaDataType_t)
{
  cublasStatus_t s = create(*out);
  if (!s) **out = {compute == CUBLAS_COMPUTE_32F_FAST_TF32, {CUBLAS_OP_N, CUBLAS_OP_N}};
  return s;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return destroy(desc); }

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t which,
                                              const void *value, size_t bytes)
{
  return set(desc->op[which == CUBLASLT_MATMUL_DESC_TRANSB], value, bytes);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType_t,
                                          uint64_t rows, uint64_t columns, int64_t ld)
{
  return create(*out, (int64_t)rows, (int64_t)columns, ld, (int64_t)0, 1);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
  return destroy(layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t which,
                                                const void *value, size_t bytes)
{
  if (which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) return set(layout->batch, value, bytes);
  return set(layout->stride, value, bytes);
}

/* The defaults of cuBLASLt: no workspace, all reduction schemes, alignment of 256 bytes. */
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
  cublasStatus_t s = create(*out);
  if (!s) **out = {0, 7, {256, 256, 256, 256}};
  return s;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
  return destroy(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    const void *value, size_t bytes)
{
  if (which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    return set(preference->workspace, value, bytes);
  if (which == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
    return set(preference->schemes, value, bytes);
  return set(preference->align[which - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t *out, int *found)
{
  *found = 0;
  if (cublasStatus_t s = begin()) return s;
  if (!fits(a) || !fits(b) || !fits(c) || !fits(d) || wanted < 1)
    return CUBLAS_STATUS_INVALID_VALUE;
  uint64_t h = 14695981039346656037ull;
  for (const tt_double_matrix_layout *x : {a, b, c, d}) h = mix_layout(h, x);
  for (uint32_t bytes : preference->align) h = mix(h, bytes);
  h = mix(mix(mix(h, desc->op[0]), desc->op[1]), desc->tf32);
  *out = {};
  out->algo.choice = h | 1;
  for (int k = 0; k < 3; k++) out->algo.align[k] = preference->align[k];
  out->algo.counts = preference->schemes != CUBLASLT_REDUCTION_SCHEME_NONE || preference->workspace;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t layout_a, const void *b,
                              cublasLtMatrixLayout_t layout_b, const void *beta, const void *,
                              cublasLtMatrixLayout_t layout_c, void *d, cublasLtMatrixLayout_t,
                              const cublasLtMatmulAlgo_t *algo, void *, size_t, cudaStream_t stream)
{
  if (cublasStatus_t s = begin()) return s;
  if (!fits(layout_a) || !fits(layout_b) || !fits(layout_c) || !algo->choice)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!has_alignment(a, layout_a, algo->align[0]) || !has_alignment(b, layout_b, algo->align[1]) ||
      !has_alignment(d, layout_c, algo->align[2]))
    fail_hard("cublasLtMatmul: an operand has not the alignment that the algorithm was chosen for");
  uint64_t choice = algo->counts ? mix(algo->choice, (uint64_t)layout_c->batch) : algo->choice;
  product p = {layout_c->rows,
               layout_c->columns,
               desc->op[0] == CUBLAS_OP_T ? layout_a->rows : layout_a->columns,
               layout_c->batch,
               *static_cast<const float *>(alpha),
               *static_cast<const float *>(beta),
               make_operand(a, layout_a, desc->op[0] == CUBLAS_OP_T),
               make_operand(b, layout_b, desc->op[1] == CUBLAS_OP_T),
               make_operand(d, layout_c, false),
               desc->tf32,
               1 + (int64_t)(choice >> 32) % 3};
  cudaError_t e = submit(stream, [p] { do_product(p); });
  return e == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INTERNAL_ERROR;
}

cublasStatus_t cublasCreate(cublasHandle_t *out)
{
  *out = nullptr;
  if (fail_if_capturing() != cudaSuccess) return CUBLAS_STATUS_ALLOC_FAILED;
  return create(*out);
}

cublasStatus_t cublasDestroy(cublasHandle_t handle)
{
  wait_for_all();
  return destroy(handle);
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
  bool turned_a = op_a == CUBLAS_OP_T, turned_b = op_b == CUBLAS_OP_T;
  tt_double_matrix_layout layout_a = {turned_a ? k : m, turned_a ? m : k, lda, stride_a, batch},
                          layout_b = {turned_b ? n : k, turned_b ? k : n, ldb, stride_b, batch},
                          layout_c = {m, n, ldc, stride_c, batch};
  if (batch < 0 || !fits(&layout_a) || !fits(&layout_b) || !fits(&layout_c))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (is_capturing(handle->stream) && !handle->workspace)
    fail_hard("cublasSgemmStridedBatched is captured without a workspace: call cublasSetWorkspace "
              "after cublasSetStream");
  product p = {m,
               n,
               k,
               batch,
               *alpha,
               *beta,
               make_operand(a, &layout_a, turned_a),
               make_operand(b, &layout_b, turned_b),
               make_operand(c, &layout_c, false),
               handle->math == CUBLAS_TF32_TENSOR_OP_MATH,
               1};
  cudaError_t e = submit(handle->stream, [p] { do_product(p); });
  return e == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INTERNAL_ERROR;
}
