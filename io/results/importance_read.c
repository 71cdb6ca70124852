/* importance_read.c — see importance_read.h. */
#include "io/results/importance_read.h"

#include "core/base/mem.h"
#include "io/hdf5/schema.h"

static tt_err read_cells(tt_h5_reader *r, const char *name, tt_importance_table *t, double **out)
{
  int64_t size[2] = {t->columns, t->inputs};
  return tt_schema_read_array_local(r, name, TT_H5_F64, 2, size, out);
}

static tt_err read_all(tt_h5_reader *r, tt_importance_table *t)
{
  int64_t size[2] = {-1, -1};
  TT_TRY(tt_schema_check_local(r, TT_SCHEMA_IMPORTANCE, "file of tutti explain"));
  TT_TRY(tt_schema_check_shape_local(r, "permutation_importance", 2, size));
  t->columns = size[0];
  t->inputs = size[1];
  TT_TRY(tt_h5_read_attr_local(r, "/", "rows", TT_H5_I64, 1, &t->rows));
  TT_TRY(tt_h5_read_attr_local(r, "/", "repeats", TT_H5_I64, 1, &t->repeats));
  TT_TRY(read_cells(r, "permutation_importance", t, &t->permutation));
  TT_TRY(read_cells(r, "permutation_importance_std_members", t, &t->permutation_between));
  TT_TRY(tt_schema_read_texts_local(r, "error_metric", t->columns, &t->metric));
  return tt_schema_read_texts_local(r, "feature_name", t->inputs, &t->input);
}

tt_err tt_importance_table_read_local(const char *file, tt_importance_table *out)
{
  tt_h5_reader *r = NULL;
  *out = (tt_importance_table){0};
  TT_TRY(tt_h5_open_local(file, &r));
  tt_err e = read_all(r, out);
  tt_h5_close_local(&r);
  if (e) tt_importance_table_free(out);
  return e;
}

void tt_importance_table_free(tt_importance_table *t)
{
  if (t->metric) tt_h5_texts_free(t->columns, &t->metric);
  if (t->input) tt_h5_texts_free(t->inputs, &t->input);
  tt_free_all(&t->permutation, &t->permutation_between);
}
