/* calibration.h — factors on predicted standard deviations and conformal intervals, fitted to
 * validation rows. */
#ifndef TT_STATS_CALIBRATION_H
#define TT_STATS_CALIBRATION_H
#include "core/model/calibration.h"
#include "core/model/model.h"
TT_BEGIN_C

/* Factor on the standard deviation of a column. */
double tt_calibration_std_scale(const tt_calibration *k, int64_t column);

/* Validation rows of one target, normalized: label and predicted quantities of row r, and the
 * standard deviation of quantity 0 (before recalibration). */
typedef struct tt_calibration_data {
  int64_t rows;
  const double *y;        /* [rows] */
  const double *quantity; /* [rows][q] */
  const double *sd;       /* [rows] */
  const double *weight;   /* [rows] sample weights, above 0; NULL: all 1 */
} tt_calibration_data;

/* Fit the columns [first, first + q) of one target: std_scale if `recalibrate`, then the widths.
 * A standard deviation of 0 is replaced by 1, the unit of the normalized target. Errors: MEM. */
tt_err tt_calibration_fit(tt_calibration *k, const tt_model *m, int64_t first, int recalibrate,
                          const tt_calibration_data *v);

/* Interval number `level` of a target whose first column is `column`, in any units.
 *   quantity  [q] predicted;  sd  recalibrated standard deviation of quantity 0
 *   unit      size of one unit of the normalized target, in the units of the caller */
void tt_calibration_interval(const tt_calibration *k, const tt_model *m, int64_t level,
                             int64_t column, const double *quantity, double sd, double unit,
                             double *low, double *high);
TT_END_C
#endif
