/* double.h — how a test steers the double of the CUDA runtime and looks inside it. C and C++.
 *
 * The double runs .cu sources on the host: the threads of a block are fibers that switch only at
 * barriers and warp functions, blocks run one after another, blocks of a cluster side by side. It
 * checks what can be checked without a GPU. A launch that an H200 would refuse (dimensions, shared
 * memory above the kernel's attribute or the limit of a block, registers) returns CUDA's error. On
 * an error of the program the double prints the problem, the launch and the source line, and calls
 * abort():
 *   - memory: device memory and shared memory hold NaN bytes until they are written; guard bytes
 * lie around every block; the host cannot touch device memory; copies, fills and cuBLAS operands
 * must lie inside one allocation; kernel arguments must not hold host pointers; double free;
 *   - barriers: all threads of a block at the same one, all lanes of a warp at the same function;
 *     deadlock;
 *   - clusters: access to shared memory of a block that has ended, may have ended, or does not
 * exist;
 *   - races: results must not depend on the schedule, which a test checks by hashing them; in
 *     sources that are compiled with -fsanitize=thread every access is checked (race.cpp);
 *   - vectors: float2 and float4 at misaligned addresses;
 *   - capture: a call that CUDA forbids while a stream captures returns CUDA's error and breaks the
 *     capture; cuBLAS only with a workspace of its own.
 * At the end of the program, the double lists device objects that were not freed, and the exit
 * status is 1. It cannot check speed. One host thread. */
#ifndef TT_DOUBLE_H
#define TT_DOUBLE_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef enum tt_double_order {
  TT_DOUBLE_FORWARD, /* thread 0 first; a warp runs as far as it can before the next one */
  TT_DOUBLE_REVERSE, /* the same from the last thread on */
  TT_DOUBLE_RANDOM   /* random, drawn again often: warps run ahead or side by side */
} tt_double_order;

/* Order of the threads of a block, and of the blocks of a grid, from now on. At the start: forward,
 * or TT_DOUBLE_SCHEDULE and TT_DOUBLE_BLOCKS = forward, reverse, random, random:SEED. */
void tt_double_set_schedule(tt_double_order order, uint64_t seed);
void tt_double_set_blocks(tt_double_order order, uint64_t seed);

/* Lazy: work on a stream runs as late as the program's waits allow, work of several streams in
 * any order that their events allow (in the order of the threads' schedule); it finds missing
 * waits. Eager, the default: at once. TT_DOUBLE_STREAMS = eager, lazy. */
void tt_double_set_lazy(int lazy);

/* The machine: by default 1 GPU with 8 GiB (TT_DOUBLE_DEVICES, TT_DOUBLE_MEMORY in
 * bytes). Memory can be set while nothing is allocated, up to 64 GiB. */
void tt_double_set_devices(int count);
void tt_double_set_memory(int64_t bytes);

/* A GPU that is no H200: compute capability 10 * major + minor, number of multiprocessors, largest
 * shared memory of a block, at most that of an H200. What else a launch may use follows from the
 * capability: threads of a multiprocessor, clusters. Set it while no engine is open. */
void tt_double_set_gpu(int capability, int multiprocessors, int shared_bytes);

/* The n-th allocation of device memory from now (1 = the next) finds no memory; 0 = none.
 * TT_DOUBLE_FAIL_ALLOC = N. */
void tt_double_fail_alloc(int64_t n);
/* The n-th call of the runtime or cuBLAS from now returns `error` (a cudaError_t: 214 ECC, 719
 * launch failure), and so do all later ones. TT_DOUBLE_FAIL_CALL = N:ERROR. */
void tt_double_fail_call(int64_t n, int error);

/* What nvcc would report of a kernel: registers per thread (64 if not told) and static shared memory
 * (none). A launch that needs more than a block can have is refused. */
void tt_double_set_kernel(void (*kernel)(void), int registers, int static_shared_bytes);

/* Clear faults, the sticky error and what was told of kernels; restore the schedule and the machine
 * of the start of the program. */
void tt_double_reset(void);

/* What has happened since the start, and what is held now. */
typedef struct tt_double_counts {
  int64_t calls, kernels, blocks, barriers, allocations; /* so far */
  int64_t uploaded;                                      /* bytes, so far */
  int64_t waits; /* of the host for a stream, an event or the device, so far */
  int64_t buffers, bytes, pinned, pinned_bytes, streams, events, graphs, handles; /* held now */
  int64_t largest_graph; /* operations of the largest graph that was instantiated so far */
} tt_double_counts;
tt_double_counts tt_double_count(void);
/* Bytes of device memory held at a time, at most, since the last tt_double_begin_peak. */
int64_t tt_double_peak(void);
void tt_double_begin_peak(void);

#ifdef __cplusplus
}
#endif
#endif
