/* cublas_v2.h — replaces the header of that name as far as bench/peers/cublas_graph.cu needs it:
 * single-precision matrix products by plain loops. Matrices are column-major, as in cuBLAS. alpha and
 * beta are read from the host at the call. */
#ifndef TT_DOUBLE_CUBLAS_V2_H
#define TT_DOUBLE_CUBLAS_V2_H
#include "cuda_runtime.h"

typedef enum {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_EXECUTION_FAILED = 13
} cublasStatus_t;
typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 } cublasOperation_t;
typedef enum {
  CUBLAS_DEFAULT_MATH = 0,
  CUBLAS_TF32_TENSOR_OP_MATH = 3 /* operands are rounded to 10 bits, sums are not */
} cublasMath_t;
typedef struct cublasContext *cublasHandle_t;

cublasStatus_t cublasCreate(cublasHandle_t *out);
cublasStatus_t cublasDestroy(cublasHandle_t handle);
/* Also removes the user's workspace, as cuBLAS does. */
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
/* A captured product needs a workspace: without it, cuBLAS would allocate during capture. */
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *workspace, size_t bytes);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);

/* C = alpha op(A) op(B) + beta C; op(A) m x k, op(B) k x n. With beta 0, C is not read. */
cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t op_a,
                                         cublasOperation_t op_b, int m, int n, int k,
                                         const float *alpha, const float *a, int lda,
                                         long long int stride_a, const float *b, int ldb,
                                         long long int stride_b, const float *beta, float *c,
                                         int ldc, long long int stride_c, int batch);
#endif
