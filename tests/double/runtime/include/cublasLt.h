/* cublasLt.h — replaces the header of that name: single-precision matrix products by plain loops.
 * Matrices are column-major, as in cuBLAS. alpha and beta are read from the host at the call. */
#ifndef TT_DOUBLE_CUBLASLT_H
#define TT_DOUBLE_CUBLASLT_H
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
typedef enum { CUDA_R_32F = 0 } cudaDataType_t;
typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 } cublasOperation_t;
typedef enum {
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77 /* operands are rounded to 10 bits, sums are not */
} cublasComputeType_t;
typedef enum { CUBLASLT_REDUCTION_SCHEME_NONE = 0 } cublasLtReductionScheme_t;
typedef enum {
  CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,
  CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6
} cublasLtMatrixLayoutAttribute_t;
typedef enum {
  CUBLASLT_MATMUL_DESC_TRANSA = 3,
  CUBLASLT_MATMUL_DESC_TRANSB = 4
} cublasLtMatmulDescAttributes_t;
typedef enum {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
  CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8
} cublasLtMatmulPreferenceAttributes_t;

typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct tt_double_matmul_desc *cublasLtMatmulDesc_t;
typedef struct tt_double_matrix_layout *cublasLtMatrixLayout_t;
typedef struct tt_double_matmul_preference *cublasLtMatmulPreference_t;
/* What the choice was made for. */
typedef struct {
  uint64_t choice; /* of the order of sums; 0: not chosen */
  uint32_t align[3];
  int32_t counts; /* 1: bits also depend on the number of matrices */
} cublasLtMatmulAlgo_t;
typedef struct {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
} cublasLtMatmulHeuristicResult_t;

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out);
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle);
cublasStatus_t cublasLtGetProperty(libraryPropertyType which, int *value);
const char *cublasLtGetStatusName(cublasStatus_t s);
const char *cublasLtGetStatusString(cublasStatus_t s);

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                        cudaDataType_t scale);
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc);
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t which,
                                              const void *value, size_t bytes);
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType_t type,
                                          uint64_t rows, uint64_t columns, int64_t ld);
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout);
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t which,
                                                const void *value, size_t bytes);
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out);
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference);
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    const void *value, size_t bytes);

/* The algorithm, and with it the order of a sum, depends on sizes, layouts, alignment and the
 * number of matrices at this call; unless reductions and workspace are excluded, also on the number
 * of matrices of the product. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t *out, int *found);

/* D = alpha op(A) op(B) + beta C. With beta 0, C is not read. Every matrix must have the alignment
 * that the algorithm was chosen for. */
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t layout_a, const void *b,
                              cublasLtMatrixLayout_t layout_b, const void *beta, const void *c,
                              cublasLtMatrixLayout_t layout_c, void *d,
                              cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_bytes, cudaStream_t stream);
#endif
