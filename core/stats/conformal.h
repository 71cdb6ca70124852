/* conformal.h — recalibration of standard deviations, and split conformal intervals, from rows that
 * were not used for training. */
#ifndef TT_CONFORMAL_H
#define TT_CONFORMAL_H
#include "core/base/err.h"

#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Factor on standard deviations with the highest Gaussian likelihood: the root of the mean of
 * error^2 / variance over n rows (closed form). 1 without rows, or if the factor is not a positive
 * finite number (rows of variance 0). */
double tt_recalibration_scale(int64_t n, const double *error, const double *sd);

/* Rank (from 1) of the one of n sorted scores that bounds the next score with probability `level`:
 * ceil((n + 1) level); 0 if n is too small, then the bound is infinite. Vovk, Gammerman & Shafer
 * 2005; Lei, G'Sell, Rinaldo, Tibshirani & Wasserman 2018. */
int64_t tt_conformal_rank(int64_t n, double level);

/* Smallest number of rows with a finite bound. */
int64_t tt_conformal_min_rows(double level);

/* The bound for each of `levels` levels: width[levels]; sorts score[n]. */
void tt_conformal_widths(int64_t n, double *score, int64_t levels, const double *level,
                         double *width);

/* Scores: |y - mean| / sd for a number (normalised residual); for quantiles the distance of y from
 * [low, high], negative inside: conformalised quantile regression, Romano, Patterson & Candes 2019.
 */
double tt_conformal_residual(double y, double mean, double sd);
double tt_conformal_outside(double y, double low, double high);
#ifdef __cplusplus
}
#endif
#endif
