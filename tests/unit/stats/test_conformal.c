/* test_conformal.c — coverage in finite samples, recalibration, and ranks computed by hand. */
#include "core/base/rng.h"
#include "core/stats/calibration.h"
#include "core/stats/conformal.h"
#include "tests/support/check.h"

#include <math.h>
#include <string.h>

TT_TEST (ranks_by_hand) {
  TT_CHECK(tt_conformal_rank(9, 0.9), ==, 9);
  TT_CHECK(tt_conformal_rank(10, 0.9), ==, 10);
  TT_CHECK(tt_conformal_rank(8, 0.9), ==, 0); /* too few scores: the interval is infinite */
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
  tt_conformal_score score[] = {{5.0, 0.3}, {1.0, 0.3}, {4.0, 0.3}, {2.0, 0.3}, {3.0, 0.3}};
  const double level[] = {0.5, 0.8, 0.9};
  double width[3];
  tt_conformal_widths(5, score, 3, level, width);
  TT_CHECK(width[0], ==, 3.0);
  TT_CHECK(width[1], ==, 5.0);
  TT_CHECK(isinf(width[2]), !=, 0);
  tt_conformal_widths(0, score, 1, level, width);
  TT_CHECK(isinf(width[0]), !=, 0);
}

/* A score of weight 2 is two scores; the new row has the mean weight: 0.5 of 7.2 is 3.6. */
TT_TEST (weights_shift_the_order_statistics) {
  tt_conformal_score score[] = {{5.0, 1.0}, {1.0, 1.0}, {4.0, 2.0}, {2.0, 1.0}, {3.0, 1.0}};
  const double level[] = {0.5, 0.6, 0.8, 0.9};
  double width[4];
  tt_conformal_widths(5, score, 4, level, width);
  TT_CHECK(width[0], ==, 4.0);      /* 1 + 1 + 1 < 3.6 <= 1 + 1 + 1 + 2 */
  TT_CHECK(width[1], ==, 4.0);      /* 4.32 */
  TT_CHECK(width[2], ==, 5.0);      /* 5.76 */
  TT_CHECK(isinf(width[3]), !=, 0); /* 6.48 > 6 */
}

TT_TEST (recalibration_counts_weights) {
  const double error[] = {1.0, -2.0, 0.5}, sd[] = {0.5, 1.0, 0.25}, weight[] = {1.0, 0.0, 3.0};
  const double twice[] = {1.0, 0.5, 0.5, 0.5}, of[] = {0.5, 0.25, 0.25, 0.25};
  double got = tt_recalibration_scale(3, error, sd, weight);
  TT_CHECK(fabs(got - tt_recalibration_scale(4, twice, of, NULL)), <=, 1e-15);
}

/* Errors whose standard deviation is hypot(factor sd, noise), in any units. */
static void draw_errors(uint32_t n, double factor, double noise, double unit, double *error,
                        double *sd)
{
  for (uint32_t i = 0; i < n; i++) {
    tt_random4 u = tt_random(3, 1, TT_PURPOSE_INIT, 0, i);
    double size = sqrt(-2.0 * log(1.0 - (double)tt_uniform(u.v[0])));
    double z = size * cos(6.283185307179586 * (double)tt_uniform(u.v[1]));
    sd[i] = unit * (0.2 + 2.0 * (double)tt_uniform(u.v[2]));
    error[i] = z * hypot(factor * sd[i], noise * unit);
  }
}

TT_TEST (noise_and_factor_of_known_errors_are_found) {
  enum { N = 20000 };
  static double error[N], sd[N], weight[N];
  static const struct {
    double factor, noise, unit;
  } row[] = {{1.0, 1.0, 1.0}, {3.0, 0.5, 1e-4}, {0.4, 0.7, 1e3}, {1.0, 5.0, 1.0}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    double factor, noise, wide, more;
    draw_errors(N, row[i].factor, row[i].noise, row[i].unit, error, sd);
    tt_noise_fit(N, 0, error, sd, NULL, &factor, &noise);
    TT_CHECK(fabs(noise / (row[i].noise * row[i].unit) - 1.0), <=, 0.03);
    if (i < 3) TT_CHECK(fabs(factor / row[i].factor - 1.0), <=, 0.05); /* else hidden by noise */
    tt_noise_fit(N, 100, error, sd, NULL, &wide, &more); /* of which 100 chose the epochs */
    TT_CHECK(fabs(wide / factor - 1.0 - sqrt(0.02)) + fabs(more / noise - wide / factor), <=,
             1e-12);
    for (int j = 0; j < N; j++) weight[j] = j < N / 2;
    for (int j = N / 2; j < N; j++) error[j] = 1e3 * row[i].unit; /* of weight 0 */
    tt_noise_fit(N, 0, error, sd, weight, &factor, &noise);
    TT_CHECK(fabs(noise / (row[i].noise * row[i].unit) - 1.0), <=, 0.04);
  }
}

/* Where rows say little the factor is 1 or near it. */
TT_TEST (few_rows_have_noise_alone) {
  double error[100], sd[100], factor, noise;
  draw_errors(TT_NOISE_ROWS - 1, 2.0, 1.0, 1.0, error, sd);
  tt_noise_fit(TT_NOISE_ROWS - 1, 0, error, sd, NULL, &factor, &noise);
  TT_CHECK(fabs(factor - 1.0), <=, 1e-12);
  TT_CHECK(noise, >, 1.0);
  draw_errors(100, 0.0, 100.0, 1.0, error, sd);
  tt_noise_fit(100, 0, error, sd, NULL, &factor, &noise);
  TT_CHECK(fabs(log(factor)), <=, 1.5);
  memset(sd, 0, sizeof sd); /* one member */
  tt_noise_fit(100, 0, error, sd, NULL, &factor, &noise);
  TT_CHECK(fabs(factor - 1.0), <=, 1e-3);
  memset(error, 0, sizeof error); /* the labels themselves */
  tt_noise_fit(100, 0, error, sd, NULL, &factor, &noise);
  TT_CHECK(factor == 1.0 && noise == 0.0, ==, 1);
  tt_noise_fit(0, 0, error, sd, NULL, &factor, &noise);
  TT_CHECK(factor == 1.0 && noise == 0.0, ==, 1);
}

/* For any distribution, the covered fraction is at least the level and at most 1 / (n + 1) more:
 * mean over many draws of n scores and one more. */
TT_TEST (the_next_value_is_covered_at_the_level) {
  enum { N = 20, DRAWS = 20000 };
  const double level = 0.9;
  int inside = 0;
  for (uint32_t d = 0; d < DRAWS; d++) {
    tt_conformal_score score[N + 1];
    double width;
    for (uint32_t i = 0; i <= N; i++) {
      double u = (double)tt_uniform(tt_random(7, d, TT_PURPOSE_INIT, 0, i).v[0]);
      score[i] = (tt_conformal_score){-log(1.0 - u), 1.0}; /* a distribution with a long tail */
    }
    tt_conformal_widths(N, score, 1, &level, &width);
    inside += score[N].value <= width;
  }
  double share = (double)inside / DRAWS; /* 19 / 21 is what the theory says */
  TT_CHECK(fabs(share - 19.0 / 21.0), <=, 0.007);
}

TT_TEST (recalibration_maximizes_the_likelihood) {
  const double error[] = {1.0, -2.0, 0.5, 3.0}, sd[] = {0.5, 1.0, 0.25, 1.0}, none[] = {0.0};
  double s = tt_recalibration_scale(4, error, sd, NULL), best = INFINITY, at = 0.0;
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
  TT_CHECK(tt_recalibration_scale(0, error, sd, NULL), ==, 1.0);
  TT_CHECK(tt_recalibration_scale(1, error, none, NULL), ==, 1.0);
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

/* Intervals computed from some rows contain exactly the fraction of these rows that follows from
 * the ranks, in any units; recalibration scales them with the standard deviation. */
static void holds(tt_output output, tt_recalibrate recalibrate, double of_sd)
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
  tt_calibration_data v = {N, y, quantity, sd, NULL, N};
  TT_CHECK_OK(tt_calibration_fit(&k, &m, 0, recalibrate, &v));
  TT_CHECK(k.rows[0], ==, N);
  double std_scale = tt_calibration_std_scale(&k, 0), noise = tt_calibration_noise(&k, 0);
  int lacks = output == TT_OUTPUT_mean && recalibrate != TT_RECALIBRATE_none;
  TT_CHECK(noise > 0.0, ==, lacks);
  if (!lacks && recalibrate != TT_RECALIBRATE_all) TT_CHECK(std_scale, ==, 1.0);
  for (int l = 0; l < 2; l++) {
    int inside = 0;
    for (int i = 0; i < N; i++) {
      double low, high, q[3];
      for (int j = 0; j < m.quantities; j++) q[j] = quantity[i * m.quantities + j] * unit;
      double fitted = hypot(sd[i] * std_scale, noise);
      tt_calibration_interval(&k, &m, l, 0, q, fitted * unit, unit, &low, &high);
      inside += y[i] * unit >= low - 1e-9 && y[i] * unit <= high + 1e-9;
    }
    TT_CHECK(inside, ==, l ? 90 : 50);
  }
  tt_calibration_free(&k);
}

TT_TEST (intervals_cover_the_rows_they_were_computed_from) {
  for (int i = 0; i < TT_RECALIBRATE_COUNT; i++) {
    tt_recalibrate recalibrate = (tt_recalibrate)i;
    holds(TT_OUTPUT_mean_variance, recalibrate, 0.4);
    holds(TT_OUTPUT_mean, recalibrate, 0.4);
    holds(TT_OUTPUT_mean, recalibrate, 0.0); /* one member that predicts no variance */
  }
  holds(TT_OUTPUT_quantiles, TT_RECALIBRATE_auto, 0.0);
}
