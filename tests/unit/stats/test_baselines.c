/* test_baselines.c — simple predictors: each is exact where it must be. */
#include "core/stats/baselines.h"
#include "tests/support/check.h"

#include <math.h>

enum { TRAIN = 90, TEST = 30, INPUTS = 3 };

typedef struct table {
  double x[TRAIN * INPUTS], y[TRAIN], x_test[TEST * INPUTS], label[TEST], prediction[TEST];
} table;

static double linear(const double *x) { return 1.0 + 2.0 * x[0] - 0.5 * x[1]; }
static double smooth(const double *x) { return sin(1.5 * x[0]) * cos(x[1]) + x[2] * x[2]; }

static void fill(double (*f)(const double *x), table *t)
{
  for (int i = 0; i < (TRAIN + TEST) * INPUTS; i++) {
    double part = fmod(0.6180339887 * i + 0.7548776662 * (i % INPUTS) * i, 1.0);
    *(i < TRAIN * INPUTS ? &t->x[i] : &t->x_test[i - TRAIN * INPUTS]) = 2.0 * part - 1.0;
  }
  for (int i = 0; i < TRAIN; i++) t->y[i] = f(t->x + i * INPUTS);
  for (int i = 0; i < TEST; i++) t->label[i] = f(t->x_test + i * INPUTS);
}

/* Largest error of a test row. */
static double worst(tt_baseline b, table *t, int64_t test)
{
  double most = 0.0;
  const tt_baseline_rows rows = {TRAIN, test, INPUTS, t->x, t->y, t->x_test};
  TT_CHECK(tt_baseline_is_possible(b, &rows), ==, 1);
  TT_CHECK_OK(tt_baseline_predict(b, &rows, t->prediction));
  for (int64_t i = 0; i < test; i++) {
    TT_CHECK(isfinite(t->prediction[i]), !=, 0);
    most = fmax(most, fabs(t->prediction[i] - t->label[i]));
  }
  return most;
}

TT_TEST (each_baseline_is_exact_where_it_must_be) {
  table t;
  fill(linear, &t);
  TT_CHECK(worst(TT_BASELINE_ridge, &t, TEST), <, 1e-4);
  for (int i = 0; i < TEST * INPUTS; i++) t.x_test[i] = t.x[i];
  for (int i = 0; i < TEST; i++) t.label[i] = t.y[i];
  TT_CHECK(worst(TT_BASELINE_neighbor, &t, TEST), ==, 0.0);
  double mean = 0.0;
  for (int i = 0; i < TRAIN; i++) mean += t.y[i] / TRAIN;
  t.label[0] = mean;
  TT_CHECK(worst(TT_BASELINE_mean, &t, 1), <, 1e-12);
  fill(smooth, &t);
  TT_CHECK(worst(TT_BASELINE_gaussian_process, &t, TEST), <, 0.1);
  TT_CHECK(worst(TT_BASELINE_ridge, &t, TEST), >, 0.3);
}

/* A baseline that is left out needs no memory either. */
TT_TEST (what_would_take_too_long_is_left_out) {
  const tt_baseline_rows many = {.train = 2001, .test = 1, .inputs = 1}, one = {1, 1, 1, 0, 0, 0};
  const tt_baseline_rows wide = {.train = 48, .test = 6, .inputs = 12000};
  TT_CHECK(tt_baseline_is_possible(TT_BASELINE_gaussian_process, &many), ==, 0);
  TT_CHECK(tt_baseline_is_possible(TT_BASELINE_mean, &one), ==, 0);
  TT_CHECK(tt_baseline_is_possible(TT_BASELINE_ridge, &wide), ==, 0);
  TT_CHECK(tt_baseline_bytes(&wide), <, 1e7);
}
