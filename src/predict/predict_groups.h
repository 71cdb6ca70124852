/* predict_groups.h — rows of many groups (`by`), each predicted by the ensemble of its group. */
#ifndef TT_PREDICT_GROUPS_H
#define TT_PREDICT_GROUPS_H
#include "io/data/data.h"
#include "io/results/results.h"
#include "src/predict/row_predictor.h"

/* How far rows are outside the ranges of the training rows. */
typedef struct tt_extrapolation {
  int64_t outside, far_row, far_input; /* rows outside; row and input of the largest distance */
  double farthest;                     /* this distance */
} tt_extrapolation;
/* Measure rows x [rows][F] of a model; row[rows] are their numbers. Local. */
void tt_extrapolation_measure(tt_extrapolation *e, const tt_trained_ensemble *m, int64_t rows,
                              const int64_t *row, const float *x, double *distance);

typedef struct tt_group_rows {
  const char *file, *inputs;      /* for messages */
  const tt_trained_ensemble *all; /* with groups */
  const tt_engine_ops *ops;
  const tt_resources *use;
  const tt_prediction_shape *shape;
  tt_by_values by;   /* of the rows of the file, on all ranks; names on rank 0 alone */
  int32_t *ensemble; /* [by.count] of the values; -1: none */
  int8_t *own;       /* [by.count] 1: trained on the rows of the group alone */
} tt_group_rows;

/* Collective. Find the ensemble of each row, and log how many rows have none of their own. Errors:
 * DATA (no such column, a missing value), MEM. */
tt_err tt_group_rows_find(tt_comm *c, const tt_table_format *format, int64_t rows,
                          tt_group_rows *g);
void tt_group_rows_free(tt_group_rows *g);

/* Local. Predict rows [first, first + count): NaN without an ensemble.
 *   raw  [count][D]
 *   b    with the arrays that the shape needs, for count rows; filled but for first and row
 * Errors: DATA (inputs that cannot be used), MEM. */
tt_err tt_group_rows_predict_local(const tt_group_rows *g, int64_t first, int64_t count,
                                   const double *raw, tt_extrapolation *far,
                                   tt_prediction_block *b);
#endif
