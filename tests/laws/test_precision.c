/* test_precision.c — laws of run.precision: steps on tensor cores differ from those in fp32 by at
 * most the error of their precision; they keep the laws of independence, restart and divergence bit
 * by bit; validation losses and predictions are in fp32. Runs only on paths with tensor cores. */
#include "tests/support/problem.h"

enum {
  EACH = 2,
  ENSEMBLES = 2,
  MEMBERS = EACH * ENSEMBLES,
  ROWS = 90,
  EPOCHS = 3 - DOUBLE,
  BAD = 1
};

/* Widths that are no multiple of a fragment; both paths multiply them on tensor cores. */
typedef struct shape {
  int64_t inputs, hidden[2], batch;
  tt_activation activation;
  tt_output output;
  const char *front; /* of a profile with `inputs` values; or NULL */
} shape;
static const shape shapes[] = {
    {17, {20, 33}, 33, TT_ACT_silu, TT_OUTPUT_mean, NULL},
    {18, {70, 24}, 50, TT_ACT_tanh, TT_OUTPUT_mean_variance, NULL},
    {9,
     {3, 3},
     33,
     TT_ACT_tanh,
     TT_OUTPUT_mean,
     "conv 18 3, residual 1, conv 18 3, conv 17 3 stride 2"},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static problem make(const shape *s)
{
  problem p =
      problem_make(ROWS, s->inputs, 2, ENSEMBLES, EACH, s->hidden, 2, s->activation, s->output);
  tt_model_shape model = usual_shape(s->inputs, 1, s->hidden, 2, s->activation, s->output);
  const int64_t size[] = {1, s->inputs};
  const tt_front_shape profile = {.dims = 1, .size = size, .activation = s->activation};
  tt_front front;
  tt_front_fault fault;
  int possible;
  if (s->front) {
    TT_CHECK_OK(tt_front_read(s->front, &profile, &front, &possible, &fault));
    model.front = &front;
    TT_CHECK_OK(tt_model_lay_out(&model, &p.c.model));
  }
  p.c.batch_size = s->batch;
  p.c.max_epochs = EPOCHS;
  for (int i = 0; i < MEMBERS; i++) {
    tt_hyper *h = &p.c.member[i].hyper;
    h->epochs = EPOCHS;
    h->learning_rate = 1e-3f * (float)(1 + i);
    h->epsilon = 1e-4f; /* without it Adam divides by tiny roots, which amplifies rounding */
    h->clip_norm = i % 2 ? 0.5f : 0.0f;
  }
  return p;
}

/* Every law compares with the same run, which the first of them trains: the double is slow. */
static tt_state *kept[MAX_WAYS][SHAPES];

static int free_kept(void **state)
{
  (void)state;
  for (int i = 0; i < MAX_WAYS; i++)
    for (int k = 0; k < SHAPES; k++) tt_state_destroy(&kept[i][k]);
  return 0;
}

static void all_ways(void (*law)(const shape *s, way variant, const tt_state *want))
{
  way variant[MAX_WAYS];
  for (int i = 0, n = tensor_ways(variant); i < n; i++)
    for (int k = 0; k < SHAPES; k++) {
      problem p = make(&shapes[k]);
      int possible = can(variant[i], &p.c);
      if (possible && !kept[i][k]) kept[i][k] = problem_run(&p, variant[i], everyone(&p), 1000);
      problem_free(&p);
      if (possible) law(&shapes[k], variant[i], kept[i][k]);
    }
}

static void same_slice(const tt_state *want, problem *p, way variant, tt_slice slice, int64_t steps)
{
  tt_state *got = problem_run(p, variant, slice, steps);
  for (int64_t i = slice.first; i < slice.first + slice.count; i++)
    same_member(want, got, i, variant.name);
  tt_state_destroy(&got);
}

/* Alone, with another member, with other calls. */
static void company(const shape *s, way variant, const tt_state *want)
{
  const tt_slice slices[] = {{0, 1}, {1, 2}, {3, 1}};
  problem p = make(s);
  for (int k = 0; k < 3; k++) same_slice(want, &p, variant, slices[k], 1 + k);
  problem_free(&p);
}
TT_TEST (other_members_and_calls_change_nothing) {
  all_ways(company);
}

/* On the double: nor does the order of threads. */
static void schedule(const shape *s, way variant, const tt_state *want)
{
  problem p = make(s);
  variant.schedule = (variant.schedule + 1) % SCHEDULES;
  same_slice(want, &p, variant, everyone(&p), 1000);
  problem_free(&p);
}
TT_TEST (the_order_of_threads_changes_nothing) {
  all_ways(schedule);
}

static void restart(const shape *s, way variant, const tt_state *want)
{
  tt_progress progress;
  problem p = make(s);
  problem_start(&p, variant, everyone(&p));
  TT_CHECK_OK(variant.ops->train(p.engine, 3, &progress));
  TT_CHECK(progress.training, ==, MEMBERS);
  tt_state *saved = problem_state(&p, everyone(&p));
  problem_stop(&p);
  tt_slice some = {1, 3};
  problem_start(&p, variant, some);
  TT_CHECK_OK(variant.ops->load(p.engine, some, saved));
  problem_finish(&p, 2);
  tt_state *got = problem_state(&p, some);
  for (int64_t i = 1; i < MEMBERS; i++) same_member(want, got, i, variant.name);
  tt_state_destroy(&saved);
  tt_state_destroy(&got);
  problem_free(&p);
}
TT_TEST (a_restart_changes_nothing) {
  all_ways(restart);
}

static void diverges(const shape *s, way variant, const tt_state *want)
{
  problem p = make(s);
  p.c.member[BAD].hyper.learning_rate = 1e30f;
  tt_state *got = problem_run(&p, variant, everyone(&p), 4);
  TT_CHECK(TT_FIELD(got, status)[BAD], ==, TT_STATUS_diverged);
  for (int64_t i = 0; i < MEMBERS; i++)
    if (i != BAD) same_member(want, got, i, variant.name);
  tt_state_destroy(&got);
  problem_free(&p);
}
TT_TEST (a_diverged_member_changes_no_other) {
  all_ways(diverges);
}

/* Largest difference of the weights, relative to the largest weight. */
static double apart(const tt_state *a, const tt_state *b)
{
  double worst = 0.0, size = 0.0;
  for (int64_t k = 0; k < a->count * a->params; k++) {
    double x = (double)TT_FIELD(a, weights)[k], y = (double)TT_FIELD(b, weights)[k];
    worst = fmax(worst, isnan(y) ? (double)INFINITY : fabs(x - y));
    size = fmax(size, fabs(x));
  }
  return worst / size;
}

/* Compared with the same steps in fp32, the weights are clearly different, and not far away. */
static void near_fp32(const shape *s, way variant, const tt_state *got)
{
  problem p = make(s);
  variant.use.precision = TT_PRECISION_fp32;
  tt_state *want = problem_run(&p, variant, everyone(&p), 1000);
  double gap = apart(want, got);
  fprintf(stderr, "  %-18s %.1e from fp32\n", variant.name, gap);
  TT_CHECK(gap, <=, 5e-3);
  TT_CHECK(gap, >, 1e-5);
  tt_state_destroy(&want);
  problem_free(&p);
}
TT_TEST (steps_differ_by_the_error_of_their_precision) {
  all_ways(near_fp32);
}

static void losses(const shape *s, way variant, const tt_state *weights,
                   double loss[TT_SPLITS][MEMBERS])
{
  problem p = make(s);
  problem_start(&p, variant, everyone(&p));
  TT_CHECK_OK(variant.ops->load(p.engine, everyone(&p), weights));
  for (int split = 0; split < TT_SPLITS; split++)
    TT_CHECK_OK(variant.ops->evaluate(p.engine, (tt_split)split, loss[split]));
  problem_free(&p);
}

/* The report on the weights is computed in fp32, as is the validation loss. */
static void measured(const shape *s, way variant, const tt_state *trained)
{
  double mine[TT_SPLITS][MEMBERS], theirs[TT_SPLITS][MEMBERS];
  way plain = variant;
  plain.use.precision = TT_PRECISION_fp32;
  losses(s, variant, trained, mine);
  losses(s, plain, trained, theirs);
  TT_CHECK(memcmp(mine, theirs, sizeof mine), ==, 0);
  for (int i = 0; i < MEMBERS; i++)
    TT_CHECK(mine[TT_VALIDATION][i], ==, TT_FIELD(trained, best_loss)[i]);
}
TT_TEST (losses_are_measured_in_fp32) {
  all_ways(measured);
}

/* Another precision or path has another arithmetic text, so a checkpoint of it is rejected. */
TT_TEST (every_precision_has_its_own_arithmetic_text) {
  way variant[MAX_WAYS];
  tt_engine_info info[MAX_WAYS];
  int n = tensor_ways(variant);
  for (int i = 0; i < n; i++) {
    problem p = make(&shapes[0]);
    problem_start(&p, variant[i], everyone(&p));
    TT_CHECK_OK(variant[i].ops->info(p.engine, &info[i]));
    TT_CHECK_HAS(info[i].arithmetic, tt_choice_precision[variant[i].use.precision]);
    for (int k = 0; k < i; k++) TT_CHECK(strcmp(info[i].arithmetic, info[k].arithmetic), !=, 0);
    problem_free(&p);
  }
}

TT_SUITE(NULL, free_kept)
