/* launch_plan.c — see launch_plan.h. */
#include "cuda/plan/launch_plan.h"

#include "core/base/int.h"

/* Portions are used if they save at least 1 / 10 of the time. The model is not exact: where fewer
 * units share a multiprocessor, each of them may be faster, and a launch waits for its last unit.
 * On an H100 they saved 16 % where it says 35 %, and cost 0.7 and 1.4 % where it says 5
 * (workloads E, C and U3 of bench/results/gpu/2026-11-27-h100-kit.md). */
enum { LEAST_SAVING = 10 };

/* Time of the slowest unit, in steps. */
static int64_t longest(const tt_launch_plan *p, int64_t units, int64_t overhead)
{
  int64_t whole = tt_ceil_div(p->members, units), launches = p->launches + (p->left > 0);
  int64_t turns = p->chunks == 1 ? whole : p->launches;
  return turns * p->steps + whole * p->left + launches * overhead;
}

tt_launch_plan tt_launch_plan_make(int64_t members, int64_t units, int64_t steps, int64_t overhead)
{
  const tt_launch_plan whole = {members, 1, members > 0, steps, 0};
  tt_launch_plan best = whole;
  if (members <= units) return whole;
  for (int64_t n = 2; n <= TT_LAUNCH_MAX_PORTIONS && n <= steps; n++) {
    tt_launch_plan p = {members, n, tt_ceil_div(members * n, units), steps / n, steps % n};
    if (longest(&p, units, overhead) < longest(&best, units, overhead)) best = p;
  }
  int64_t most = longest(&whole, units, overhead);
  return LEAST_SAVING * (most - longest(&best, units, overhead)) < most ? whole : best;
}

tt_slice tt_launch_plan_members(const tt_launch_plan *p, int64_t k)
{
  int64_t all = p->members * p->chunks;
  int64_t first = k * all / p->launches, end = (k + 1) * all / p->launches;
  return (tt_slice){first % p->members, end - first};
}
