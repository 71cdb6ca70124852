/* device.cuh — the thin layer between tutti's CUDA code and the CUDA runtime: errors, the device,
 * its memory, launches, graphs, sums over a warp and a block. C++17, for .cu files only.
 *
 * Everything here is local and host code unless marked __device__. With TT_CUDA_DOUBLE defined the
 * two includes below find the test double of tests/double, and the same sources run on the host.
 *
 * Rules for sources that compile for both and give the same bits in every run:
 *   - a kernel takes one plain struct by value and is started with tt_launch;
 *   - dynamic shared memory comes from TT_SHARED_MEMORY; no static __shared__, __constant__ or
 *     __device__ variables;
 *   - blocks that use warp functions have a multiple of 32 threads, and all 32 lanes take part;
 *   - a sum has a fixed order: no atomics on float or double;
 *   - fused multiply-adds are written out (tt_fma, fmaf): nothing is contracted (-fmad=false). */
#ifndef TT_DEVICE_CUH
#define TT_DEVICE_CUH
#include "cuda/common/device_error.cuh"

#include "core/engine/engine.h"

#include <stddef.h>
#include <stdint.h>
#include <type_traits>

/* the device: device.cu */

struct tt_dev : tt_device_info {
  int number;
  cudaStream_t stream; /* does not wait for the default stream */
};

/* Number of GPUs that this process sees; 0, without an error, if there is no GPU or no driver.
 * Errors: UNAVAILABLE. */
tt_err tt_dev_count(int *out);

/* Describe GPU `number`; its uuid is "GPU-" or "MIG-" and 36 characters. Errors: UNAVAILABLE. */
tt_err tt_dev_describe(int number, tt_device_info *out);

/* Versions of the runtime and the driver. */
void tt_dev_versions(char *text, int64_t capacity);

/* Make GPU `number` the current one of this thread and give it a stream.
 *   out  owned by the caller, tt_dev_close; all zero on error
 * Errors: UNAVAILABLE (no such GPU, capability below 8.0), MEM. */
tt_err tt_dev_open(int number, tt_dev *out);

/* Make it the current GPU of this thread again, which another thread may have opened. */
tt_err tt_dev_use(const tt_dev *d);

/* Free what open created; accepts an all-zero tt_dev. */
void tt_dev_close(tt_dev *d);

/* Wait until all work of a stream is done; returns errors of earlier kernels. */
tt_err tt_stream_synchronize(cudaStream_t stream);

/* memory: device_memory.cu */

/* Device memory for `count` elements, zeroed (complete when the call returns).
 *   out    owned by the caller, tt_dev_free; NULL on error
 *   count  >= 0; zero gives a valid, empty block
 *   what   name of the array for messages: "weights of 300 members"
 * Not during capture. Errors: MEM. */
tt_err tt_dev_alloc_bytes(void **out, int64_t count, size_t size, const char *what);
void tt_dev_free_pointer(const void *block); /* accepts NULL */

/* The same in page-locked host memory, which copies need to overlap with kernels. */
tt_err tt_pinned_alloc_bytes(void **out, int64_t count, size_t size, const char *what);
void tt_pinned_free_pointer(const void *block);

/* Bytes and blocks that are allocated now through the four functions above, device and pinned. */
typedef struct tt_dev_memory_stats {
  int64_t device_bytes, device_blocks, pinned_bytes, pinned_blocks;
} tt_dev_memory_stats;
tt_dev_memory_stats tt_dev_memory_allocated(void);

/* Typed: float *w; tt_dev_alloc(&w, count, "weights"); ... tt_dev_free(w) sets w to NULL. */
template <class T> tt_err tt_dev_alloc(T **out, int64_t count, const char *what)
{
  void *block = NULL;
  tt_err e = tt_dev_alloc_bytes(&block, count, sizeof(T), what);
  *out = static_cast<T *>(block);
  return e;
}
template <class T> void tt_dev_free(T *&block)
{
  tt_dev_free_pointer(block);
  block = NULL;
}
template <class T> tt_err tt_pinned_alloc(T **out, int64_t count, const char *what)
{
  void *block = NULL;
  tt_err e = tt_pinned_alloc_bytes(&block, count, sizeof(T), what);
  *out = static_cast<T *>(block);
  return e;
}
template <class T> void tt_pinned_free(T *&block)
{
  tt_pinned_free_pointer(block);
  block = NULL;
}

/* Copy `bytes` in stream order; the addresses must match `kind`. */
tt_err tt_dev_copy_bytes(void *dst, const void *src, int64_t bytes, cudaMemcpyKind kind,
                         cudaStream_t stream);
tt_err tt_dev_zero_bytes(void *dst, int64_t bytes, cudaStream_t stream);

/* Host to device, device to host, device to device, `count` elements. Asynchronous: do not
 * change or read the host side before the stream is synchronized. May be captured; then every
 * launch of the graph reads or writes the host memory. */
template <class T> tt_err tt_dev_upload(T *dst, const T *src, int64_t count, cudaStream_t stream)
{
  return tt_dev_copy_bytes(dst, src, count * (int64_t)sizeof(T), cudaMemcpyHostToDevice, stream);
}
template <class T> tt_err tt_dev_download(T *dst, const T *src, int64_t count, cudaStream_t stream)
{
  return tt_dev_copy_bytes(dst, src, count * (int64_t)sizeof(T), cudaMemcpyDeviceToHost, stream);
}
template <class T> tt_err tt_dev_copy(T *dst, const T *src, int64_t count, cudaStream_t stream)
{
  return tt_dev_copy_bytes(dst, src, count * (int64_t)sizeof(T), cudaMemcpyDeviceToDevice, stream);
}
template <class T> tt_err tt_dev_zero(T *dst, int64_t count, cudaStream_t stream)
{
  return tt_dev_zero_bytes(dst, count * (int64_t)sizeof(T), stream);
}

/* The same, but complete when the call returns; also waits for all earlier work of the stream.
 * tt_dev_new: to new memory, as of tt_dev_alloc. */
template <class T>
tt_err tt_dev_upload_sync(T *dst, const T *src, int64_t count, cudaStream_t stream)
{
  TT_TRY(tt_dev_upload(dst, src, count, stream));
  return tt_stream_synchronize(stream);
}
template <class T>
tt_err tt_dev_download_sync(T *dst, const T *src, int64_t count, cudaStream_t stream)
{
  TT_TRY(tt_dev_download(dst, src, count, stream));
  return tt_stream_synchronize(stream);
}

template <class T>
tt_err tt_dev_new(T **out, const T *src, int64_t count, const char *what, cudaStream_t stream)
{
  TT_TRY(tt_dev_alloc(out, count, what));
  return tt_dev_upload_sync(*out, src, count, stream);
}

/* launches */

/* Dynamic shared memory of the block as an array of `type`, 16-byte aligned, contents undefined;
 * its size is the shared_bytes of tt_launch. Use it once per kernel. */
#ifdef TT_CUDA_DOUBLE
#define TT_NOINLINE
#define TT_SHARED_MEMORY(type_, name_) type_ *name_ = static_cast<type_ *>(tt_double_shared())
#define TT_LAUNCH_LABEL(file_, line_, text_) tt_double_set_launch_site(file_, line_, text_)
#else
#define TT_NOINLINE __noinline__ /* not inlined: its registers do not add to the caller's */
#define TT_SHARED_MEMORY(type_, name_)                                                             \
  extern __shared__ __align__(16) unsigned char tt_shared_raw[];                                   \
  type_ *name_ = reinterpret_cast<type_ *>(tt_shared_raw)
#define TT_LAUNCH_LABEL(file_, line_, text_) (void)0
#endif

enum { TT_SHARED_DEFAULT_BYTES = 48 * 1024, TT_MAX_KERNEL_ARGS_BYTES = 4096 };

/* Let the next launches of `kernel` have `bytes` of dynamic shared memory. The limit belongs to the
 * kernel, not to a launch: every launch above 48 KiB sets it anew, and it never falls below 48 KiB,
 * because shapes of different sizes share a kernel. */
template <class Kernel> cudaError_t tt_allow_shared_memory(Kernel kernel, size_t bytes)
{
  if (bytes <= TT_SHARED_DEFAULT_BYTES) return cudaSuccess;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
}

/* tt_launch(kernel, grid, block, shared_bytes, stream, args): start `kernel<<<...>>>(args)`.
 *   kernel  void kernel(Args), Args a plain struct of at most 4 KiB, copied now
 *   grid, block  dim3 or a number;   shared_bytes  up to tt_dev.shared_bytes
 * Asynchronous; may be captured. Errors: INTERNAL (a launch the device refuses), and those of
 * earlier kernels. */
#define tt_launch(...) tt_launch_at(__FILE__, __LINE__, "tt_launch(" #__VA_ARGS__ ")", __VA_ARGS__)

template <class T> struct tt_type_identity { /* keeps T out of argument deduction */
  typedef T type;
};

/* Launch configuration of clusters of `ranks` blocks.
 *   size  storage of the attribute that the result points to */
static inline cudaLaunchConfig_t tt_cluster_launch_config(int ranks, dim3 grid, dim3 block,
                                                          size_t shared_bytes,
                                                          cudaLaunchAttribute *size)
{
  cudaLaunchConfig_t config = {};
  *size = {};
  size->id = cudaLaunchAttributeClusterDimension;
  size->val.clusterDim = {(unsigned)ranks, 1, 1};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.attrs = size;
  config.numAttrs = 1;
  return config;
}

template <class Args> constexpr void tt_check_kernel_args()
{
  static_assert(std::is_trivially_copyable<Args>::value, "kernel arguments are a plain struct");
  static_assert(sizeof(Args) <= TT_MAX_KERNEL_ARGS_BYTES, "kernel arguments of at most 4 KiB");
}

template <class Args>
tt_err tt_launch_at(const char *file, int line, const char *text, void (*kernel)(Args), dim3 grid,
                    dim3 block, size_t shared_bytes, cudaStream_t stream,
                    const typename tt_type_identity<Args>::type &args)
{
  tt_check_kernel_args<Args>();
  TT_LAUNCH_LABEL(file, line, text);
  cudaError_t e = tt_allow_shared_memory(kernel, shared_bytes);
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  if (e == cudaSuccess) e = cudaLaunchKernelEx(&config, kernel, args);
  cudaError_t last = cudaGetLastError(); /* also clears it, so that it is reported once */
  return tt_cuda_check(e != cudaSuccess ? e : last, file, line, text);
}

/* tt_launch_cluster(kernel, ranks, grid, block, shared_bytes, stream, args): tt_launch in
 * clusters of `ranks` blocks, 1, 2, 4 or 8; `grid` is a multiple of `ranks`
 * (cuda/common/thread_block_cluster.cuh). Needs capability 9.0. */
#define tt_launch_cluster(...)                                                                     \
  tt_launch_cluster_at(__FILE__, __LINE__, "tt_launch_cluster(" #__VA_ARGS__ ")", __VA_ARGS__)

template <class Args>
tt_err tt_launch_cluster_at(const char *file, int line, const char *text, void (*kernel)(Args),
                            int ranks, dim3 grid, dim3 block, size_t shared_bytes,
                            cudaStream_t stream, const typename tt_type_identity<Args>::type &args)
{
  tt_check_kernel_args<Args>();
  TT_LAUNCH_LABEL(file, line, text);
  cudaLaunchAttribute size;
  cudaLaunchConfig_t config = tt_cluster_launch_config(ranks, grid, block, shared_bytes, &size);
  config.stream = stream;
  cudaError_t e = tt_allow_shared_memory(kernel, shared_bytes);
  if (e == cudaSuccess) e = cudaLaunchKernelEx(&config, kernel, args);
  cudaError_t last = cudaGetLastError();
  return tt_cuda_check(e != cudaSuccess ? e : last, file, line, text);
}

/* Number of blocks of `kernel` that run at the same time on the whole GPU, at least 1. Errors:
 * INTERNAL. */
template <class Kernel>
tt_err tt_dev_max_active_blocks(const tt_dev *d, Kernel kernel, int threads, size_t shared_bytes,
                                int64_t *out)
{
  int blocks_per_multiprocessor = 0;
  TT_TRY(TT_CUDA(tt_allow_shared_memory(kernel, shared_bytes)));
  TT_TRY(TT_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks_per_multiprocessor, kernel,
                                                               threads, shared_bytes)));
  *out =
      (int64_t)(blocks_per_multiprocessor > 0 ? blocks_per_multiprocessor : 1) * d->multiprocessors;
  return TT_OK;
}

/* Number of blocks of `threads` threads that cover `items`. */
static inline unsigned tt_grid_size(int64_t items, int threads)
{
  return (unsigned)((items + threads - 1) / threads);
}

/* graphs: device.cu */

/* Work submitted to the stream between begin and end is recorded, not run (tt_graph_capture). Every
 * successful begin needs its end, also after an error. Between them, do not allocate, free or
 * synchronize. */
tt_err tt_graph_begin(cudaStream_t stream);
/*   out    owned by the caller, tt_graph_destroy; NULL on error
 *   nodes  number of operations of the graph; may be NULL */
tt_err tt_graph_end(cudaStream_t stream, cudaGraphExec_t *out, int64_t *nodes = NULL);
/* Run the graph once, in stream order. Asynchronous. */
tt_err tt_graph_launch(cudaGraphExec_t graph, cudaStream_t stream);
void tt_graph_destroy(cudaGraphExec_t *graph); /* accepts NULL in *graph, sets it to NULL */

/* Record the work that submit() submits to the stream: a function that returns a tt_err. */
template <class F>
tt_err tt_graph_capture(cudaStream_t stream, F submit, cudaGraphExec_t *out, int64_t *nodes = NULL)
{
  TT_TRY(tt_graph_begin(stream));
  tt_err e = submit(), end = tt_graph_end(stream, out, nodes);
  if (e) tt_graph_destroy(out); /* incomplete */
  return e ? e : end;
}

/* device code */

enum { TT_WARP_SIZE = 32, TT_MAX_WARPS = 32 };
#define TT_FULL_WARP_MASK 0xFFFFFFFFu

/* Before an access to several neighboring numbers at once: the address is a multiple of their
 * bytes, or the GPU stops with an error. */
#ifdef TT_CUDA_DOUBLE
#define TT_CHECK_ALIGNMENT(at_, bytes_) tt_double_check_alignment(at_, bytes_)
#else
#define TT_CHECK_ALIGNMENT(at_, bytes_) (void)0
#endif

/* Load or store four or two neighboring floats. */
__device__ __forceinline__ float4 tt_load4(const float *place)
{
  TT_CHECK_ALIGNMENT(place, sizeof(float4));
  return *reinterpret_cast<const float4 *>(place);
}
__device__ __forceinline__ void tt_store4(float *place, float4 x)
{
  TT_CHECK_ALIGNMENT(place, sizeof(float4));
  *reinterpret_cast<float4 *>(place) = x;
}
__device__ __forceinline__ float2 tt_load2(const float *place)
{
  TT_CHECK_ALIGNMENT(place, sizeof(float2));
  return *reinterpret_cast<const float2 *>(place);
}
__device__ __forceinline__ void tt_store2(float *place, float2 x)
{
  TT_CHECK_ALIGNMENT(place, sizeof(float2));
  *reinterpret_cast<float2 *>(place) = x;
}

/* Value of the lane whose number is this lane's number xor `bits`. All 32 lanes take part. */
template <class T> __device__ __forceinline__ T tt_shuffle_xor(T value, int bits)
{
  return __shfl_xor_sync(TT_FULL_WARP_MASK, value, bits);
}

/* Value of lane number `lane`. All 32 lanes take part. */
template <class T> __device__ __forceinline__ T tt_shuffle_from(T value, int lane)
{
  return __shfl_sync(TT_FULL_WARP_MASK, value, lane);
}

/* Position of a lane in the tile of a warp, with ACROSS lanes side by side: bit 0 of its number
 * goes down, the next bits go across, the others down. A 16-byte load in which each four
 * neighboring lanes read at most two places takes two passes over shared memory, any other takes
 * four (bench/kit/micro.cu). */
template <int ACROSS> __device__ __forceinline__ int tt_lane_down()
{
  int lane = (int)threadIdx.x % TT_WARP_SIZE;
  return lane / (2 * ACROSS) * 2 + lane % 2;
}
template <int ACROSS> __device__ __forceinline__ int tt_lane_across()
{
  return (int)threadIdx.x % TT_WARP_SIZE / 2 % ACROSS;
}

/* The sum over the 32 lanes, the same bits in every lane: a butterfly adds pairs in one order. */
template <class T> __device__ __forceinline__ T tt_warp_sum(T value)
{
  for (int bits = TT_WARP_SIZE / 2; bits > 0; bits /= 2) value += tt_shuffle_xor(value, bits);
  return value;
}

/* The sum over all threads of a block of blockDim.x = 32 n threads, in every thread; blockDim.x
 * alone decides the order. All threads take part. There is a barrier before the first read and one
 * after the last, so `scratch` may be reused at once.
 *   scratch  [TT_MAX_WARPS] in shared memory, not used otherwise during the call */
template <class T> __device__ __forceinline__ T tt_block_sum(T value, T *scratch)
{
  int warps = (int)blockDim.x / TT_WARP_SIZE;
  value = tt_warp_sum(value);
  if (threadIdx.x % TT_WARP_SIZE == 0) scratch[threadIdx.x / TT_WARP_SIZE] = value;
  __syncthreads();
  T sum = scratch[0];
  for (int warp = 1; warp < warps; warp++) sum += scratch[warp];
  __syncthreads();
  return sum;
}
#endif
