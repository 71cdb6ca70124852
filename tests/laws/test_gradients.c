/* test_gradients.c — law: gradients are the derivatives of what is computed, and steps follow the
 * textbook. Every activation, loss and optimizer row by finite differences or against the formulas
 * of reference.h in double; whole networks on every engine. */
#include "reference.h"

/* ---- rows of the tables, as functions of one variable ---- */

/* Central difference of fourth order in steps h; *gap: how far the slopes of both sides differ. */
static double difference(double (*f)(const void *, float), const void *args, float x, float h,
                         double *gap)
{
  double y[5];
  for (int i = 0; i < 5; i++) y[i] = f(args, x + (float)(i - 2) * h);
  double left = (3.0 * y[2] - 4.0 * y[1] + y[0]) / (2.0 * (double)h);
  double right = (-3.0 * y[2] + 4.0 * y[3] - y[4]) / (2.0 * (double)h);
  *gap = fabs(left - right);
  return (8.0 * (y[3] - y[1]) - (y[4] - y[0])) / (12.0 * (double)h);
}

/* Slope at x; *kink tells that f is not smooth there, so that differences say nothing: the sides do
 * not agree, or two step widths do not. */
static double slope(double (*f)(const void *, float), const void *args, float x, int *kink)
{
  double gap, half_gap, whole = difference(f, args, x, 0x1p-5f, &gap);
  double half = difference(f, args, x, 0x1p-6f, &half_gap), size = 1.0 + fabs(whole);
  *kink = gap > 1e-2 * size || fabs(whole - half) > 1e-4 * size;
  return whole;
}

static double activation_value(const void *kind, float x)
{
  return (double)tt_act(*(const tt_activation *)kind, x);
}

TT_TEST(activations_are_the_textbook_functions)
{
  for (int a = 0; a < TT_ACT_COUNT; a++)
    for (int i = -3000; i <= 3000; i++) {
      float x = (float)i / 128.0f; /* exact, so that x +- h is too */
      double want = ref_activation((tt_activation)a, (double)x);
      TT_CHECK(fabs((double)tt_act((tt_activation)a, x) - want), <=, 1e-6 * (1.0 + fabs(want)));
    }
}

TT_TEST(activation_slopes_are_finite_differences)
{
  for (int a = 0; a < TT_ACT_COUNT; a++) {
    int kinks = 0;
    double worst = 0.0;
    for (int i = -1280; i <= 1280; i++) {
      int kink;
      tt_activation kind = (tt_activation)a;
      float x = (float)i / 128.0f;
      double want = slope(activation_value, &kind, x, &kink);
      kinks += kink;
      if (kink) continue;
      worst = fmax(worst, fabs((double)tt_act_grad(kind, x, tt_act(kind, x)) - want));
    }
    fprintf(stderr, "  %-10s largest error %.1e, %d points at a kink\n", tt_choice_activation[a],
            worst, kinks);
    TT_CHECK(worst, <=, 2e-4);
    TT_CHECK(kinks, <=, 16); /* two steps to either side of one kink */
  }
}

/* A loss as a function of one of its two outputs. */
typedef struct loss_at {
  tt_loss kind;
  tt_loss_args args;
  float other, y;
  int second;
} loss_at;

static double loss_value(const void *of, float x)
{
  const loss_at *a = of;
  return (double)tt_loss_at(a->kind, a->second ? a->other : x, a->second ? x : a->other, a->y,
                            a->args).value;
}

static void loss_slope(const loss_at *at, float x)
{
  int kink;
  double want = slope(loss_value, at, x, &kink);
  tt_loss_grad g = tt_loss_at(at->kind, at->second ? at->other : x, at->second ? x : at->other,
                              at->y, at->args);
  double scale = 1.0 + fabs(loss_value(at, x)) + fabs(want);
  TT_CHECK(fabs((double)(at->second ? g.d1 : g.d0) - want), <=, 1e-4 * scale);
}

TT_TEST(losses_and_their_slopes)
{
  const tt_loss_args args[] = {{1e-6f, 1.0f, 1.0f, 0.5f}, {0.25f, 0.5f, 0.75f, 1.0f}};
  for (int l = 0; l < TT_LOSS_COUNT; l++)
    for (int a = 0; a < 2; a++)
      for (int i = -16; i <= 16; i++)
        for (int j = -16; j <= 16; j++) {
          float o0 = (float)i / 8.0f, o1 = (float)j / 4.0f, y = 0.375f;
          double want = ref_loss((tt_loss)l, (double)o0, (double)o1, (double)y,
                                 (double)args[a].variance_floor, (double)args[a].share);
          double got = (double)tt_loss_at((tt_loss)l, o0, o1, y, args[a]).value;
          TT_CHECK(fabs(got - want), <=, 2e-6 * (1.0 + fabs(want)));
          loss_slope(&(loss_at){(tt_loss)l, args[a], o1, y, 0}, o0);
          loss_slope(&(loss_at){(tt_loss)l, args[a], o0, y, 1}, o1);
        }
}

/* ---- whole networks ---- */

enum { ROWS = 45, TARGETS = 2 };

static problem network(tt_activation activation, tt_loss loss, int64_t k, int weighted)
{
  const int64_t hidden[] = {7, 5};
  problem p = problem_make(ROWS, 3, TARGETS, 1, 2, hidden, 2, activation, ref_output(loss));
  TT_CHECK_OK(tt_model_build(3, k, hidden, 2, activation, ref_output(loss), &p.c.model));
  p.c.loss = loss;
  p.c.variance_floor = 1e-3f;
  tt_free(p.c.ensemble[0].column);
  TT_CHECK_OK(TT_ALLOC(p.c.ensemble[0].column, k));
  for (int64_t t = 0; t < k; t++) p.c.ensemble[0].column[t] = (int32_t)(TARGETS - 1 - t);
  p.c.ensemble[0].targets = k;
  if (!weighted) return p;
  TT_CHECK_OK(TT_ALLOC(p.d->weight, ROWS));
  for (int64_t r = 0; r < ROWS; r++) p.d->weight[r] = (float)(r % 4) / 2.0f;
  return p;
}

/* The order "every row after the other" for two members and some epochs. */
static int32_t *in_turn(problem *p, int64_t *rows)
{
  int32_t *row = NULL, *order = NULL;
  TT_CHECK_OK(tt_dataset_rows(p->d, TT_TRAIN, p->c.ensemble[0].column, p->c.ensemble[0].targets,
                              &row, rows));
  TT_CHECK_OK(TT_ALLOC(order, p->c.members * p->c.max_epochs * *rows));
  for (int64_t i = 0; i < p->c.members * p->c.max_epochs; i++)
    memcpy(order + i * *rows, row, (size_t)*rows * sizeof *row);
  tt_free(row);
  p->replay.order = order;
  return order;
}

static double largest(const double *v, int64_t n)
{
  double most = 0.0;
  for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(v[i]));
  return most;
}

static tt_hyper plain(float rate)
{
  return (tt_hyper){rate, .epochs = 1, .init_scale = 1.0f, .features = 1.0f};
}

/* w' = w - rate * gradient, one step of plain sgd: a large rate shows all digits of the gradient. */
static double gradient_error(problem *p, way by, int64_t batch)
{
  const float rate = 0x1p16f;
  int64_t rows, params = p->c.model.params;
  double w[256], want[256], worst = 0.0;
  tt_progress at;
  p->c.optimizer = TT_OPT_sgd;
  p->c.batch_size = batch;
  for (int64_t i = 0; i < p->c.members; i++) p->c.member[i].hyper = plain(rate);
  int32_t *order = in_turn(p, &rows);
  problem_start(p, by, everyone(p));
  tt_state *before = problem_state(p, everyone(p));
  TT_CHECK_OK(by.ops->train(p->engine, 1, &at));
  tt_state *after = problem_state(p, everyone(p));
  for (int64_t m = 0; m < p->c.members; m++) {
    const float *old = TT_FIELD(before, weights) + m * params;
    const float *new = TT_FIELD(after, weights) + m * params;
    for (int64_t i = 0; i < params; i++) w[i] = (double)old[i];
    ref_gradient(p, 0, w, order, batch < rows ? batch : rows, want);
    for (int64_t i = 0; i < params; i++) {
      double got = ((double)old[i] - (double)new[i]) / (double)rate;
      worst = fmax(worst, fabs(got - want[i]) / largest(want, params));
    }
  }
  tt_state_destroy(&before);
  tt_state_destroy(&after);
  problem_stop(p);
  tt_free(order);
  return worst;
}

TT_TEST(network_gradients_are_finite_differences)
{
  way by[MAX_WAYS];
  for (int i = 0, n = ways(by); i < n; i++)
    for (int l = 0; l < TT_LOSS_COUNT; l++) {
      double worst = 0.0;
      for (int a = 0; a < TT_ACT_COUNT; a++)
        for (int kind = 0; kind < 4; kind++) { /* one target or two, weighted or not */
          if (!takes(by[i], a + kind)) continue;
          problem p = network((tt_activation)a, (tt_loss)l, 1 + kind % 2, kind / 2);
          worst = fmax(worst, gradient_error(&p, by[i], kind == 1 || kind == 2 ? 1000 : 21));
          problem_free(&p);
        }
      fprintf(stderr, "  %-21s %-13s largest error %.1e of the gradient\n", by[i].name,
              tt_choice_loss[l], worst);
      TT_CHECK(worst, <=, 1e-5);
    }
}

/* ---- optimizers ---- */

typedef struct recipe {
  const char *name;
  tt_optimizer optimizer;
  int nesterov;
  tt_hyper hyper;
} recipe;

/* At least one for each row of the table; the last member field of usual_hyper stays. */
static const recipe recipes[] = {
    {"sgd", TT_OPT_sgd, 0, {.learning_rate = 0.1f}},
    {"sgd, momentum, l2", TT_OPT_sgd, 0, {.learning_rate = 0.05f, .momentum = 0.9f, .l2 = 0.01f}},
    {"sgd, nesterov", TT_OPT_sgd, 1, {.learning_rate = 0.05f, .momentum = 0.8f}},
    {"sgd, clipped", TT_OPT_sgd, 0, {.learning_rate = 0.3f, .momentum = 0.5f, .clip_norm = 0.2f}},
    {"adam", TT_OPT_adam, 0, {.learning_rate = 0.01f}},
    {"adam, l2", TT_OPT_adam, 0, {.learning_rate = 0.01f, .l2 = 0.1f}},
    {"adam, clipped", TT_OPT_adam, 0, {.learning_rate = 0.01f, .clip_norm = 0.1f, .l2 = 0.01f}},
    {"adamw", TT_OPT_adamw, 0, {.learning_rate = 0.01f, .weight_decay = 0.5f}},
    {"adamw, l2, clipped", TT_OPT_adamw, 0,
     {.learning_rate = 0.01f, .weight_decay = 0.1f, .l2 = 0.05f, .clip_norm = 0.3f}},
};
enum { RECIPES = sizeof recipes / sizeof *recipes, STEPS = 50 };

static double reference_walk(problem *p, const float *start, const float *end, const int32_t *order,
                             int64_t rows)
{
  double w[256], g[256], slots[512] = {0}, worst = 0.0;
  int64_t params = p->c.model.params, batches = (rows + p->c.batch_size - 1) / p->c.batch_size;
  for (int64_t i = 0; i < params; i++) w[i] = (double)start[i];
  for (int64_t t = 0; t < STEPS; t++) {
    int64_t first = t % batches * p->c.batch_size, left = rows - first;
    ref_gradient(p, 0, w, order + first, left < p->c.batch_size ? left : p->c.batch_size, g);
    ref_step(&p->c, &p->c.member[0].hyper, t + 1, w, g, slots);
  }
  for (int64_t i = 0; i < params; i++)
    worst = fmax(worst, fabs((double)end[i] - w[i]) / largest(w, params));
  return worst;
}

static double walk_error(way by, const recipe *r)
{
  int64_t rows;
  tt_progress at;
  problem p = network(TT_ACT_tanh, TT_LOSS_mse, TARGETS, 1);
  p.c.optimizer = r->optimizer;
  p.c.nesterov = r->nesterov;
  p.c.batch_size = 20;
  p.c.max_epochs = STEPS;
  p.c.members = p.c.ensemble[0].members = 1;
  tt_hyper *h = &p.c.member[0].hyper;
  *h = r->hyper;
  h->beta1 = 0.9f, h->beta2 = 0.99f, h->epsilon = 1e-4f, h->epochs = STEPS;
  int32_t *order = in_turn(&p, &rows);
  problem_start(&p, by, everyone(&p));
  tt_state *start = problem_state(&p, everyone(&p));
  TT_CHECK_OK(by.ops->train(p.engine, STEPS, &at));
  TT_CHECK(at.member_steps, ==, STEPS);
  tt_state *end = problem_state(&p, everyone(&p));
  double worst = reference_walk(&p, TT_FIELD(start, weights), TT_FIELD(end, weights), order, rows);
  tt_state_destroy(&start);
  tt_state_destroy(&end);
  problem_free(&p);
  tt_free(order);
  return worst;
}

TT_TEST(optimizers_follow_the_textbook)
{
  way by[MAX_WAYS];
  int seen[TT_OPT_COUNT] = {0};
  for (int i = 0, n = ways(by); i < n; i++)
    for (int r = 0; r < RECIPES; r++) {
      if (!takes(by[i], r)) continue;
      double worst = walk_error(by[i], &recipes[r]);
      fprintf(stderr, "  %-21s %-20s %.1e after %d steps\n", by[i].name, recipes[r].name, worst,
              STEPS);
      TT_CHECK(worst, <=, 1e-5);
      seen[recipes[r].optimizer] = 1;
    }
  for (int o = 0; o < TT_OPT_COUNT; o++) TT_CHECK(seen[o], ==, 1);
}

/* ---- rows that count, or not ---- */

/* The history holds the mean over the rows of weight * loss, as the batches met it. */
TT_TEST(the_history_is_the_weighted_mean_loss)
{
  way by[MAX_WAYS];
  for (int i = 0, n = ways(by); i < n; i++)
    for (int l = 0; l < TT_LOSS_COUNT; l++) {
      int64_t rows;
      double w[256];
      problem p = network(TT_ACT_silu, (tt_loss)l, TARGETS, 1);
      for (int64_t m = 0; m < p.c.members; m++) p.c.member[m].hyper = plain(0.0f);
      p.c.optimizer = TT_OPT_sgd;
      int32_t *order = in_turn(&p, &rows);
      tt_state *s = problem_run(&p, by[i], everyone(&p), 100);
      for (int64_t m = 0; m < p.c.members; m++) {
        for (int64_t k = 0; k < s->params; k++)
          w[k] = (double)TT_FIELD(s, weights)[m * s->params + k];
        double want = ref_batch_loss(&p, 0, w, order, rows);
        double got = (double)TT_FIELD(s, loss_train)[m * s->epochs];
        TT_CHECK(fabs(got - want), <=, 1e-6 * (1.0 + fabs(want)));
      }
      tt_state_destroy(&s);
      problem_free(&p);
      tt_free(order);
    }
}

/* Two ensembles on targets 0 and 1. */
static problem two_targets(tt_loss loss)
{
  const int64_t hidden = 6;
  problem p = problem_make(60, 3, 2, 2, 2, &hidden, 1, TT_ACT_tanh, ref_output(loss));
  p.c.loss = loss;
  return p;
}

/* Row r of 60 loses its label of target 1. */
static int loses(int64_t r) { return r % 7 == 2; }

/* A row without label is left out for the members that learn this target, and for nobody else. */
TT_TEST(unlabelled_rows_are_skipped_for_their_members)
{
  way by[MAX_WAYS];
  for (int i = 0, n = ways(by); i < n; i++)
    for (int l = 0; l < TT_LOSS_COUNT; l++) {
      problem whole = two_targets((tt_loss)l), holes = two_targets((tt_loss)l);
      problem fewer = two_targets((tt_loss)l);
      for (int64_t r = 0; r < 60; r++) {
        if (!loses(r)) continue;
        holes.d->y[2 * r + 1] = NAN;
        fewer.d->split[r] = TT_UNUSED_ROW;
      }
      tt_state *a = problem_run(&whole, by[i], everyone(&whole), 7);
      tt_state *b = problem_run(&holes, by[i], everyone(&holes), 7);
      tt_state *c = problem_run(&fewer, by[i], everyone(&fewer), 7);
      same_member(a, b, 0, "labels of another target are missing");
      same_member(a, b, 1, "labels of another target are missing");
      same_member(c, b, 2, "rows without a label count as absent");
      same_member(c, b, 3, "rows without a label count as absent");
      TT_CHECK(memcmp(TT_FIELD(a, weights) + 2 * a->params, TT_FIELD(b, weights) + 2 * a->params,
                      (size_t)a->params * sizeof(float)), !=, 0);
      tt_state_destroy(&a);
      tt_state_destroy(&b);
      tt_state_destroy(&c);
      problem_free(&whole);
      problem_free(&holes);
      problem_free(&fewer);
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(activations_are_the_textbook_functions),
      cmocka_unit_test(activation_slopes_are_finite_differences),
      cmocka_unit_test(losses_and_their_slopes),
      cmocka_unit_test(network_gradients_are_finite_differences),
      cmocka_unit_test(optimizers_follow_the_textbook),
      cmocka_unit_test(the_history_is_the_weighted_mean_loss),
      cmocka_unit_test(unlabelled_rows_are_skipped_for_their_members),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
