/* metric_formulas.h — the table of metrics on test rows, and their formulas for one row. */
#ifndef TT_METRIC_FORMULAS_H
#define TT_METRIC_FORMULAS_H
#include "core/formulas/loss.h"
#include "core/model/model.h"
#include "core/stats/mixture.h"

#include <math.h>

/* Sets of kinds of forecasts. */
#define TT_FORECAST_BIT(forecast_) (1u << TT_FORECAST_##forecast_)
#define TT_NUMERIC_FORECASTS                                                                       \
  (TT_FORECAST_BIT(gaussian) | TT_FORECAST_BIT(quantiles) | TT_FORECAST_BIT(poisson))
#define TT_DENSITY_FORECASTS (TT_FORECAST_BIT(gaussian) | TT_FORECAST_BIT(poisson))
#define TT_CLASS_FORECASTS (TT_FORECAST_BIT(categorical) | TT_FORECAST_BIT(bernoulli))

/* One row is one metric. It adds up weight * `value` over test rows (m: tt_model, f: tt_forecast,
 * y: label, error: tt_forecast_error), with the sample weights of the rows; `end` says how the
 * metric follows: MEAN of the values, ROOT of their mean, DENSITY and DENSITY_ROOT the same over
 * the rows whose forecast is not a point (tt_forecast_is_point), R2, or BINS of confidence. For
 * quantiles, rmse, mae, bias and r2 use the level nearest to 0.5.
 * name, for which forecasts, units, value in one row, end, meaning and source */
#define TT_METRICS(X)                                                                              \
  X(rmse, TT_NUMERIC_FORECASTS, TARGET, error *error, ROOT, "root of the mean squared error")      \
  X(mae, TT_NUMERIC_FORECASTS, TARGET, fabs(error), MEAN, "mean absolute error")                   \
  X(nll, ~TT_FORECAST_BIT(quantiles), NONE, tt_forecast_nll(m, f, y), DENSITY,                     \
    "mean negative log likelihood")                                                                \
  X(mixture_nll, TT_FORECAST_BIT(gaussian), NONE, tt_forecast_mixture_nll(f, y), DENSITY,          \
    "mean negative log likelihood of the mixture of Gaussians")                                    \
  X(crps, TT_FORECAST_BIT(gaussian), TARGET, tt_forecast_crps(f, y), MEAN,                         \
    "continuous ranked probability score; Grimit et al. 2006")                                     \
  X(sharpness, TT_FORECAST_BIT(gaussian), TARGET, sqrt(f->variance), MEAN,                         \
    "mean predicted standard deviation; Gneiting et al. 2007")                                     \
  X(z_rms, TT_DENSITY_FORECASTS, DIMENSIONLESS, tt_square(tt_forecast_z(m, f, y)), DENSITY_ROOT,   \
    "root mean square of (label - mean) / standard deviation")                                     \
  X(interval_score, TT_NUMERIC_FORECASTS, TARGET, tt_forecast_interval_score(m, f, y), MEAN,       \
    "score of the central 90 % interval; Winkler 1972, Gneiting & Raftery 2007")                   \
  X(bias, TT_NUMERIC_FORECASTS, TARGET, error, MEAN, "mean of forecast - label")                   \
  X(r2, TT_NUMERIC_FORECASTS, DIMENSIONLESS, error *error, R2,                                     \
    "coefficient of determination: 1 - sum of squared errors / that of the mean label")            \
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
  double variance;        /* of quantity 0, for a class p (1 - p); not for quantiles, softmax */
  int64_t parts;          /* number of members of the mixture; 0: not a mixture */
  const double *share, *mean,
      *variances;   /* [parts] weight, mean and variance of quantity 0 of each member */
  double *scratch;  /* [2][parts] */
  double reference; /* a number near the labels: r2 adds up squares of label - reference */
  const struct tt_latent *latent; /* if the target is transformed, else NULL */
} tt_forecast;

/* The same forecast of the transformed target t = f(y), where it is a mixture of Gaussians. What
 * does not depend on the units (intervals, probabilities) is computed there. */
typedef struct tt_latent {
  tt_forecast forecast; /* of t; its latent is NULL */
  double label;         /* f(y) */
  double log_slope;     /* ln of dt / dy at y: density of y = density of t * dt / dy */
  tt_transform by;
  double lambda;
} tt_latent;

/* The forecast and the label in the units where it is Gaussian. */
static inline const tt_forecast *tt_forecast_gaussian(const tt_forecast *f)
{
  return f->latent ? &f->latent->forecast : f;
}

static inline double tt_forecast_gaussian_label(const tt_forecast *f, double y)
{
  return f->latent ? f->latent->label : y;
}

static inline double tt_forecast_log_slope(const tt_forecast *f)
{
  return f->latent ? f->latent->log_slope : 0.0;
}

/* The mixture as arrays; a forecast that is not a mixture has one component. */
typedef struct tt_components {
  int64_t n;
  const double *w, *mean, *variance;
} tt_components;

static inline tt_components tt_forecast_components(const tt_forecast *f)
{
  static const double one = 1.0;
  if (f->parts) return (tt_components){f->parts, f->share, f->mean, f->variances};
  return (tt_components){1, &one, f->quantity, &f->variance};
}

static inline double tt_square(double x) { return x * x; }

/* 1 if a number is predicted without any variance, so that it has no density: one member alone
 * with output mean. */
static inline int tt_forecast_is_point(const tt_model *m, const tt_forecast *f)
{
  return tt_output_forecast(m->output) == TT_FORECAST_gaussian && f->variance == 0.0;
}

static inline double tt_forecast_crps(const tt_forecast *f, double y)
{
  if (f->latent && f->variance > 0.0) {
    tt_components t = tt_forecast_components(&f->latent->forecast);
    double most = 0.0;
    for (int64_t i = 0; i < t.n; i++)
      if (t.w[i] > 0.0) most = fmax(most, t.variance[i]);
    if (most > 0.0)
      return tt_crps_transformed_mixture(t.n, t.w, t.mean, t.variance, f->latent->by,
                                         f->latent->lambda, y);
  }
  return f->parts ? tt_crps_mixture(f->parts, f->share, f->mean, f->variances, y, f->scratch)
                  : tt_crps_gaussian(f->quantity[0] - y, f->variance);
}

static inline double tt_gaussian_nll(double error, double variance)
{
  static const double pi = 3.14159265358979323846;
  return 0.5 * (log(2.0 * pi * variance) + error * error / variance);
}

static inline double tt_forecast_mixture_nll(const tt_forecast *f, double y)
{
  tt_components c = tt_forecast_components(tt_forecast_gaussian(f));
  y = tt_forecast_gaussian_label(f, y);
  return tt_gaussian_mixture_nll(c.n, c.w, c.mean, c.variance, y) - tt_forecast_log_slope(f);
}

/* Of the class that label y names; NaN: it names none. */
static inline double tt_forecast_class_probability(const tt_model *m, const tt_forecast *f,
                                                   double y)
{
  int32_t right = tt_class_index((float)y, m->levels);
  return right < 0 ? (double)NAN : f->quantity[right];
}

static inline double tt_forecast_nll(const tt_model *m, const tt_forecast *f, double y)
{
  const tt_forecast *g = tt_forecast_gaussian(f);
  double p = f->quantity[0];
  tt_components c = tt_forecast_components(f);
  switch (tt_output_forecast(m->output)) {
  case TT_FORECAST_categorical: return -tt_log_probability(tt_forecast_class_probability(m, f, y));
  case TT_FORECAST_bernoulli: return tt_bernoulli_nll(p, f->variance, y);
  case TT_FORECAST_poisson: return tt_poisson_mixture_nll(c.n, c.w, c.mean, y);
  default:
    return tt_gaussian_nll(g->quantity[0] - tt_forecast_gaussian_label(f, y), g->variance) -
           tt_forecast_log_slope(f);
  }
}

/* (label - mean) / standard deviation, of a transformed target after the transform. NaN for a
 * point, quantiles and classes. */
static inline double tt_forecast_z(const tt_model *m, const tt_forecast *f, double y)
{
  if (!(TT_DENSITY_FORECASTS >> tt_output_forecast(m->output) & 1u) || f->variance == 0.0)
    return NAN;
  const tt_forecast *g = tt_forecast_gaussian(f);
  return (tt_forecast_gaussian_label(f, y) - g->quantity[0]) / sqrt(g->variance);
}

/* P(X <= y) and P(X < y) of a count; y may be a fraction. */
static inline double tt_forecast_count_cdf(const tt_forecast *f, double y)
{
  tt_components c = tt_forecast_components(f);
  return tt_poisson_mixture_cdf(c.n, c.w, c.mean, y);
}

static inline double tt_forecast_count_below(const tt_forecast *f, double y)
{
  return tt_forecast_count_cdf(f, ceil(y) - 1.0);
}

/* Probability integral transform: P(X <= y) of the mixture; for a count (P(X < y) + P(X <= y)) / 2.
 * NaN for quantiles and classes. */
static inline double tt_forecast_pit(const tt_model *m, const tt_forecast *f, double y)
{
  tt_components c = tt_forecast_components(tt_forecast_gaussian(f));
  switch (tt_output_forecast(m->output)) {
  case TT_FORECAST_gaussian:
    return tt_gaussian_mixture_cdf(c.n, c.w, c.mean, c.variance, tt_forecast_gaussian_label(f, y));
  case TT_FORECAST_poisson:
    return 0.5 * (tt_forecast_count_below(f, y) + tt_forecast_count_cdf(f, y));
  default: return NAN;
  }
}

/* Index of a level of model.quantiles; -1 if there is none. */
static inline int32_t tt_model_find_level(const tt_model *m, double level)
{
  for (int32_t j = 0; j < m->levels; j++)
    if (fabs((double)m->level[j] - level) < 1e-6) return j;
  return -1;
}

/* Width of the central 90 % interval, plus 20 times the distance of the label from it. NaN for
 * quantiles without the levels 0.05 and 0.95. */
static inline double tt_forecast_interval_score(const tt_model *m, const tt_forecast *f, double y)
{
  tt_components c = tt_forecast_components(f);
  const tt_forecast *g = tt_forecast_gaussian(f);
  double low = NAN, high = NAN, half = 1.6448536269514727 * sqrt(g->variance);
  int32_t below = tt_model_find_level(m, 0.05), above = tt_model_find_level(m, 0.95);
  switch (tt_output_forecast(m->output)) {
  case TT_FORECAST_poisson:
    low = tt_poisson_mixture_quantile(c.n, c.w, c.mean, 0.05);
    high = tt_poisson_mixture_quantile(c.n, c.w, c.mean, 0.95);
    break;
  case TT_FORECAST_quantiles:
    if (below >= 0 && above >= 0) low = f->quantity[below], high = f->quantity[above];
    break;
  default:
    low = g->quantity[0] - half, high = g->quantity[0] + half;
    if (!f->latent) break;
    low = tt_transform_undo(f->latent->by, f->latent->lambda, low);
    high = tt_transform_undo(f->latent->by, f->latent->lambda, high);
  }
  return high - low + 20.0 * (y < low ? low - y : y > high ? y - high : 0.0);
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
  return (tt_top_class){p[most], most == tt_class_index((float)y, m->levels)};
}

static inline double tt_forecast_brier(const tt_model *m, const tt_forecast *f, double y)
{
  double sum = 0.0;
  if (tt_output_forecast(m->output) == TT_FORECAST_bernoulli)
    return (f->quantity[0] - y) * (f->quantity[0] - y);
  int32_t right = tt_class_index((float)y, m->levels);
  for (int32_t j = 0; j < m->levels; j++) {
    double away = f->quantity[j] - (j == right ? 1.0 : 0.0);
    sum += away * away;
  }
  return sum;
}
#endif
