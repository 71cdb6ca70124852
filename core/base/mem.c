/* mem.c — see mem.h. */
#include "core/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { ALIGN = 64 };
static _Atomic int64_t live_blocks;
static const double gib = 1073741824.0;

/* A block in a file. */
typedef struct file_block {
  struct file_block *next;
  void *at;
  size_t bytes;
} file_block;
static file_block *file_blocks;
static _Atomic int64_t file_block_count; /* 0: tt_free need not look at the list */
static pthread_mutex_t file_lock = PTHREAD_MUTEX_INITIALIZER;
static char store[PATH_MAX]; /* directory of such files; "" = none */

/* What this thread has counted since tt_mem_count_begin; counts 0: it does not count. */
static _Thread_local struct {
  int counts, stored;
  tt_mem_sum sum;
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
  if (counter.counts) counter.sum.memory += (int64_t)padded;
  return TT_OK;
}

/* Counting */

void tt_mem_count_begin(int stored)
{
  counter.counts = 1;
  counter.stored = stored;
  counter.sum = (tt_mem_sum){0};
}

tt_mem_sum tt_mem_count_end(void)
{
  counter.counts = 0;
  return counter.sum;
}

int tt_mem_counts(void) { return counter.counts; }

int tt_mem_only_counted(void *out, int64_t count, size_t size, int may_be_stored)
{
  if (!counter.counts) return 0;
  tt_mem_sum bytes = tt_stored_size(count, size, may_be_stored && counter.stored);
  counter.sum.memory += bytes.memory;
  counter.sum.file += bytes.file;
  memcpy(out, &counted_block, sizeof counted_block);
  return 1;
}

/* Blocks in files */

static int is_stored(int64_t count, size_t size)
{
  return count > 0 && (size_t)count * size >= TT_STORED_BYTES;
}

tt_mem_sum tt_stored_size(int64_t count, size_t size, int stored)
{
  int64_t bytes = tt_alloc_size(count, size);
  return stored && is_stored(count, size) ? (tt_mem_sum){.file = bytes}
                                          : (tt_mem_sum){.memory = bytes};
}

int tt_mem_stores(int64_t count, size_t size) { return *store && is_stored(count, size); }

tt_err tt_mem_store_in(const char *directory)
{
  struct statfs s;
  store[0] = '\0';
  if (!*directory) return TT_OK;
  if (statfs(directory, &s)) return TT_FAIL(CANTCREAT, "%s: %s", directory, strerror(errno));
  if (s.f_type == TMPFS_MAGIC || s.f_type == RAMFS_MAGIC)
    return TT_FAIL(MEM, "%s is in memory (tmpfs), so that states of members cannot be stored there",
                   directory);
  if (snprintf(store, sizeof store, "%s", directory) < (int)sizeof store) return TT_OK;
  store[0] = '\0';
  return TT_FAIL(CANTCREAT, "%s: path is too long", directory);
}

/* A file without a name; -1 on an error, which errno says. */
static int open_nameless(void)
{
  char path[PATH_MAX + 32];
#ifdef O_TMPFILE
  int fd = open(store, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
#endif
  snprintf(path, sizeof path, "%s/.state-XXXXXX", store);
  int named = mkstemp(path);
  if (named >= 0) unlink(path);
  return named;
}

/* Reserves the space, so that a full disk is an error here and no signal later. */
static tt_err map_file(int fd, size_t bytes, const char *what, void **out)
{
  struct statvfs s = {0};
  int error = posix_fallocate(fd, 0, (off_t)bytes);
  fstatvfs(fd, &s);
  if (error)
    return TT_FAIL(IO, "%s: %.2f GiB for %s cannot be stored: %s (%.2f GiB are free)", store,
                   (double)bytes / gib, what, strerror(error),
                   (double)s.f_bavail * (double)s.f_frsize / gib);
  *out = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (*out == MAP_FAILED)
    return TT_FAIL(MEM, "%s: %.2f GiB for %s cannot be mapped: %s", store, (double)bytes / gib,
                   what, strerror(errno));
  return TT_OK;
}

static tt_err map_block(size_t bytes, const char *what, void **out)
{
  int fd = open_nameless();
  if (fd < 0) return TT_FAIL(CANTCREAT, "%s: %s", store, strerror(errno));
  tt_err e = map_file(fd, bytes, what, out);
  close(fd);
  return e;
}

tt_err tt_alloc_file_bytes(void *out, int64_t count, size_t size, const char *what)
{
  size_t bytes = 0;
  file_block *entry;
  TT_TRY(check_size(count, size, what, &bytes));
  entry = malloc(sizeof *entry);
  if (!entry) return TT_FAIL(MEM, "out of host memory: a block of %s", what);
  *entry = (file_block){.bytes = pad(bytes)};
  tt_err e = map_block(entry->bytes, what, &entry->at);
  if (e) {
    free(entry);
    return e;
  }
  memcpy(out, &entry->at, sizeof entry->at);
  pthread_mutex_lock(&file_lock);
  entry->next = file_blocks;
  file_blocks = entry;
  pthread_mutex_unlock(&file_lock);
  file_block_count++;
  live_blocks++;
  return TT_OK;
}

/* 1 if it is a block in a file. */
static int unmap_block(void *block)
{
  if (!file_block_count) return 0;
  pthread_mutex_lock(&file_lock);
  file_block **link = &file_blocks;
  while (*link && (*link)->at != block) link = &(*link)->next;
  file_block *entry = *link;
  if (entry) *link = entry->next;
  pthread_mutex_unlock(&file_lock);
  if (!entry) return 0;
  munmap(entry->at, entry->bytes);
  file_block_count--;
  free(entry);
  return 1;
}

void tt_free_at(void *block)
{
  void *p;
  memcpy(&p, block, sizeof p);
  if (!p) return;
  if (p != counted_block) {
    if (!unmap_block(p)) free(p);
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
