/* explain_internal.h — the parts of explain.c. */
#ifndef TT_EXPLAIN_INTERNAL_H
#define TT_EXPLAIN_INTERNAL_H
#include "core/engine/engine.h"
#include "io/results/importance.h"
#include "src/explain/explain.h"

/* The used rows, all of a weight above 0, the same on all ranks. T columns of the target table of
 * the model. */
typedef struct tt_explain_rows {
  const tt_net_inputs *net; /* of the model */
  int64_t rows, inputs, targets;
  float *x;       /* [rows][F] normalized */
  double *y;      /* [rows][T] NaN = unlabeled */
  double *weight; /* [rows] sample weights */
  int64_t *place; /* [rows] rows in ascending order, each about as often as its weight says; with
                   * equal weights 0, 1, 2, ... */
} tt_explain_rows;

/* Collective. Draw the rows and send them to all ranks. Owner: the caller, tt_explain_rows_free,
 * also after an error. Errors: of the file; USAGE (fewer than two rows), MEM. */
tt_err tt_explain_rows_read(tt_comm *c, tt_score_file *file, const tt_explain_options *o,
                            tt_explain_rows *out);
void tt_explain_rows_free(tt_explain_rows *r);

/* One trained ensemble of a model. */
typedef struct tt_explained {
  const tt_trained_ensemble *m;
  int64_t column; /* its first one in tt_importance */
  const tt_engine_ops *ops;
  const tt_resources *use;
} tt_explained;

/* Collective. Fill in error, metric and increases of one trained ensemble. */
tt_err tt_explain_permute(tt_comm *c, const tt_explained *own, const tt_explain_rows *rows,
                          const tt_explain_options *o, tt_importance *out);

/* Print the tables, or one JSON object. Local. Errors: MEM. */
tt_err tt_explain_print_local(const tt_trained_ensembles *all, const tt_importance *i, int json);
#endif
