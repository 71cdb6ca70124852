/* calibration.h — factors on predicted standard deviations and conformal intervals, fitted to
 * validation rows. */
#ifndef TT_CALIBRATION_H
#define TT_CALIBRATION_H
#include "core/base/err.h"
#include "core/model/model.h"
TT_BEGIN_C

/* Columns as in tt_trained_ensemble_columns; all zero: not calibrated. */
typedef struct tt_calibration {
  int64_t columns;
  double *std_scale; /* [C] factor on the standard deviations; 1 where not recalibrated */
  int64_t *rows;     /* [C] number of rows it was fitted to */
  int64_t levels;
  double *level; /* [levels] of conformal intervals, ascending */
  double *width; /* [levels][C] half widths in standard deviations; for quantiles the distance
                  * by which the interval exceeds its two levels, in units of the normalised
                  * target; INFINITY with too few rows */
} tt_calibration;

/* std_scale 1, widths infinite. Owner: the caller, tt_calibration_free (accepts a zeroed one).
 * Errors: MEM. */
tt_err tt_calibration_create(int64_t columns, int64_t levels, const double *level,
                             tt_calibration *out);
void tt_calibration_free(tt_calibration *k);

/* Factor on the standard deviation of a column. */
double tt_calibration_std_scale(const tt_calibration *k, int64_t column);

/* Validation rows of one target, normalised: label and predicted quantities of row r, and the
 * standard deviation of quantity 0 (before recalibration). */
typedef struct tt_calibration_data {
  int64_t rows;
  const double *y;        /* [rows] */
  const double *quantity; /* [rows][q] */
  const double *sd;       /* [rows] */
  const double *weight;   /* [rows] sample weights, above 0; NULL: all 1 */
} tt_calibration_data;

/* Fit the columns [first, first + q) of one target: std_scale if `recalibrate`, then the widths.
 * A standard deviation of 0 is replaced by 1, the unit of the normalised target. Errors: MEM. */
tt_err tt_calibration_fit(tt_calibration *k, const tt_model *m, int64_t first, int recalibrate,
                          const tt_calibration_data *v);

/* Interval number `level` of a target whose first column is `column`, in any units.
 *   quantity  [q] predicted;  sd  recalibrated standard deviation of quantity 0
 *   unit      size of one unit of the normalised target, in the units of the caller */
void tt_calibration_interval(const tt_calibration *k, const tt_model *m, int64_t level,
                             int64_t column, const double *quantity, double sd, double unit,
                             double *low, double *high);
TT_END_C
#endif
