/* device.cu — opening and describing a GPU, its stream, its graphs. */
#include "cuda/common/device.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_CAPABILITY = 80 };

/* 0: there is no driver. */
static int driver_version(void)
{
  int version = 0;
  cudaDriverGetVersion(&version);
  return version;
}

tt_err tt_dev_count(int *out)
{
  *out = 0;
  cudaError_t e = cudaGetDeviceCount(out);
  tt_cuda_set_location(-1, "");
  if (e == cudaErrorNoDevice || e == cudaErrorStubLibrary ||
      (e == cudaErrorInsufficientDriver && !driver_version())) {
    cudaGetLastError();
    *out = 0;
    return TT_OK;
  }
  return tt_cuda_check(e, __FILE__, __LINE__, "cudaGetDeviceCount");
}

/* Entry `number` of CUDA_VISIBLE_DEVICES; "" if there is none. */
static void visible_entry(int number, char *text, size_t capacity)
{
  const char *cursor = getenv("CUDA_VISIBLE_DEVICES");
  while (cursor && number-- > 0) cursor = strchr(cursor, ',') ? strchr(cursor, ',') + 1 : NULL;
  cursor = cursor ? cursor + strspn(cursor, " ") : "";
  snprintf(text, capacity, "%.*s", (int)strcspn(cursor, ", "), cursor);
}

/* "GPU-00112233-4455-6677-8899-aabbccddeeff" */
static void format_uuid(const cudaUUID_t *uuid, char *text, size_t capacity)
{
  size_t used = (size_t)snprintf(text, capacity, "GPU");
  for (int i = 0; i < 16; i++) {
    const char *dash = i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
    used += (size_t)snprintf(text + used, capacity - used, "%s%02x", dash,
                             (unsigned char)uuid->bytes[i]);
  }
}

tt_err tt_dev_describe(int number, tt_device_info *out)
{
  cudaDeviceProp properties;
  *out = {};
  tt_cuda_set_location(number, "unknown");
  TT_TRY(TT_CUDA(cudaGetDeviceProperties(&properties, number)));
  out->capability = 10 * properties.major + properties.minor;
  out->multiprocessors = properties.multiProcessorCount;
  out->shared_bytes = (int64_t)properties.sharedMemPerBlockOptin;
  out->total_bytes = (int64_t)properties.totalGlobalMem;
  snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, properties.name);
  /* Of a MIG instance CUDA may return the UUID of the whole GPU, which other instances share. */
  visible_entry(number, out->uuid, sizeof out->uuid);
  if (strncmp(out->uuid, "MIG-", 4) != 0)
    format_uuid(&properties.uuid, out->uuid, sizeof out->uuid);
  tt_cuda_set_location(number, out->name);
  return TT_OK;
}

tt_err tt_dev_open(int number, tt_dev *out)
{
  int count = 0;
  *out = {};
  TT_TRY(tt_dev_count(&count));
  if (number < 0 || number >= count)
    return TT_FAIL(UNAVAILABLE,
                   "%s: GPU %d was requested, %d found; check nvidia-smi, the job's --gpus option "
                   "and CUDA_VISIBLE_DEVICES, or set run.device: cpu",
                   tt_cuda_location(), number, count);
  tt_dev d = {};
  d.number = number;
  TT_TRY(tt_dev_describe(number, &d));
  if (d.capability < MIN_CAPABILITY)
    return TT_FAIL(UNAVAILABLE,
                   "%s has compute capability %d.%d; tutti needs 8.0 or newer: set run.device: cpu",
                   tt_cuda_location(), d.capability / 10, d.capability % 10);
  TT_TRY(TT_CUDA(cudaSetDevice(number)));
  TT_TRY(TT_CUDA(cudaStreamCreateWithFlags(&d.stream, cudaStreamNonBlocking)));
  *out = d;
  return TT_OK;
}

void tt_dev_versions(char *text, int64_t capacity)
{
  int driver = driver_version(), runtime = 0;
  char of_driver[32] = "no driver";
  cudaRuntimeGetVersion(&runtime);
  if (driver > 0)
    snprintf(of_driver, sizeof of_driver, "driver for CUDA %d.%d", driver / 1000,
             driver % 1000 / 10);
  snprintf(text, (size_t)capacity, "CUDA runtime %d.%d, %s", runtime / 1000, runtime % 1000 / 10,
           of_driver);
}

tt_err tt_dev_use(const tt_dev *d) { return TT_CUDA(cudaSetDevice(d->number)); }

void tt_dev_close(tt_dev *d)
{
  if (d->stream) cudaStreamSynchronize(d->stream);
  if (d->stream) cudaStreamDestroy(d->stream);
  *d = {};
}

tt_err tt_stream_synchronize(cudaStream_t stream) { return TT_CUDA(cudaStreamSynchronize(stream)); }

tt_err tt_graph_begin(cudaStream_t stream)
{
  return TT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
}

tt_err tt_graph_end(cudaStream_t stream, cudaGraphExec_t *out, int64_t *nodes)
{
  cudaGraph_t recorded = NULL;
  size_t count = 0;
  *out = NULL;
  TT_TRY(TT_CUDA(cudaStreamEndCapture(stream, &recorded)));
  tt_err e = TT_CUDA(cudaGraphGetNodes(recorded, NULL, &count));
  if (!e) e = TT_CUDA(cudaGraphInstantiateWithFlags(out, recorded, 0));
  cudaGraphDestroy(recorded);
  if (e) *out = NULL;
  if (nodes) *nodes = (int64_t)count;
  return e;
}

tt_err tt_graph_launch(cudaGraphExec_t graph, cudaStream_t stream)
{
  return TT_CUDA(cudaGraphLaunch(graph, stream));
}

void tt_graph_destroy(cudaGraphExec_t *graph)
{
  if (*graph) cudaGraphExecDestroy(*graph);
  *graph = NULL;
}
