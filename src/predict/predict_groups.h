/* predict_groups.h — rows of many groups (`by`), each predicted by the ensemble of its group. */
#ifndef TT_PREDICT_GROUPS_H
#define TT_PREDICT_GROUPS_H
#include "io/data/data.h"
#include "io/results/results.h"
#include "src/predict/row_predictor.h"

/* How far rows are outside the ranges of the training rows. */
typedef struct tt_extrapolation {
  int64_t outside;            /* number of rows with an input outside */
  double farthest;            /* the largest distance */
  int64_t far_row, far_input; /* its row and its input */
} tt_extrapolation;
/* Measure the rows x [rows][F] of a model, into distance[rows]; row[rows] are their numbers in the
 * file. Local. */
void tt_extrapolation_measure(tt_extrapolation *e, const tt_trained_ensemble *m, int64_t rows,
                              const int64_t *row, const float *x, double *distance);

typedef struct tt_group_rows {
  const char *file, *inputs;      /* for messages */
  const tt_trained_ensemble *all; /* with groups */
  const tt_engine_ops *ops;
  const tt_resources *use;
  const tt_prediction_shape *shape;
  tt_by_values by;   /* values in the rows of the file, on all ranks; the names only on rank 0 */
  int32_t *ensemble; /* [by.count] ensemble that predicts the rows of a value; -1: none */
  int8_t *own;       /* [by.count] 1: the value has an ensemble of its own; on rank 0 */
} tt_group_rows;

/* Collective. Find the ensemble of each row, and log how many rows have no ensemble of their own
 * group. Errors: DATA (no such column, a missing value), MEM. */
tt_err tt_group_rows_find(tt_comm *c, const tt_table_format *format, int64_t rows,
                          tt_group_rows *g);
void tt_group_rows_free(tt_group_rows *g);

/* Local. Predict rows [first, first + count); rows without an ensemble get NaN.
 *   raw  [count][D]
 *   b    has the arrays that the shape needs, for count rows; `first` and `row` are not changed
 * Errors: DATA (inputs that cannot be used), MEM. */
tt_err tt_group_rows_predict_local(const tt_group_rows *g, int64_t first, int64_t count,
                                   const double *raw, tt_extrapolation *far,
                                   tt_prediction_block *b);
#endif
