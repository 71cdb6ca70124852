/* conformal.h — recalibration of standard deviations, and split conformal intervals, from rows that
 * were not used for training. */
#ifndef TT_CONFORMAL_H
#define TT_CONFORMAL_H
#include "core/base/err.h"

#include <stdint.h>
TT_BEGIN_C

/* Factor on standard deviations with the highest Gaussian likelihood: the root of the weighted mean
 * of error^2 / variance over n rows (closed form). 1 without rows, or if the factor is not a
 * positive finite number (rows of variance 0).
 *   weight  [n] sample weights, or NULL: all 1 */
double tt_recalibration_scale(int64_t n, const double *error, const double *sd,
                              const double *weight);

/* Rank (from 1) of the one of n sorted scores that bounds the next score with probability `level`:
 * ceil((n + 1) level); 0 if n is too small, then the bound is infinite. Vovk, Gammerman & Shafer
 * 2005; Lei, G'Sell, Rinaldo, Tibshirani & Wasserman 2018. */
int64_t tt_conformal_rank(int64_t n, double level);

/* Smallest number of rows with a finite bound. */
int64_t tt_conformal_min_rows(double level);

/* Score of one row and its sample weight, above 0. */
typedef struct tt_conformal_score {
  double value, weight;
} tt_conformal_score;

/* The bound for each of `levels` levels: width[levels]; sorts score[n]. The smallest score that,
 * with those below it, has at least the fraction `level` of the weight of the n rows and of one
 * more row, which gets their mean weight: with equal weights the score of tt_conformal_rank.
 * Weighted conformal prediction, Tibshirani, Barber, Candes & Ramdas 2019. */
void tt_conformal_widths(int64_t n, tt_conformal_score *score, int64_t levels, const double *level,
                         double *width);

/* Scores: |y - mean| / sd for a number (normalized residual); for quantiles the distance of y from
 * [low, high], negative inside: conformalised quantile regression, Romano, Patterson & Candes 2019.
 */
double tt_conformal_residual(double y, double mean, double sd);
double tt_conformal_outside(double y, double low, double high);
TT_END_C
#endif
