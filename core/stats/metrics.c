/* metrics.c — see metrics.h. */
#include "core/stats/metrics.h"

#include <float.h>
#include <math.h>

const tt_metric_row tt_metric_table[TT_METRIC_COUNT] = {
#define X(name, forecasts, units, value, end, meaning)                                             \
  {#name, forecasts, TT_UNITS_##units, meaning},
    TT_METRICS(X)
#undef X
};

int tt_metric_fits(tt_metric metric, tt_output output)
{
  return (tt_metric_table[metric].forecasts >> tt_output_forecast(output) & 1u) != 0;
}

/* Layout of a tally: number of rows, sums over rows of weight * 1, error, error^2, label, label^2
 * (of label - reference), the weight of the rows whose forecast is not a point, one sum per metric,
 * then counters, which add up weights too. */
enum {
  ROWS,
  WEIGHT,
  ERRORS,
  SQUARES,
  LABELS,
  LABEL_SQUARES,
  DENSITY,
  SUMS,
  COUNTERS = SUMS + TT_METRIC_COUNT
};
/* Counters of one bin of ece; BIN is their number. */
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
  switch (tt_output_forecast(m->output)) {
  case TT_FORECAST_gaussian:
  case TT_FORECAST_poisson: return COUNTERS + TT_INTERVALS;
  case TT_FORECAST_quantiles: return COUNTERS + 2 * m->levels; /* rows below the level, its loss */
  case TT_FORECAST_categorical:
  case TT_FORECAST_bernoulli: return COUNTERS + TT_ECE_BINS * BIN;
  default: return COUNTERS;
  }
}

void tt_tally_add_error(double error, double weight, double *tally)
{
  if (!(weight > 0.0)) return;
  tally[ROWS] += 1.0;
  tally[WEIGHT] += weight;
  tally[ERRORS] += weight * error;
  tally[SQUARES] += weight * (error * error);
}

double tt_forecast_error(const tt_model *m, const tt_forecast *f, double y)
{
  if (tt_output_forecast(m->output) == TT_FORECAST_categorical)
    return tt_forecast_class_probability(m, f, y) - 1.0;
  return f->quantity[tt_model_point_quantity(m)] - y;
}

static void count_confidence(tt_top_class top, double weight, double *tally)
{
  int bin = top.confidence > 0.0 ? (int)ceil(top.confidence * TT_ECE_BINS) - 1 : 0; /* NaN: 0 */
  bin = bin < TT_ECE_BINS ? bin : TT_ECE_BINS - 1;
  double *counted = tally + COUNTERS + bin * BIN;
  counted[BIN_ROWS] += weight;
  counted[BIN_CONFIDENCE] += weight * top.confidence;
  counted[BIN_RIGHT] += weight * top.right;
}

/* A count y lies between the quantiles q and 1 - q if P(X <= y) >= q and P(X < y) < 1 - q. */
static void count_intervals_of_counts(const tt_forecast *f, double weight, double y, double *tally)
{
  double up_to = tt_forecast_count_cdf(f, y), below = tt_forecast_count_below(f, y);
  for (int i = 0; i < TT_INTERVALS; i++) {
    double q = 0.5 * (1.0 - tt_interval_level(i));
    tally[COUNTERS + i] += weight * (up_to >= q && below < 1.0 - q);
  }
}

/* Counters of calibration: rows inside intervals, below levels, in bins of confidence. */
static void count_calibration(const tt_model *m, const tt_forecast *f, double error, double y,
                              double weight, double *tally)
{
  switch (tt_output_forecast(m->output)) {
  case TT_FORECAST_gaussian:
    if (f->latent) error = f->latent->forecast.quantity[0] - f->latent->label;
    for (int i = 0; i < TT_INTERVALS; i++)
      tally[COUNTERS + i] +=
          weight * (fabs(error) <= half_width[i] * sqrt(tt_forecast_gaussian(f)->variance));
    return;
  case TT_FORECAST_poisson: count_intervals_of_counts(f, weight, y, tally); return;
  case TT_FORECAST_quantiles:
    for (int32_t j = 0; j < m->levels; j++) {
      tally[COUNTERS + j] += weight * (y <= f->quantity[j]);
      tally[COUNTERS + m->levels + j] += weight * tt_level_pinball(m, f, j, y);
    }
    return;
  case TT_FORECAST_categorical:
  case TT_FORECAST_bernoulli:
    count_confidence(tt_forecast_top_class(m, f, y), weight, tally);
    return;
  default: return;
  }
}

/* Whether a row with this forecast counts for a metric. */
#define COUNTS_MEAN(point_) 1
#define COUNTS_ROOT(point_) 1
#define COUNTS_R2(point_) 1
#define COUNTS_BINS(point_) 1
#define COUNTS_DENSITY(point_) (!(point_))
#define COUNTS_DENSITY_ROOT(point_) (!(point_))

void tt_tally_add(const tt_model *m, const tt_forecast *f, double y, double weight, double *tally)
{
  double error = tt_forecast_error(m, f, y), label = y - f->reference;
  int point = tt_forecast_is_point(m, f);
  if (!(weight > 0.0)) return;
  if (fabs(label) < 4.0 * DBL_EPSILON * fabs(y)) label = 0.0; /* rounding, or none */
  tt_tally_add_error(error, weight, tally);
  tally[LABELS] += weight * label;
  tally[LABEL_SQUARES] += weight * (label * label);
  if (!point) tally[DENSITY] += weight;
#define X(name, forecasts, units, value, end, meaning)                                             \
  if (COUNTS_##end(point) && tt_metric_fits(TT_METRIC_##name, m->output))                          \
    tally[SUMS + TT_METRIC_##name] += weight * (value);
  TT_METRICS(X)
#undef X
  count_calibration(m, f, error, y, weight, tally);
}

static double ratio(double sum, double weight) { return weight > 0.0 ? sum / weight : (double)NAN; }

static double mean_of(const double *tally, double sum) { return ratio(sum, tally[WEIGHT]); }

double tt_tally_rows(const double *tally) { return tally[ROWS]; }
double tt_tally_weight(const double *tally) { return tally[WEIGHT]; }

static double calibration_error(const double *tally)
{
  double sum = 0.0;
  for (int i = 0; i < TT_ECE_BINS; i++)
    sum += fabs(tally[COUNTERS + i * BIN + BIN_CONFIDENCE] - tally[COUNTERS + i * BIN + BIN_RIGHT]);
  return mean_of(tally, sum);
}

/* 1 - squared errors / squared distances of the labels from their mean; NaN for equal labels: if
 * the distances are not above the rounding of the sums. */
static double determination(const double *tally, double squares)
{
  double labels = tally[LABEL_SQUARES] - tally[LABELS] * mean_of(tally, tally[LABELS]);
  double rounding = 4.0 * DBL_EPSILON * (tally[ROWS] + 1.0) * tally[LABEL_SQUARES];
  return labels > rounding ? 1.0 - squares / labels : (double)NAN;
}

#define END_MEAN(tally_, sum_) mean_of(tally_, sum_)
#define END_ROOT(tally_, sum_) sqrt(mean_of(tally_, sum_))
#define END_DENSITY(tally_, sum_) ratio(sum_, (tally_)[DENSITY])
#define END_DENSITY_ROOT(tally_, sum_) sqrt(ratio(sum_, (tally_)[DENSITY]))
#define END_R2(tally_, sum_) determination(tally_, sum_)
#define END_BINS(tally_, sum_) calibration_error(tally_)

double tt_tally_metric(const tt_model *m, const double *tally, tt_metric metric)
{
  if (!tt_metric_fits(metric, m->output)) return NAN;
  switch (metric) {
#define X(name, forecasts, units, value, end, meaning)                                             \
  case TT_METRIC_##name: return END_##end(tally, tally[SUMS + TT_METRIC_##name]);
    TT_METRICS(X)
#undef X
  default: return NAN;
  }
}

double tt_tally_coverage(const tt_model *m, const double *tally, int i)
{
  if (TT_DENSITY_FORECASTS >> tt_output_forecast(m->output) & 1u)
    return mean_of(tally, tally[COUNTERS + i]);
  if (!tt_model_has_quantiles(m)) return NAN;
  int32_t low = tt_model_find_level(m, 0.5 * (1.0 - tt_interval_level(i)));
  int32_t high = tt_model_find_level(m, 0.5 * (1.0 + tt_interval_level(i)));
  if (low < 0 || high < 0) return NAN;
  return mean_of(tally, tally[COUNTERS + high] - tally[COUNTERS + low]);
}

double tt_tally_pinball(const tt_model *m, const double *tally, int32_t j)
{
  if (!tt_model_has_quantiles(m)) return NAN;
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
  static const char *const text[] = {
#define X(name, condition, text) text,
      TT_LABEL_TYPES(X)
#undef X
  };
  tt_label_type type = tt_output_labels(m->output);
  if (want) *want = text[type];
  return tt_label_fits(type, m->levels, y);
}
