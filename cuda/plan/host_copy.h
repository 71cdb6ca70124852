/* host_copy.h — large copies within host memory, by several threads: one thread copies fewer bytes
 * per second than a GPU takes. Plain C, no CUDA. Local. */
#ifndef TT_HOST_COPY_H
#define TT_HOST_COPY_H
#include "core/base/host_device.h"

#include <stdint.h>
TT_BEGIN_C

enum { TT_HOST_COPY_PART = 1 << 18 }; /* bytes: a thread more for each */

/* memcpy by at most `threads` threads, each with a contiguous part. */
void tt_host_copy(void *dst, const void *src, int64_t bytes, int threads);
TT_END_C
#endif
