/* host_copy.c — see host_copy.h. */
#include "cuda/plan/host_copy.h"

#include <string.h>

void tt_host_copy(void *dst, const void *src, int64_t bytes, int threads)
{
  char *begin = (char *)dst;
  const char *source = (const char *)src;
  int64_t fit = bytes / TT_HOST_COPY_PART, parts = fit < threads ? fit : threads;
  if (parts < 1) parts = 1;
#pragma omp parallel for schedule(static) num_threads((int)parts)
  for (int64_t k = 0; k < parts; k++) {
    int64_t first = bytes * k / parts, end = bytes * (k + 1) / parts;
    memcpy(begin + first, source + first, (size_t)(end - first));
  }
}
