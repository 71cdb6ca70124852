/* test_host_copy.c — a copy by several threads has every byte, and no byte behind the last. */
#include "tests/support/check.h"

#include "cuda/plan/host_copy.h"

#include <string.h>

enum { MOST = 3 * TT_HOST_COPY_PART + 5 };
static unsigned char from[MOST + 1], to[MOST + 1];

TT_TEST (all_bytes_are_copied) {
  const int64_t sizes[] = {0, 1, TT_HOST_COPY_PART - 1, 2 * TT_HOST_COPY_PART + 3, MOST};
  for (int64_t i = 0; i <= MOST; i++) from[i] = (unsigned char)(i * 7 + i / 251 + 1);
  for (int i = 0; i < 5; i++)
    for (int threads = 0; threads <= 4; threads++) {
      memset(to, 0xA5, sizeof to);
      tt_host_copy(to, from, sizes[i], threads);
      TT_CHECK(memcmp(to, from, (size_t)sizes[i]), ==, 0);
      TT_CHECK((int)to[sizes[i]], ==, 0xA5);
    }
}
