/* test_launch_plan.c — every member makes all its steps, in order and never twice in a launch; and
 * the slowest unit has less to do than with whole members. */
#include "tests/support/check.h"

#include "cuda/plan/launch_plan.h"

#include <string.h>

enum { MOST = 700 };

/* Play the launches of a plan: the steps of every member, and the time of the slowest unit. */
static int64_t play(const tt_launch_plan *p, int64_t units, int64_t *steps_of)
{
  int64_t time = 0, whole = (p->members + units - 1) / units;
  memset(steps_of, 0, MOST * sizeof *steps_of);
  for (int64_t k = 0; k < p->launches; k++) {
    char seen[MOST] = {0};
    tt_slice some = tt_launch_plan_members(p, k);
    TT_CHECK(some.first, >=, 0);
    TT_CHECK(some.first, <, p->members);
    TT_CHECK(some.count, <=, p->chunks == 1 ? p->members : units);
    for (int64_t i = some.first; i < some.first + some.count; i++) {
      TT_CHECK(seen[i % p->members]++, ==, 0);
      steps_of[i % p->members] += p->steps;
    }
    time += p->steps * (p->chunks == 1 ? whole : 1);
  }
  return time + p->left * whole;
}

static void check_plan(int64_t members, int64_t units, int64_t steps, int64_t overhead)
{
  int64_t steps_of[MOST], whole = (members + units - 1) / units * steps;
  tt_launch_plan p = tt_launch_plan_make(members, units, steps, overhead);
  int64_t time = play(&p, units, steps_of), launches = p.launches + (p.left > 0);
  for (int64_t i = 0; i < members; i++) TT_CHECK(steps_of[i] + p.left, ==, steps);
  TT_CHECK(p.chunks, <=, TT_LAUNCH_MAX_PORTIONS);
  TT_CHECK(members * steps, <=, time * units); /* no unit works twice at a time */
  if (p.chunks == 1)
    TT_CHECK(time, ==, whole);
  else
    TT_CHECK(10 * (time + launches * overhead), <=, 9 * (whole + overhead));
}

TT_TEST (every_member_makes_all_its_steps) {
  static const int64_t units[] = {1, 2, 3, 7, 16, 132, 264}, steps[] = {1, 5, 31, 64, 470, 10000};
  for (int u = 0; u < 7; u++)
    for (int s = 0; s < 6; s++)
      for (int64_t members = 0; members < MOST; members += members < 40 ? 1 : 13)
        for (int64_t overhead = 0; overhead <= 2; overhead += 2)
          check_plan(members, units[u], steps[s], overhead);
}

/* The cases: a few members more than units; then the workloads C, E and U3 of bench/NOTES.md in
 * calls of about half a second (portions would save only a twentieth of C and of U3); as many
 * members as units, and twice as many; no members; calls that are too short for many portions. */
TT_TEST (the_slowest_unit_is_ready_sooner) {
  static const struct {
    int64_t members, units, steps, launches, chunks;
  } table[] = {{140, 132, 10000, 17, 16},   {200, 132, 10000, 23, 15}, {1000, 132, 470, 1, 1},
               {4096, 3168, 20000, 13, 10}, {10000, 2112, 5200, 1, 1}, {132, 132, 10000, 1, 1},
               {264, 132, 10000, 1, 1},     {1, 132, 10000, 1, 1},     {0, 132, 10000, 0, 1},
               {140, 132, 20, 5, 4},        {140, 132, 6, 1, 1}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    tt_launch_plan p = tt_launch_plan_make(table[i].members, table[i].units, table[i].steps, 2);
    TT_CHECK(p.launches, ==, table[i].launches);
    TT_CHECK(p.chunks, ==, table[i].chunks);
  }
}
