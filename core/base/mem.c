/* mem.c — see mem.h. */
#include "core/base/mem.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };
static _Atomic int64_t live_blocks;
static const double gib = 1073741824.0;

/* What this thread has counted since tt_mem_count_begin; counts 0: it does not count. */
static _Thread_local struct {
  int counts;
  int64_t bytes;
} counter;
/* The pointer to a block that is only counted: an address that no real block has. */
static void *const counted_block = (void *)(uintptr_t)ALIGN;

/* Bytes in whole cache lines, at least one. */
static size_t pad(size_t bytes) { return bytes ? (bytes + ALIGN - 1) / ALIGN * ALIGN : ALIGN; }

int64_t tt_alloc_size(int64_t count, size_t size) { return (int64_t)pad((size_t)count * size); }

static tt_err check_size(int64_t count, size_t size, const char *what, size_t *bytes)
{
  if (count < 0 || __builtin_mul_overflow((size_t)count, size, bytes) || *bytes > SIZE_MAX / 2)
    return TT_FAIL(MEM, "%s: cannot allocate %" PRId64 " x %zu bytes", what, count, size);
  return TT_OK;
}

tt_err tt_alloc_bytes(void *out, int64_t count, size_t size, const char *what)
{
  size_t bytes = 0;
  TT_TRY(check_size(count, size, what, &bytes));
  size_t padded = pad(bytes);
  void *block = aligned_alloc(ALIGN, padded);
  if (!block)
    return TT_FAIL(MEM,
                   "out of host memory: %.2f GiB for %s; use more ranks or nodes, or fewer members",
                   (double)bytes / gib, what);
  memset(block, 0, padded);
  memcpy(out, &block, sizeof block);
  live_blocks++;
  if (counter.counts) counter.bytes += (int64_t)padded;
  return TT_OK;
}

tt_err tt_grow_bytes(void *array, int64_t count, int64_t more, int64_t *capacity, size_t size,
                     const char *what)
{
  enum { LEAST = 16 };
  void *old = NULL, *larger = NULL;
  int64_t wanted = 2 * *capacity > LEAST ? 2 * *capacity : LEAST;
  if (count + more <= *capacity) return TT_OK;
  if (wanted < count + more) wanted = count + more;
  TT_TRY(tt_alloc_bytes(&larger, wanted, size, what));
  memcpy(&old, array, sizeof old);
  if (count) memcpy(larger, old, (size_t)count * size);
  tt_free(old);
  memcpy(array, &larger, sizeof larger);
  *capacity = wanted;
  return TT_OK;
}

/* Counting */

void tt_mem_count_begin(void)
{
  counter.counts = 1;
  counter.bytes = 0;
}

int64_t tt_mem_count_end(void)
{
  counter.counts = 0;
  return counter.bytes;
}

int tt_mem_counts(void) { return counter.counts; }

int tt_mem_only_counted(void *out, int64_t count, size_t size)
{
  if (!counter.counts) return 0;
  counter.bytes += tt_alloc_size(count, size);
  memcpy(out, &counted_block, sizeof counted_block);
  return 1;
}

void tt_free_at(void *block)
{
  void *p;
  memcpy(&p, block, sizeof p);
  if (!p) return;
  if (p != counted_block) {
    free(p);
    live_blocks--;
  }
  p = NULL;
  memcpy(block, &p, sizeof p);
}

void tt_free_blocks(int count, void *const *block)
{
  for (int i = 0; i < count; i++) tt_free_at(block[i]);
}

int64_t tt_mem_live_blocks(void) { return live_blocks; }
