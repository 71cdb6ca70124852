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

/* Batches of 320 and 316 rows: the sum of two halves (tt_cpu_cut). */
static problem large_batches(int k)
{
  const int64_t hidden[] = {45, 40}; /* 2,066 parameters */
  problem p = problem_make(1060, 4, 1, 1, 2, hidden, 2, TT_ACT_relu, TT_OUTPUT_mean);
  p.c.optimizer = (tt_optimizer)(k % TT_OPT_COUNT);
  p.c.batch_size = 320;
  p.c.max_epochs = 2;
  for (int64_t m = 0; m < p.c.members; m++) {
    tt_hyper *h = &p.c.member[m].hyper;
    h->epochs = 2;
    h->clip_norm = k % 3 == 1 ? 0.05f : 0.0f;
    h->dropout = k % 2 ? 0.2f : 0.0f;
    h->feature_fraction = k % 3 == 2 ? 0.5f : 1.0f;
    h->label_noise = k % 4 == 2 ? 0.1f : 0.0f;
    h->adversarial_epsilon = k % 5 == 4 ? 0.02f : 0.0f;
  }
  return p;
}

static void halves_of(int k, way by)
{
  problem p = large_batches(k);
  tt_state *want = problem_run(&p, by, everyone(&p), 1000);
  for (int threads = 2; threads < 4; threads++) {
    way with = by;
    with.use.threads = threads;
    with.use.share_flops = 1;
    tt_state *got = problem_run(&p, with, (tt_slice){0, 1}, k % 2 ? 1000 : 1);
    same_member(want, got, 0, "threads that share a large batch");
    tt_state_destroy(&got);
  }
  p.c.parts = 2;
  tt_state *parts = problem_run(&p, by, everyone(&p), 1000);
  size_t bytes = (size_t)p.c.model.params * sizeof(float);
  int equal = !memcmp(TT_FIELD(want, weights), TT_FIELD(parts, weights), bytes);
  /* Parts have the norm of their gradient in blocks, and adversarial gradients part by part. */
  if (k % 3 != 1 && k % 5 != 4) TT_CHECK(equal, ==, 1);
  tt_state_destroy(&parts);
  tt_state_destroy(&want);
  problem_free(&p);
}

/* The two halves are those of train.parts: 2. */
TT_TEST (two_threads_share_the_halves_of_a_large_batch) {
  way by[MAX_WAYS];
  int n = ways(by);
  for (int k = 0; k < 10; k++)
    for (int i = 0; i < n; i++)
      if (by[i].ops == &tt_engine_cpu) halves_of(k, by[i]);
}
