/* mem.h — checked allocation. Floor 0. Every size is checked for overflow; every block is zeroed,
 * and large ones are aligned to a cache line so that vector loads never split. */
#ifndef TT_MEM_H
#define TT_MEM_H
#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Allocate count * size zeroed bytes, 64-byte aligned, into *out (a pointer to the pointer).
 *   count  >= 0; zero gives a valid, empty block
 *   what   named in the message when memory runs out
 * Owner: the caller, who frees with tt_free. Errors: MEM. */
tt_err tt_alloc_bytes(void *out, int64_t count, size_t size, const char *what);
#define TT_ALLOC(out_, count_) tt_alloc_bytes(&(out_), (count_), sizeof *(out_), #out_)

/* Free *block and set it to NULL; accepts a NULL block. Takes the address of the pointer. */
void tt_free_at(void *block);
#define tt_free(p_) tt_free_at(&(p_))

/* Blocks not yet freed: a balanced program ends with 0. */
int64_t tt_mem_live_blocks(void);
#ifdef __cplusplus
}
#endif
#endif
