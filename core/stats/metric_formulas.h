/* metric_formulas.h — the table of metrics on test rows, and their formulas for one row. */
#ifndef TT_METRIC_FORMULAS_H
#define TT_METRIC_FORMULAS_H
#include "core/model/model.h"

#include <float.h>
#include <math.h>

/* Sets of kinds of forecasts. */
#define TT_FORECAST_BIT(forecast_) (1u << TT_FORECAST_##forecast_)
#define TT_NUMERIC_FORECASTS                                                                       \
  (TT_FORECAST_BIT(gaussian) | TT_FORECAST_BIT(quantiles) | TT_FORECAST_BIT(poisson))
#define TT_CLASS_FORECASTS (TT_FORECAST_BIT(categorical) | TT_FORECAST_BIT(bernoulli))

/* One row is one metric. It sums `value` over test rows (m: tt_model, f: tt_forecast, y: label,
 * error: tt_forecast_error); `end` says how the metric follows: MEAN of the values, ROOT of their
 * mean, or BINS of confidence.
 * name, for which forecasts, units, value in one row, end, meaning and source. For quantiles, rmse
 * and mae use the level nearest to 0.5. */
#define TT_METRICS(X)                                                                              \
  X(rmse, TT_NUMERIC_FORECASTS, TARGET, error *error, ROOT, "root of the mean squared error")      \
  X(mae, TT_NUMERIC_FORECASTS, TARGET, fabs(error), MEAN, "mean absolute error")                   \
  X(nll, ~TT_FORECAST_BIT(quantiles), NONE, tt_forecast_nll(m, f, y), MEAN,                        \
    "mean negative log likelihood")                                                                \
  X(crps, TT_FORECAST_BIT(gaussian), TARGET, tt_forecast_crps(f, y), MEAN,                         \
    "continuous ranked probability score; Grimit et al. 2006")                                     \
  X(sharpness, TT_FORECAST_BIT(gaussian), TARGET, sqrt(f->variance), MEAN,                         \
    "mean predicted standard deviation; Gneiting et al. 2007")                                     \
  X(pinball, TT_FORECAST_BIT(quantiles), TARGET, tt_forecast_pinball(m, f, y), MEAN,               \
    "quantile loss, mean of the levels; Koenker & Bassett 1978")                                   \
  X(accuracy, TT_CLASS_FORECASTS, DIMENSIONLESS, tt_forecast_top_class(m, f, y).right, MEAN,       \
    "fraction of rows whose most probable class is right")                                         \
  X(brier, TT_CLASS_FORECASTS, DIMENSIONLESS, tt_forecast_brier(m, f, y), MEAN,                    \
    "squared error of the probabilities; Brier 1950")                                              \
  X(ece, TT_CLASS_FORECASTS, DIMENSIONLESS, 0.0, BINS,                                             \
    "expected calibration error, 15 bins; Guo et al. 2017")

typedef enum tt_metric {
#define X(name, ...) TT_METRIC_##name,
  TT_METRICS(X)
#undef X
      TT_METRIC_COUNT
} tt_metric;

/* Forecast of one target in one row. */
typedef struct tt_forecast {
  const double *quantity; /* [q] means of the quantities of output.h */
  double variance;        /* of quantity 0; unused for quantiles and classes */
  int64_t parts;          /* number of members of the mixture; 0: not a mixture */
  const double *share, *mean,
      *variances; /* [parts] weight, mean and variance of quantity 0 of each member */
} tt_forecast;

static const double tt_pi = 3.14159265358979323846;

/* E|X| of a normal X. */
static inline double tt_mean_distance(double mean, double variance)
{
  if (!(variance > 0.0)) return fabs(mean);
  double sd = sqrt(variance), z = mean / sd;
  return sd * sqrt(2.0 / tt_pi) * exp(-0.5 * z * z) + mean * erf(z / sqrt(2.0));
}

/* CRPS of N(y + error, variance); variance 0 is a point mass. Gneiting et al. 2005, eq. 5. */
static inline double tt_crps_gaussian(double error, double variance)
{
  return tt_mean_distance(error, variance) - sqrt(variance / tt_pi);
}

/* CRPS of the Gaussian with the mean and variance of the mixture. */
static inline double tt_crps_of_moments(int64_t n, const double *w, const double *mean,
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

/* CRPS of a mixture of Gaussians, closed form of Grimit, Gneiting, Berrocal & Johnson 2006, eq. 5;
 * with more than TT_CRPS_MAX_MEMBERS members of weight > 0, tt_crps_of_moments, because the work
 * grows with the square of their number. */
enum { TT_CRPS_MAX_MEMBERS = 128 };
static inline double tt_crps_mixture(int64_t n, const double *w, const double *mean,
                                     const double *variance, double y)
{
  int64_t used = 0;
  for (int64_t i = 0; i < n; i++) used += w[i] > 0.0;
  if (used > TT_CRPS_MAX_MEMBERS) return tt_crps_of_moments(n, w, mean, variance, y);
  double sum = 0.0, away = 0.0, between_members = 0.0;
  for (int64_t i = 0; i < n; i++) {
    if (w[i] <= 0.0) continue;
    double with = 0.5 * w[i] * tt_mean_distance(0.0, 2.0 * variance[i]);
    for (int64_t j = 0; j < i; j++)
      if (w[j] > 0.0) with += w[j] * tt_mean_distance(mean[i] - mean[j], variance[i] + variance[j]);
    sum += w[i];
    away += w[i] * tt_mean_distance(mean[i] - y, variance[i]);
    between_members += w[i] * with;
  }
  return away / sum - between_members / (sum * sum);
}

static inline double tt_forecast_crps(const tt_forecast *f, double y)
{
  return f->parts ? tt_crps_mixture(f->parts, f->share, f->mean, f->variances, y)
                  : tt_crps_gaussian(f->quantity[0] - y, f->variance);
}

static inline double tt_gaussian_nll(double error, double variance)
{
  return 0.5 * (log(2.0 * tt_pi * variance) + error * error / variance);
}

static inline double tt_log_poisson(double rate, double y)
{
  rate = rate > DBL_MIN ? rate : DBL_MIN;
  return y * log(rate) - rate - lgamma(y + 1.0);
}

/* Negative log likelihood of the mixture of Poisson distributions. */
static inline double tt_poisson_nll(const tt_forecast *f, double y)
{
  double most = -INFINITY, sum = 0.0, shares = 0.0;
  if (!f->parts) return -tt_log_poisson(f->quantity[0], y);
  for (int64_t i = 0; i < f->parts; i++)
    if (f->share[i] > 0.0) most = fmax(most, tt_log_poisson(f->mean[i], y));
  for (int64_t i = 0; i < f->parts; i++) {
    if (f->share[i] <= 0.0) continue;
    sum += f->share[i] * exp(tt_log_poisson(f->mean[i], y) - most);
    shares += f->share[i];
  }
  return -most - log(sum / shares);
}

/* A probability may be too small for single precision and so be 0: use FLT_MIN instead. */
static inline double tt_log_probability(double p)
{
  return log(p > (double)FLT_MIN ? p : (double)FLT_MIN);
}

static inline double tt_forecast_nll(const tt_model *m, const tt_forecast *f, double y)
{
  double p = f->quantity[0];
  switch (tt_output_forecast(m->output)) {
  case TT_FORECAST_categorical: return -tt_log_probability(f->quantity[(int32_t)y]);
  case TT_FORECAST_bernoulli:
    return -((y > 0.0 ? y * tt_log_probability(p) : 0.0) +
             (y < 1.0 ? (1.0 - y) * tt_log_probability(1.0 - p) : 0.0));
  case TT_FORECAST_poisson: return tt_poisson_nll(f, y);
  default: return f->variance > 0.0 ? tt_gaussian_nll(p - y, f->variance) : (double)NAN;
  }
}

/* Quantile loss of level j. */
static inline double tt_level_pinball(const tt_model *m, const tt_forecast *f, int32_t j, double y)
{
  double e = y - f->quantity[j], t = (double)m->level[j];
  return e < 0.0 ? (t - 1.0) * e : t * e;
}

static inline double tt_forecast_pinball(const tt_model *m, const tt_forecast *f, double y)
{
  double sum = 0.0;
  for (int32_t j = 0; j < m->levels; j++) sum += tt_level_pinball(m, f, j, y);
  return sum / m->levels;
}

/* The most probable class: its probability, and whether the label is this class. */
typedef struct tt_top_class {
  double confidence;
  int right;
} tt_top_class;

static inline tt_top_class tt_forecast_top_class(const tt_model *m, const tt_forecast *f, double y)
{
  const double *p = f->quantity;
  int32_t most = 0;
  if (tt_output_forecast(m->output) == TT_FORECAST_bernoulli)
    return (tt_top_class){p[0] >= 0.5 ? p[0] : 1.0 - p[0], (p[0] >= 0.5) == (y >= 0.5)};
  for (int32_t j = 1; j < m->levels; j++)
    if (p[j] > p[most]) most = j;
  return (tt_top_class){p[most], most == (int32_t)y};
}

static inline double tt_forecast_brier(const tt_model *m, const tt_forecast *f, double y)
{
  double sum = 0.0;
  if (tt_output_forecast(m->output) == TT_FORECAST_bernoulli)
    return (f->quantity[0] - y) * (f->quantity[0] - y);
  for (int32_t j = 0; j < m->levels; j++) {
    double away = f->quantity[j] - (j == (int32_t)y ? 1.0 : 0.0);
    sum += away * away;
  }
  return sum;
}
#endif
