/* fit.h — normalizations fitted to the training rows; rows are distributed over the ranks.
 *
 * Sums are computed for blocks of rows of a fixed size and combined in the order of the blocks on
 * every rank: the result does not depend on the number of ranks. */
#ifndef TT_COLUMNS_FIT_H
#define TT_COLUMNS_FIT_H
#include "core/model/dataset.h"
#include "core/model/partition.h"
#include "mpi/comm.h"

enum { TT_FIT_BLOCK_ROWS = 1024 };

/* The values of this rank: whole blocks of rows. Everything is borrowed. */
typedef struct tt_fit_rows {
  const char *file, *dataset; /* for messages */
  const tt_columns *names;    /* or NULL */
  int64_t columns;
  int64_t blocks; /* of all ranks */
  tt_slice block; /* of this rank */
  int64_t first, count;
  const double *own;   /* [count][columns] in the user's units; NaN = missing */
  const int8_t *split; /* [all rows] tt_split */
} tt_fit_rows;

/* What is known of each column, as in tt_scaler: how it is normalized, and what a fit finds. */
typedef struct tt_fitted {
  const int8_t *by;              /* [columns] tt_normalize */
  double *lambda, *mean, *scale; /* [columns] */
  int keeps_lambda;              /* 1: lambda is given */
  int is_target;                 /* 1: if all labels are equal, predictions are their value */
} tt_fitted;

static inline tt_fitted tt_fitted_inputs(const tt_scaler *s)
{
  return (tt_fitted){s->x_normalize, s->x_lambda, s->x_mean, s->x_scale, 0, 0};
}
static inline tt_fitted tt_fitted_targets(const tt_scaler *s)
{
  return (tt_fitted){s->y_normalize, s->y_lambda, s->y_mean, s->y_scale, 0, 1};
}

/* Rows [*first, *first + *count) of this rank in block `block` of its own blocks. */
void tt_fit_block(const tt_fit_rows *r, int64_t block, int64_t *first, int64_t *count);

/* The transform of a column. */
static inline tt_transform tt_fit_transform(const tt_fitted *f, int64_t k)
{
  return tt_normalize_transform((tt_normalize)f->by[k]);
}

/* Collective. Fit all columns. Each value that is not NaN is accepted by the transform of its
 * column. Errors: DATA (values that cannot be normalized), MEM. */
tt_err tt_fit_scales(tt_comm *c, const tt_fit_rows *r, const tt_fitted *f);

/* Collective. The value that takes the place of a missing one in each column, by the tt_missing
 * missing[columns]; fill[k] is NaN for error. Errors: DATA (a column without a value), MEM. */
tt_err tt_fit_fills(tt_comm *c, const tt_fit_rows *r, const int8_t *missing, double *fill);

/* Parameter of yeo_johnson: the most probable one in [0, 2] for n values (Yeo & Johnson 2000,
 * section 3), by golden section to 1e-8; 1, the identity, if all values are equal. Local. */
double tt_fit_yeo_johnson(int64_t n, const double *v);
#endif
