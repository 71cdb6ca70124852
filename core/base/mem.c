/* mem.c — see mem.h. */
#include "core/base/mem.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };
static _Atomic int64_t live_blocks;

/* Bytes in whole cache lines, at least one. */
static size_t pad(size_t bytes) { return bytes ? (bytes + ALIGN - 1) / ALIGN * ALIGN : ALIGN; }

int64_t tt_alloc_size(int64_t count, size_t size) { return (int64_t)pad((size_t)count * size); }

tt_err tt_alloc_bytes(void *out, int64_t count, size_t size, const char *what)
{
  size_t bytes = 0;
  if (count < 0 || __builtin_mul_overflow((size_t)count, size, &bytes) || bytes > SIZE_MAX / 2)
    return TT_FAIL(MEM, "%s: cannot allocate %" PRId64 " x %zu bytes", what, count, size);
  size_t padded = pad(bytes);
  void *block = aligned_alloc(ALIGN, padded);
  if (!block)
    return TT_FAIL(MEM,
                   "out of host memory: %.2f GiB for %s; use more ranks or nodes, or fewer members",
                   (double)bytes / 1073741824.0, what);
  memset(block, 0, padded);
  memcpy(out, &block, sizeof block);
  live_blocks++;
  return TT_OK;
}

void tt_free_at(void *block)
{
  void *p;
  memcpy(&p, block, sizeof p);
  if (!p) return;
  free(p);
  live_blocks--;
  p = NULL;
  memcpy(block, &p, sizeof p);
}

void tt_free_blocks(int count, void *const *block)
{
  for (int i = 0; i < count; i++) tt_free_at(block[i]);
}

int64_t tt_mem_live_blocks(void) { return live_blocks; }
