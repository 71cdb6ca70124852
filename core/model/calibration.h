/* calibration.h — factors on predicted standard deviations, the noise that the members do not
 * predict, and widths of conformal intervals; core/stats/calibration.h fits them to rows that the
 * members were not trained on. */
#ifndef TT_CALIBRATION_H
#define TT_CALIBRATION_H
#include "core/base/err.h"

#include <stdint.h>
TT_BEGIN_C

/* Columns as in tt_trained_ensemble_columns; all zero: not calibrated. */
typedef struct tt_calibration {
  int64_t columns;
  double *std_scale; /* [C] factor on the standard deviations; 1 where not recalibrated */
  double *noise;     /* [C] standard deviation of the noise of the normalized target, in addition to
                      * what the members predict; 0: none */
  int64_t *rows;     /* [C] number of rows it was fitted to */
  int64_t levels;
  double *level; /* [levels] of conformal intervals, ascending */
  double *width; /* [levels][C] half widths in standard deviations; for quantiles the distance
                  * by which the interval exceeds its two levels, in units of the normalized
                  * target; INFINITY with too few rows */
} tt_calibration;

/* std_scale 1, noise 0, widths infinite. Owner: the caller, tt_calibration_free (accepts a zeroed
 * one). Errors: MEM. */
tt_err tt_calibration_create(int64_t columns, int64_t levels, const double *level,
                             tt_calibration *out);
void tt_calibration_free(tt_calibration *k);
TT_END_C
#endif
