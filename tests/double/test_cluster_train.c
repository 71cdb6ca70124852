/* test_cluster_train.c — members in clusters of blocks: the order in which the threads, the ranks
 * and the clusters run changes no bit, and members train as on the CPU: with 4 and 8 ranks,
 * ranks without rows, clipped gradients, early stopping, divergence, no validation. */
#include "tests/support/problem.h"

#include "tests/double/runtime/double.h"

enum { MEMBERS = 5, CLIPPED = 1, IMPATIENT = 2, BAD = 3, RANDOM_SEEDS = 3 };

typedef struct shape {
  int64_t batch, hidden[2], layers;
  tt_optimizer optimizer;
  int validates;
} shape;

/* 4 ranks, of which some have no row of an epoch's last batch; 2 ranks of several groups each; 8
 * ranks, of which some have no row of an epoch. */
static const shape shapes[] = {{128, {16}, 1, TT_OPT_adam, 1},
                               {130, {3, 17}, 2, TT_OPT_sgd, 1},
                               {512, {16}, 1, TT_OPT_adamw, 0}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static problem make(const shape *s)
{
  problem p =
      problem_make(260, 4, 1, 1, MEMBERS, s->hidden, s->layers, TT_ACT_tanh, TT_OUTPUT_mean);
  p.c.batch_size = s->batch;
  p.c.optimizer = s->optimizer;
  for (int64_t i = 0; i < MEMBERS; i++) {
    p.c.member[i].hyper.momentum = 0.5f;
    p.c.member[i].hyper.epsilon = 1e-4f; /* without it Adam divides by tiny roots */
  }
  p.c.member[CLIPPED].hyper.clip_norm = 0.01f;
  p.c.member[IMPATIENT].hyper.patience = 1;
  p.c.member[IMPATIENT].hyper.learning_rate = 0.5f;
  p.c.member[BAD].hyper.learning_rate = 1e30f;
  for (int64_t r = 0; r < p.d->rows && !s->validates; r++)
    if (p.d->split[r] == TT_VALIDATION) p.d->split[r] = TT_TEST;
  return p;
}

static const way plain = {"generic", &tt_engine_cpu, {.threads = 1, .simd = TT_SIMD_generic}, 0, 0,
                          1};
static const way cluster = {"cluster", &tt_engine_cuda, {.path = TT_GPU_PATH_cluster}, 0, 0, 1};

static tt_state *run(problem *p, tt_double_order order, uint64_t seed)
{
  problem_start(p, cluster, everyone(p));
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

/* Up to rounding; the values of a member that overshoots depend on rounding. */
static void as_on_the_cpu(problem *p, const tt_state *got)
{
  tt_state *want = problem_run(p, plain, everyone(p), 3);
  for (int64_t i = 0; i < MEMBERS; i++) {
    TT_CHECK(TT_FIELD(got, status)[i], ==, TT_FIELD(want, status)[i]);
    if (i == IMPATIENT || i == BAD) continue;
    TT_CHECK(TT_FIELD(got, step)[i], ==, TT_FIELD(want, step)[i]);
    for (int64_t k = i * want->params; k < (i + 1) * want->params; k++)
      TT_CHECK(fabsf(TT_FIELD(got, weights)[k] - TT_FIELD(want, weights)[k]), <=, 1e-5f);
    for (int64_t k = i * want->epochs; k < (i + 1) * want->epochs; k++)
      TT_CHECK(fabsf(TT_FIELD(got, loss_train)[k] - TT_FIELD(want, loss_train)[k]), <=, 1e-5f);
  }
  tt_state_destroy(&want);
}

TT_TEST (no_schedule_changes_a_bit_of_what_the_cpu_does) {
  for (int k = 0; k < SHAPES; k++) {
    problem p = make(&shapes[k]);
    tt_state *want = run(&p, TT_DOUBLE_FORWARD, 1);
    TT_CHECK(TT_FIELD(want, status)[BAD], ==, TT_STATUS_diverged);
    as_on_the_cpu(&p, want);
    same(want, run(&p, TT_DOUBLE_REVERSE, 1), "reverse");
    for (uint64_t seed = 1; seed <= RANDOM_SEEDS; seed++)
      same(want, run(&p, TT_DOUBLE_RANDOM, seed), "random");
    tt_state_destroy(&want);
    problem_free(&p);
  }
}
