/* calibration.h — what was learnt from validation rows about the spread of an ensemble's
 * predictions, and the intervals that follow. Floor 1. */
#ifndef TT_CALIBRATION_H
#define TT_CALIBRATION_H
#include "core/base/err.h"
#include "core/model/model.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Columns as in tt_trained_ensemble_columns; all zero: not calibrated. */
typedef struct tt_calibration {
  int64_t columns;
  double *std_scale; /* [C] factor on the standard deviations; 1 where not recalibrated */
  int64_t *rows;     /* [C] rows it was learnt from */
  int64_t levels;
  double *level; /* [levels] of conformal intervals, ascending */
  double *width; /* [levels][C] half widths in standard deviations; of quantiles how far the
                  * interval goes beyond its two levels, in units of the normalised target; INFINITY
                  * where there were too few rows */
} tt_calibration;

/* Spreads 1, widths infinite. Owner: the caller, tt_calibration_free (accepts a zeroed one).
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
} tt_calibration_data;

/* Learn the columns [first, first + q) of one target: the spread if `recalibrate`, then the widths.
 * Where the standard deviation is 0 the unit of the normalised target takes its place. Errors: MEM.
 */
tt_err tt_calibration_fit(tt_calibration *k, const tt_model *m, int64_t first, int recalibrate,
                          const tt_calibration_data *v);

/* Interval number `level` of a target whose first column is `column`, in any units.
 *   quantity  [q] predicted;  sd  recalibrated, of quantity 0
 *   unit      of the normalised target in these units */
void tt_calibration_interval(const tt_calibration *k, const tt_model *m, int64_t level,
                             int64_t column, const double *quantity, double sd, double unit,
                             double *low, double *high);
#ifdef __cplusplus
}
#endif
#endif
