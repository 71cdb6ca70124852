/* conformal.h — predictions whose spread is made right on rows nobody trained on: recalibration and
 * split conformal intervals. Floor 1. */
#ifndef TT_CONFORMAL_H
#define TT_CONFORMAL_H
#include "core/base/err.h"

#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Factor on standard deviations that makes a Gaussian most likely: the root of the mean of
 * error^2 / variance over n rows (maximum likelihood in closed form). 1 without rows, or where it
 * is not a positive number (rows of variance 0). */
double tt_recalibration_scale(int64_t n, const double *error, const double *sd);

/* Which of n sorted scores bounds the next one with probability `level`: ceil((n + 1) level), from
 * 1; 0 when n is too small, and the bound infinite. Vovk, Gammerman & Shafer 2005; Lei, G'Sell,
 * Rinaldo, Tibshirani & Wasserman 2018. */
int64_t tt_conformal_rank(int64_t n, double level);

/* Fewest rows with a finite bound. */
int64_t tt_conformal_min_rows(double level);

/* The bound for each of `levels` levels: width[levels]; sorts score[n]. */
void tt_conformal_widths(int64_t n, double *score, int64_t levels, const double *level,
                         double *width);

/* Scores: |y - mean| / sd of a number (normalised residual), and how far y lies outside of
 * [low, high], negative inside: conformalised quantile regression, Romano, Patterson & Candes 2019.
 */
double tt_conformal_residual(double y, double mean, double sd);
double tt_conformal_outside(double y, double low, double high);
#ifdef __cplusplus
}
#endif
#endif
