/* links.h — how fast messages between two ranks are: a short measurement for `tutti doctor`. */
#ifndef TT_LINKS_H
#define TT_LINKS_H
#include "mpi/comm.h"

typedef struct tt_link {
  int rank[2];
  double latency;   /* seconds of a message of 8 bytes, one way */
  double bandwidth; /* bytes per second of a message of 4 MiB, one way */
} tt_link;

/* Collective. Measure the link between two different ranks: half of the fastest of up to 1,000
 * round trips of a small message, and of up to 20 of a large one, in about 0.2 s. The other
 * ranks wait, and every rank gets *out. Errors: MEM. */
tt_err tt_link_measure(tt_comm *c, int first, int second, tt_link *out);
#endif
