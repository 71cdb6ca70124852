/* workspace.h — means, standard deviations and their derivatives, one row at a time, in memory that
 * is allocated beforehand. Floor 5. */
#ifndef TT_WORKSPACE_H
#define TT_WORKSPACE_H
#include "src/api/model.h"
#include "src/predict/row_slopes.h"

/* Memory of one thread. */
typedef struct tt_row_scratch {
  const tutti_model *model; /* borrowed */
  double *block;            /* all arrays but slopes */
  /* From here to `moments`: NULL unless the model has the copies of its weights for single rows. */
  float *x, *scratch;    /* [F] normalized, [tt_single_row_scratch] */
  float *o, *d_o;        /* [O] outputs of a member, [O][F] their derivatives */
  double *out, *d_out;   /* `o` and `d_o` in double, the outputs of each target together */
  double *sums;          /* [4][C] of moments */
  tt_moments moments;    /* of the present trained ensemble */
  int64_t current;       /* its number */
  int64_t wanted;        /* derivatives are computed of this many outputs, from the first on */
  tt_row_slopes *slopes; /* [all.count], NULL: no derivatives */
} tt_row_scratch;

/*   derivatives  0: for tt_row_compute without derivatives
 * Owner: the caller, tt_row_scratch_free (accepts a zeroed one, and what create left after an
 * error). Errors: MEM. */
tt_err tt_row_scratch_create(const tutti_model *model, int derivatives, tt_row_scratch *out);
void tt_row_scratch_free(tt_row_scratch *r);

/* Compute the predictions of row number `row` of x [rows][D], whose values have been checked. Fills
 * mean, total, aleatoric, epistemic and their derivatives where they are not NULL in `out`. A model
 * without copies of its weights for single rows: only the derivatives. Allocates nothing. */
void tt_row_compute(tt_row_scratch *r, int64_t row, const double *x, const tutti_prediction *out);

struct tutti_workspace {
  const tutti_model *model;
  int threads;
  tt_row_scratch *per_thread; /* [threads] */
};
#endif
