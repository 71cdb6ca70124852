/* launch.cpp — kernels: what a device refuses to launch, attributes, occupancy. It refuses whatever
 * CUDA refuses, with the same error. */
#include "tests/double/runtime/core.h"

#include <algorithm>
#include <map>
#include <memory>

using namespace tt_double;

namespace
{
/* A kernel as the device sees it. 64 registers let every legal block run. */
struct properties {
  int registers = REGISTERS / THREADS_BLOCK, static_bytes = 0;
  int dynamic_limit = -1; /* MaxDynamicSharedMemorySize; -1: never set */
};

struct state {
  label where = {"", "a kernel", 0};
  std::map<void (*)(), properties> kernels;
};

state &globals()
{
  static state *s = new state; /* never destroyed: used until the end of the program */
  return *s;
}

properties &properties_of(void (*kernel)()) { return globals().kernels[kernel]; }

/* The attribute is the limit, below 48 KiB too. */
int dynamic_limit(const properties &p)
{
  return p.dynamic_limit < 0 ? SHARED_DEFAULT - p.static_bytes : p.dynamic_limit;
}

/* Hardware allocates registers to a warp in units of 256. */
int registers_of_warp(const properties &p) { return (p.registers * 32 + 255) / 256 * 256; }

int warps_of(dim3 block) { return (int)((block.x * block.y * block.z + 31) / 32); }

/* Size of the clusters of a launch: 1 without the attribute. */
dim3 cluster_of(const cudaLaunchConfig_t &config)
{
  dim3 size;
  for (unsigned i = 0; i < config.numAttrs; i++) {
    if (config.attrs[i].id != cudaLaunchAttributeClusterDimension) continue;
    auto given = config.attrs[i].val.clusterDim;
    size = {given.x, given.y, given.z};
  }
  return size;
}

cudaError_t check_cluster(dim3 size, dim3 grid)
{
  bool portable = size.x >= 1 && size.x <= MAX_RANKS && size.y == 1 && size.z == 1;
  if (!portable) return cudaErrorInvalidClusterSize;
  if (now().capability < 90 && size.x > 1) return cudaErrorNotSupported;
  return grid.x % size.x ? cudaErrorInvalidConfiguration : cudaSuccess;
}

cudaError_t check_dimensions(dim3 grid, dim3 block)
{
  bool empty = !grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z;
  bool wide = block.x > THREADS_BLOCK || block.y > THREADS_BLOCK || block.z > THREADS_BLOCK_Z;
  if (empty || wide || (uint64_t)block.x * block.y * block.z > THREADS_BLOCK)
    return cudaErrorInvalidConfiguration;
  return grid.x > INT32_MAX || grid.y > GRID_YZ || grid.z > GRID_YZ ? cudaErrorInvalidConfiguration
                                                                    : cudaSuccess;
}

cudaError_t check_resources(const properties &p, dim3 block, size_t shared_bytes)
{
  if (shared_bytes > (size_t)dynamic_limit(p)) return cudaErrorInvalidValue;
  return registers_of_warp(p) * warps_of(block) > REGISTERS ? cudaErrorLaunchOutOfResources
                                                            : cudaSuccess;
}

cudaError_t check_launch(const properties &p, const cudaLaunchConfig_t &config, size_t arg_bytes)
{
  cudaError_t e = check_dimensions(config.gridDim, config.blockDim);
  if (!e) e = check_cluster(cluster_of(config), config.gridDim);
  if (!e) e = check_resources(p, config.blockDim, config.dynamicSmemBytes);
  return !e && arg_bytes > ARGUMENT_BYTES ? cudaErrorInvalidConfiguration : e;
}
} // namespace

/* for tests and for tt_launch */

void tt_double_set_kernel(void (*kernel)(void), int registers, int static_shared_bytes)
{
  properties_of(kernel).registers = registers;
  properties_of(kernel).static_bytes = static_shared_bytes;
}

void tt_double_set_launch_site(const char *file, int line, const char *text)
{
  globals().where = {file, text, line};
}

namespace tt_double
{
void reset_kernels()
{
  for (auto &entry : globals().kernels) {
    properties fresh;
    fresh.dynamic_limit = entry.second.dynamic_limit;
    entry.second = fresh;
  }
}

cudaError_t launch(kernel_thunk thunk, void (*kernel)(), const void *args,
                   const unsigned char *fields, size_t bytes, const cudaLaunchConfig_t &config)
{
  TT_DOUBLE_ENTER();
  if (!kernel) return set_last_error(cudaErrorInvalidDeviceFunction);
  if (cudaError_t e = check_launch(properties_of(kernel), config, bytes)) return set_last_error(e);
  const unsigned char *from = static_cast<const unsigned char *>(args);
  auto call = std::make_shared<kernel_call>(kernel_call{thunk,
                                                        kernel,
                                                        {from, from + bytes},
                                                        config.gridDim,
                                                        config.blockDim,
                                                        (int)cluster_of(config).x,
                                                        config.dynamicSmemBytes,
                                                        globals().where});
  check_arguments(args, fields, bytes);
  return submit(config.stream, [call] { run_kernel(*call); });
}

cudaError_t set_attribute(void (*kernel)(), cudaFuncAttribute attribute, int value)
{
  TT_DOUBLE_ENTER();
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  properties &p = properties_of(kernel);
  if (value < 0 || value + p.static_bytes > now().shared)
    return set_last_error(cudaErrorInvalidValue);
  p.dynamic_limit = value;
  return cudaSuccess;
}

cudaError_t get_attributes(cudaFuncAttributes *out, void (*kernel)())
{
  TT_DOUBLE_ENTER();
  const properties &p = properties_of(kernel);
  *out = {};
  out->maxThreadsPerBlock = std::min(REGISTERS / registers_of_warp(p) * 32, (int)THREADS_BLOCK);
  out->numRegs = p.registers;
  out->sharedSizeBytes = (size_t)p.static_bytes;
  out->ptxVersion = out->binaryVersion = now().capability;
  out->maxDynamicSharedSizeBytes = dynamic_limit(p);
  return cudaSuccess;
}

/* Blocks of a multiprocessor: 0 if a launch would be refused. */
cudaError_t occupancy(int *blocks, void (*kernel)(), int threads, size_t shared_bytes)
{
  TT_DOUBLE_ENTER();
  *blocks = 0;
  if (threads < 1) return set_last_error(cudaErrorInvalidValue);
  const properties &p = properties_of(kernel);
  dim3 block((unsigned)threads);
  if (threads > THREADS_BLOCK || check_resources(p, block, shared_bytes)) return cudaSuccess;
  int by_threads = threads_of_multiprocessor() / (warps_of(block) * 32);
  int by_registers = REGISTERS / (warps_of(block) * registers_of_warp(p));
  size_t shared_of_block = shared_bytes + (size_t)p.static_bytes + SHARED_RESERVED;
  int by_shared = (int)((size_t)shared_of_multiprocessor() / shared_of_block);
  *blocks = std::min({by_threads, by_registers, by_shared, (int)BLOCKS_MULTIPROCESSOR});
  return cudaSuccess;
}

cudaError_t active_clusters(int *clusters, void (*kernel)(), const cudaLaunchConfig_t &config)
{
  int blocks = 0;
  dim3 size = cluster_of(config), block = config.blockDim;
  *clusters = 0;
  if (cudaError_t e = check_cluster(size, config.gridDim)) return set_last_error(e);
  cudaError_t e =
      occupancy(&blocks, kernel, (int)(block.x * block.y * block.z), config.dynamicSmemBytes);
  *clusters = blocks * now().multiprocessors / (int)size.x;
  return e;
}
} // namespace tt_double
