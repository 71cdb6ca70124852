/* cuda_runtime.h — replaces the header of that name: the part of the CUDA runtime and of the
 * device language that tutti uses, for a host compiler. See double.h for what it checks.
 *
 * Left out on purpose: static __shared__, __constant__ and __device__ variables (use
 * TT_SHARED_MEMORY and arguments), <<<>>> (use tt_launch), atomics on floating point, masks other
 * than the full warp. */
#ifndef TT_DOUBLE_CUDA_RUNTIME_H
#define TT_DOUBLE_CUDA_RUNTIME_H
#ifndef TT_CUDA_DOUBLE
#error "the double of the CUDA runtime, found without TT_CUDA_DOUBLE: wrong include directory"
#endif
#include "device_language.h"

#include <cstddef>
#include <cstdint>

#define CUDART_VERSION 13000

/* errors: name, CUDA's number, text */

#define TT_DOUBLE_ERRORS(X)                                                                        \
  X(cudaSuccess, 0, "no error")                                                                    \
  X(cudaErrorInvalidValue, 1, "invalid argument")                                                  \
  X(cudaErrorMemoryAllocation, 2, "out of memory")                                                 \
  X(cudaErrorInitializationError, 3, "initialization error")                                       \
  X(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")                            \
  X(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy")                      \
  X(cudaErrorStubLibrary, 34, "CUDA driver is a stub library")                                     \
  X(cudaErrorInsufficientDriver, 35,                                                               \
    "CUDA driver version is insufficient for CUDA runtime version")                                \
  X(cudaErrorDevicesUnavailable, 46, "CUDA-capable device(s) is/are busy or unavailable")          \
  X(cudaErrorInvalidDeviceFunction, 98, "invalid device function")                                 \
  X(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")                                  \
  X(cudaErrorInvalidDevice, 101, "invalid device ordinal")                                         \
  X(cudaErrorNoKernelImageForDevice, 209,                                                          \
    "no kernel image is available for execution on the device")                                    \
  X(cudaErrorECCUncorrectable, 214, "uncorrectable ECC error encountered")                         \
  X(cudaErrorNvlinkUncorrectable, 220, "uncorrectable NVLink error detected during the execution") \
  X(cudaErrorUnsupportedPtxVersion, 222,                                                           \
    "the provided PTX was compiled with an unsupported toolchain.")                                \
  X(cudaErrorContained, 226, "Invalid access of peer GPU memory over nvlink or a hardware error")  \
  X(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")                                \
  X(cudaErrorIllegalState, 401, "the operation cannot be performed in the present state")          \
  X(cudaErrorNotReady, 600, "device not ready")                                                    \
  X(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered")                      \
  X(cudaErrorLaunchOutOfResources, 701, "too many resources requested for launch")                 \
  X(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated")                        \
  X(cudaErrorAssert, 710, "device-side assert triggered")                                          \
  X(cudaErrorHardwareStackError, 714, "hardware stack error")                                      \
  X(cudaErrorIllegalInstruction, 715, "an illegal instruction was encountered")                    \
  X(cudaErrorMisalignedAddress, 716, "misaligned address")                                         \
  X(cudaErrorInvalidAddressSpace, 717, "operation not supported on global/shared address space")   \
  X(cudaErrorInvalidPc, 718, "invalid program counter")                                            \
  X(cudaErrorLaunchFailure, 719, "unspecified launch failure")                                     \
  X(cudaErrorNotSupported, 801, "operation not supported")                                         \
  X(cudaErrorSystemNotReady, 802, "system not yet initialized")                                    \
  X(cudaErrorSystemDriverMismatch, 803,                                                            \
    "system has unsupported display driver / cuda driver combination")                             \
  X(cudaErrorCompatNotSupportedOnDevice, 804,                                                      \
    "forward compatibility was attempted on non supported HW")                                     \
  X(cudaErrorMpsClientTerminated, 810,                                                             \
    "MPS client terminated without reestablishing a connection")                                   \
  X(cudaErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing")    \
  X(cudaErrorStreamCaptureInvalidated, 901,                                                        \
    "operation failed due to a previous error during capture")                                     \
  X(cudaErrorStreamCaptureUnmatched, 903, "capture was not ended in the same stream as it began")  \
  X(cudaErrorStreamCaptureIsolation, 905,                                                          \
    "dependency created on uncaptured work in another stream")                                     \
  X(cudaErrorStreamCaptureImplicit, 906,                                                           \
    "operation would make the legacy stream depend on a capturing blocking stream")                \
  X(cudaErrorCapturedEvent, 907,                                                                   \
    "operation not permitted on an event last recorded in a capturing stream")                     \
  X(cudaErrorExternalDevice, 911, "an async error has occured in external entity outside of CUDA") \
  X(cudaErrorInvalidClusterSize, 912, "cluster misconfiguration")                                  \
  X(cudaErrorUnknown, 999, "unknown error")

typedef enum cudaError {
#define X(name, number, text) name = number,
  TT_DOUBLE_ERRORS(X)
#undef X
} cudaError_t;

const char *cudaGetErrorName(cudaError_t e);
const char *cudaGetErrorString(cudaError_t e);
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();

/* the device */

typedef struct CUuuid_st {
  char bytes[16];
} cudaUUID_t;

struct cudaDeviceProp {
  char name[256];
  cudaUUID_t uuid;
  size_t totalGlobalMem, sharedMemPerBlock;
  int regsPerBlock, warpSize;
  int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
  int major, minor, multiProcessorCount;
  int ECCEnabled, pciBusID, pciDeviceID, pciDomainID;
  int memoryBusWidth, l2CacheSize, maxThreadsPerMultiProcessor;
  size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor;
  size_t sharedMemPerBlockOptin, reservedSharedMemPerBlock;
  int maxBlocksPerMultiProcessor;
};

enum cudaDeviceAttr {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrMaxSharedMemoryPerBlock = 8,
  cudaDevAttrWarpSize = 10,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrL2CacheSize = 38,
  cudaDevAttrMaxThreadsPerMultiProcessor = 39,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
  cudaDevAttrMaxRegistersPerMultiprocessor = 82,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
  cudaDevAttrMaxBlocksPerMultiprocessor = 106,
  cudaDevAttrReservedSharedMemoryPerBlock = 111
};

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *out, int device);
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceGetPCIBusId(char *text, int capacity, int device);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);

/* memory */

enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4
};
enum { cudaHostAllocDefault = 0, cudaHostAllocPortable = 1 };

typedef struct CUstream_st *cudaStream_t;

cudaError_t cudaMalloc(void **out, size_t bytes);
cudaError_t cudaFree(void *block);
cudaError_t cudaMallocHost(void **out, size_t bytes);
cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void *block);
template <class T> cudaError_t cudaMalloc(T **out, size_t bytes)
{
  return cudaMalloc(reinterpret_cast<void **>(out), bytes);
}
template <class T> cudaError_t cudaMallocHost(T **out, size_t bytes)
{
  return cudaMallocHost(reinterpret_cast<void **>(out), bytes);
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream = nullptr);
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream = nullptr);
cudaError_t cudaMemset(void *to, int value, size_t bytes);
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream = nullptr);

/* streams, events, graphs */

enum { cudaStreamDefault = 0, cudaStreamNonBlocking = 1 };
enum { cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2 };
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal = 0,
  cudaStreamCaptureModeThreadLocal = 1,
  cudaStreamCaptureModeRelaxed = 2
};
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;

cudaError_t cudaStreamCreate(cudaStream_t *out);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaEventCreate(cudaEvent_t *out);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to);

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out);
typedef struct CUgraphNode_st *cudaGraphNode_t;
/* Only the number: nodes is NULL. */
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count);
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph,
                                          unsigned long long flags = 0);
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph);

/* kernels */

enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
struct cudaFuncAttributes {
  size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
  int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, maxDynamicSharedSizeBytes;
};

enum cudaLaunchAttributeID { cudaLaunchAttributeClusterDimension = 4 };
union cudaLaunchAttributeValue {
  struct {
    unsigned x, y, z;
  } clusterDim;
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute *attrs;
  unsigned numAttrs;
};

namespace tt_double
{
typedef void (*kernel_thunk)(void (*kernel)(), const void *args);
/* `fields`: of the bytes of the arguments, 255 where they belong to a field, 0 between fields. */
cudaError_t launch(kernel_thunk thunk, void (*kernel)(), const void *args,
                   const unsigned char *fields, size_t bytes, const cudaLaunchConfig_t &config);
cudaError_t set_attribute(void (*kernel)(), cudaFuncAttribute attribute, int value);
cudaError_t get_attributes(cudaFuncAttributes *out, void (*kernel)());
cudaError_t occupancy(int *blocks, void (*kernel)(), int threads, size_t shared_bytes);
cudaError_t active_clusters(int *clusters, void (*kernel)(), const cudaLaunchConfig_t &config);

template <class Args> void call_kernel(void (*kernel)(), const void *args)
{
  reinterpret_cast<void (*)(Args)>(kernel)(*static_cast<const Args *>(args));
}

/* gcc 12 takes a number for padding in one of them: hence a mask for looking, not a copy to run on.
 */
template <class Args> const unsigned char *fields_of()
{
  alignas(Args) static unsigned char bytes[sizeof(Args)];
  if (bytes[0]) return bytes;
  for (unsigned char &byte : bytes) byte = 255;
  __builtin_clear_padding(reinterpret_cast<Args *>(bytes));
  return bytes;
}
} // namespace tt_double

template <class Args>
cudaError_t cudaLaunchKernel(void (*kernel)(Args), dim3 grid, dim3 block, void **args,
                             size_t shared_bytes, cudaStream_t stream)
{
  return tt_double::launch(tt_double::call_kernel<Args>, reinterpret_cast<void (*)()>(kernel),
                           args[0], tt_double::fields_of<Args>(), sizeof(Args),
                           {grid, block, shared_bytes, stream, nullptr, 0});
}
template <class Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(Args),
                               const Args &args)
{
  return tt_double::launch(tt_double::call_kernel<Args>, reinterpret_cast<void (*)()>(kernel),
                           &args, tt_double::fields_of<Args>(), sizeof(Args), *config);
}
template <class Args>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Args), cudaFuncAttribute attribute, int value)
{
  return tt_double::set_attribute(reinterpret_cast<void (*)()>(kernel), attribute, value);
}
template <class Args>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *out, void (*kernel)(Args))
{
  return tt_double::get_attributes(out, reinterpret_cast<void (*)()>(kernel));
}
template <class Args>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void (*kernel)(Args),
                                                          int threads, size_t shared_bytes)
{
  return tt_double::occupancy(blocks, reinterpret_cast<void (*)()>(kernel), threads, shared_bytes);
}
template <class Args>
cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, void (*kernel)(Args),
                                           const cudaLaunchConfig_t *config)
{
  return tt_double::active_clusters(clusters, reinterpret_cast<void (*)()>(kernel), *config);
}
#endif
