/* received.h — what the functions of MPI have given to this rank since the start of the program:
 * calls, and bytes from other ranks. Every test program of several ranks counts them. */
#ifndef TT_TEST_RECEIVED_H
#define TT_TEST_RECEIVED_H
#include <stdint.h>

typedef struct received {
  int64_t calls, bytes;
} received;
extern received test_received;

/* What came since `before`. */
static inline received received_since(received before)
{
  return (received){test_received.calls - before.calls, test_received.bytes - before.bytes};
}
#endif
