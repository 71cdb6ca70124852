/* device_error.cu — device errors as messages that say what to do. */
#include "cuda/common/device_error.cuh"

#include "core/base/log.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char location[512] = "GPU";
static int has_gpu; /* location names one */

void tt_cuda_set_location(int number, const char *name)
{
  char host[256] = "this host";
  if (number < 0 && has_gpu) return;
  has_gpu = number >= 0;
  gethostname(host, sizeof host - 1);
  if (!has_gpu)
    snprintf(location, sizeof location, "%s%s", tt_log_rank_text(), host);
  else
    snprintf(location, sizeof location, "%s%s, GPU %d (%.200s)", tt_log_rank_text(), host, number,
             name);
}

const char *tt_cuda_location(void) { return location; }

/* Kinds of errors: error value, what to do. */
#define ERROR_KINDS(X)                                                                             \
  X(NO_MEMORY, MEM, "use more ranks, a smaller train.batch_size or fewer members per rank")        \
  X(NO_DEVICE, UNAVAILABLE,                                                                        \
    "check nvidia-smi on this host, the job's --gpus option and CUDA_VISIBLE_DEVICES, or set "     \
    "run.device: cpu")                                                                             \
  X(BUSY_DEVICE, UNAVAILABLE,                                                                      \
    "another process uses the GPU and its compute mode is exclusive (nvidia-smi -q -d COMPUTE): "  \
    "start one rank per GPU, or share it through MPS")                                             \
  X(OLD_DRIVER, UNAVAILABLE,                                                                       \
    "use a newer NVIDIA driver, build tutti with a CUDA toolkit that the driver supports, or set " \
    "run.device: cpu")                                                                             \
  X(WRONG_GPU, UNAVAILABLE,                                                                        \
    "this program has no code for the GPU: build it with -DCMAKE_CUDA_ARCHITECTURES=native "       \
    "(tutti "                                                                                      \
    "needs compute capability 8.0 or newer), or set run.device: cpu")                              \
  X(GPU_LOST, UNAVAILABLE,                                                                         \
    "the GPU is lost; the checkpoint is whole: run again, on another host if it comes back")       \
  X(OTHER_CRASHED, UNAVAILABLE,                                                                    \
    "another process that shares the GPU through MPS crashed; the checkpoint is whole: run again") \
  X(GPU_CRASHED, INTERNAL,                                                                         \
    "a computation on the GPU failed; the checkpoint is whole: run again, and report it if it "    \
    "comes back")                                                                                  \
  X(OTHER, INTERNAL, "this is an error in tutti: please report it")

#define X(name, e, text) name,
enum error_kind { ERROR_KINDS(X) };
#undef X

static const struct {
  tt_err e;
  const char *remedy;
} error_kinds[] = {
#define X(name, e, text) {TT_E_##e, text},
    ERROR_KINDS(X)
#undef X
};

static error_kind classify_error(cudaError_t e)
{
  switch (e) {
  case cudaErrorMemoryAllocation: return NO_MEMORY;
  case cudaErrorNoDevice:
  case cudaErrorInvalidDevice:
  case cudaErrorInitializationError:
  case cudaErrorSystemNotReady:
  case cudaErrorStubLibrary: return NO_DEVICE;
  case cudaErrorDevicesUnavailable: return BUSY_DEVICE;
  case cudaErrorInsufficientDriver:
  case cudaErrorSystemDriverMismatch:
  case cudaErrorCompatNotSupportedOnDevice:
  case cudaErrorUnsupportedPtxVersion: return OLD_DRIVER;
  case cudaErrorNoKernelImageForDevice: return WRONG_GPU;
  case cudaErrorECCUncorrectable:
  case cudaErrorNvlinkUncorrectable:
#if CUDART_VERSION >= 12080
  case cudaErrorContained:
#endif
  case cudaErrorHardwareStackError:
  case cudaErrorExternalDevice:
  case cudaErrorUnknown: return GPU_LOST;
  case cudaErrorMpsClientTerminated: return OTHER_CRASHED;
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

/* ", the driver supports CUDA 12.2, this program was built with CUDA 13.0" */
static void versions_text(char *text, size_t capacity)
{
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  snprintf(text, capacity,
           ", the driver supports CUDA %d.%d, this program was built with CUDA %d.%d",
           driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
}

/* ", 3.10 GiB of 139.80 GiB free", or "" if the device does not answer. */
static void free_memory_text(char *text, size_t capacity)
{
  size_t free_bytes = 0, total = 0;
  text[0] = '\0';
  if (cudaMemGetInfo(&free_bytes, &total) == cudaSuccess)
    snprintf(text, capacity, ", %.2f GiB of %.2f GiB free", (double)free_bytes / (1 << 30),
             (double)total / (1 << 30));
}

static void detail_text(error_kind t, char *text, size_t capacity)
{
  if (t == NO_MEMORY) free_memory_text(text, capacity);
  if (t == OLD_DRIVER) versions_text(text, capacity);
}

tt_err tt_cuda_fail(cudaError_t e, const char *file, int line, const char *call)
{
  error_kind t = classify_error(e);
  char detail[96] = "";
  cudaGetLastError(); /* reported here: the next launch must not report it again */
  detail_text(t, detail, sizeof detail);
  return tt_fail_at(file, line, error_kinds[t].e, "%s: %s: %s (%s)%s; %s", location, call,
                    cudaGetErrorName(e), cudaGetErrorString(e), detail, error_kinds[t].remedy);
}
