/* partition.c — see partition.h. */
#include "core/model/partition.h"

#include <inttypes.h>

tt_err tt_partition_even(int64_t members, int ranks, int rank, tt_slice *out)
{
  if (members < 0 || ranks < 1 || rank < 0 || rank >= ranks)
    return TT_FAIL(INTERNAL, "members %" PRId64 ", rank %d of %d", members, rank, ranks);
  int64_t share = members / ranks, extra = members % ranks;
  out->first = rank * share + (rank < extra ? rank : extra);
  out->count = share + (rank < extra);
  return TT_OK;
}

int tt_partition_owner(int64_t members, int ranks, int64_t member)
{
  int64_t share = members / ranks, extra = members % ranks, longer = extra * (share + 1);
  return (int)(member < longer ? member / (share + 1) : extra + (member - longer) / share);
}

/* Sum of the costs, or -1 if one is not above 0; *even is 1 if all are equal. */
static double total_cost(int64_t members, const double *cost, int *even)
{
  double total = 0.0;
  *even = 1;
  for (int64_t i = 0; i < members; i++) {
    if (!(cost[i] > 0.0)) return -1.0;
    *even &= cost[i] == cost[0];
    total += cost[i];
  }
  return total;
}

tt_err tt_partition_by_cost(int64_t members, const double *cost, int ranks, int rank, tt_slice *out)
{
  int even;
  double total = total_cost(members, cost, &even), before = 0.0;
  tt_slice mine = {0, 0};
  if (total < 0.0 || ranks < 1 || rank < 0 || rank >= ranks)
    return TT_FAIL(INTERNAL, "costs of %" PRId64 " members, rank %d of %d", members, rank, ranks);
  if (even) return tt_partition_even(members, ranks, rank, out);
  for (int64_t i = 0; i < members; i++) {
    double position = (before + 0.5 * cost[i]) / total * ranks;
    int owner = position < ranks ? (int)position : ranks - 1;
    mine.first += owner < rank;
    mine.count += owner == rank;
    before += cost[i];
  }
  *out = mine;
  return TT_OK;
}

tt_slice tt_slice_intersect(tt_slice part, int64_t first, int64_t count)
{
  int64_t begin = part.first > first ? part.first : first, end = part.first + part.count;
  if (end > first + count) end = first + count;
  if (begin > first + count) begin = first + count;
  return (tt_slice){begin - first, end > begin ? end - begin : 0};
}
