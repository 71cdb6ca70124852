/* device_memory.cu — device and page-locked memory with counted sizes, and copies. */
#include "cuda/common/device.cuh"

#include <mutex>
#include <stdlib.h>
#include <string.h>

/* An allocated block: address and size, so that a free can be counted. */
typedef struct allocation {
  void *at;
  int64_t bytes;
} allocation;
typedef struct allocation_list {
  allocation *block;
  int64_t count, capacity, bytes;
} allocation_list;
static allocation_list device_allocations, pinned_allocations;
static std::recursive_mutex lists_lock; /* several threads may have a trainer and allocate */
typedef std::lock_guard<std::recursive_mutex> hold_lists;

/* Make room for one more entry; called before the allocation. */
static tt_err reserve_entry(allocation_list *list)
{
  if (list->count < list->capacity) return TT_OK;
  int64_t capacity = list->capacity ? 2 * list->capacity : 64;
  void *grown = realloc(list->block, (size_t)capacity * sizeof *list->block);
  if (!grown)
    return TT_FAIL(MEM, "out of host memory for a list of %lld blocks", (long long)capacity);
  list->block = static_cast<allocation *>(grown);
  list->capacity = capacity;
  return TT_OK;
}

static void add_entry(allocation_list *list, void *place, int64_t bytes)
{
  list->block[list->count++] = {place, bytes};
  list->bytes += bytes;
}

static void remove_entry(allocation_list *list, const void *place)
{
  for (int64_t i = list->count - 1; i >= 0; i--) {
    if (list->block[i].at != place) continue;
    list->bytes -= list->block[i].bytes;
    list->block[i] = list->block[--list->count];
    break;
  }
  if (list->count > 0) return;
  free(list->block);
  *list = {};
}

/* Bytes of count elements, at least one element. */
static tt_err byte_count(int64_t count, size_t size, const char *what, int64_t *bytes)
{
  if (count < 0 || __builtin_mul_overflow(count ? count : 1, (int64_t)size, bytes))
    return TT_FAIL(MEM, "%s: %lld elements of %zu bytes are more than memory can address", what,
                   (long long)count, size);
  return TT_OK;
}

static double gib(size_t bytes) { return (double)bytes / (1 << 30); }

static tt_err fail_out_of_memory(int64_t bytes, const char *what)
{
  size_t free_bytes = 0, total = 0;
  cudaGetLastError(); /* reported here: the next launch must not report it again */
  cudaMemGetInfo(&free_bytes, &total);
  return TT_FAIL(MEM,
                 "%s: out of device memory: %.2f GiB wanted for %s, %.2f GiB of %.2f GiB free, "
                 "%.2f GiB held by this rank; use more ranks, a smaller train.batch_size or fewer "
                 "members per rank",
                 tt_cuda_location(), gib((size_t)bytes), what, gib(free_bytes), gib(total),
                 gib((size_t)device_allocations.bytes));
}

tt_err tt_dev_alloc_bytes(void **out, int64_t count, size_t size, const char *what)
{
  int64_t bytes = 0;
  hold_lists hold(lists_lock);
  *out = NULL;
  TT_TRY(byte_count(count, size, what, &bytes));
  TT_TRY(reserve_entry(&device_allocations));
  void *block = NULL;
  cudaError_t taken = cudaMalloc(&block, (size_t)bytes);
  if (taken == cudaErrorMemoryAllocation) return fail_out_of_memory(bytes, what);
  TT_TRY(tt_cuda_check(taken, __FILE__, __LINE__, "cudaMalloc"));
  add_entry(&device_allocations, block, bytes);
  tt_err e = TT_CUDA(cudaMemset(block, 0, (size_t)bytes));
  /* The default stream is not the engine's stream: wait until the zeros are written. */
  if (!e) e = TT_CUDA(cudaStreamSynchronize(NULL));
  if (!e)
    *out = block;
  else
    tt_dev_free_pointer(block);
  return e;
}

void tt_dev_free_pointer(const void *block)
{
  if (!block) return;
  hold_lists hold(lists_lock);
  remove_entry(&device_allocations, block);
  cudaFree(const_cast<void *>(block));
}

tt_err tt_pinned_alloc_bytes(void **out, int64_t count, size_t size, const char *what)
{
  int64_t bytes = 0;
  hold_lists hold(lists_lock);
  *out = NULL;
  TT_TRY(byte_count(count, size, what, &bytes));
  TT_TRY(reserve_entry(&pinned_allocations));
  void *block = NULL;
  cudaError_t taken = cudaMallocHost(&block, (size_t)bytes);
  if (taken == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return TT_FAIL(MEM,
                   "%s: out of page-locked host memory: %.2f GiB wanted for %s; raise ulimit -l or "
                   "the job's --mem, or use fewer ranks per host",
                   tt_cuda_location(), gib((size_t)bytes), what);
  }
  TT_TRY(tt_cuda_check(taken, __FILE__, __LINE__, "cudaMallocHost"));
  memset(block, 0, (size_t)bytes);
  add_entry(&pinned_allocations, block, bytes);
  *out = block;
  return TT_OK;
}

void tt_pinned_free_pointer(const void *block)
{
  if (!block) return;
  hold_lists hold(lists_lock);
  remove_entry(&pinned_allocations, block);
  cudaFreeHost(const_cast<void *>(block));
}

tt_dev_memory_stats tt_dev_memory_allocated(void)
{
  hold_lists hold(lists_lock);
  return {device_allocations.bytes, device_allocations.count, pinned_allocations.bytes,
          pinned_allocations.count};
}

tt_err tt_dev_copy_bytes(void *dst, const void *src, int64_t bytes, cudaMemcpyKind kind,
                         cudaStream_t stream)
{
  return bytes ? TT_CUDA(cudaMemcpyAsync(dst, src, (size_t)bytes, kind, stream)) : TT_OK;
}

tt_err tt_dev_zero_bytes(void *dst, int64_t bytes, cudaStream_t stream)
{
  return bytes ? TT_CUDA(cudaMemsetAsync(dst, 0, (size_t)bytes, stream)) : TT_OK;
}
