/* test_metrics.c — metrics equal closed forms computed by hand or by numerical integration, and
 * keep laws: sums over parts of the rows add up, one member is its own mixture, member weights
 * count. */
#include "core/base/mem.h"
#include "core/base/rng.h"
#include "core/stats/metrics.h"
#include "tests/support/check.h"

#include <math.h>
#include <string.h>

static void near(double got, double want)
{
  TT_CHECK(fabs(got - want), <=, 1e-12 * (1.0 + fabs(want)));
}

static tt_model model_of(tt_output output, int32_t n)
{
  static const double level[] = {0.05, 0.25, 0.5, 0.75, 0.95};
  tt_model m;
  tt_model_shape shape = {.inputs = 1, .targets = 1, .output = output, .levels = n, .level = level};
  TT_CHECK_OK(tt_model_lay_out(&shape, &m));
  return m;
}

enum { ROOM = 256 };
typedef struct tally {
  double at[ROOM];
} tally;

static void add(const tt_model *m, tally *t, const double *quantity, double variance, double y)
{
  tt_forecast f = {.quantity = quantity, .variance = variance};
  TT_CHECK(tt_tally_size(m), <=, ROOM);
  tt_tally_add(m, &f, y, 1.0, t->at);
}

static double score(const tt_model *m, const tally *t, tt_metric k)
{
  return tt_tally_metric(m, t->at, k);
}

/* numbers */

TT_TEST (gaussian_scores_have_their_closed_forms) {
  const double mean[] = {1.0, 2.0, -3.0}, variance[] = {1.0, 4.0, 0.25}, y[] = {1.5, -1.0, -3.0};
  tt_model m = model_of(TT_OUTPUT_mean_variance, 0);
  tally t = {{0}};
  double squares = 0.0, nll = 0.0;
  for (int i = 0; i < 3; i++) {
    double e = mean[i] - y[i];
    add(&m, &t, &mean[i], variance[i], y[i]);
    squares += e * e;
    nll += 0.5 * log(2.0 * acos(-1.0) * variance[i]) + 0.5 * e * e / variance[i];
  }
  TT_CHECK(tt_tally_rows(t.at), ==, 3.0);
  near(score(&m, &t, TT_METRIC_rmse), sqrt(squares / 3.0));
  near(score(&m, &t, TT_METRIC_mae), (0.5 + 3.0) / 3.0);
  near(score(&m, &t, TT_METRIC_nll), nll / 3.0);
  near(score(&m, &t, TT_METRIC_sharpness), (1.0 + 2.0 + 0.5) / 3.0);
  near(tt_tally_error(t.at), (-0.5 + 3.0) / 3.0);
  near(tt_tally_error_variance(t.at), squares / 3.0 - 2.5 * 2.5 / 9.0);
  TT_CHECK(isnan(score(&m, &t, TT_METRIC_accuracy)), !=, 0);
  TT_CHECK(isnan(score(&m, &t, TT_METRIC_pinball)), !=, 0);
}

/* If the rows are at the quantiles of the prediction, the coverage of each interval is its level.
 */
TT_TEST (a_calibrated_prediction_has_a_straight_curve) {
  enum { N = 2000 };
  tt_model m = model_of(TT_OUTPUT_mean_variance, 0);
  tally t = {{0}};
  const double mean = 3.0;
  for (int i = 0; i < N; i++) {
    double p = (i + 0.5) / N, low = -10.0, high = 10.0;
    while (high - low > 1e-12) {
      double z = 0.5 * (low + high);
      if (0.5 * erfc(-z / sqrt(2.0)) < p)
        low = z;
      else
        high = z;
    }
    add(&m, &t, &mean, 4.0, 3.0 + 2.0 * low);
  }
  for (int i = 0; i < TT_INTERVALS; i++)
    TT_CHECK(fabs(tt_tally_coverage(&m, t.at, i) - tt_interval_level(i)), <=, 1.001 / N);
  TT_CHECK(tt_interval_level(17), ==, 0.9);
}

/* e_i = 0.5, -2, 1 with sd 1, 2, 0.5: each metric by hand. */
TT_TEST (errors_are_compared_with_labels_and_spreads) {
  const double mean[] = {1.5, -1.0, -2.0}, variance[] = {1.0, 4.0, 0.25}, y[] = {1.0, 1.0, -3.0};
  const double z95 = 1.6448536269514727;
  for (int shift = 0; shift < 2; shift++) { /* labels far from 0: squares must not cancel */
    tt_model m = model_of(TT_OUTPUT_mean_variance, 0);
    tally t = {{0}};
    for (int i = 0; i < 3; i++) {
      double prediction = mean[i] + 1e6 * shift;
      tt_forecast f = {
          .quantity = &prediction, .variance = variance[i], .reference = 1e6 * shift - 1.0};
      tt_tally_add(&m, &f, y[i] + 1e6 * shift, 1.0, t.at);
    }
    near(score(&m, &t, TT_METRIC_bias), (0.5 - 2.0 + 1.0) / 3.0);
    near(score(&m, &t, TT_METRIC_r2), 1.0 - (0.25 + 4.0 + 1.0) / (32.0 / 3.0));
    near(score(&m, &t, TT_METRIC_z_rms), sqrt((0.25 + 1.0 + 4.0) / 3.0));
    near(score(&m, &t, TT_METRIC_mixture_nll), score(&m, &t, TT_METRIC_nll));
    /* the label of the last row is below its interval */
    double want = (2.0 * z95 * 3.5 + 20.0 * (1.0 - 0.5 * z95)) / 3.0;
    TT_CHECK(fabs(score(&m, &t, TT_METRIC_interval_score) - want), <=, shift ? 1e-8 : 1e-12);
  }
}

/* r2 of `rows` labels that alternate between y - spread and y + spread, measured from `reference`,
 * with weights that are not round. */
static double r2_of(int rows, double y, double spread, double reference)
{
  tt_model m = model_of(TT_OUTPUT_mean_variance, 0);
  tally t = {{0}};
  const double mean = 1.0;
  for (int i = 0; i < rows; i++) {
    tt_forecast f = {.quantity = &mean, .variance = 1.0, .reference = reference};
    tt_tally_add(&m, &f, i % 2 ? y + spread : y - spread, 0.1 + 0.7 * (i % 3), t.at);
  }
  return score(&m, &t, TT_METRIC_r2);
}

/* Equal labels, also if they are rounded, have no variance that a forecast could explain; a small
 * variance counts. */
TT_TEST (r2_of_equal_labels_is_not_a_number) {
  const double y[] = {2.0, 0.1, 1.0 / 3.0, -1e9 / 7.0, 1e-30};
  for (int i = 0; i < 5; i++)
    for (int rows = 1; rows < 3000; rows += 499) {
      double ulp = fabs(y[i]) * 1.2e-16;
      TT_CHECK(isnan(r2_of(rows, y[i], 0.0, 0.0)), !=, 0);
      TT_CHECK(isnan(r2_of(rows, y[i], ulp, 0.9 * y[i])), !=, 0);
      TT_CHECK(isnan(r2_of(rows, y[i], ulp, y[i])), !=, 0);
      if (rows > 1) TT_CHECK(isnan(r2_of(rows, y[i], 1e-4 * fabs(y[i]), 0.0)), ==, 0);
    }
}

/* A single member with output mean has no density: its row counts for rmse, not for nll. NaN stays
 * NaN. */
TT_TEST (points_do_not_count_for_likelihoods) {
  const double mean = 1.0, lost = NAN;
  tt_model m = model_of(TT_OUTPUT_mean, 0);
  tally t = {{0}}, alone = {{0}};
  add(&m, &t, &mean, 4.0, 2.0);
  add(&m, &alone, &mean, 4.0, 2.0);
  add(&m, &t, &mean, 0.0, 4.0);
  near(score(&m, &t, TT_METRIC_nll), score(&m, &alone, TT_METRIC_nll));
  near(score(&m, &t, TT_METRIC_z_rms), 0.5);
  near(score(&m, &t, TT_METRIC_rmse), sqrt((1.0 + 9.0) / 2.0));
  near(score(&m, &t, TT_METRIC_crps), 0.5 * (score(&m, &alone, TT_METRIC_crps) + 3.0));
  add(&m, &t, &lost, NAN, 2.0);
  TT_CHECK(isnan(score(&m, &t, TT_METRIC_nll)), !=, 0);
}

/* A row of weight 3 is the row three times, a row of weight 0 is no row; only ratios matter. */
TT_TEST (weights_count_rows) {
  for (int output = 0; output < TT_OUTPUT_COUNT; output++) {
    tt_model m = model_of((tt_output)output, 3);
    tally once = {{0}}, often = {{0}};
    for (uint32_t i = 0; i < 50; i++) {
      tt_random4 r = tt_random(5, 1, TT_PURPOSE_INIT, (uint32_t)output, i);
      double p = (double)tt_uniform(r.v[0]), q[4] = {p, 0.4, 0.9, 0.5}, y = i % 3 ? 1.0 : 0.0;
      tt_forecast f = {.quantity = q, .variance = p * (1.0 - p)};
      for (uint32_t k = 0; k < i % 4; k++) tt_tally_add(&m, &f, y, 1.0, often.at);
      tt_tally_add(&m, &f, y, 0.5 * (double)(i % 4), once.at);
    }
    TT_CHECK(tt_tally_rows(once.at), ==, 37.0);
    near(tt_tally_weight(once.at), 0.5 * tt_tally_weight(often.at));
    for (int k = 0; k < TT_METRIC_COUNT; k++)
      if (!isnan(score(&m, &often, (tt_metric)k)))
        near(score(&m, &once, (tt_metric)k), score(&m, &often, (tt_metric)k));
    for (int i = 0; i < TT_INTERVALS; i++)
      if (!isnan(tt_tally_coverage(&m, often.at, i)))
        near(tt_tally_coverage(&m, once.at, i), tt_tally_coverage(&m, often.at, i));
  }
}

/* crps */

static double cdf(int n, const double *w, const double *mean, const double *variance, double y)
{
  double below = 0.0, all = 0.0;
  for (int i = 0; i < n; i++) {
    below += w[i] * 0.5 * erfc((mean[i] - y) / sqrt(2.0 * variance[i]));
    all += w[i];
  }
  return below / all;
}

TT_TEST (crps_is_the_integral_of_the_squared_distance) {
  const double w[] = {1.0, 2.0, 0.0, 0.5}, mean[] = {0.0, 1.5, 77.0, -2.0};
  const double variance[] = {1.0, 0.2, 1.0, 3.0};
  for (int k = 0; k < 4; k++) {
    double y = -3.0 + 2.1 * k, sum = 0.0, step = 1e-3;
    for (double x = -20.0 + 0.5 * step; x < 20.0; x += step) {
      double f = cdf(4, w, mean, variance, x) - (x >= y ? 1.0 : 0.0);
      sum += f * f * step;
    }
    TT_CHECK(fabs(tt_crps_mixture(4, w, mean, variance, y, NULL) - sum), <=, 1e-3);
    near(tt_crps_mixture(1, w, mean, variance, y, NULL), tt_crps_gaussian(-y, 1.0));
  }
}

TT_TEST (crps_uses_member_weights_and_points) {
  const double w[] = {1.0, 2.0, 0.0}, mean[] = {0.3, 1.5, 9.0}, variance[] = {0.5, 0.2, NAN};
  const double twice[] = {1.0, 1.0, 1.0}, means[] = {0.3, 1.5, 1.5}, variances[] = {0.5, 0.2, 0.2};
  const double none[] = {0.0, 0.0, 0.0};
  near(tt_crps_mixture(3, w, mean, variance, 0.7, NULL),
       tt_crps_mixture(3, twice, means, variances, 0.7, NULL));
  near(tt_crps_gaussian(-2.5, 0.0), 2.5); /* a point: the absolute error */
  /* points: mean |x - y| - mean distance of pairs / 2 */
  near(tt_crps_mixture(2, twice, means, none, 0.7, NULL), 0.5 * (0.4 + 0.8) - 0.25 * 1.2);
}

/* classes */

TT_TEST (class_scores_have_their_closed_forms) {
  const double p[3][4] = {{0.7, 0.2, 0.1, 0.9}, {0.1, 0.5, 0.4, 0.9}, {0.3, 0.3, 0.4, 0.9}};
  const double y[] = {0.0, 2.0, 2.0};
  tt_model m = model_of(TT_OUTPUT_softmax, 3);
  tally t = {{0}};
  for (int i = 0; i < 3; i++) add(&m, &t, p[i], 0.0, y[i]);
  near(score(&m, &t, TT_METRIC_accuracy), 2.0 / 3.0);
  near(score(&m, &t, TT_METRIC_nll), -(log(0.7) + 2.0 * log(0.4)) / 3.0);
  near(score(&m, &t, TT_METRIC_brier), (0.14 + 0.62 + 0.54) / 3.0);
  /* three bins of one row: 0.7 and 0.4 are right, 0.5 is wrong */
  near(score(&m, &t, TT_METRIC_ece), (0.3 + 0.5 + 0.6) / 3.0);
  TT_CHECK(isnan(score(&m, &t, TT_METRIC_rmse)), !=, 0);
}

TT_TEST (two_classes_by_softmax_and_by_sigmoid_agree) {
  tt_model two = model_of(TT_OUTPUT_softmax, 2), one = model_of(TT_OUTPUT_sigmoid, 0);
  tally a = {{0}}, b = {{0}};
  for (uint32_t i = 0; i < 100; i++) {
    tt_random4 r = tt_random(3, 1, TT_PURPOSE_INIT, 0, i);
    double p = (double)tt_uniform(r.v[0]), y = tt_uniform(r.v[1]) < 0.3f;
    const double q[3] = {1.0 - p, p, 0.0};
    add(&two, &a, q, 0.0, y);
    add(&one, &b, &p, p * (1.0 - p), y);
  }
  near(score(&two, &a, TT_METRIC_nll), score(&one, &b, TT_METRIC_nll));
  near(score(&two, &a, TT_METRIC_accuracy), score(&one, &b, TT_METRIC_accuracy));
  near(score(&two, &a, TT_METRIC_ece), score(&one, &b, TT_METRIC_ece));
  near(score(&two, &a, TT_METRIC_brier), 2.0 * score(&one, &b, TT_METRIC_brier));
  const double sure = 1.0;
  tally wrong = {{0}};
  add(&one, &wrong, &sure, 0.0, 0.0);
  TT_CHECK(isfinite(score(&one, &wrong, TT_METRIC_nll)), !=, 0);
}

TT_TEST (counts_are_scored_as_mixtures_of_poisson) {
  const double rate[] = {2.0, 5.0}, w[] = {1.0, 3.0}, spread[] = {2.0, 5.0}, mean = 4.25;
  tt_model m = model_of(TT_OUTPUT_rate, 0);
  tt_forecast f = {.quantity = &mean, .parts = 2, .share = w, .mean = rate, .variances = spread};
  tally t = {{0}}, alone = {{0}};
  tt_tally_add(&m, &f, 3.0, 1.0, t.at);
  double a = exp(-2.0) * 8.0 / 6.0, b = exp(-5.0) * 125.0 / 6.0;
  near(score(&m, &t, TT_METRIC_nll), -log(0.25 * a + 0.75 * b));
  near(score(&m, &t, TT_METRIC_rmse), 1.25);
  add(&m, &alone, &rate[1], 0.0, 3.0);
  near(score(&m, &alone, TT_METRIC_nll), -log(b));
}

/* Over all counts with their probabilities: at least the nominal fraction is inside an interval
 * between quantiles, PIT values have mean 1 / 2, the 90 % interval is that of the quantiles. */
TT_TEST (counts_are_calibrated_by_their_own_distribution) {
  const double rate[] = {2.0, 9.0}, w[] = {1.0, 3.0}, mean = 7.25;
  tt_model m = model_of(TT_OUTPUT_rate, 0);
  tt_forecast f = {.quantity = &mean, .variance = 16.4375, .parts = 2, .share = w, .mean = rate};
  tally t = {{0}};
  double pit = 0.0, score_90 = 0.0, inside = 0.0;
  f.variances = rate;
  for (int k = 0; k < 80; k++) {
    double p = exp(-tt_poisson_mixture_nll(2, w, rate, k));
    tt_tally_add(&m, &f, k, p, t.at);
    pit += p * tt_forecast_pit(&m, &f, k);
    inside += k >= 1 && k <= 14 ? p : 0.0; /* the quantiles 0.05 and 0.95 */
    score_90 += p * (13.0 + 20.0 * (k < 1 ? 1 - k : k > 14 ? k - 14 : 0));
  }
  near(pit, 0.5);
  near(tt_tally_coverage(&m, t.at, 17), inside);
  near(score(&m, &t, TT_METRIC_interval_score), score_90);
  near(score(&m, &t, TT_METRIC_z_rms), 1.0);
  for (int i = 0; i < TT_INTERVALS; i++)
    TT_CHECK(tt_tally_coverage(&m, t.at, i), >=, tt_interval_level(i));
}

/* A logit o of a sigmoid: ln(1 + e^-o) for the class, ln(1 + e^o) for the other one, where single
 * precision rounds the probability to 1 (o > 17) as elsewhere. */
TT_TEST (probabilities_near_one_keep_their_likelihood) {
  tt_model m = model_of(TT_OUTPUT_sigmoid, 0);
  for (int i = -80; i <= 80; i++) {
    float o = 1.05f * (float)i, p, variance;
    tally t = {{0}}, other = {{0}};
    tt_predict_sigmoid(0, 0.0f, &o, 1, &p, &variance, 1);
    double quantity = (double)p, x = (double)o;
    add(&m, &t, &quantity, (double)variance, 1.0);
    add(&m, &other, &quantity, (double)variance, 0.0);
    double want = log1p(exp(-fabs(x))) + (x < 0.0 ? -x : 0.0), wrong = want + x;
    TT_CHECK(fabs(score(&m, &t, TT_METRIC_nll) - want), <=, 1e-6 * (0.1 + want));
    TT_CHECK(fabs(score(&m, &other, TT_METRIC_nll) - wrong), <=, 1e-6 * (0.1 + wrong));
  }
}

/* PIT values are the distribution function of the mixture, z-scores use its moments. */
TT_TEST (transforms_of_labels) {
  const double mean = 0.5, w[] = {1.0, 1.0}, means[] = {0.0, 1.0}, variances[] = {1.0, 4.0};
  tt_model m = model_of(TT_OUTPUT_mean_variance, 0), q = model_of(TT_OUTPUT_quantiles, 3);
  tt_forecast f = {.quantity = &mean, .variance = 2.75, .parts = 2, .share = w, .mean = means};
  f.variances = variances;
  near(tt_forecast_pit(&m, &f, 2.0), 0.25 * (erfc(-2.0 / sqrt(2.0)) + erfc(-0.5 / sqrt(2.0))));
  near(tt_forecast_z(&m, &f, 2.0), 1.5 / sqrt(2.75));
  TT_CHECK(isnan(tt_forecast_pit(&q, &f, 2.0)), !=, 0);
  TT_CHECK(isnan(tt_forecast_z(&q, &f, 2.0)), !=, 0);
}

TT_TEST (quantiles_are_scored_by_the_pinball_loss) {
  const double q[] = {-2.0, -1.0, 0.0, 1.0, 2.0}, level[] = {0.05, 0.25, 0.5, 0.75, 0.95};
  const double y[] = {0.5, -1.5, 1.5, -9.0};
  tt_model m = model_of(TT_OUTPUT_quantiles, 5);
  tally t = {{0}};
  double want = 0.0;
  for (int i = 0; i < 4; i++) {
    add(&m, &t, q, 0.0, y[i]);
    for (int j = 0; j < 5; j++)
      want += fmax((double)(float)level[j] * (y[i] - q[j]),
                   ((double)(float)level[j] - 1.0) * (y[i] - q[j])) /
              20.0;
  }
  near(score(&m, &t, TT_METRIC_pinball), want);
  near(score(&m, &t, TT_METRIC_mae), (0.5 + 1.5 + 1.5 + 9.0) / 4.0);
  near(tt_tally_coverage(&m, t.at, 17), 3.0 / 4.0);        /* 90 %: levels 0.05, 0.95 */
  near(tt_tally_coverage(&m, t.at, 9), 1.0 / 4.0);         /* 50 %: levels 0.25, 0.75 */
  TT_CHECK(isnan(tt_tally_coverage(&m, t.at, 18)), !=, 0); /* no level 0.025 */
}

/* laws */

TT_TEST (sums_of_parts_add_up) {
  for (int output = 0; output < TT_OUTPUT_COUNT; output++) {
    tt_model m = model_of((tt_output)output, 3);
    tally all = {{0}}, part[2] = {{{0}}, {{0}}};
    for (uint32_t i = 0; i < 50; i++) {
      tt_random4 r = tt_random(1, 1, TT_PURPOSE_INIT, (uint32_t)output, i);
      double q[4] = {0.2, (double)tt_uniform(r.v[0]), 0.9, 0.5}, y = i % 3 ? 1.0 : 0.0;
      add(&m, &all, q, 0.3, y);
      add(&m, &part[i > 17], q, 0.3, y);
    }
    for (int64_t i = 0; i < tt_tally_size(&m); i++)
      if (!isnan(all.at[i])) /* the interval score of quantiles without the level 0.95 */
        near(part[0].at[i] + part[1].at[i], all.at[i]);
  }
}

TT_TEST (without_rows_there_are_no_metrics) {
  const tally t = {{0}};
  for (int output = 0; output < TT_OUTPUT_COUNT; output++) {
    tt_model m = model_of((tt_output)output, 3);
    for (int k = 0; k < TT_METRIC_COUNT; k++) TT_CHECK(isnan(score(&m, &t, (tt_metric)k)), !=, 0);
  }
}

/* Errors of three members, each the sum of a common part and an independent part. */
TT_TEST (diversity_is_the_correlation_of_the_errors) {
  enum { N = 400 };
  tt_model m = model_of(TT_OUTPUT_mean, 0);
  tally each[3] = {{{0}}, {{0}}, {{0}}}, sum = {{0}};
  double error[3][N], w[] = {1.0, 1.0, 1.0}, s[3], want = 0.0;
  for (uint32_t r = 0; r < N; r++) {
    tt_random4 u = tt_random(2, 2, TT_PURPOSE_INIT, 0, r);
    double total = 0.0;
    for (int i = 0; i < 3; i++) {
      error[i][r] = (double)tt_uniform(u.v[3]) + (double)tt_uniform(u.v[i]);
      total += error[i][r];
      add(&m, &each[i], &error[i][r], 0.0, 0.0);
    }
    add(&m, &sum, &total, 0.0, 0.0);
  }
  for (int i = 0; i < 3; i++) s[i] = sqrt(tt_tally_error_variance(each[i].at));
  double top = 0.0, bottom = 0.0;
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++) {
      double product = 0.0;
      for (int r = 0; r < N && i != j; r++) product += error[i][r] * error[j][r] / N;
      if (i == j) continue;
      top += product - tt_tally_error(each[i].at) * tt_tally_error(each[j].at);
      bottom += s[i] * s[j];
    }
  want = top / bottom;
  double got = tt_error_correlation(3, w, s, tt_tally_error_variance(sum.at));
  TT_CHECK(fabs(got - want), <=, 1e-9);
  TT_CHECK(fabs(got - 0.5), <=, 0.1);
  w[1] = w[2] = 0.0;
  TT_CHECK(isnan(tt_error_correlation(3, w, s, 1.0)), !=, 0);
}

TT_TEST (labels_must_fit_the_output) {
  const char *want = NULL;
  tt_model m = model_of(TT_OUTPUT_softmax, 3);
  TT_CHECK(tt_label_is_valid(&m, 2.0, &want), ==, 1);
  TT_CHECK(tt_label_is_valid(&m, 3.0, &want), ==, 0);
  TT_CHECK_HAS(want, "number of classes");
  TT_CHECK(tt_label_is_valid(&m, 0.5, NULL), ==, 0);
  m = model_of(TT_OUTPUT_sigmoid, 0);
  TT_CHECK(tt_label_is_valid(&m, 0.5, NULL), ==, 1);
  TT_CHECK(tt_label_is_valid(&m, 1.5, NULL), ==, 0);
  m = model_of(TT_OUTPUT_rate, 0);
  TT_CHECK(tt_label_is_valid(&m, -1.0, NULL), ==, 0);
  m = model_of(TT_OUTPUT_mean, 0);
  TT_CHECK(tt_label_is_valid(&m, -1e9, NULL), ==, 1);
}
