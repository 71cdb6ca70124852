/* partition.h — which member trains on which rank. No MPI, no CUDA. */
#ifndef TT_PARTITION_H
#define TT_PARTITION_H
#include "core/base/err.h"

#include <stdint.h>
TT_BEGIN_C

typedef struct tt_slice {
  int64_t first, count; /* members [first, first + count) */
} tt_slice;

/* Partition `members` members over `ranks` in contiguous parts whose sizes differ by at most one.
 *   members  [0, 2^40]; with fewer members than ranks the last ranks get count 0
 *   out      written only on TT_OK
 * Local. Errors: INTERNAL. */
tt_err tt_partition_even(int64_t members, int ranks, int rank, tt_slice *out);

/* The rank that tt_partition_even gives `member` of [0, members). Local. */
int tt_partition_owner(int64_t members, int ranks, int64_t member);

/* Partition members of different costs in contiguous parts. On the axis of cumulative cost, each
 * rank has an equal interval; a member goes to the rank whose interval contains its midpoint. So no
 * part costs more than the mean plus one member. With equal costs, sizes differ by at most one.
 *   cost  [members] > 0, in any unit
 *   out   written only on TT_OK
 * Local. Errors: INTERNAL. */
tt_err tt_partition_by_cost(int64_t members, const double *cost, int ranks, int rank,
                            tt_slice *out);

/* Intersection of a part with the members [first, first + count), counted from `first`. */
tt_slice tt_slice_intersect(tt_slice part, int64_t first, int64_t count);
TT_END_C
#endif
