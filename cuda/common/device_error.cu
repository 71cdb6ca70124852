/* device_error.cu — device errors as messages that say what to do. */
#include "cuda/common/device_error.cuh"

#include "core/base/log.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char location[512] = "GPU";

void tt_cuda_set_location(int number, const char *name)
{
  char host[256] = "this host";
  gethostname(host, sizeof host - 1);
  if (number < 0)
    snprintf(location, sizeof location, "%s%s", tt_log_rank_text(), host);
  else
    snprintf(location, sizeof location, "%s%s, GPU %d (%.200s)", tt_log_rank_text(), host, number,
             name);
}

const char *tt_cuda_location(void) { return location; }

/* Class of an error. */
enum error_kind { NO_MEMORY, NO_DEVICE, OLD_DRIVER, GPU_LOST, GPU_CRASHED, OTHER };

static error_kind classify_error(cudaError_t e)
{
  switch (e) {
  case cudaErrorMemoryAllocation: return NO_MEMORY;
  case cudaErrorNoDevice:
  case cudaErrorInvalidDevice:
  case cudaErrorInitializationError:
  case cudaErrorDevicesUnavailable:
  case cudaErrorSystemNotReady:
  case cudaErrorStubLibrary: return NO_DEVICE;
  case cudaErrorInsufficientDriver:
  case cudaErrorSystemDriverMismatch:
  case cudaErrorCompatNotSupportedOnDevice:
  case cudaErrorUnsupportedPtxVersion:
  case cudaErrorNoKernelImageForDevice: return OLD_DRIVER;
  case cudaErrorECCUncorrectable:
  case cudaErrorNvlinkUncorrectable:
  case cudaErrorContained:
  case cudaErrorHardwareStackError:
  case cudaErrorMpsClientTerminated:
  case cudaErrorExternalDevice:
  case cudaErrorUnknown: return GPU_LOST;
  case cudaErrorIllegalAddress:
  case cudaErrorMisalignedAddress:
  case cudaErrorInvalidAddressSpace:
  case cudaErrorInvalidPc:
  case cudaErrorIllegalInstruction:
  case cudaErrorAssert:
  case cudaErrorLaunchTimeout:
  case cudaErrorLaunchFailure: return GPU_CRASHED;
  default: return OTHER;
  }
}

static const char *remedy(error_kind t)
{
  switch (t) {
  case NO_MEMORY: return "use more ranks, a smaller train.batch_size or fewer members per rank";
  case NO_DEVICE:
    return "check nvidia-smi on this host, the job's --gpus option and CUDA_VISIBLE_DEVICES, or "
           "set "
           "run.device: cpu";
  case OLD_DRIVER:
    return "this program needs a newer NVIDIA driver or was built for other GPUs (compute "
           "capability 8.0 and up): see tutti doctor";
  case GPU_LOST:
    return "the GPU is lost; the checkpoint is whole: run again, on another host if it "
           "comes back";
  case GPU_CRASHED:
    return "a computation on the GPU failed; the checkpoint is whole: run again, and "
           "report it if it comes back";
  default: return "this is an error in tutti: please report it";
  }
}

/* ", 3.10 GiB of 139.80 GiB free", or "" if the device does not answer. */
static void free_memory_text(char *text, size_t room)
{
  size_t free_bytes = 0, total = 0;
  text[0] = '\0';
  if (cudaMemGetInfo(&free_bytes, &total) == cudaSuccess)
    snprintf(text, room, ", %.2f GiB of %.2f GiB free", (double)free_bytes / (1 << 30),
             (double)total / (1 << 30));
}

tt_err tt_cuda_fail(cudaError_t e, const char *file, int line, const char *call)
{
  error_kind t = classify_error(e);
  char memory[96] = "";
  cudaGetLastError(); /* reported here: the next launch must not report it again */
  if (t == NO_MEMORY) free_memory_text(memory, sizeof memory);
  tt_err kind = t == NO_MEMORY                                       ? TT_E_MEM
                : t == NO_DEVICE || t == OLD_DRIVER || t == GPU_LOST ? TT_E_UNAVAILABLE
                                                                     : TT_E_INTERNAL;
  return tt_fail_at(file, line, kind, "%s: %s: %s (%s)%s; %s", location, call, cudaGetErrorName(e),
                    cudaGetErrorString(e), memory, remedy(t));
}

tt_err tt_cublas_fail(cublasStatus_t s, const char *file, int line, const char *call)
{
  /* cuBLAS hides the error of the device; if the device has failed, this call returns its error. */
  cudaError_t sync_error = cudaDeviceSynchronize();
  if (sync_error != cudaSuccess) return tt_cuda_fail(sync_error, file, line, call);
  error_kind t = s == CUBLAS_STATUS_ALLOC_FAILED ? NO_MEMORY
                 : s == CUBLAS_STATUS_NOT_INITIALIZED || s == CUBLAS_STATUS_ARCH_MISMATCH
                     ? OLD_DRIVER
                 : s == CUBLAS_STATUS_EXECUTION_FAILED ? GPU_CRASHED
                                                       : OTHER;
  char memory[96] = "";
  if (t == NO_MEMORY) free_memory_text(memory, sizeof memory);
  tt_err kind = t == NO_MEMORY ? TT_E_MEM : t == OLD_DRIVER ? TT_E_UNAVAILABLE : TT_E_INTERNAL;
  return tt_fail_at(file, line, kind, "%s: %s: %s (%s)%s; %s", location, call,
                    cublasGetStatusName(s), cublasGetStatusString(s), memory, remedy(t));
}
