/* cublas_v2.h — replaces the header of that name: single-precision matrix products by plain
 * loops, each sum in ascending order of the inner index. Matrices are column-major, as in cuBLAS.
 * alpha and beta are read from the host at the call. */
#ifndef TT_DOUBLE_CUBLAS_V2_H
#define TT_DOUBLE_CUBLAS_V2_H
#include "cuda_runtime.h"

#define TT_DOUBLE_BLAS_STATUS(X)                                                                   \
  X(CUBLAS_STATUS_SUCCESS, 0, "success")                                                           \
  X(CUBLAS_STATUS_NOT_INITIALIZED, 1, "the library was not initialized")                           \
  X(CUBLAS_STATUS_ALLOC_FAILED, 3, "the resource allocation failed")                               \
  X(CUBLAS_STATUS_INVALID_VALUE, 7,                                                                \
    "an unsupported value or parameter was passed to the function")                                \
  X(CUBLAS_STATUS_ARCH_MISMATCH, 8, "the function requires a feature absent from the device")      \
  X(CUBLAS_STATUS_EXECUTION_FAILED, 13, "the GPU program failed to execute")                       \
  X(CUBLAS_STATUS_INTERNAL_ERROR, 14, "an internal operation failed")                              \
  X(CUBLAS_STATUS_NOT_SUPPORTED, 15, "the functionality requested is not supported")

typedef enum cublasStatus_t {
#define X(name, number, text) name = number,
  TT_DOUBLE_BLAS_STATUS(X)
#undef X
} cublasStatus_t;
typedef enum { MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL } libraryPropertyType;
typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 } cublasOperation_t;
typedef enum {
  CUBLAS_DEFAULT_MATH = 0,
  CUBLAS_PEDANTIC_MATH = 2,
  CUBLAS_TF32_TENSOR_OP_MATH = 3 /* operands are rounded to 10 bits, sums are not */
} cublasMath_t;
typedef struct cublasContext *cublasHandle_t;

cublasStatus_t cublasCreate(cublasHandle_t *out);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
cublasStatus_t cublasGetProperty(libraryPropertyType which, int *value);
cublasStatus_t cublasGetVersion(cublasHandle_t handle, int *version);
/* Also removes the user's workspace, as cuBLAS does. */
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
/* A captured product needs a workspace: without it, cuBLAS would allocate during capture. */
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *workspace, size_t bytes);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
const char *cublasGetStatusName(cublasStatus_t s);
const char *cublasGetStatusString(cublasStatus_t s);

/* C = alpha op(A) op(B) + beta C; op(A) m x k, op(B) k x n. With beta 0, C is not read. */
cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                           int m, int n, int k, const float *alpha, const float *a, int lda,
                           const float *b, int ldb, const float *beta, float *c, int ldc);
cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t op_a,
                                         cublasOperation_t op_b, int m, int n, int k,
                                         const float *alpha, const float *a, int lda,
                                         long long int stride_a, const float *b, int ldb,
                                         long long int stride_b, const float *beta, float *c,
                                         int ldc, long long int stride_c, int batch);
#endif
