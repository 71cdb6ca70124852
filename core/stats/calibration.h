/* calibration.h — factors on predicted standard deviations, noise and conformal intervals, fitted
 * to rows that the members were not trained on. */
#ifndef TT_STATS_CALIBRATION_H
#define TT_STATS_CALIBRATION_H
#include "core/model/calibration.h"
#include "core/model/model.h"
TT_BEGIN_C

/* Factor on the standard deviation of a column, and its noise. */
double tt_calibration_std_scale(const tt_calibration *k, int64_t column);
double tt_calibration_noise(const tt_calibration *k, int64_t column);
/* 1 if the factor is not 1 or the noise is not 0. */
int tt_calibration_has_noise(const tt_calibration *k, int64_t column);

/* Whether the members predict a number without its noise: what `recalibrate: auto` is for. */
int tt_calibration_needs_noise(const tt_model *m);

/* Fit the variance (std_scale sd)^2 + noise^2 to errors of n rows: two coefficients of the highest
 * Gaussian likelihood, as in CLEAR (Azizi et al. 2025, arXiv 2507.08150), with a log-normal prior
 * on std_scale^2 (median 1, a factor of e^1.4 up or down is one standard deviation): where noise
 * hides the spread, the rows say nothing about its factor, and the spread has to grow far from the
 * training rows. With fewer than TT_NOISE_ROWS rows std_scale is 1, and only the noise is fitted.
 *
 * Rows that chose the best epochs have smaller errors than new ones. The coefficients are then
 * multiplied by 1 + sqrt(2 / chose), two standard errors of a standard deviation of `chose` rows,
 * with which the intervals of the sets of bench/studies/recipes.py hold (docs/uncertainty.md).
 *   weight  [n] sample weights, or NULL: all 1
 *   chose   number of rows that chose the epochs of a member; 0: others did
 * 1 and 0 without rows, or if all errors are 0 or one is not finite. */
enum { TT_NOISE_ROWS = 30 };
void tt_noise_fit(int64_t n, int64_t chose, const double *error, const double *sd,
                  const double *weight, double *std_scale, double *noise);

/* The rows to fit to, of one target, in units of the normalized target. q is the number of
 * quantities that a member predicts for a target. */
typedef struct tt_calibration_data {
  int64_t rows;
  const double *y;        /* [rows] labels */
  const double *quantity; /* [rows][q] */
  const double *sd;       /* [rows] standard deviation of quantity 0, not recalibrated */
  const double *weight;   /* [rows] sample weights, above 0; NULL: all 1 */
  int64_t chose;          /* as in tt_noise_fit */
} tt_calibration_data;

/* Fit the columns [first, first + q) of one target, which are its quantities. Where the members
 * predict no noise: noise and std_scale. Where they do: std_scale, with TT_RECALIBRATE_all only,
 * and multiplied as in tt_noise_fit. In both cases the widths of the intervals. A standard
 * deviation of 0 is replaced by 1, the unit of the normalized target. Errors: MEM. */
tt_err tt_calibration_fit(tt_calibration *k, const tt_model *m, int64_t first,
                          tt_recalibrate recalibrate, const tt_calibration_data *v);

/* Interval number `level` of a target whose first column is `column`, in any units.
 *   quantity  [q] predicted;  sd  recalibrated standard deviation of quantity 0
 *   unit      size of one unit of the normalized target, in the units of the caller */
void tt_calibration_interval(const tt_calibration *k, const tt_model *m, int64_t level,
                             int64_t column, const double *quantity, double sd, double unit,
                             double *low, double *high);
TT_END_C
#endif
