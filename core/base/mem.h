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
