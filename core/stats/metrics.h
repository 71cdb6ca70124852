/* metrics.h — how good forecasts are: sums over rows, and the scores that follow from them.
 * Floor 1.
 *
 * A tally is an array of doubles for one forecaster (a member, or an ensemble) and one target;
 * tallies of parts of the rows add up. Everything is in the user's units. The ensemble is scored as
 * one Gaussian with the mixture's mean and variance (Lakshminarayanan et al. 2017), but for crps
 * and the nll of counts, which are those of the mixture itself; probabilities and quantiles are the
 * means of the members'. */
#ifndef TT_METRICS_H
#define TT_METRICS_H
#include "core/base/err.h"
#include "core/stats/metric_formulas.h"
#ifdef __cplusplus
extern "C" {
#endif

/* None: nll of a density depends on the units of the target, but has none. */
typedef enum tt_metric_units {
  TT_UNITS_NONE,
  TT_UNITS_DIMENSIONLESS,
  TT_UNITS_TARGET
} tt_metric_units;
typedef struct tt_metric_row {
  const char *name;
  unsigned forecasts; /* set of TT_FORECAST_BIT */
  tt_metric_units units;
  const char *meaning;
} tt_metric_row;
extern const tt_metric_row tt_metric_table[TT_METRIC_COUNT];

/* Whether forecasts of this kind have the metric. */
int tt_metric_fits(tt_metric metric, tt_output output);

/* Central intervals of 5, 10, ..., 95 %: the calibration curve. */
enum { TT_INTERVALS = 19, TT_ECE_BINS = 15 };
double tt_interval_level(int i); /* 0.05 (i + 1) */

/* Forecast - label; of classes, probability of the right one - 1. */
double tt_forecast_error(const tt_model *m, const tt_forecast *f, double y);

/* Doubles of one tally, zero at first. Its first TT_TALLY_ERRORS are a tally of errors alone. */
enum { TT_TALLY_ERRORS = 3 };
int64_t tt_tally_size(const tt_model *m);
void tt_tally_add_error(double error, double *tally);

/* Add one row with label y (not NaN, tt_label_is_valid). */
void tt_tally_add(const tt_model *m, const tt_forecast *f, double y, double *tally);

/* From a tally over all rows; NaN without rows, or where forecasts of this kind have no such score.
 */
double tt_tally_rows(const double *tally);
double tt_tally_metric(const tt_model *m, const double *tally, tt_metric metric);
/* Share of rows inside central interval i; of quantiles only if both of its ends are levels. */
double tt_tally_coverage(const tt_model *m, const double *tally, int i);
/* Mean loss of the level of quantity j, of quantiles. */
double tt_tally_pinball(const tt_model *m, const double *tally, int32_t j);
/* Mean, and population variance, of the errors. */
double tt_tally_error(const double *tally);
double tt_tally_error_variance(const double *tally);

/* Mean correlation of the errors of two members, each pair weighted by shares and standard
 * deviations: sum over i != j of w_i w_j cov_ij / sum over i != j of w_i w_j s_i s_j. variance  of
 * sum_i w_i e_i over the rows w, s      [members] shares and standard deviations of the members'
 * errors NaN with fewer than two shares. */
double tt_error_correlation(int64_t members, const double *w, const double *s, double variance);

/* Whether a label can be one of these outputs: a whole number below the number of classes, a
 * probability, a count. `want` (may be NULL) says it to people. */
int tt_label_is_valid(const tt_model *m, double y, const char **want);

#ifdef __cplusplus
}
#endif
#endif
