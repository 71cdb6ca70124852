/* device_list.cu — see device_list.cuh. */
#include "cuda/common/device_list.cuh"

#include "cuda/common/device.cuh"

#include <stdio.h>
#include <string.h>

tt_err tt_cuda_count(int *devices) { return tt_dev_count(devices); }

tt_err tt_cuda_describe(int device, tt_device_info *out)
{
  tt_dev d;
  memset(out, 0, sizeof *out);
  TT_TRY(tt_dev_describe(device, &d));
  snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, d.name);
  snprintf(out->uuid, sizeof out->uuid, "%s", d.uuid);
  out->total_bytes = d.total_bytes;
  out->shared_bytes = d.shared_bytes;
  out->capability = d.capability;
  out->multiprocessors = d.multiprocessors;
  return TT_OK;
}

/* Driver version 0: there is no driver. */
void tt_cuda_versions(char *text, int64_t capacity)
{
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  int n =
      snprintf(text, (size_t)capacity, "CUDA runtime %d.%d, ", runtime / 1000, runtime % 1000 / 10);
  if (n >= capacity) return;
  if (driver > 0)
    snprintf(text + n, (size_t)(capacity - n), "driver for CUDA %d.%d", driver / 1000,
             driver % 1000 / 10);
  else
    snprintf(text + n, (size_t)(capacity - n), "no driver");
}
