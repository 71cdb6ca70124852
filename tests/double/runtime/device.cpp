/* device.cpp — the simulated machine, settings, faults, the last error, counts. */
#include "tests/double/runtime/core.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>
#include <unistd.h>

using namespace tt_double;

namespace
{
enum { RUNTIME_VERSION = CUDART_VERSION };

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
  std::thread::id thread = std::this_thread::get_id(); /* the only one that may call */
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
  if (std::this_thread::get_id() != globals().thread)
    fail_hard("a call of the runtime from a second host thread, which the double does not offer");
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

void tt_double_set_gpu(int capability, int multiprocessors, int shared_bytes)
{
  if (shared_bytes > SHARED_OPTIN) fail_hard("tt_double_set_gpu: more shared memory than an H200");
  now().capability = capability;
  now().multiprocessors = multiprocessors;
  now().shared = shared_bytes;
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
  reset_kernels();
  now() = first_settings();
  if (counts().buffers) now().memory = memory;
  globals().device = 0;
}

tt_double_counts tt_double_count(void) { return counts(); }

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
  out->sharedMemPerBlock = SHARED_DEFAULT;
  out->sharedMemPerBlockOptin = (size_t)now().shared;
  out->sharedMemPerMultiprocessor = (size_t)shared_of_multiprocessor();
  out->reservedSharedMemPerBlock = SHARED_RESERVED;
  out->regsPerBlock = out->regsPerMultiprocessor = REGISTERS;
  out->warpSize = 32;
  out->maxThreadsPerBlock = THREADS_BLOCK;
  out->maxThreadsPerMultiProcessor = threads_of_multiprocessor();
  out->maxBlocksPerMultiProcessor = BLOCKS_MULTIPROCESSOR;
  out->maxThreadsDim[0] = out->maxThreadsDim[1] = THREADS_BLOCK;
  out->maxThreadsDim[2] = THREADS_BLOCK_Z;
  out->maxGridSize[0] = INT32_MAX;
  out->maxGridSize[1] = out->maxGridSize[2] = GRID_YZ;
  out->major = now().capability / 10;
  out->minor = now().capability % 10;
  out->multiProcessorCount = now().multiprocessors;
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
  case cudaDevAttrMaxSharedMemoryPerBlock: *value = SHARED_DEFAULT; break;
  case cudaDevAttrWarpSize: *value = 32; break;
  case cudaDevAttrMultiProcessorCount: *value = now().multiprocessors; break;
  case cudaDevAttrL2CacheSize: *value = 60 << 20; break;
  case cudaDevAttrMaxThreadsPerMultiProcessor: *value = threads_of_multiprocessor(); break;
  case cudaDevAttrComputeCapabilityMajor: *value = now().capability / 10; break;
  case cudaDevAttrComputeCapabilityMinor: *value = now().capability % 10; break;
  case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = shared_of_multiprocessor(); break;
  case cudaDevAttrMaxRegistersPerMultiprocessor: *value = REGISTERS; break;
  case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = now().shared; break;
  case cudaDevAttrMaxBlocksPerMultiprocessor: *value = BLOCKS_MULTIPROCESSOR; break;
  case cudaDevAttrReservedSharedMemoryPerBlock: *value = SHARED_RESERVED; break;
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int capacity, int device)
{
  TT_DOUBLE_ENTER();
  if (device < 0 || device >= now().devices) return set_last_error(cudaErrorInvalidDevice);
  snprintf(text, (size_t)capacity, "0000:%02X:00.0", 0x10 + device);
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
