/* test_gradients.c — law: gradients are the derivatives of the computed loss. Every activation and
 * loss row by finite differences or against the formulas of reference.h in double; whole networks
 * on every engine. */
#include "tests/support/reference.h"

/* table rows as functions of one variable */

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

/* Slope at x; *kink: f is not smooth there, so the difference is no derivative: both sides, or two
 * step widths, disagree. */
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

TT_TEST (activations_are_the_textbook_functions) {
  for (int a = 0; a < TT_ACT_COUNT; a++)
    for (int i = -3000; i <= 3000; i++) {
      float x = (float)i / 128.0f; /* exact, so that x +- h is too */
      double want = ref_activation((tt_activation)a, (double)x);
      TT_CHECK(fabs((double)tt_act((tt_activation)a, x) - want), <=, 1e-6 * (1.0 + fabs(want)));
    }
}

TT_TEST (activation_slopes_are_finite_differences) {
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
    TT_CHECK(kinks, <=, 32); /* two steps to either side of a kink, of which two are possible */
  }
}

/* A cohort of linear networks with `k` targets, for its loss alone. */
static tt_cohort loss_of(tt_loss loss, int64_t k)
{
  tt_cohort c = {.loss = loss, .variance_floor = 1e-6f, .huber_delta = 1.0f, .nll_beta = 0.5f};
  tt_model_shape shape = usual_shape(1, k, NULL, 0, TT_ACT_identity, tt_loss_output_head(loss));
  TT_CHECK_OK(tt_model_lay_out(&shape, &c.model));
  if (k == 1) return c;
  c.variance_floor = 0.25f;
  c.huber_delta = 0.75f;
  c.nll_beta = 1.0f;
  return c;
}

static double textbook_slope(const tt_cohort *c, double *o, int64_t j, double y)
{
  const double h = 1e-4, place[] = {h, -h, 2 * h, -2 * h};
  double f[4], held[8], keep = o[j];
  memcpy(held, o, sizeof held);
  for (int k = 0; k < 4; k++) {
    o[j] = keep + place[k];
    f[k] = ref_loss(c, o, held, y);
  }
  o[j] = keep;
  return (8.0 * (f[0] - f[1]) - (f[2] - f[3])) / (12.0 * h);
}

/* Value and slopes of one target whose outputs are out[each]. */
static void loss_at(const tt_cohort *c, const float *out, float y)
{
  float o[8] = {0}, d[8];
  double book[8] = {0};
  int64_t k = c->model.targets;
  for (int32_t j = 0; j < c->model.each; j++) book[j * k] = (double)(o[j * k] = out[j]);
  tt_loss_sample sample = {c->model.each, c->model.level, o, d, k, y, 2.0f};
  double want = ref_loss(c, book, NULL, (double)y);
  double got = (double)tt_loss_target(c->loss, &sample, tt_cohort_loss_args(c));
  TT_CHECK(fabs(got - want), <=, 2e-6 * (1.0 + fabs(want)));
  for (int32_t j = 0; j < c->model.each; j++) {
    double slope = textbook_slope(c, book, j * k, (double)y), scale = 1.0 + fabs(want);
    TT_CHECK(fabs((double)d[j * k] - 2.0 * slope), <=, 1e-5 * (scale + fabs(slope)));
  }
}

TT_TEST (losses_and_their_slopes) {
  for (int l = 0; l < TT_LOSS_COUNT; l++)
    for (int64_t k = 1; k <= 2; k++) {
      tt_cohort c = loss_of((tt_loss)l, k);
      for (int i = -16; i <= 16; i++)
        for (int j = -16; j <= 16; j++) {
          float out[] = {(float)i / 8.0f, (float)j / 4.0f, (float)(i + j) / 8.0f};
          float y = 0.40625f; /* larger than any output: no kinks */
          if (c.model.output == TT_OUTPUT_softmax) y = (float)((i + j + 32) % 3);
          loss_at(&c, out, c.model.output == TT_OUTPUT_rate ? 3.0f : y);
        }
    }
}

/* whole networks */

/* w' = w - rate * gradient, one step of plain sgd: a large rate shows all digits. */
static double gradient_error(problem *p, way variant, int64_t batch)
{
  const float rate = 0x1p16f;
  int64_t rows, params = p->c.model.params;
  double w[REF_PARAMS], want[REF_PARAMS], worst = 0.0;
  tt_progress progress;
  p->c.optimizer = TT_OPT_sgd;
  p->c.batch_size = batch;
  for (int64_t i = 0; i < p->c.members; i++) p->c.member[i].hyper = ref_plain(rate);
  int32_t *order = ref_in_turn(p, &rows);
  problem_start(p, variant, everyone(p));
  tt_state *before = problem_state(p, everyone(p));
  TT_CHECK_OK(variant.ops->train(p->engine, 1, &progress));
  tt_state *after = problem_state(p, everyone(p));
  for (int64_t m = 0; m < p->c.members; m++) {
    const float *old = TT_FIELD(before, weights) + m * params;
    const float *new = TT_FIELD(after, weights) + m *params;
    for (int64_t i = 0; i < params; i++) w[i] = (double)old[i];
    ref_gradient((ref_batch){p, m, order, batch < rows ? batch : rows, 0}, w, want);
    for (int64_t i = 0; i < params; i++) {
      double got = ((double)old[i] - (double)new[i]) / (double)rate;
      worst = fmax(worst, fabs(got - want[i]) / ref_largest(want, params));
    }
  }
  tt_state_destroy(&before);
  tt_state_destroy(&after);
  problem_stop(p);
  tt_free(order);
  return worst;
}

/* Returns 1 if the engine ran the case. */
static int one_gradient(way variant, tt_loss loss, int number, double *worst)
{
  /* one target or two, weighted or not, plain or with other layers */
  int kind = number % 4, layers = number / 4 % 3 ? 0 : 2 + 4 * (number % 2);
  problem p =
      ref_network((tt_activation)(number % TT_ACT_COUNT), loss, 1 + kind % 2, kind / 2 + layers);
  int suited = can(variant, &p.c);
  if (suited)
    *worst = fmax(*worst, gradient_error(&p, variant, kind == 1 || kind == 2 ? 1000 : 21));
  problem_free(&p);
  return suited;
}

TT_TEST (network_gradients_are_finite_differences) {
  for (const way *w = every_way(); w->name; w++)
    for (int l = 0; l < TT_LOSS_COUNT; l++) {
      double worst = 0.0;
      int some = 0;
      for (int a = 0; a < TT_ACT_COUNT; a++)
        if (has_turn(*w, a + l)) some |= one_gradient(*w, (tt_loss)l, 10 * l + a, &worst);
      if (!some) continue;
      fprintf(stderr, "  %-21s %-13s largest error %.1e of the gradient\n", w->name,
              tt_choice_loss[l], worst);
      TT_CHECK(worst, <=, 1e-5);
    }
}

/* rows with and without labels */

/* Every third label is unknown; some rows have none, some have one of two. */
static problem partly_labeled(tt_loss loss, int64_t k)
{
  problem p = ref_network(TT_ACT_silu, loss, k, 1);
  p.d->partial_labels = p.c.partial_labels = 1;
  for (int64_t i = 0; i < p.d->rows * p.d->targets; i++)
    if ((i + i / 9) % 3 == 0) p.d->y[i] = NAN;
  return p;
}

/* An unknown label has no loss and no gradient; the other labels of its row have. */
TT_TEST (unknown_labels_have_no_gradient) {
  for (const way *w = every_way(); w->name; w++)
    for (int l = 0; l < TT_LOSS_COUNT; l++) {
      problem p = partly_labeled((tt_loss)l, REF_COLUMNS);
      double worst = 0.0;
      if (can(*w, &p.c) && has_turn(*w, l))
        worst = fmax(gradient_error(&p, *w, 1000), gradient_error(&p, *w, 21));
      TT_CHECK(worst, <=, 1e-5);
      problem_free(&p);
    }
}

/* Labels with known errors, some of them unknown. */
TT_TEST (errors_of_labels_count_in_the_gradient) {
  for (const way *w = every_way(); w->name; w++)
    for (int l = 0; l < TT_LOSS_COUNT; l++) {
      problem p = partly_labeled((tt_loss)l, REF_COLUMNS);
      p.c.label_variance = tt_loss_takes_label_variance((tt_loss)l);
      TT_CHECK_OK(TT_ALLOC(p.d->label_variance, p.d->rows * p.d->targets));
      for (int64_t k = 0; k < p.d->rows * p.d->targets; k++)
        p.d->label_variance[k] = 0.25f * (float)(k % 5);
      if (p.c.label_variance && can(*w, &p.c))
        TT_CHECK(fmax(gradient_error(&p, *w, 1000), gradient_error(&p, *w, 21)), <=, 1e-5);
      problem_free(&p);
    }
}

/* The history holds the mean over the rows of weight * loss, each loss before the step of its
 * batch. */
static void history(way variant, tt_loss loss, int partial)
{
  int64_t rows;
  double w[REF_PARAMS];
  problem p =
      partial ? partly_labeled(loss, REF_COLUMNS) : ref_network(TT_ACT_silu, loss, REF_COLUMNS, 1);
  for (int64_t m = 0; m < p.c.members; m++) p.c.member[m].hyper = ref_plain(0.0f);
  p.c.optimizer = TT_OPT_sgd;
  int32_t *order = ref_in_turn(&p, &rows);
  tt_state *s = can(variant, &p.c) ? problem_run(&p, variant, everyone(&p), 100) : NULL;
  for (int64_t m = 0; s && m < p.c.members; m++) {
    for (int64_t k = 0; k < s->params; k++) w[k] = (double)TT_FIELD(s, weights)[m * s->params + k];
    double want = ref_batch_loss(&(ref_batch){&p, m, order, rows, 0}, w, NULL);
    double got = (double)TT_FIELD(s, loss_train)[m * s->epochs];
    TT_CHECK(fabs(got - want), <=, 1e-6 * (1.0 + fabs(want)));
  }
  if (s) tt_state_destroy(&s);
  problem_free(&p);
  tt_free(order);
}

TT_TEST (the_history_is_the_weighted_mean_loss) {
  for (const way *w = every_way(); w->name; w++)
    for (int l = 0; l < TT_LOSS_COUNT; l++)
      if (takes(*w, l)) history(*w, (tt_loss)l, 0), history(*w, (tt_loss)l, 1);
}

/* Two ensembles on targets 0 and 1. */
static problem two_targets(tt_loss loss)
{
  const int64_t hidden = 6;
  problem p = problem_make(60, 3, 2, 2, 2, &hidden, 1, TT_ACT_tanh, tt_loss_output_head(loss));
  p.c.loss = loss;
  return p;
}

/* Row r of 60 loses its label of target 1. */
static int loses(int64_t r) { return r % 7 == 2; }

/* A row without label is left out for the members that learn this target, and for no other member.
 */
static void skipped(way variant, tt_loss loss)
{
  problem whole = two_targets(loss), holes = two_targets(loss), fewer = two_targets(loss);
  for (int64_t r = 0; r < 60; r++) {
    if (!loses(r)) continue;
    holes.d->y[2 * r + 1] = NAN;
    fewer.d->split[r] = TT_UNUSED_ROW;
  }
  tt_state *a = problem_run(&whole, variant, everyone(&whole), 7);
  tt_state *b = problem_run(&holes, variant, everyone(&holes), 7);
  tt_state *c = problem_run(&fewer, variant, everyone(&fewer), 7);
  same_member(a, b, 0, "labels of another target are missing");
  same_member(a, b, 1, "labels of another target are missing");
  same_member(c, b, 2, "rows without a label count as absent");
  same_member(c, b, 3, "rows without a label count as absent");
  TT_CHECK(memcmp(TT_FIELD(a, weights) + 2 * a->params, TT_FIELD(b, weights) + 2 * a->params,
                  (size_t)a->params * sizeof(float)),
           !=, 0);
  tt_state_destroy(&a);
  tt_state_destroy(&b);
  tt_state_destroy(&c);
  problem_free(&whole);
  problem_free(&holes);
  problem_free(&fewer);
}

TT_TEST (unlabeled_rows_are_skipped_for_their_members) {
  for (const way *w = every_way(); w->name; w++)
    for (int l = 0; l < TT_LOSS_COUNT; l++) {
      problem p = two_targets((tt_loss)l);
      int suited = can(*w, &p.c) && takes(*w, l);
      problem_free(&p);
      if (suited) skipped(*w, (tt_loss)l);
    }
}
