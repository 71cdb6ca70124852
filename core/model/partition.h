/* partition.h — which member trains on which rank. Floor 1: no MPI, no CUDA. */
#ifndef TT_PARTITION_H
#define TT_PARTITION_H
#include "core/base/err.h"

#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct tt_slice {
  int64_t first, count; /* members [first, first + count) */
} tt_slice;

/* Deal `members` networks over `ranks` in contiguous parts whose sizes differ by at most one.
 *   members  [0, 2^40]; may be fewer than ranks, the last ranks then get count 0
 *   out      written only on TT_OK
 * Local. Errors: INTERNAL. */
tt_err tt_partition_even(int64_t members, int ranks, int rank, tt_slice *out);

/* Deal members that cost differently: in contiguous parts, a member to the rank in whose share of
 * the whole cost its middle lies, so that no part costs more than the mean and one member. Where
 * all cost the same, sizes differ by at most one.
 *   cost  [members] > 0, in any unit
 *   out   written only on TT_OK
 * Local. Errors: INTERNAL. */
tt_err tt_partition_by_cost(int64_t members, const double *cost, int ranks, int rank,
                            tt_slice *out);

/* What of members [first, first + count) lies in a part, counted from `first`. */
tt_slice tt_slice_intersect(tt_slice part, int64_t first, int64_t count);
#ifdef __cplusplus
}
#endif
#endif
