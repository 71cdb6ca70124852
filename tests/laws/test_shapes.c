/* test_shapes.c — law: for any shape, the steps of every engine equal those of the simplest one
 * (cpu, generic loops) up to 1e-5, and the order in which threads run changes no bit. Together the
 * shapes use every register tile and every array placement of the block path, and every
 * distribution of a layer over a warp. */
#include "tests/support/plain_model.h"
#include "tests/support/problem.h"

enum { STEPS = DOUBLE || SANITIZED ? 20 : 50 };

typedef struct shape {
  int64_t inputs, hidden[4], layers, targets, batch;
  tt_activation activation;
  tt_output output;
  tt_optimizer optimizer;
} shape;

/* From narrow to wide, with widths that are no multiple of a tile; batches that a block processes
 * at once, batches in pieces, and batches larger than an epoch. */
static const shape shapes[] = {
    {5, {0}, 0, 1, 20, TT_ACT_identity, TT_OUTPUT_mean, TT_OPT_sgd},
    {1, {2}, 1, 1, 50, TT_ACT_sigmoid, TT_OUTPUT_mean, TT_OPT_adam},
    {4, {16}, 1, 1, 64, TT_ACT_tanh, TT_OUTPUT_mean, TT_OPT_adam},
    {3, {7, 3, 2, 11}, 4, 3, 33, TT_ACT_elu, TT_OUTPUT_mean, TT_OPT_adamw},
    {8, {32, 32}, 2, 1, 180, TT_ACT_silu, TT_OUTPUT_mean, TT_OPT_adam},
    {6, {50}, 1, 2, 64, TT_ACT_relu, TT_OUTPUT_mean_variance, TT_OPT_adam},
    {8, {64, 64}, 2, 1, 128, TT_ACT_gelu, TT_OUTPUT_mean, TT_OPT_sgd},
    {8, {64, 64}, 2, 1, 256, TT_ACT_relu, TT_OUTPUT_mean, TT_OPT_adam},
    {10, {20, 10}, 2, 5, 40, TT_ACT_softplus, TT_OUTPUT_mean_variance, TT_OPT_adamw},
    {16, {128, 128}, 2, 1, 70, TT_ACT_tanh, TT_OUTPUT_mean, TT_OPT_adam},
    {17, {130, 70, 131}, 3, 4, 70, TT_ACT_leaky_relu, TT_OUTPUT_mean, TT_OPT_adam},
    {16, {128, 128, 128}, 3, 1, 40, TT_ACT_tanh, TT_OUTPUT_mean, TT_OPT_adam},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void widen_targets(problem *p, int64_t targets)
{
  tt_ensemble *e = &p->c.ensemble[0];
  tt_free(e->column);
  TT_CHECK_OK(TT_ALLOC(e->column, targets));
  for (int64_t k = 0; k < targets; k++) e->column[k] = (int32_t)(targets - 1 - k);
  e->targets = targets;
}

/* Two members with different hyper-parameters. */
static problem make(const shape *s)
{
  problem p = problem_make(300, s->inputs, s->targets, 1, 2, s->hidden, s->layers, s->activation,
                           s->output);
  TT_CHECK_OK(tt_model_plain(s->inputs, s->targets, s->hidden, s->layers, s->activation, s->output,
                             &p.c.model));
  widen_targets(&p, s->targets);
  p.c.batch_size = s->batch;
  p.c.optimizer = s->optimizer;
  p.c.nesterov = s->optimizer == TT_OPT_sgd;
  p.c.resample = (tt_resample)(s->layers % 3);
  p.c.max_epochs = STEPS + 1;
  for (int i = 0; i < 2; i++) {
    tt_hyper *h = &p.c.member[i].hyper;
    h->learning_rate = i ? 1e-3f : 3e-3f;
    h->epsilon = 1e-4f; /* a vanishing gradient then has a vanishing step, not one of full size */
    h->momentum = 0.9f;
    h->l2 = i ? 1e-3f : 0.0f;
    h->weight_decay = i ? 1e-2f : 0.0f;
    h->clip_norm = i ? 0.5f : 0.0f;
    h->epochs = STEPS + 1;
  }
  if (s->targets > 1) {
    TT_CHECK_OK(TT_ALLOC(p.d->weight, p.d->rows));
    for (int64_t r = 0; r < p.d->rows; r++) p.d->weight[r] = 0.5f + 0.25f * (float)(r % 5);
  }
  return p;
}

static tt_state *all_steps(problem *p, way variant)
{
  tt_progress progress;
  tt_slice all = everyone(p);
  problem_start(p, variant, all);
  TT_CHECK_OK(variant.ops->train(p->engine, 17, &progress));
  TT_CHECK_OK(variant.ops->train(p->engine, STEPS - 17, &progress));
  TT_CHECK(progress.training, ==, 2);
  tt_state *s = problem_state(p, all);
  problem_stop(p);
  return s;
}

/* Largest difference of two arrays, relative to the largest value. NaN agrees with NaN. */
static double apart(int64_t n, const float *a, const float *b)
{
  double scale = 1e-30, worst = 0.0;
  for (int64_t i = 0; i < n; i++) {
    if (isnan(a[i]) && isnan(b[i])) continue;
    double d = fabs((double)a[i] - (double)b[i]);
    scale = fmax(scale, fabs((double)a[i]));
    worst = isnan(d) ? (double)INFINITY : fmax(worst, d);
  }
  return worst / scale;
}

static void agree(const char *name, int which, const tt_state *want, const tt_state *got)
{
  const struct {
    const char *name;
    int64_t length;
    const float *want, *got;
  } field[] = {
      {"weights", want->params, TT_FIELD(want, weights), TT_FIELD(got, weights)},
      {"best_weights", want->params, TT_FIELD(want, best_weights), TT_FIELD(got, best_weights)},
      {"loss_train", want->epochs, TT_FIELD(want, loss_train), TT_FIELD(got, loss_train)},
      {"loss_validation", want->epochs, TT_FIELD(want, loss_validation),
       TT_FIELD(got, loss_validation)},
  };
  for (int64_t i = 0; i < want->count; i++) {
    for (int f = 0; f < 4; f++) {
      int64_t n = field[f].length;
      double d = apart(n, field[f].want + i * n, field[f].got + i * n);
      if (d > 1e-5)
        fprintf(stderr, "shape %d, member %d, %s, %s:\n", which, (int)i, name, field[f].name);
      TT_CHECK(d, <=, 1e-5);
    }
    TT_CHECK(TT_FIELD(got, step)[i], ==, STEPS);
    TT_CHECK(TT_FIELD(got, epoch)[i], ==, TT_FIELD(want, epoch)[i]);
    TT_CHECK(TT_FIELD(got, batch)[i], ==, TT_FIELD(want, batch)[i]);
    TT_CHECK(TT_FIELD(got, best_epoch)[i], ==, TT_FIELD(want, best_epoch)[i]);
  }
}

/* Engines that differ only in the order of threads follow one another; wide networks, and two
 * thirds of the others, run with one order. */
static void all_ways(int which, problem *p, const tt_state *want)
{
  tt_state *before = NULL;
  int once = p->c.model.params > 1000 || which % SCHEDULES;
  for (const way *w = every_way(); w->name; w++) {
    if (!suits(*w, &p->c) || (once && !takes(*w, which))) continue;
    tt_state *got = all_steps(p, *w);
    agree(w->name, which, want, got);
    for (int m = 0; before && !once && w->schedule > 0 && m < 2; m++)
      same_member(before, got, m, w->name);
    tt_state_destroy(&before);
    before = got;
  }
  tt_state_destroy(&before);
}

TT_TEST (steps_of_any_shape_agree) {
  way plain = {"generic", &tt_engine_cpu, {.threads = 1, .simd = TT_SIMD_generic}, 0, 0, 1};
  for (int k = 0; k < SHAPES; k++) {
    problem p = make(&shapes[k]);
    tt_state *want = all_steps(&p, plain);
    all_ways(k, &p, want);
    tt_state_destroy(&want);
    problem_free(&p);
  }
}
