/* test_conformal.c — coverage in finite samples, recalibration and the ranks by hand. */
#include "core/base/rng.h"
#include "core/model/calibration.h"
#include "core/stats/conformal.h"
#include "tests/support/check.h"

#include <math.h>

TT_TEST (ranks_by_hand) {
  TT_CHECK(tt_conformal_rank(9, 0.9), ==, 9);
  TT_CHECK(tt_conformal_rank(10, 0.9), ==, 10);
  TT_CHECK(tt_conformal_rank(8, 0.9), ==, 0); /* too few: nothing bounds the next one */
  TT_CHECK(tt_conformal_rank(99, 0.9), ==, 90);
  TT_CHECK(tt_conformal_rank(100, 0.9), ==, 91);
  TT_CHECK(tt_conformal_rank(19, 0.95), ==, 19);
  TT_CHECK(tt_conformal_rank(1, 0.5), ==, 1);
  TT_CHECK(tt_conformal_min_rows(0.9), ==, 9);
  TT_CHECK(tt_conformal_min_rows(0.95), ==, 19);
  TT_CHECK(tt_conformal_min_rows(0.5), ==, 1);
  for (int i = 1; i < 1000; i++) {
    int64_t n = tt_conformal_min_rows(i / 1000.0);
    TT_CHECK(tt_conformal_rank(n, i / 1000.0), >, 0);
    if (n > 1) TT_CHECK(tt_conformal_rank(n - 1, i / 1000.0), ==, 0);
  }
}

TT_TEST (widths_are_order_statistics) {
  double score[] = {5.0, 1.0, 4.0, 2.0, 3.0};
  const double level[] = {0.5, 0.8, 0.9};
  double width[3];
  tt_conformal_widths(5, score, 3, level, width);
  TT_CHECK(width[0], ==, 3.0);
  TT_CHECK(width[1], ==, 5.0);
  TT_CHECK(isinf(width[2]), !=, 0);
  tt_conformal_widths(0, score, 1, level, width);
  TT_CHECK(isinf(width[0]), !=, 0);
}

/* Whatever the distribution, the share covered is at least the level, and at most 1 / (n + 1) more:
 * mean over many draws of n scores and one more. */
TT_TEST (the_next_one_is_covered_as_promised) {
  enum { N = 20, DRAWS = 20000 };
  const double level = 0.9;
  int inside = 0;
  for (uint32_t d = 0; d < DRAWS; d++) {
    double score[N + 1], width;
    for (uint32_t i = 0; i <= N; i++) {
      double u = (double)tt_uniform(tt_random(7, d, TT_PURPOSE_INIT, 0, i).v[0]);
      score[i] = -log(1.0 - u); /* a long tail */
    }
    tt_conformal_widths(N, score, 1, &level, &width);
    inside += score[N] <= width;
  }
  double share = (double)inside / DRAWS; /* 19 / 21 is what the theory says */
  TT_CHECK(fabs(share - 19.0 / 21.0), <=, 0.007);
}

TT_TEST (recalibration_is_most_likely) {
  const double error[] = {1.0, -2.0, 0.5, 3.0}, sd[] = {0.5, 1.0, 0.25, 1.0}, none[] = {0.0};
  double s = tt_recalibration_scale(4, error, sd), best = INFINITY, at = 0.0;
  TT_CHECK(fabs(s - sqrt((4.0 + 4.0 + 4.0 + 9.0) / 4.0)), <=, 1e-12);
  for (double k = 0.5; k < 5.0; k += 1e-3) {
    double nll = 0.0;
    for (int i = 0; i < 4; i++)
      nll += log(k * sd[i]) + 0.5 * error[i] * error[i] / (k * sd[i] * k * sd[i]);
    if (nll >= best) continue;
    best = nll;
    at = k;
  }
  TT_CHECK(fabs(at - s), <=, 2e-3);
  TT_CHECK(tt_recalibration_scale(0, error, sd), ==, 1.0);
  TT_CHECK(tt_recalibration_scale(1, error, none), ==, 1.0);
}

TT_TEST (scores_of_a_row) {
  TT_CHECK(tt_conformal_residual(3.0, 5.0, 4.0), ==, 0.5);
  TT_CHECK(tt_conformal_outside(3.0, 5.0, 6.0), ==, 2.0);
  TT_CHECK(tt_conformal_outside(7.0, 5.0, 6.0), ==, 1.0);
  TT_CHECK(tt_conformal_outside(5.25, 5.0, 6.0), ==, -0.25);
}

static tt_model model_of(tt_output output, int32_t n)
{
  static const double level[] = {0.05, 0.5, 0.95};
  tt_model m;
  tt_model_shape shape = {.inputs = 1, .targets = 1, .output = output, .levels = n, .level = level};
  TT_CHECK_OK(tt_model_lay_out(&shape, &m));
  return m;
}

/* Intervals learnt on some rows hold exactly the share of these rows that the ranks say, in
 * whatever units; recalibration scales them with the spread. */
static void holds(tt_output output, int recalibrate, double of_sd)
{
  enum { N = 99 };
  const double level[] = {0.5, 0.9}, unit = 7.0;
  double y[N], quantity[N * 3], sd[N];
  tt_model m = model_of(output, 3);
  tt_calibration k;
  TT_CHECK_OK(tt_calibration_create(m.quantities, 2, level, &k));
  for (uint32_t i = 0; i < N; i++) {
    tt_random4 u = tt_random(9, 1, TT_PURPOSE_INIT, 0, i);
    y[i] = (double)tt_uniform(u.v[0]);
    sd[i] = of_sd * (0.5 + (double)tt_uniform(u.v[1]));
    for (int j = 0; j < m.quantities; j++)
      quantity[i * (uint32_t)m.quantities + (uint32_t)j] = 0.2 + 0.3 * j;
  }
  tt_calibration_data v = {N, y, quantity, sd};
  TT_CHECK_OK(tt_calibration_fit(&k, &m, 0, recalibrate, &v));
  TT_CHECK(k.rows[0], ==, N);
  double std_scale = tt_calibration_std_scale(&k, 0);
  if (!recalibrate) TT_CHECK(std_scale, ==, 1.0);
  for (int l = 0; l < 2; l++) {
    int inside = 0;
    for (int i = 0; i < N; i++) {
      double low, high, q[3];
      for (int j = 0; j < m.quantities; j++) q[j] = quantity[i * m.quantities + j] * unit;
      tt_calibration_interval(&k, &m, l, 0, q, sd[i] * std_scale * unit, unit, &low, &high);
      inside += y[i] * unit >= low - 1e-9 && y[i] * unit <= high + 1e-9;
    }
    TT_CHECK(inside, ==, l ? 90 : 50);
  }
  tt_calibration_free(&k);
}

TT_TEST (intervals_hold_what_they_were_learnt_from) {
  for (int recalibrate = 0; recalibrate < 2; recalibrate++) {
    holds(TT_OUTPUT_mean_variance, recalibrate, 0.4);
    holds(TT_OUTPUT_mean, recalibrate, 0.4);
    holds(TT_OUTPUT_mean, recalibrate, 0.0); /* one member that says no variance */
  }
  holds(TT_OUTPUT_quantiles, 0, 0.0);
}
