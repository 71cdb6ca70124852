/* metrics.h — metrics of forecasts: sums over rows, and the metrics computed from them.
 *
 * A tally is an array of doubles for one forecaster (a member, or an ensemble) and one target;
 * tallies of different rows can be added. All values are in the user's units; rows count with their
 * sample weights, a row of weight 0 does not count. For an ensemble, metrics use the Gaussian with
 * the mean and variance of the mixture (Lakshminarayanan et al. 2017), except crps, mixture_nll and
 * all metrics of counts, which use the mixture itself; probabilities and quantiles are the means
 * over the members. */
#ifndef TT_METRICS_H
#define TT_METRICS_H
#include "core/base/err.h"
#include "core/stats/metric_formulas.h"
TT_BEGIN_C

/* NONE: the nll of a density has no unit, but it depends on the units of the target. */
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

/* Whether the metric is defined for this output. */
int tt_metric_fits(tt_metric metric, tt_output output);

/* Central intervals of 5, 10, ..., 95 %: the calibration curve. */
enum { TT_INTERVALS = 19, TT_ECE_BINS = 15 };
double tt_interval_level(int i); /* 0.05 (i + 1) */

/* Forecast - label; for classes, probability of the right class - 1. */
double tt_forecast_error(const tt_model *m, const tt_forecast *f, double y);

/* Number of doubles of a tally; they start at zero. The first TT_TALLY_ERRORS hold the sums of
 * errors. */
enum { TT_TALLY_ERRORS = 4 };
int64_t tt_tally_size(const tt_model *m);
void tt_tally_add_error(double error, double weight, double *tally);

/* Add one row with label y (not NaN, tt_label_is_valid) and sample weight `weight`. */
void tt_tally_add(const tt_model *m, const tt_forecast *f, double y, double weight, double *tally);

/* Results of a tally over all rows; NaN without rows, or if the metric is not defined for the
 * output. */
double tt_tally_rows(const double *tally);   /* of weight > 0 */
double tt_tally_weight(const double *tally); /* sum of their weights */
double tt_tally_metric(const tt_model *m, const double *tally, tt_metric metric);
/* Fraction of the weight of the rows inside central interval i: for counts between two quantiles of
 * the mixture, ends included; for quantiles only if both ends are levels. */
double tt_tally_coverage(const tt_model *m, const double *tally, int i);
/* Mean loss of level j; for quantiles. */
double tt_tally_pinball(const tt_model *m, const double *tally, int32_t j);
/* Mean, and population variance, of the errors. */
double tt_tally_error(const double *tally);
double tt_tally_error_variance(const double *tally);

/* Mean correlation of the errors e of two members, each pair weighted by member weights and
 * standard deviations: sum over i != j of w_i w_j cov_ij / sum over i != j of w_i w_j s_i s_j. w, s
 * [members] member weights, and standard deviations of the errors variance  of sum_i w_i e_i over
 * the rows NaN with fewer than two members of weight > 0. */
double tt_error_correlation(int64_t members, const double *w, const double *s, double variance);

/* Whether a label is valid for the output: a class number, a probability, a count (TT_LABEL_TYPES).
 * *want (want may be NULL) is the condition in words. */
int tt_label_is_valid(const tt_model *m, double y, const char **want);

TT_END_C
#endif
