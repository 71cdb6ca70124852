/* read.c — tt_results_read_local of results.h. */
#include "core/base/mem.h"
#include "io/results/scores_internal.h"

#include <math.h>

tt_err tt_results_read_values_local(tt_h5_reader *r, const char *name, int64_t n, double **out)
{
  if (tt_h5_has_local(r, name)) return tt_schema_read_array_local(r, name, TT_H5_F64, 1, &n, out);
  TT_TRY(TT_ALLOC(*out, n));
  for (int64_t i = 0; i < n; i++) (*out)[i] = NAN;
  return TT_OK;
}

static tt_err read_history(tt_h5_reader *r, tt_results *k)
{
  int64_t size[2] = {-1, -1};
  TT_TRY(tt_schema_read_array_local(r, "loss_train", TT_H5_F32, 2, size, &k->loss_train));
  TT_TRY(tt_schema_read_array_local(r, "loss_validation", TT_H5_F32, 2, size, &k->loss_validation));
  k->members = size[0];
  k->epochs = size[1];
  return tt_schema_read_texts_local(r, "ensemble", k->members, &k->owner);
}

static tt_err read_test(tt_h5_reader *r, tt_results *k)
{
  static const char *const path[] = {
#define X(field, name, ...) name,
      TT_TEST_VARIABLES(X)
#undef X
  };
  tt_test_predictions *t = &k->test;
  double **dst[TT_TEST_VARIABLE_COUNT];
  int64_t size[2] = {-1, k->columns};
  tt_test_predictions_arrays(t, dst);
  TT_TRY(tt_schema_read_array_local(r, "sample", TT_H5_I64, 1, size, &t->row));
  t->rows = k->rows = size[0];
  for (int i = 0; i < TT_TEST_VARIABLE_COUNT; i++)
    if (i < TT_TEST_pit || tt_h5_has_local(r, path[i])) {
      TT_TRY(tt_schema_read_array_local(r, path[i], TT_H5_F64, 2, size, dst[i]));
    } else {
      TT_TRY(TT_ALLOC(*dst[i], k->rows * k->columns));
      for (int64_t j = 0; j < k->rows * k->columns; j++) (*dst[i])[j] = NAN;
    }
  return TT_OK;
}

static tt_err read_scores(tt_h5_reader *r, tt_results *k)
{
  TT_TRY(tt_results_read_values_local(r, "ensemble_nll", k->columns, &k->nll));
  TT_TRY(tt_results_read_values_local(r, "ensemble_rmse", k->columns, &k->rmse));
  TT_TRY(tt_results_read_values_local(r, "ensemble_brier", k->columns, &k->brier));
  for (int64_t i = 0; i < k->columns; i++)
    if (isnan(k->rmse[i])) k->rmse[i] = sqrt(k->brier[i]);
  return TT_OK;
}

static tt_err read_calibration(tt_h5_reader *r, tt_results *k)
{
  int64_t size[2] = {-1, k->columns};
  if (!tt_h5_has_local(r, "calibration_curve")) return TT_OK;
  TT_TRY(tt_schema_read_array_local(r, "calibration_curve", TT_H5_F64, 2, size, &k->calibration));
  k->levels = size[0];
  return tt_schema_read_array_local(r, "calibration_level", TT_H5_F64, 1, size, &k->level);
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
  if (e) tt_results_destroy(&k);
  *out = k;
  return e;
}

int64_t tt_results_ensemble_end(const tt_results *k, int64_t first)
{
  int64_t end = first;
  while (end < k->members && !strcmp(k->owner[end], k->owner[first])) end++;
  return end;
}

void tt_results_destroy(tt_results **r)
{
  tt_results *k = *r;
  if (!k) return;
  tt_h5_texts_free(k->members, &k->owner);
  tt_h5_texts_free(k->columns, &k->ensemble);
  tt_h5_texts_free(k->columns, &k->target);
  tt_h5_texts_free(k->columns, &k->units);
  tt_free_all(&k->title, &k->rmse, &k->nll, &k->brier, &k->level, &k->calibration, &k->loss_train,
              &k->loss_validation);
  tt_test_predictions_free(&k->test);
  tt_free(*r);
}
