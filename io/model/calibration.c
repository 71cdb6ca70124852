/* calibration.c — the group /calibration of model.h5; see model_internal.h. */
#include "core/base/mem.h"
#include "io/model/model_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

tt_err tt_calibration_concat(const tt_trained_ensembles *all, tt_calibration *out)
{
  const tt_calibration *any = NULL;
  int64_t columns = tt_trained_ensembles_columns(all), first = 0;
  for (int64_t i = 0; i < all->count; i++)
    if (all->at[i]->calibration.columns) any = &all->at[i]->calibration;
  if (!any) return TT_OK;
  TT_TRY(tt_calibration_create(columns, any->levels, any->level, out));
  for (int64_t i = 0; i < all->count; i++) {
    const tt_calibration *k = &all->at[i]->calibration;
    size_t bytes = (size_t)k->columns * sizeof(double);
    if (k->columns) memcpy(out->std_scale + first, k->std_scale, bytes);
    if (k->columns) memcpy(out->noise + first, k->noise, bytes);
    if (k->columns) memcpy(out->rows + first, k->rows, bytes);
    for (int64_t l = 0; k->columns && l < k->levels; l++)
      memcpy(out->width + l * columns + first, k->width + l * k->columns, bytes);
    first += tt_trained_ensemble_columns(all->at[i]);
  }
  return TT_OK;
}

void tt_calibration_write(tt_schema *s, const tt_calibration *k)
{
  if (!k->columns) return;
  tt_h5_create_group(s->file, "calibration");
  TT_SCHEMA_WRITE(s, k->std_scale, "calibration/std_scale", F64, "1",
                  "factor on standard deviations", NULL, "column");
  TT_SCHEMA_WRITE(
      s, k->noise, "calibration/noise", F64, "1",
      "standard deviation of the noise of the normalized target, added to the predicted", NULL,
      "column");
  TT_SCHEMA_WRITE(s, k->rows, "calibration/rows", I64, "1", "number of rows used", NULL, "column");
  if (!k->levels) return;
  TT_SCHEMA_COORDINATE(s, k->levels, k->level, "conformal_level", F64, "1",
                       "nominal coverage of the conformal interval");
  TT_SCHEMA_WRITE(s, k->width, "calibration/conformal_width", F64, NULL,
                  "half width in standard deviations; for quantiles in normalized units", NULL,
                  "conformal_level", "column");
}

static tt_err check(tt_h5_reader *r, const tt_calibration *k)
{
  const char *file = tt_h5_file_name(r);
  for (int64_t i = 0; i < k->columns; i++) {
    if (!(k->std_scale[i] > 0.0 && k->std_scale[i] < INFINITY))
      return TT_FAIL(DATA, "%s: 'calibration/std_scale' of column %" PRId64 " is %g" TT_DAMAGED,
                     file, i, k->std_scale[i]);
    if (!(k->noise[i] >= 0.0 && k->noise[i] < INFINITY))
      return TT_FAIL(DATA, "%s: 'calibration/noise' of column %" PRId64 " is %g" TT_DAMAGED, file,
                     i, k->noise[i]);
  }
  for (int64_t i = 0; i < k->levels; i++)
    if (!(k->level[i] > 0.0 && k->level[i] < 1.0))
      return TT_FAIL(DATA, "%s: 'conformal_level' holds %g" TT_DAMAGED, file, k->level[i]);
  for (int64_t i = 0; i < k->levels * k->columns; i++)
    if (isnan(k->width[i]))
      return TT_FAIL(DATA, "%s: 'calibration/conformal_width' holds NaN" TT_DAMAGED, file);
  return TT_OK;
}

static tt_err read_numbers(tt_h5_reader *r, tt_calibration *k)
{
  TT_TRY(tt_h5_read_rows_local(r, "calibration/std_scale", TT_H5_F64, 0, k->columns, k->std_scale));
  if (tt_h5_has_local(r, "calibration/noise")) /* older files have none */
    TT_TRY(tt_schema_read_local(r, "calibration/noise", TT_H5_F64, 1, &k->columns, k->noise));
  TT_TRY(tt_schema_read_local(r, "calibration/rows", TT_H5_I64, 1, &k->columns, k->rows));
  if (k->levels) {
    int64_t shape[2] = {k->levels, k->columns};
    TT_TRY(tt_schema_read_local(r, "calibration/conformal_width", TT_H5_F64, 2, shape, k->width));
    TT_TRY(tt_h5_read_rows_local(r, "conformal_level", TT_H5_F64, 0, k->levels, k->level));
  }
  return check(r, k);
}

/* Split the columns of all cohorts into those of each cohort. */
static tt_err split_by_cohort(const tt_calibration *joined, tt_trained_ensembles *all)
{
  int64_t first = 0;
  for (int64_t i = 0; i < all->count; i++) {
    tt_calibration *k = &all->at[i]->calibration;
    int64_t columns = tt_trained_ensemble_columns(all->at[i]);
    size_t bytes = (size_t)columns * sizeof(double);
    TT_TRY(tt_calibration_create(columns, joined->levels, joined->level, k));
    memcpy(k->std_scale, joined->std_scale + first, bytes);
    memcpy(k->noise, joined->noise + first, bytes);
    memcpy(k->rows, joined->rows + first, bytes);
    for (int64_t l = 0; l < k->levels; l++)
      memcpy(k->width + l * columns, joined->width + l * joined->columns + first, bytes);
    first += columns;
  }
  return TT_OK;
}

tt_err tt_calibration_read_local(tt_h5_reader *r, tt_trained_ensembles *all)
{
  const double none[TT_MAX_CONFORMAL] = {0};
  int64_t columns = tt_trained_ensembles_columns(all), levels = 0;
  tt_calibration joined = {0};
  if (!tt_h5_has_local(r, "calibration/std_scale")) return TT_OK;
  TT_TRY(tt_schema_check_shape_local(r, "calibration/std_scale", 1, &columns));
  if (tt_h5_has_local(r, "conformal_level")) {
    levels = -1;
    TT_TRY(tt_schema_check_shape_local(r, "conformal_level", 1, &levels));
    if (levels > TT_MAX_CONFORMAL)
      return TT_FAIL(DATA, "%s: 'conformal_level' has %" PRId64 " values, expected 1 to %d",
                     tt_h5_file_name(r), levels, TT_MAX_CONFORMAL);
  }
  tt_err e = tt_calibration_create(columns, levels, none, &joined);
  if (!e) e = read_numbers(r, &joined);
  if (!e) e = split_by_cohort(&joined, all);
  tt_calibration_free(&joined);
  return e;
}
