/* device_error.cuh — errors of CUDA as tt_err, with messages that say what to do. C++17, for
 * .cu files only. */
#ifndef TT_DEVICE_ERROR_CUH
#define TT_DEVICE_ERROR_CUH
#include "core/base/err.h"

#include <cuda_runtime.h>

/* TT_CUDA(cudaCall(...)): the result of the call as a tt_err. The message names rank, host, GPU,
 * the call, CUDA's error text and what to do.
 * Errors: MEM (device or pinned memory), UNAVAILABLE (no GPU, driver too old, GPU lost: the last
 * checkpoint is valid, run again), INTERNAL (the rest). */
#define TT_CUDA(...) tt_cuda_check((__VA_ARGS__), __FILE__, __LINE__, #__VA_ARGS__)

/* Set the GPU that messages name; number -1: none, unless one was set before. */
void tt_cuda_set_location(int number, const char *name);
/* "rank 3 on node17, GPU 0 (NVIDIA H200)" */
const char *tt_cuda_location(void);

tt_err tt_cuda_fail(cudaError_t e, const char *file, int line, const char *call);
static inline tt_err tt_cuda_check(cudaError_t e, const char *file, int line, const char *call)
{
  return e == cudaSuccess ? TT_OK : tt_cuda_fail(e, file, line, call);
}
#endif
