/* importance.c — see importance.h. */
#include "io/results/importance.h"

#include "core/base/mem.h"
#include "io/results/axis_labels.h"

#include <math.h>
#include <stdlib.h>

tt_err tt_importance_create(const tt_trained_ensembles *all, tt_importance *out)
{
  *out = (tt_importance){.columns = tt_trained_ensembles_columns(all),
                         .inputs = all->at[0]->scaler.inputs};
  int64_t cells = out->columns * out->inputs;
  struct {
    double **to;
    int64_t size;
  } part[] = {
      {&out->error, out->columns}, {&out->permutation, cells}, {&out->permutation_between, cells}};
  TT_TRY(TT_ALLOC(out->metric, out->columns));
  for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
    TT_TRY(TT_ALLOC(*part[i].to, part[i].size));
    for (int64_t k = 0; k < part[i].size; k++) (*part[i].to)[k] = NAN;
  }
  return TT_OK;
}

void tt_importance_free(tt_importance *i)
{
  tt_h5_texts_free(i->columns, &i->metric_text);
  tt_h5_texts_free(i->inputs, &i->input_name);
  tt_free_all(&i->metric, &i->error, &i->permutation, &i->permutation_between);
}

void tt_importance_rank(const tt_importance *i, int64_t column, tt_ranked *order)
{
  for (int64_t d = 0; d < i->inputs; d++) {
    double importance = i->permutation[column * i->inputs + d];
    order[d] = (tt_ranked){isnan(importance) ? INFINITY : -importance, d};
  }
  qsort(order, (size_t)i->inputs, sizeof *order, tt_compare_ranked);
}

#define CELLS(data_, name_, units_, meaning_)                                                      \
  TT_SCHEMA_WRITE(s, data_, name_, F64, units_, meaning_, TT_COLUMN_COORDINATES " feature_name",   \
                  "column", "feature")

static void write_variables(tt_schema *s, const tt_importance *i)
{
  tt_schema_create_dimension(s, "metric_strlen", 8);
  tt_schema_write_texts(s, "error_metric", "column", "metric_strlen", i->metric,
                        "the error that permutations increase");
  TT_SCHEMA_WRITE(s, i->error, "error", F64, NULL, "error of the rows as they are",
                  TT_COLUMN_COORDINATES, "column");
  CELLS(i->permutation, "permutation_importance", NULL,
        "mean increase of the error when the values of the input are permuted between the rows");
  CELLS(i->permutation_between, "permutation_importance_std_members", NULL,
        "standard deviation between the members, of the increase of their own errors");
}

tt_err tt_importance_write(tt_comm *c, const char *file, const tt_trained_ensembles *all,
                           const tt_importance *i, const tt_provenance *provenance)
{
  const tt_columns *input = &all->at[0]->input;
  tt_axis_labels o = {0};
  tt_schema s;
  tt_h5_file *f = NULL;
  int64_t cells = 2 * i->columns * i->inputs;
  tt_err e = tt_agree(c, tt_axis_labels_create(all, &o));
  if (!e) e = tt_h5_create(c, file, 8 * cells + o.columns * 1024 + (1 << 16), &f);
  if (!e) {
    tt_schema_write_header(&s, c, f, TT_SCHEMA_IMPORTANCE, provenance);
    tt_h5_write_attr(f, "/", "rows", TT_H5_I64, 1, &i->rows);
    tt_h5_write_attr(f, "/", "repeats", TT_H5_I64, 1, &i->repeats);
    tt_axis_labels_write_columns(&s, &o);
    tt_schema_create_dimension(&s, "feature_strlen", tt_schema_max_column_text(input));
    tt_schema_write_columns(&s, "feature", "feature_strlen", "feature_name", "feature_units",
                            input);
    write_variables(&s, i);
    e = tt_h5_commit(&f);
  }
  tt_axis_labels_free(&o);
  return e;
}

/* Reading */

static tt_err read_cells(tt_h5_reader *r, const char *name, tt_importance *t, double **out)
{
  int64_t size[2] = {t->columns, t->inputs};
  return tt_schema_read_array_local(r, name, TT_H5_F64, 2, size, out);
}

static tt_err read_all(tt_h5_reader *r, tt_importance *t)
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
  TT_TRY(tt_schema_read_texts_local(r, "error_metric", t->columns, &t->metric_text));
  return tt_schema_read_texts_local(r, "feature_name", t->inputs, &t->input_name);
}

tt_err tt_importance_read_local(const char *file, tt_importance *out)
{
  tt_h5_reader *r = NULL;
  *out = (tt_importance){0};
  TT_TRY(tt_h5_open_local(file, &r));
  tt_err e = read_all(r, out);
  tt_h5_close_local(&r);
  if (e) tt_importance_free(out);
  return e;
}
