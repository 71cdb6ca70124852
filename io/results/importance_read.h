/* importance_read.h — the file of `tutti explain`, for reports. Local. */
#ifndef TT_IMPORTANCE_READ_H
#define TT_IMPORTANCE_READ_H
#include "core/base/err.h"

#include <stdint.h>

/* C columns, D inputs; as tt_importance. */
typedef struct tt_importance_table {
  int64_t columns, inputs, rows, repeats;
  char **metric, **input;                    /* [C] "rmse"; [D] names */
  double *permutation, *permutation_between; /* [C][D] */
} tt_importance_table;

/* Owner: the caller, tt_importance_table_free. Errors: NOINPUT, DATA, IO, MEM. */
tt_err tt_importance_table_read_local(const char *file, tt_importance_table *out);
void tt_importance_table_free(tt_importance_table *t);
#endif
