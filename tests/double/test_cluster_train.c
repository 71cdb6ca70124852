/* test_cluster_train.c — members in clusters of blocks: the order in which the threads, the ranks and
 * the clusters run changes no bit, with 2, 4 and 8 ranks, more members than a schedule may take in
 * turn, and all that can become of them: clipped, stopped early, diverged, without validation. */
#include "problem.h"

#include "double/double.h"

enum { MEMBERS = 5, CLIPPED = 1, IMPATIENT = 2, BAD = 3, RANDOM_SEEDS = 3 };

typedef struct shape {
  int64_t batch, hidden[2], layers;
  tt_optimizer optimizer;
  int validates;
} shape;

/* 2 ranks; 4, of which some have no row of an epoch's last batch; 8, with one batch an epoch. */
static const shape shapes[] = {{20, {5}, 1, TT_OPT_adam, 1},
                               {118, {3, 17}, 2, TT_OPT_sgd, 1},
                               {256, {9}, 1, TT_OPT_adamw, 0}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static problem make(const shape *s)
{
  problem p = problem_make(200, 4, 1, 1, MEMBERS, s->hidden, s->layers, TT_ACT_tanh, TT_OUTPUT_mean);
  p.c.batch_size = s->batch;
  p.c.optimizer = s->optimizer;
  for (int64_t i = 0; i < MEMBERS; i++) p.c.member[i].hyper.momentum = 0.5f;
  p.c.member[CLIPPED].hyper.clip_norm = 0.01f;
  p.c.member[IMPATIENT].hyper.patience = 1;
  p.c.member[IMPATIENT].hyper.learning_rate = 0.5f;
  p.c.member[BAD].hyper.learning_rate = 1e30f;
  for (int64_t r = 0; r < p.d->rows && !s->validates; r++)
    if (p.d->split[r] == TT_VALIDATION) p.d->split[r] = TT_TEST;
  return p;
}

static tt_state *run(problem *p, tt_double_order order, uint64_t seed)
{
  way by = {"cuda cluster", &tt_engine_cuda, {.threads = 1, .path = TT_PATH_cluster}, 0};
  problem_start(p, by, everyone(p));
  tt_double_set_schedule(order, seed);
  tt_double_set_blocks(order, seed);
  problem_finish(p, 3);
  tt_state *s = problem_state(p, everyone(p));
  problem_stop(p);
  tt_double_reset();
  return s;
}

static void same(const tt_state *want, tt_state *got, const char *what)
{
  for (int64_t i = 0; i < MEMBERS; i++) same_member(want, got, i, what);
  tt_state_destroy(&got);
}

TT_TEST(no_schedule_changes_a_bit)
{
  for (int k = 0; k < SHAPES; k++) {
    problem p = make(&shapes[k]);
    tt_state *want = run(&p, TT_DOUBLE_FORWARD, 1);
    TT_CHECK(TT_FIELD(want, status)[0], ==, TT_STATUS_finished);
    TT_CHECK(TT_FIELD(want, status)[CLIPPED], ==, TT_STATUS_finished);
    TT_CHECK(TT_FIELD(want, status)[BAD], ==, TT_STATUS_diverged);
    same(want, run(&p, TT_DOUBLE_REVERSE, 1), "reverse");
    for (uint64_t seed = 1; seed <= RANDOM_SEEDS; seed++)
      same(want, run(&p, TT_DOUBLE_RANDOM, seed), "random");
    tt_state_destroy(&want);
    problem_free(&p);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_schedule_changes_a_bit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
