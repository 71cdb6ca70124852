/* device.cpp — the simulated machine, settings, faults, the last error, counts, launches. */
#include "tests/double/runtime/core.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <unistd.h>

using namespace tt_double;

namespace
{
enum {
  RUNTIME_VERSION = 13000,
  MULTIPROCESSORS = 132, /* H200 */
  SHARED_BLOCK = 48 * 1024,
  SHARED_OPTIN = 227 * 1024,
  SHARED_MULTIPROCESSOR = 228 * 1024,
  SHARED_RESERVED = 1024,
  THREADS_BLOCK = 1024,
  THREADS_MULTIPROCESSOR = 2048,
  BLOCKS_MULTIPROCESSOR = 32,
  GRID_YZ = 65535,
  ARGUMENT_BYTES = 4096
};

struct faults {
  int64_t alloc_at = 0, call_at = 0; /* counted down; 0 = none */
  cudaError_t error = cudaSuccess;   /* of the call */
  cudaError_t sticky = cudaSuccess, last = cudaSuccess;
};

struct state {
  settings now;
  tt_double_counts counts = {};
  faults fault;
  int device = 0;
  label where = {"", "a kernel", 0};
  std::map<void (*)(), int> shared_limit; /* of kernels that asked for more than 48 KiB */
  state();
};

/* "random:7" */
void read_order(const char *variable, order *out)
{
  const char *text = getenv(variable);
  if (!text) return;
  if (!strcmp(text, "reverse")) out->kind = TT_DOUBLE_REVERSE;
  if (!strncmp(text, "random", 6)) out->kind = TT_DOUBLE_RANDOM;
  if (!strncmp(text, "random:", 7)) out->seed = strtoull(text + 7, nullptr, 10);
}

int64_t read_number(const char *variable, int64_t otherwise)
{
  const char *text = getenv(variable);
  return text ? strtoll(text, nullptr, 10) : otherwise;
}

settings first_settings()
{
  settings s;
  const char *streams = getenv("TT_DOUBLE_STREAMS");
  read_order("TT_DOUBLE_SCHEDULE", &s.threads);
  read_order("TT_DOUBLE_BLOCKS", &s.blocks);
  s.lazy = streams && !strcmp(streams, "lazy");
  s.devices = (int)read_number("TT_DOUBLE_DEVICES", s.devices);
  s.driver = (int)read_number("TT_DOUBLE_DRIVER", s.driver);
  s.memory = (size_t)read_number("TT_DOUBLE_MEMORY", (int64_t)s.memory);
  return s;
}

faults first_faults()
{
  faults f;
  const char *call = getenv("TT_DOUBLE_FAIL_CALL"), *colon = call ? strchr(call, ':') : nullptr;
  f.alloc_at = read_number("TT_DOUBLE_FAIL_ALLOC", 0);
  f.call_at = read_number("TT_DOUBLE_FAIL_CALL", 0);
  f.error = colon ? (cudaError_t)strtol(colon + 1, nullptr, 10) : cudaErrorLaunchFailure;
  return f;
}

state &globals();

/* Objects that are not freed at the end of the program make it fail. */
void report_leaks()
{
  const tt_double_counts &c = globals().counts;
  if (!(c.buffers + c.pinned + c.streams + c.events + c.graphs + c.handles)) return;
  fflush(nullptr);
  fprintf(stderr,
          "cuda double: not given back at the end: %lld buffers (%lld bytes), %lld pinned, "
          "%lld streams, %lld events, %lld graphs, %lld cuBLAS handles\n",
          (long long)c.buffers, (long long)c.bytes, (long long)c.pinned, (long long)c.streams,
          (long long)c.events, (long long)c.graphs, (long long)c.handles);
  _exit(EXIT_FAILURE);
}

state::state() : now(first_settings()), fault(first_faults()) { atexit(report_leaks); }

state &globals()
{
  static state *s = new state; /* never destroyed: used until the end of the program */
  return *s;
}
} // namespace

namespace tt_double
{
void fail_hard(const char *format, ...)
{
  va_list values;
  fflush(stdout);
  fprintf(stderr, "cuda double: ");
  va_start(values, format);
  vfprintf(stderr, format, values);
  va_end(values);
  fprintf(stderr, "%s\n", position());
  fflush(stderr);
  abort();
}

settings &now() { return globals().now; }
tt_double_counts &counts() { return globals().counts; }

cudaError_t set_last_error(cudaError_t e)
{
  if (e != cudaSuccess) globals().fault.last = e;
  return e;
}

cudaError_t begin_call()
{
  faults &f = globals().fault;
  if (in_kernel()) fail_hard("a call of the runtime from inside a kernel");
  globals().counts.calls++;
  if (f.sticky == cudaSuccess && f.call_at && --f.call_at == 0) f.sticky = f.error;
  return set_last_error(f.sticky);
}

bool allocation_fails()
{
  faults &f = globals().fault;
  return f.alloc_at && --f.alloc_at == 0;
}

void make_sequence(const order &o, std::mt19937_64 &random, std::vector<unsigned> &out, size_t n)
{
  out.resize(n);
  std::iota(out.begin(), out.end(), 0u);
  if (o.kind == TT_DOUBLE_REVERSE) std::reverse(out.begin(), out.end());
  if (o.kind == TT_DOUBLE_RANDOM) std::shuffle(out.begin(), out.end(), random);
}
} // namespace tt_double

/* for tests */

void tt_double_set_schedule(tt_double_order order, uint64_t seed) { now().threads = {order, seed}; }
void tt_double_set_blocks(tt_double_order order, uint64_t seed) { now().blocks = {order, seed}; }

void tt_double_set_lazy(int lazy)
{
  wait_for_all();
  now().lazy = lazy != 0;
}

void tt_double_set_devices(int count)
{
  now().devices = count;
  globals().device = 0;
}

void tt_double_set_memory(int64_t bytes)
{
  if (counts().buffers) fail_hard("tt_double_set_memory while memory is allocated");
  now().memory = (size_t)bytes;
}

void tt_double_fail_alloc(int64_t n) { globals().fault.alloc_at = n; }

void tt_double_fail_call(int64_t n, int error)
{
  globals().fault.call_at = n;
  globals().fault.error = (cudaError_t)error;
}

void tt_double_reset(void)
{
  wait_for_all();
  size_t memory = now().memory;
  globals().fault = faults();
  now() = first_settings();
  if (counts().buffers) now().memory = memory;
  globals().device = 0;
}

tt_double_counts tt_double_count(void) { return counts(); }

void tt_double_set_launch_site(const char *file, int line, const char *text)
{
  globals().where = {file, text, line};
}

/* errors */

const char *cudaGetErrorName(cudaError_t e)
{
  switch (e) {
#define X(name, number, text)                                                                      \
  case name: return #name;
    TT_DOUBLE_ERRORS(X)
#undef X
  }
  return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t e)
{
  switch (e) {
#define X(name, number, text)                                                                      \
  case name: return text;
    TT_DOUBLE_ERRORS(X)
#undef X
  }
  return "unrecognized error code";
}

cudaError_t cudaPeekAtLastError() { return globals().fault.last; }

cudaError_t cudaGetLastError()
{
  faults &f = globals().fault;
  cudaError_t e = f.last;
  f.last = f.sticky;
  return e;
}

/* the machine */

cudaError_t cudaGetDeviceCount(int *count)
{
  TT_DOUBLE_ENTER();
  *count = now().devices;
  if (now().driver < RUNTIME_VERSION) return set_last_error(cudaErrorInsufficientDriver);
  return now().devices ? cudaSuccess : set_last_error(cudaErrorNoDevice);
}

cudaError_t cudaGetDevice(int *device)
{
  TT_DOUBLE_ENTER();
  *device = globals().device;
  return now().devices ? cudaSuccess : set_last_error(cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device)
{
  TT_DOUBLE_ENTER();
  if (device < 0 || device >= now().devices) return set_last_error(cudaErrorInvalidDevice);
  globals().device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *out, int device)
{
  TT_DOUBLE_ENTER();
  if (device < 0 || device >= now().devices) return set_last_error(cudaErrorInvalidDevice);
  *out = {};
  snprintf(out->name, sizeof out->name, "test double of an NVIDIA H200");
  for (int i = 0; i < 16; i++) out->uuid.bytes[i] = (char)(0x10 * device + i);
  out->totalGlobalMem = now().memory;
  out->sharedMemPerBlock = SHARED_BLOCK;
  out->sharedMemPerBlockOptin = SHARED_OPTIN;
  out->sharedMemPerMultiprocessor = SHARED_MULTIPROCESSOR;
  out->reservedSharedMemPerBlock = SHARED_RESERVED;
  out->regsPerBlock = out->regsPerMultiprocessor = 65536;
  out->warpSize = 32;
  out->maxThreadsPerBlock = THREADS_BLOCK;
  out->maxThreadsPerMultiProcessor = THREADS_MULTIPROCESSOR;
  out->maxBlocksPerMultiProcessor = BLOCKS_MULTIPROCESSOR;
  out->maxThreadsDim[0] = out->maxThreadsDim[1] = THREADS_BLOCK;
  out->maxThreadsDim[2] = 64;
  out->maxGridSize[0] = INT32_MAX;
  out->maxGridSize[1] = out->maxGridSize[2] = GRID_YZ;
  out->major = 9;
  out->multiProcessorCount = MULTIPROCESSORS;
  out->ECCEnabled = 1;
  out->pciBusID = 0x10 + device;
  out->memoryBusWidth = 6144;
  out->l2CacheSize = 60 << 20;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
{
  TT_DOUBLE_ENTER();
  if (device < 0 || device >= now().devices) return set_last_error(cudaErrorInvalidDevice);
  switch (attribute) {
  case cudaDevAttrMaxThreadsPerBlock: *value = THREADS_BLOCK; break;
  case cudaDevAttrMaxSharedMemoryPerBlock: *value = SHARED_BLOCK; break;
  case cudaDevAttrWarpSize: *value = 32; break;
  case cudaDevAttrMultiProcessorCount: *value = MULTIPROCESSORS; break;
  case cudaDevAttrL2CacheSize: *value = 60 << 20; break;
  case cudaDevAttrMaxThreadsPerMultiProcessor: *value = THREADS_MULTIPROCESSOR; break;
  case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
  case cudaDevAttrComputeCapabilityMinor: *value = 0; break;
  case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = SHARED_MULTIPROCESSOR; break;
  case cudaDevAttrMaxRegistersPerMultiprocessor: *value = 65536; break;
  case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = SHARED_OPTIN; break;
  case cudaDevAttrMaxBlocksPerMultiprocessor: *value = BLOCKS_MULTIPROCESSOR; break;
  case cudaDevAttrReservedSharedMemoryPerBlock: *value = SHARED_RESERVED; break;
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int room, int device)
{
  TT_DOUBLE_ENTER();
  if (device < 0 || device >= now().devices) return set_last_error(cudaErrorInvalidDevice);
  snprintf(text, (size_t)room, "0000:%02X:00.0", 0x10 + device);
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
  *version = now().driver;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
  *version = RUNTIME_VERSION;
  return cudaSuccess;
}

/* launches */

namespace
{
/* Blocks of a cluster: 1 without one, 0 if they make none. */
int cluster_of(const cudaLaunchConfig_t &config)
{
  int ranks = 1;
  for (unsigned i = 0; i < config.numAttrs; i++) {
    if (config.attrs[i].id != cudaLaunchAttributeClusterDimension) continue;
    auto size = config.attrs[i].val.clusterDim;
    bool portable = size.x >= 1 && size.x <= MAX_RANKS && size.y == 1 && size.z == 1;
    ranks = portable && config.gridDim.x % size.x == 0 ? (int)size.x : 0;
  }
  return ranks;
}

bool can_launch(dim3 grid, dim3 block)
{
  if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z) return false;
  if (grid.x > INT32_MAX || grid.y > GRID_YZ || grid.z > GRID_YZ || block.z > 64) return false;
  return (uint64_t)block.x * block.y * block.z <= THREADS_BLOCK;
}

int shared_limit(void (*kernel)())
{
  auto it = globals().shared_limit.find(kernel);
  return it == globals().shared_limit.end() ? (int)SHARED_BLOCK : it->second;
}
} // namespace

namespace tt_double
{
cudaError_t launch(kernel_thunk thunk, void (*kernel)(), const void *args,
                   const unsigned char *fields, size_t bytes, const cudaLaunchConfig_t &config)
{
  TT_DOUBLE_ENTER();
  dim3 grid = config.gridDim, block = config.blockDim;
  size_t shared_bytes = config.dynamicSmemBytes;
  int cluster = cluster_of(config);
  if (!kernel) return set_last_error(cudaErrorInvalidDeviceFunction);
  if (!can_launch(grid, block) || bytes > ARGUMENT_BYTES || !cluster)
    return set_last_error(cudaErrorInvalidConfiguration);
  if (shared_bytes > (size_t)shared_limit(kernel)) return set_last_error(cudaErrorInvalidValue);
  const unsigned char *from = static_cast<const unsigned char *>(args);
  auto call = std::make_shared<kernel_call>(kernel_call{
      thunk, kernel, {from, from + bytes}, grid, block, cluster, shared_bytes, globals().where});
  check_arguments(args, fields, bytes);
  return submit(config.stream, [call] { run_kernel(*call); });
}

cudaError_t set_attribute(void (*kernel)(), cudaFuncAttribute attribute, int value)
{
  TT_DOUBLE_ENTER();
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || value > SHARED_OPTIN) return set_last_error(cudaErrorInvalidValue);
  globals().shared_limit[kernel] = std::max(value, (int)SHARED_BLOCK);
  return cudaSuccess;
}

cudaError_t get_attributes(cudaFuncAttributes *out, void (*kernel)())
{
  TT_DOUBLE_ENTER();
  *out = {};
  out->maxThreadsPerBlock = THREADS_BLOCK;
  out->numRegs = 64;
  out->ptxVersion = out->binaryVersion = 90;
  out->maxDynamicSharedSizeBytes = shared_limit(kernel);
  return cudaSuccess;
}

cudaError_t occupancy(int *blocks, int threads, size_t shared_bytes)
{
  TT_DOUBLE_ENTER();
  if (threads < 1) return set_last_error(cudaErrorInvalidValue);
  int by_threads = THREADS_MULTIPROCESSOR / ((threads + 31) / 32 * 32);
  int by_shared = (int)(SHARED_MULTIPROCESSOR / (shared_bytes + SHARED_RESERVED));
  *blocks = threads > THREADS_BLOCK || shared_bytes > SHARED_OPTIN
                ? 0
                : std::min({by_threads, by_shared, (int)BLOCKS_MULTIPROCESSOR});
  return cudaSuccess;
}

cudaError_t active_clusters(int *clusters, const cudaLaunchConfig_t &config)
{
  int ranks = cluster_of(config), blocks = 0;
  dim3 block = config.blockDim;
  if (!ranks) return set_last_error(cudaErrorInvalidConfiguration);
  cudaError_t e = occupancy(&blocks, (int)(block.x * block.y * block.z), config.dynamicSmemBytes);
  *clusters = blocks * MULTIPROCESSORS / ranks;
  return e;
}
} // namespace tt_double
