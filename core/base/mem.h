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

/* Room for `more` elements behind the first `count` of an array: if *capacity is too small, a block
 * of at least twice the size replaces it. The array may be NULL. Errors: MEM. */
tt_err tt_grow_bytes(void *array, int64_t count, int64_t more, int64_t *capacity, size_t size,
                     const char *what);
#define TT_GROW(array_, count_, more_, capacity_)                                                  \
  tt_grow_bytes(&(array_), (count_), (more_), &(capacity_), sizeof *(array_), #array_)

/* Bytes that such a block takes: whole cache lines. */
int64_t tt_alloc_size(int64_t count, size_t size);

/* To learn how much memory a function takes, call it between tt_mem_count_begin and
 * tt_mem_count_end: this thread then adds up what it allocates. TT_ALLOC allocates as usual, for
 * structs and lists that the function fills. TT_ALLOC_VALUES, for arrays of values, only counts:
 * the pointer that it sets is not NULL, must not be read or written, and may be freed. */
void tt_mem_count_begin(void);
int64_t tt_mem_count_end(void); /* bytes */
int tt_mem_counts(void);        /* 1 between the two calls */

/* Between tt_mem_count_begin and tt_mem_count_end: add the block to the count, set *out, and return
 * 1; otherwise return 0 and do nothing. */
int tt_mem_only_counted(void *out, int64_t count, size_t size);

static inline tt_err tt_alloc_value_bytes(void *out, int64_t count, size_t size, const char *what)
{
  return tt_mem_only_counted(out, count, size) ? TT_OK : tt_alloc_bytes(out, count, size, what);
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

TT_END_C
#endif
