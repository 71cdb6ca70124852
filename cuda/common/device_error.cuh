/* device_error.cuh — errors of CUDA and cuBLAS as a tt_err, with words a person can act on. Floor
 * 3; C++17, for .cu files alone. */
#ifndef TT_DEVICE_ERROR_CUH
#define TT_DEVICE_ERROR_CUH
#include "core/base/err.h"

#include <cublas_v2.h>
#include <cuda_runtime.h>

/* TT_CUDA(cudaCall(...)), TT_CUBLAS(cublasCall(...)): the call as a tt_err. The message names rank,
 * host, GPU, the call, CUDA's own words and what to do.
 * Errors: MEM (device or pinned memory), UNAVAILABLE (no GPU, driver too old, GPU lost: the
 * checkpoint is whole, run again), INTERNAL (the rest). */
#define TT_CUDA(...) tt_cuda_check((__VA_ARGS__), __FILE__, __LINE__, #__VA_ARGS__)
#define TT_CUBLAS(...) tt_cublas_check((__VA_ARGS__), __FILE__, __LINE__, #__VA_ARGS__)

/* Which GPU the messages name, from now on; number -1 for none. */
void tt_cuda_set_location(int number, const char *name);
/* "rank 3 on node17, GPU 0 (NVIDIA H200)" */
const char *tt_cuda_location(void);

tt_err tt_cuda_fail(cudaError_t e, const char *file, int line, const char *call);
tt_err tt_cublas_fail(cublasStatus_t s, const char *file, int line, const char *call);
static inline tt_err tt_cuda_check(cudaError_t e, const char *file, int line, const char *call)
{
  return e == cudaSuccess ? TT_OK : tt_cuda_fail(e, file, line, call);
}
static inline tt_err tt_cublas_check(cublasStatus_t s, const char *file, int line, const char *call)
{
  return s == CUBLAS_STATUS_SUCCESS ? TT_OK : tt_cublas_fail(s, file, line, call);
}
#endif
