/* read.c — tt_results_read_local of results.h. */
#include "core/base/mem.h"
#include "io/hdf5/schema.h"
#include "io/results/results.h"

#include <math.h>

static tt_err read_history(tt_h5_reader *r, tt_results *k)
{
  int64_t size[2] = {-1, -1};
  TT_TRY(tt_schema_check_shape_local(r, "loss_train", 2, size));
  k->members = size[0];
  k->epochs = size[1];
  TT_TRY(tt_schema_check_shape_local(r, "loss_validation", 2, size));
  TT_TRY(TT_ALLOC(k->loss_train, k->members * k->epochs));
  TT_TRY(TT_ALLOC(k->loss_validation, k->members * k->epochs));
  TT_TRY(tt_schema_read_texts_local(r, "ensemble", k->members, &k->owner));
  TT_TRY(tt_h5_read_rows_local(r, "loss_train", TT_H5_F32, 0, k->members, k->loss_train));
  return tt_h5_read_rows_local(r, "loss_validation", TT_H5_F32, 0, k->members, k->loss_validation);
}

static tt_err read_test(tt_h5_reader *r, tt_results *k)
{
  tt_test_predictions *t = &k->test;
  const char *const path[] = {"y_true", "y_pred_mean", "y_pred_std", "y_pred_std_aleatoric",
                              "y_pred_std_epistemic"};
  double **to[] = {&t->y, &t->mean, &t->total, &t->aleatoric, &t->epistemic};
  int64_t size[2] = {-1, k->columns};
  TT_TRY(tt_schema_check_shape_local(r, "sample", 1, size));
  t->rows = k->rows = size[0];
  for (int i = 0; i < 5; i++) {
    TT_TRY(tt_schema_check_shape_local(r, path[i], 2, size));
    TT_TRY(TT_ALLOC(*to[i], k->rows * k->columns));
    TT_TRY(tt_h5_read_rows_local(r, path[i], TT_H5_F64, 0, k->rows, *to[i]));
  }
  TT_TRY(TT_ALLOC(t->row, k->rows));
  return tt_h5_read_rows_local(r, "sample", TT_H5_I64, 0, k->rows, t->row);
}

/* A score of the columns, NaN if the file has none. */
static tt_err read_score(tt_h5_reader *r, const char *name, int64_t columns, double **out)
{
  int64_t size[1] = {columns};
  TT_TRY(TT_ALLOC(*out, columns));
  for (int64_t i = 0; i < columns; i++) (*out)[i] = NAN;
  if (!tt_h5_has_local(r, name)) return TT_OK;
  TT_TRY(tt_schema_check_shape_local(r, name, 1, size));
  return tt_h5_read_rows_local(r, name, TT_H5_F64, 0, columns, *out);
}

static tt_err read_scores(tt_h5_reader *r, tt_results *k)
{
  TT_TRY(read_score(r, "ensemble_nll", k->columns, &k->nll));
  TT_TRY(read_score(r, "ensemble_rmse", k->columns, &k->rmse));
  TT_TRY(read_score(r, "ensemble_brier", k->columns, &k->brier));
  for (int64_t i = 0; i < k->columns; i++)
    if (isnan(k->rmse[i])) k->rmse[i] = sqrt(k->brier[i]);
  return TT_OK;
}

static tt_err read_calibration(tt_h5_reader *r, tt_results *k)
{
  int64_t size[2] = {-1, k->columns};
  if (!tt_h5_has_local(r, "calibration")) return TT_OK;
  TT_TRY(tt_schema_check_shape_local(r, "calibration", 2, size));
  k->levels = size[0];
  TT_TRY(tt_schema_check_shape_local(r, "level", 1, size));
  TT_TRY(TT_ALLOC(k->level, k->levels));
  TT_TRY(TT_ALLOC(k->calibration, k->levels * k->columns));
  TT_TRY(tt_h5_read_rows_local(r, "level", TT_H5_F64, 0, k->levels, k->level));
  return tt_h5_read_rows_local(r, "calibration", TT_H5_F64, 0, k->levels, k->calibration);
}

static tt_err read_all(tt_h5_reader *r, tt_results *k)
{
  int64_t size[2] = {-1, -1};
  TT_TRY(tt_schema_check_local(r, TT_SCHEMA_RESULT, "results"));
  TT_TRY(tt_schema_check_shape_local(r, "column_target", 2, size));
  k->columns = size[0];
  TT_TRY(tt_schema_read_texts_local(r, "column_ensemble", k->columns, &k->ensemble));
  TT_TRY(tt_schema_read_texts_local(r, "column_target", k->columns, &k->target));
  TT_TRY(tt_schema_read_texts_local(r, "column_units", k->columns, &k->units));
  if (tt_h5_has_attr_local(r, "/", "title"))
    TT_TRY(tt_h5_read_attr_text_local(r, "/", "title", &k->title));
  TT_TRY(read_history(r, k));
  TT_TRY(read_scores(r, k));
  TT_TRY(read_calibration(r, k));
  return tt_h5_has_local(r, "y_true") ? read_test(r, k) : TT_OK;
}

tt_err tt_results_read_local(const char *file, tt_results **out)
{
  tt_h5_reader *r = NULL;
  tt_results *k = NULL;
  TT_TRY(tt_h5_open_local(file, &r));
  tt_err e = TT_ALLOC(k, 1);
  if (!e) e = read_all(r, k);
  tt_h5_close_local(&r);
  if (e)
    tt_results_destroy(&k);
  else
    *out = k;
  return e;
}

void tt_results_destroy(tt_results **r)
{
  tt_results *k = *r;
  if (!k) return;
  tt_h5_texts_free(k->members, &k->owner);
  tt_h5_texts_free(k->columns, &k->ensemble);
  tt_h5_texts_free(k->columns, &k->target);
  tt_h5_texts_free(k->columns, &k->units);
  tt_free(k->title);
  tt_free(k->rmse);
  tt_free(k->nll);
  tt_free(k->brier);
  tt_free(k->level);
  tt_free(k->calibration);
  tt_free(k->loss_train);
  tt_free(k->loss_validation);
  tt_free(k->test.row);
  tt_free(k->test.y);
  tt_free(k->test.mean);
  tt_free(k->test.total);
  tt_free(k->test.aleatoric);
  tt_free(k->test.epistemic);
  tt_free(*r);
}
