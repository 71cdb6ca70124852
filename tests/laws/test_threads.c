/* test_threads.c — law: if several threads of the cpu engine train one member together, its bits are
 * those of one thread: for every optimizer, resampling, batch order, loss and option of a member,
 * and for any number of threads and members. */
#include "tests/laws/settings.h"

/* Threads share even the smallest members: one member, two, and more members than threads. */
static void shared_by_threads(setting v, way by)
{
  static const int threads[] = {2, 3, 5, 8};
  const tt_slice slices[] = {{v.number % (ENSEMBLES * EACH), 1}, {1, 2}, {0, ENSEMBLES * EACH}};
  problem p = usual(v);
  tt_state *want = problem_run(&p, by, everyone(&p), 7);
  for (int k = 0; k < 4; k++) {
    way with = by;
    tt_slice s = slices[(k + v.number) % 3];
    with.use.threads = threads[k];
    with.use.share_flops = 1;
    tt_state *got = problem_run(&p, with, s, k % 2 ? 1000000 : 5);
    for (int64_t i = s.first; i < s.first + s.count; i++)
      same_member(want, got, i, tell(v, by, "threads that share a member"));
    tt_state_destroy(&got);
  }
  tt_state_destroy(&want);
  problem_free(&p);
}

TT_TEST (threads_that_share_a_member_change_nothing) {
  way by[MAX_WAYS];
  int n = ways(by);
  for (int number = 0; number < SETTINGS; number++)
    for (int i = 0; i < n; i++) {
      setting v = setting_of(number);
      v.parts = 1; /* threads share parts in another way (test_parts.c) */
      if (by[i].ops == &tt_engine_cpu) shared_by_threads(v, by[i]);
    }
}
