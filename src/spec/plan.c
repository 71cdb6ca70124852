/* plan.c — see plan.h. */
#include "spec/plan.h"

#include <inttypes.h>

tt_err tt_plan_slice(int64_t members, int ranks, int rank, tt_slice *out)
{
  if (members < 0 || ranks < 1 || rank < 0 || rank >= ranks)
    return TT_FAIL(INTERNAL, "members %" PRId64 ", rank %d of %d", members, rank, ranks);
  int64_t share = members / ranks, extra = members % ranks;
  out->first = rank * share + (rank < extra ? rank : extra);
  out->count = share + (rank < extra);
  return TT_OK;
}
