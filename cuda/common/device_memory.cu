/* device_memory.cu — device and page-locked memory with its sizes counted, and copies. */
#include "cuda/common/device.cuh"

#include <stdlib.h>
#include <string.h>

/* Every block that is held: its address and size, so that a free can be counted. */
typedef struct held_block {
  void *at;
  int64_t bytes;
} held_block;
typedef struct held_list {
  held_block *block;
  int64_t count, room, bytes;
} held_list;
static held_list device_held, pinned_held;

/* Room for one more; called before the memory is taken. */
static tt_err held_reserve(held_list *list)
{
  if (list->count < list->room) return TT_OK;
  int64_t room = list->room ? 2 * list->room : 64;
  void *grown = realloc(list->block, (size_t)room * sizeof *list->block);
  if (!grown) return TT_FAIL(MEM, "out of host memory for a list of %lld blocks", (long long)room);
  list->block = static_cast<held_block *>(grown);
  list->room = room;
  return TT_OK;
}

static void held_add(held_list *list, void *at, int64_t bytes)
{
  list->block[list->count++] = {at, bytes};
  list->bytes += bytes;
}

static void held_remove(held_list *list, const void *at)
{
  for (int64_t i = list->count - 1; i >= 0; i--) {
    if (list->block[i].at != at) continue;
    list->bytes -= list->block[i].bytes;
    list->block[i] = list->block[--list->count];
    break;
  }
  if (list->count > 0) return;
  free(list->block);
  *list = {};
}

/* Bytes of count elements, at least one element. */
static tt_err size_of(int64_t count, size_t size, const char *what, int64_t *bytes)
{
  if (count < 0 || __builtin_mul_overflow(count ? count : 1, (int64_t)size, bytes))
    return TT_FAIL(MEM, "%s: %lld elements of %zu bytes cannot be held", what, (long long)count,
                   size);
  return TT_OK;
}

static double gib(size_t bytes) { return (double)bytes / (1 << 30); }

static tt_err out_of_memory(int64_t bytes, const char *what)
{
  size_t free_bytes = 0, total = 0;
  cudaGetLastError(); /* told here: the next launch must not tell it again */
  cudaMemGetInfo(&free_bytes, &total);
  return TT_FAIL(MEM,
                 "%s: out of device memory: %.2f GiB wanted for %s, %.2f GiB of %.2f GiB free, "
                 "%.2f GiB held by this rank; use more ranks, a smaller train.batch_size or fewer "
                 "members per rank",
                 tt_cuda_place(), gib((size_t)bytes), what, gib(free_bytes), gib(total),
                 gib((size_t)device_held.bytes));
}

tt_err tt_dev_alloc_bytes(void **out, int64_t count, size_t size, const char *what)
{
  int64_t bytes = 0;
  *out = NULL;
  TT_TRY(size_of(count, size, what, &bytes));
  TT_TRY(held_reserve(&device_held));
  void *block = NULL;
  cudaError_t taken = cudaMalloc(&block, (size_t)bytes);
  if (taken == cudaErrorMemoryAllocation) return out_of_memory(bytes, what);
  TT_TRY(tt_cuda_check(taken, __FILE__, __LINE__, "cudaMalloc"));
  held_add(&device_held, block, bytes);
  tt_err e = TT_CUDA(cudaMemset(block, 0, (size_t)bytes));
  /* The default stream is not that of the engine: nothing may start before the zeros are there. */
  if (!e) e = TT_CUDA(cudaStreamSynchronize(NULL));
  if (!e)
    *out = block;
  else
    tt_dev_free_block(block);
  return e;
}

void tt_dev_free_block(const void *block)
{
  if (!block) return;
  held_remove(&device_held, block);
  cudaFree(const_cast<void *>(block));
}

tt_err tt_pinned_alloc_bytes(void **out, int64_t count, size_t size, const char *what)
{
  int64_t bytes = 0;
  *out = NULL;
  TT_TRY(size_of(count, size, what, &bytes));
  TT_TRY(held_reserve(&pinned_held));
  void *block = NULL;
  cudaError_t taken = cudaMallocHost(&block, (size_t)bytes);
  if (taken == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return TT_FAIL(MEM,
                   "%s: out of page-locked host memory: %.2f GiB wanted for %s; raise ulimit -l or "
                   "the job's --mem, or use fewer ranks per host",
                   tt_cuda_place(), gib((size_t)bytes), what);
  }
  TT_TRY(tt_cuda_check(taken, __FILE__, __LINE__, "cudaMallocHost"));
  memset(block, 0, (size_t)bytes);
  held_add(&pinned_held, block, bytes);
  *out = block;
  return TT_OK;
}

void tt_pinned_free_block(const void *block)
{
  if (!block) return;
  held_remove(&pinned_held, block);
  cudaFreeHost(const_cast<void *>(block));
}

tt_dev_held tt_dev_balance(void)
{
  return {device_held.bytes, device_held.count, pinned_held.bytes, pinned_held.count};
}

tt_err tt_dev_copy_bytes(void *to, const void *from, int64_t bytes, cudaMemcpyKind kind,
                         cudaStream_t stream)
{
  return bytes ? TT_CUDA(cudaMemcpyAsync(to, from, (size_t)bytes, kind, stream)) : TT_OK;
}

tt_err tt_dev_clear_bytes(void *to, int64_t bytes, cudaStream_t stream)
{
  return bytes ? TT_CUDA(cudaMemsetAsync(to, 0, (size_t)bytes, stream)) : TT_OK;
}
