/* metrics.c — see metrics.h. */
#include "core/stats/metrics.h"

#include <float.h>
#include <math.h>
#include <string.h>

const tt_metric_row tt_metric_table[TT_METRIC_COUNT] = {
#define X(name, outputs, units, meaning) {#name, outputs, TT_UNITS_##units, meaning},
    TT_METRICS(X)
#undef X
};

int tt_metric_fits(tt_metric metric, tt_output output)
{
  return (tt_metric_table[metric].outputs >> output & 1u) != 0;
}

/* ---- Layout of a tally: rows, errors, their squares, one sum per metric, then counters --------
 */

enum { ROWS, ERRORS, SQUARES, SUMS, COUNTERS = SUMS + TT_METRIC_COUNT };
/* Counters of one bin of ece. */
enum { BIN_ROWS, BIN_CONFIDENCE, BIN_RIGHT, BIN };

/* Half widths of the intervals for a standard deviation of 1: the normal quantiles of
 * (1 + tt_interval_level(i)) / 2. */
static const double half_width[TT_INTERVALS] = {
    0.06270677794321383, 0.12566134685507413, 0.18911842627279238, 0.2533471031357998,
    0.31863936396437514, 0.3853204664075676,  0.4537621901698796,  0.5244005127080407,
    0.5977601260424784,  0.67448975019608174, 0.7554150263604693,  0.8416212335729144,
    0.9345892910734798,  1.0364333894937894,  1.1503493803760079,  1.2815515655446008,
    1.439531470938456,   1.6448536269514727,  1.9599639845400545};

double tt_interval_level(int i) { return (double)(i + 1) / 20.0; }

int64_t tt_tally_size(const tt_model *m)
{
  unsigned kind = 1u << m->output;
  if (kind & TT_GAUSSIAN_OUTPUTS) return COUNTERS + TT_INTERVALS;
  if (kind & TT_CLASS_OUTPUTS) return COUNTERS + TT_ECE_BINS * BIN;
  return COUNTERS + (m->output == TT_OUTPUT_quantiles ? 2 * m->levels : 0); /* below, loss */
}

/* ---- Scores of one row ------------------------------------------------------------------------
 */

static const double pi = 3.14159265358979323846;

static double gaussian_nll(double error, double variance)
{
  return 0.5 * (log(2.0 * pi * variance) + error * error / variance);
}

/* E|X| of a normal X. */
static double mean_distance(double mean, double variance)
{
  if (!(variance > 0.0)) return fabs(mean);
  double sd = sqrt(variance), z = mean / sd;
  return sd * sqrt(2.0 / pi) * exp(-0.5 * z * z) + mean * erf(z / sqrt(2.0));
}

double tt_crps_gaussian(double error, double variance)
{
  return mean_distance(error, variance) - sqrt(variance / pi);
}

/* The Gaussian with the moments of the mixture. */
static double crps_of_moments(int64_t n, const double *w, const double *mean,
                              const double *variance, double y)
{
  double sum = 0.0, first = 0.0, second = 0.0;
  for (int64_t i = 0; i < n; i++) {
    if (w[i] <= 0.0) continue;
    sum += w[i];
    first += w[i] * mean[i];
  }
  first /= sum;
  for (int64_t i = 0; i < n; i++)
    if (w[i] > 0.0) second += w[i] * (variance[i] + (mean[i] - first) * (mean[i] - first));
  return tt_crps_gaussian(first - y, second / sum);
}

double tt_crps_mixture(int64_t n, const double *w, const double *mean, const double *variance,
                       double y)
{
  int64_t used = 0;
  for (int64_t i = 0; i < n; i++) used += w[i] > 0.0;
  if (used > TT_CRPS_MAX_MEMBERS) return crps_of_moments(n, w, mean, variance, y);
  double sum = 0.0, away = 0.0, between_members = 0.0;
  for (int64_t i = 0; i < n; i++) {
    if (w[i] <= 0.0) continue;
    double with = 0.5 * w[i] * mean_distance(0.0, 2.0 * variance[i]);
    for (int64_t j = 0; j < i; j++)
      if (w[j] > 0.0) with += w[j] * mean_distance(mean[i] - mean[j], variance[i] + variance[j]);
    sum += w[i];
    away += w[i] * mean_distance(mean[i] - y, variance[i]);
    between_members += w[i] * with;
  }
  return away / sum - between_members / (sum * sum);
}

void tt_tally_add_error(double error, double *tally)
{
  tally[ROWS] += 1.0;
  tally[ERRORS] += error;
  tally[SQUARES] += error * error;
}

static void add_gaussian(const tt_forecast *f, double y, double *tally)
{
  double error = f->quantity[0] - y, sd = sqrt(f->variance);
  tally[SUMS + TT_METRIC_nll] += f->variance > 0.0 ? gaussian_nll(error, f->variance) : (double)NAN;
  tally[SUMS + TT_METRIC_sharpness] += sd;
  tally[SUMS + TT_METRIC_crps] +=
      f->parts ? tt_crps_mixture(f->parts, f->share, f->mean, f->variances, y)
               : tt_crps_gaussian(error, f->variance);
  for (int i = 0; i < TT_INTERVALS; i++) tally[COUNTERS + i] += fabs(error) <= half_width[i] * sd;
}

static double log_poisson(double rate, double y)
{
  rate = rate > DBL_MIN ? rate : DBL_MIN;
  return y * log(rate) - rate - lgamma(y + 1.0);
}

/* Of the mixture of Poisson distributions. */
static double poisson_nll(const tt_forecast *f, double y)
{
  double most = -INFINITY, sum = 0.0, shares = 0.0;
  if (!f->parts) return -log_poisson(f->quantity[0], y);
  for (int64_t i = 0; i < f->parts; i++)
    if (f->share[i] > 0.0) most = fmax(most, log_poisson(f->mean[i], y));
  for (int64_t i = 0; i < f->parts; i++) {
    if (f->share[i] <= 0.0) continue;
    sum += f->share[i] * exp(log_poisson(f->mean[i], y) - most);
    shares += f->share[i];
  }
  return -most - log(sum / shares);
}

/* The level nearest to one half. */
static int32_t median_level(const tt_model *m)
{
  int32_t best = 0;
  for (int32_t j = 1; j < m->levels; j++)
    if (fabsf(m->level[j] - 0.5f) < fabsf(m->level[best] - 0.5f)) best = j;
  return best;
}

double tt_forecast_error(const tt_model *m, const tt_forecast *f, double y)
{
  if (m->output == TT_OUTPUT_quantiles) return f->quantity[median_level(m)] - y;
  if (m->output == TT_OUTPUT_softmax) return f->quantity[(int32_t)y] - 1.0;
  return f->quantity[0] - y;
}

static void add_quantiles(const tt_model *m, const tt_forecast *f, double y, double *tally)
{
  double pinball = 0.0;
  for (int32_t j = 0; j < m->levels; j++) {
    double e = y - f->quantity[j], t = (double)m->level[j], loss = e < 0.0 ? (t - 1.0) * e : t * e;
    pinball += loss;
    tally[COUNTERS + j] += y <= f->quantity[j];
    tally[COUNTERS + m->levels + j] += loss;
  }
  tally[SUMS + TT_METRIC_pinball] += pinball / m->levels;
}

/* A probability of 0 in single precision is one too small for it. */
static double log_probability(double p) { return log(p > (double)FLT_MIN ? p : (double)FLT_MIN); }

static void add_class(double confidence, int right, double *tally)
{
  int bin = confidence > 0.0 ? (int)ceil(confidence * TT_ECE_BINS) - 1 : 0; /* NaN: 0 */
  bin = bin < TT_ECE_BINS ? bin : TT_ECE_BINS - 1;
  double *of = tally + COUNTERS + bin * BIN;
  of[BIN_ROWS] += 1.0;
  of[BIN_CONFIDENCE] += confidence;
  of[BIN_RIGHT] += right;
  tally[SUMS + TT_METRIC_accuracy] += right;
}

static void add_softmax(const tt_model *m, const tt_forecast *f, double y, double *tally)
{
  int32_t right = (int32_t)y, most = 0;
  double brier = 0.0;
  for (int32_t j = 0; j < m->levels; j++) {
    double away = f->quantity[j] - (j == right ? 1.0 : 0.0);
    brier += away * away;
    if (f->quantity[j] > f->quantity[most]) most = j;
  }
  tally[SUMS + TT_METRIC_nll] -= log_probability(f->quantity[right]);
  tally[SUMS + TT_METRIC_brier] += brier;
  add_class(f->quantity[most], most == right, tally);
}

static void add_sigmoid(const tt_forecast *f, double y, double *tally)
{
  double p = f->quantity[0];
  int message = p >= 0.5;
  tally[SUMS + TT_METRIC_nll] -= (y > 0.0 ? y * log_probability(p) : 0.0) +
                                 (y < 1.0 ? (1.0 - y) * log_probability(1.0 - p) : 0.0);
  tally[SUMS + TT_METRIC_brier] += (p - y) * (p - y);
  add_class(message ? p : 1.0 - p, message == (y >= 0.5), tally);
}

void tt_tally_add(const tt_model *m, const tt_forecast *f, double y, double *tally)
{
  double error = tt_forecast_error(m, f, y);
  tt_tally_add_error(error, tally);
  tally[SUMS + TT_METRIC_mae] += fabs(error);
  switch (m->output) {
  case TT_OUTPUT_quantiles: add_quantiles(m, f, y, tally); return;
  case TT_OUTPUT_softmax: add_softmax(m, f, y, tally); return;
  case TT_OUTPUT_sigmoid: add_sigmoid(f, y, tally); return;
  case TT_OUTPUT_rate: tally[SUMS + TT_METRIC_nll] += poisson_nll(f, y); return;
  default: add_gaussian(f, y, tally);
  }
}

/* ---- Conclusions ------------------------------------------------------------------------------
 */

static double mean_of(const double *tally, double sum)
{
  return tally[ROWS] > 0.0 ? sum / tally[ROWS] : (double)NAN;
}

double tt_tally_rows(const double *tally) { return tally[ROWS]; }

static double calibration_error(const double *tally)
{
  double sum = 0.0;
  for (int i = 0; i < TT_ECE_BINS; i++)
    sum += fabs(tally[COUNTERS + i * BIN + BIN_CONFIDENCE] - tally[COUNTERS + i * BIN + BIN_RIGHT]);
  return mean_of(tally, sum);
}

double tt_tally_metric(const tt_model *m, const double *tally, tt_metric metric)
{
  if (!tt_metric_fits(metric, m->output)) return NAN;
  if (metric == TT_METRIC_rmse) return sqrt(mean_of(tally, tally[SQUARES]));
  if (metric == TT_METRIC_ece) return calibration_error(tally);
  return mean_of(tally, tally[SUMS + metric]);
}

static int32_t find_level(const tt_model *m, double level)
{
  for (int32_t j = 0; j < m->levels; j++)
    if (fabs((double)m->level[j] - level) < 1e-6) return j;
  return -1;
}

double tt_tally_coverage(const tt_model *m, const double *tally, int i)
{
  if (1u << m->output & TT_GAUSSIAN_OUTPUTS) return mean_of(tally, tally[COUNTERS + i]);
  if (m->output != TT_OUTPUT_quantiles) return NAN;
  int32_t low = find_level(m, 0.5 * (1.0 - tt_interval_level(i)));
  int32_t high = find_level(m, 0.5 * (1.0 + tt_interval_level(i)));
  if (low < 0 || high < 0) return NAN;
  return mean_of(tally, tally[COUNTERS + high] - tally[COUNTERS + low]);
}

double tt_tally_pinball(const tt_model *m, const double *tally, int32_t j)
{
  if (m->output != TT_OUTPUT_quantiles) return NAN;
  return mean_of(tally, tally[COUNTERS + m->levels + j]);
}

double tt_tally_error(const double *tally) { return mean_of(tally, tally[ERRORS]); }

double tt_tally_error_variance(const double *tally)
{
  double mean = tt_tally_error(tally), v = mean_of(tally, tally[SQUARES]) - mean * mean;
  return v < 0.0 ? 0.0 : v;
}

double tt_error_correlation(int64_t members, const double *w, const double *s, double variance)
{
  double own = 0.0, all = 0.0;
  int64_t used = 0;
  for (int64_t i = 0; i < members; i++) {
    if (w[i] <= 0.0) continue;
    used++;
    own += w[i] * s[i] * w[i] * s[i];
    all += w[i] * s[i];
  }
  return used < 2 ? (double)NAN : (variance - own) / (all * all - own);
}

int tt_label_is_valid(const tt_model *m, double y, const char **want)
{
  const char *message = NULL;
  if (m->output == TT_OUTPUT_softmax && !(y >= 0.0 && y < m->levels && y == floor(y)))
    message = "a whole number from 0 to the number of classes - 1";
  if (m->output == TT_OUTPUT_sigmoid && !(y >= 0.0 && y <= 1.0)) message = "a number from 0 to 1";
  if (m->output == TT_OUTPUT_rate && !(y >= 0.0)) message = "a number of at least 0";
  if (want) *want = message;
  return message == NULL;
}
