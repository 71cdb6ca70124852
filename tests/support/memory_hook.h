/* memory_hook.h — bytes that tutti's allocator holds: what the program takes from the system, in
 * whole cache lines. The linker passes all calls of tt_alloc_bytes, tt_free_at and tt_free_blocks
 * through memory_hook.c (tests/CMakeLists.txt). */
#ifndef TT_MEMORY_HOOK_H
#define TT_MEMORY_HOOK_H
#include <stdint.h>

int64_t tt_hook_held(void); /* now */
int64_t tt_hook_peak(void); /* at most, since the last tt_hook_begin_peak */
void tt_hook_begin_peak(void);
#endif
