/* metrics.c — see metrics.h. */
#include "core/stats/metrics.h"

#include <math.h>
#include <string.h>

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

/* Layout of a tally: rows, errors, their squares, one sum per metric, then counters. */

enum { ROWS, ERRORS, SQUARES, SUMS, COUNTERS = SUMS + TT_METRIC_COUNT };
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
  case TT_FORECAST_gaussian: return COUNTERS + TT_INTERVALS;
  case TT_FORECAST_quantiles: return COUNTERS + 2 * m->levels; /* rows below the level, its loss */
  case TT_FORECAST_categorical:
  case TT_FORECAST_bernoulli: return COUNTERS + TT_ECE_BINS * BIN;
  default: return COUNTERS;
  }
}

void tt_tally_add_error(double error, double *tally)
{
  tally[ROWS] += 1.0;
  tally[ERRORS] += error;
  tally[SQUARES] += error * error;
}

double tt_forecast_error(const tt_model *m, const tt_forecast *f, double y)
{
  if (tt_output_forecast(m->output) == TT_FORECAST_categorical)
    return f->quantity[(int32_t)y] - 1.0;
  return f->quantity[tt_model_point_quantity(m)] - y;
}

static void count_confidence(tt_top_class top, double *tally)
{
  int bin = top.confidence > 0.0 ? (int)ceil(top.confidence * TT_ECE_BINS) - 1 : 0; /* NaN: 0 */
  bin = bin < TT_ECE_BINS ? bin : TT_ECE_BINS - 1;
  double *of = tally + COUNTERS + bin * BIN;
  of[BIN_ROWS] += 1.0;
  of[BIN_CONFIDENCE] += top.confidence;
  of[BIN_RIGHT] += top.right;
}

/* Counters of calibration: rows inside intervals, below levels, in bins of confidence. */
static void count_calibration(const tt_model *m, const tt_forecast *f, double error, double y,
                              double *tally)
{
  switch (tt_output_forecast(m->output)) {
  case TT_FORECAST_gaussian:
    for (int i = 0; i < TT_INTERVALS; i++)
      tally[COUNTERS + i] += fabs(error) <= half_width[i] * sqrt(f->variance);
    return;
  case TT_FORECAST_quantiles:
    for (int32_t j = 0; j < m->levels; j++) {
      tally[COUNTERS + j] += y <= f->quantity[j];
      tally[COUNTERS + m->levels + j] += tt_level_pinball(m, f, j, y);
    }
    return;
  case TT_FORECAST_categorical:
  case TT_FORECAST_bernoulli: count_confidence(tt_forecast_top_class(m, f, y), tally); return;
  default: return;
  }
}

void tt_tally_add(const tt_model *m, const tt_forecast *f, double y, double *tally)
{
  double error = tt_forecast_error(m, f, y);
  tt_tally_add_error(error, tally);
#define X(name, forecasts, units, value, end, meaning)                                             \
  if (tt_metric_fits(TT_METRIC_##name, m->output)) tally[SUMS + TT_METRIC_##name] += (value);
  TT_METRICS(X)
#undef X
  count_calibration(m, f, error, y, tally);
}

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

#define END_MEAN(tally_, metric_) mean_of(tally_, tally_[SUMS + (metric_)])
#define END_ROOT(tally_, metric_) sqrt(END_MEAN(tally_, metric_))
#define END_BINS(tally_, metric_) calibration_error(tally_)

double tt_tally_metric(const tt_model *m, const double *tally, tt_metric metric)
{
  if (!tt_metric_fits(metric, m->output)) return NAN;
  switch (metric) {
#define X(name, forecasts, units, value, end, meaning)                                             \
  case TT_METRIC_##name: return END_##end(tally, metric);
    TT_METRICS(X)
#undef X
  default: return NAN;
  }
}

static int32_t find_level(const tt_model *m, double level)
{
  for (int32_t j = 0; j < m->levels; j++)
    if (fabs((double)m->level[j] - level) < 1e-6) return j;
  return -1;
}

double tt_tally_coverage(const tt_model *m, const double *tally, int i)
{
  if (tt_output_forecast(m->output) == TT_FORECAST_gaussian)
    return mean_of(tally, tally[COUNTERS + i]);
  if (!tt_model_has_quantiles(m)) return NAN;
  int32_t low = find_level(m, 0.5 * (1.0 - tt_interval_level(i)));
  int32_t high = find_level(m, 0.5 * (1.0 + tt_interval_level(i)));
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
