/* mem.h — checked allocation. Every size is checked for overflow; every block is zeroed, and
 * aligned to a cache line so that aligned vector loads never cross one. Local. */
#ifndef TT_MEM_H
#define TT_MEM_H
#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>
TT_BEGIN_C

/* Allocate count * size zeroed bytes, 64-byte aligned, into *out (a pointer to the pointer).
 *   count  >= 0; zero gives a valid pointer to a block without elements
 *   what   what the block is for, in the message when out of memory
 * Owner: the caller, tt_free. Errors: MEM. */
tt_err tt_alloc_bytes(void *out, int64_t count, size_t size, const char *what);
#define TT_ALLOC(out_, count_) tt_alloc_bytes(&(out_), (count_), sizeof *(out_), #out_)

/* Bytes that such a block takes: whole cache lines. */
int64_t tt_alloc_size(int64_t count, size_t size);

/* To learn how much memory a function takes, call it between tt_mem_count_begin and
 * tt_mem_count_end: this thread then adds up what it allocates. TT_ALLOC allocates as usual, for
 * structs and lists that the function fills. TT_ALLOC_VALUES and TT_ALLOC_STORED, for arrays of
 * values, only count: the pointer that they set is not NULL, must not be read or written, and may
 * be freed.
 *   stored  1: as if tt_mem_store_in had been given a directory; 0: there are no files */
typedef struct tt_mem_sum {
  int64_t memory, file; /* bytes */
} tt_mem_sum;
void tt_mem_count_begin(int stored);
tt_mem_sum tt_mem_count_end(void);
int tt_mem_counts(void); /* 1 between the two calls */

/* Between tt_mem_count_begin and tt_mem_count_end: add the block to the count, set *out, and return
 * 1; otherwise return 0 and do nothing. tt_stored_size: the bytes of such a block. */
int tt_mem_only_counted(void *out, int64_t count, size_t size, int may_be_stored);
tt_mem_sum tt_stored_size(int64_t count, size_t size, int stored);

static inline tt_err tt_alloc_value_bytes(void *out, int64_t count, size_t size, const char *what)
{
  return tt_mem_only_counted(out, count, size, 0) ? TT_OK : tt_alloc_bytes(out, count, size, what);
}
#define TT_ALLOC_VALUES(out_, count_) tt_alloc_value_bytes(&(out_), (count_), sizeof *(out_), #out_)

/* Free *block and set *block to NULL; *block may be NULL. `block` is the address of the pointer. */
void tt_free_at(void *block);
#define tt_free(p_) tt_free_at(&(p_))
/* Free several blocks in the same way: tt_free_all(&a, &b). C only. */
void tt_free_blocks(int count, void *const *block);
#define tt_free_all(...)                                                                           \
  tt_free_blocks(sizeof((void *[]){__VA_ARGS__}) / sizeof(void *), (void *[]){__VA_ARGS__})

/* Number of blocks not yet freed; 0 at the end of a program without leaks. */
int64_t tt_mem_live_blocks(void);

/* Blocks in files, for values that memory has no room for. After tt_mem_store_in a block of
 * TT_ALLOC_STORED with at least TT_STORED_BYTES bytes is a file in the directory, mapped into the
 * address space: the kernel keeps in memory what is used and writes the rest to the disk. The file
 * has no name and ends with the block, or with the process. Smaller blocks, and all blocks without
 * a directory, are those of TT_ALLOC. tt_free frees either.
 *   directory  exists; "" = none. Not while another thread allocates.
 * Errors of tt_mem_store_in: MEM (the directory is in memory: tmpfs); CANTCREAT. Those of
 * TT_ALLOC_STORED: MEM, CANTCREAT, IO (the disk is full). */
tt_err tt_mem_store_in(const char *directory);
/* 1 if TT_ALLOC_STORED makes a file for `count` elements of `size` bytes. */
int tt_mem_stores(int64_t count, size_t size);
tt_err tt_alloc_file_bytes(void *out, int64_t count, size_t size, const char *what);
static inline tt_err tt_alloc_stored_bytes(void *out, int64_t count, size_t size, const char *what)
{
  if (tt_mem_only_counted(out, count, size, 1)) return TT_OK;
  return tt_mem_stores(count, size) ? tt_alloc_file_bytes(out, count, size, what)
                                    : tt_alloc_bytes(out, count, size, what);
}
#define TT_ALLOC_STORED(out_, count_)                                                              \
  tt_alloc_stored_bytes(&(out_), (count_), sizeof *(out_), #out_)
enum { TT_STORED_BYTES = 65536 };

TT_END_C
#endif
