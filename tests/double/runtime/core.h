/* core.h — declarations that the parts of the double share. Private to this folder. */
#ifndef TT_DOUBLE_CORE_H
#define TT_DOUBLE_CORE_H
#include "tests/double/runtime/double.h"
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define TT_DOUBLE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TT_DOUBLE_ASAN 1
#endif
#endif

namespace tt_double
{

/* Print what is wrong and where, and abort. */
[[noreturn]] void fail_hard(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The simulated GPU: an H200, or less (settings). */
enum {
  MULTIPROCESSORS = 132,
  SHARED_DEFAULT = 48 * 1024, /* of a block without opt-in */
  SHARED_OPTIN = 227 * 1024,
  SHARED_RESERVED = 1024, /* of every block, for the system */
  REGISTERS = 64 * 1024,  /* of a block and of a multiprocessor */
  THREADS_BLOCK = 1024,
  THREADS_BLOCK_Z = 64,
  BLOCKS_MULTIPROCESSOR = 32,
  GRID_YZ = 65535,
  ARGUMENT_BYTES = 4096
};

/* device.cpp: settings, faults, counts */

struct order {
  tt_double_order kind = TT_DOUBLE_FORWARD;
  uint64_t seed = 1;
};
struct settings {
  order threads, blocks;
  bool lazy = false;
  int devices = 1;
  int driver = 13000; /* newest version of CUDA that the driver supports; 0: no driver */
  size_t memory = (size_t)8 << 30;
  int capability = 90, multiprocessors = MULTIPROCESSORS, shared = SHARED_OPTIN; /* of a block */
};
settings &now();

/* Of a multiprocessor. CUDA C++ Programming Guide, "Technical Specifications per Compute
 * Capability": 8.0, 9.0 and 10.0 have 2048 threads, 8.6, 8.9 and 12.0 have 1536. */
inline int threads_of_multiprocessor()
{
  return now().capability % 10 || now().capability > 100 ? 1536 : 2048;
}
inline int shared_of_multiprocessor() { return now().shared + SHARED_RESERVED; }
tt_double_counts &counts();

/* Every runtime call starts with begin_call: it counts the call and returns the error that the
 * call must return. */
cudaError_t begin_call();
/* True if this allocation is the one that must fail. */
bool allocation_fails();
/* Store an error for cudaGetLastError and return it. */
cudaError_t set_last_error(cudaError_t e);
#define TT_DOUBLE_ENTER()                                                                          \
  do {                                                                                             \
    cudaError_t entered = tt_double::begin_call();                                                 \
    if (entered != cudaSuccess) return entered;                                                    \
  } while (0)

/* Fill `out` with the numbers 0..n-1 in the given order. */
void make_sequence(const order &o, std::mt19937_64 &random, std::vector<unsigned> &out, size_t n);

/* launch.cpp */

void reset_kernels(); /* forget what tt_double_set_kernel told */

/* memory.cpp */

/* While a device_access exists, device memory is accessible: in kernels and copies. */
struct device_access {
  device_access();
  ~device_access();
};
/* [at, at + bytes) must lie inside one allocation, or inside pinned memory if allowed. */
void check_device_range(const void *at, size_t bytes, bool pinned_too, const char *call);
/* [at, at + bytes) must not overlap device memory, nor exceed the pinned block it begins in. */
void check_host_range(const void *at, size_t bytes, const char *call);
/* Pointers in a kernel's arguments must not point into host memory. Bytes outside `fields` are
 * padding and not checked. */
void check_arguments(const void *args, const unsigned char *fields, size_t bytes);
/* Check the guard bytes around every allocation. */
void check_guards();
bool is_device(const void *at);
/* Bytes from the start of device memory, or of the shared memory of all ranks; 0 if not there. */
bool device_offset(const void *at, size_t *out);
bool shared_offset(const void *at, size_t *out);

/* fiber.cpp */

struct kernel_call {
  kernel_thunk thunk;
  void (*kernel)();
  std::vector<unsigned char> args;
  dim3 grid, block;
  int cluster; /* blocks per cluster, in x; 1: no cluster */
  size_t shared_bytes;
  label where;
};
/* Run all blocks of a grid to their ends; the blocks of a cluster run side by side. */
void run_kernel(const kernel_call &call);
/* ", in tt_launch(...) at engine.cu:41, block 3, thread 17"; "" outside a kernel. */
const char *position();
bool in_kernel();
int current_rank(); /* of the running block in its cluster */
/* The running thread, and the barriers that it has passed in this launch. */
struct moment {
  int64_t launch; /* from 1 */
  unsigned cluster_time, block_time, warp_time;
  int cluster, block, warp, lane; /* numbers in the grid, in the block, in the warp */
};
moment moment_of_thread();

/* dynamic shared memory of the running blocks, by rank: memory.cpp */

enum { MAX_RANKS = 8 };
void shared_begin(int rank, size_t bytes); /* poisoned, guarded */
void shared_leave(int rank);   /* its block has ended: poisoned again, no access is allowed */
void shared_settled(int rank); /* after a barrier of the cluster: no other block accesses it */
void shared_end(int rank);     /* checks guards, and for writes after its block ended */

/* stream.cpp */

typedef std::function<void()> work;
/* Run it now, later, or record it, depending on the state of the stream. */
cudaError_t submit(cudaStream_t stream, work what);
/* Wait until all work of all streams is done. */
void wait_for_all();
/* Calls that may synchronize or allocate (CUDA: potentially unsafe) break every capture that is not
 * relaxed: an error if there is one. */
cudaError_t fail_if_capturing();
/* The same for use of the legacy default stream, which waits for streams that are not
 * cudaStreamNonBlocking. */
cudaError_t fail_if_legacy_captures();
#define TT_DOUBLE_FAIL_IF_CAPTURING()                                                              \
  do {                                                                                             \
    cudaError_t forbidden = tt_double::fail_if_capturing();                                        \
    if (forbidden != cudaSuccess) return forbidden;                                                \
  } while (0)
bool is_capturing(cudaStream_t stream);

} // namespace tt_double
#endif
