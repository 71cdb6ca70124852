/* memory_hook.c — see memory_hook.h. */
#include "tests/support/memory_hook.h"

#include "core/base/mem.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

tt_err __real_tt_alloc_bytes(void *out, int64_t count, size_t size, const char *what);
void __real_tt_free_at(void *block);
tt_err __wrap_tt_alloc_bytes(void *out, int64_t count, size_t size, const char *what);
void __wrap_tt_free_at(void *block);
void __wrap_tt_free_blocks(int count, void *const *block);

typedef struct hooked_block {
  const void *at;
  int64_t bytes;
  struct hooked_block *next;
} hooked_block;

enum { CHAINS = 4096 };
static hooked_block *chain[CHAINS]; /* by address */
static int64_t held, peak;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static hooked_block **chain_of(const void *place) { return &chain[(uintptr_t)place / 64 % CHAINS]; }

tt_err __wrap_tt_alloc_bytes(void *out, int64_t count, size_t size, const char *what)
{
  tt_err e = __real_tt_alloc_bytes(out, count, size, what);
  if (e) return e;
  hooked_block *b = malloc(sizeof *b);
  if (!b) abort();
  memcpy(&b->at, out, sizeof b->at);
  b->bytes = tt_alloc_size(count, size);
  pthread_mutex_lock(&lock);
  b->next = *chain_of(b->at);
  *chain_of(b->at) = b;
  held += b->bytes;
  if (held > peak) peak = held;
  pthread_mutex_unlock(&lock);
  return TT_OK;
}

void __wrap_tt_free_at(void *block)
{
  const void *place;
  memcpy(&place, block, sizeof place);
  pthread_mutex_lock(&lock);
  hooked_block **link = chain_of(place);
  while (*link && (*link)->at != place) link = &(*link)->next;
  hooked_block *b = place ? *link : NULL;
  if (b) {
    *link = b->next;
    held -= b->bytes;
  }
  pthread_mutex_unlock(&lock);
  free(b);
  __real_tt_free_at(block);
}

void __wrap_tt_free_blocks(int count, void *const *block)
{
  for (int i = 0; i < count; i++) __wrap_tt_free_at(block[i]);
}

int64_t tt_hook_held(void) { return held; }
int64_t tt_hook_peak(void) { return peak; }
void tt_hook_begin_peak(void) { peak = held; }
