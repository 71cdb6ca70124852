/* read.c — see results_read.h. */
#include "io/results/results_read.h"

#include "core/base/mem.h"
#include "io/results/scores_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A variable [n]; NaN if the file has none. */
static tt_err read_values(tt_h5_reader *r, const char *name, int64_t n, double **out)
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

/* The curve `name` [levels][columns] and its levels; none if the file has none. */
static tt_err read_curve(tt_h5_reader *r, const char *name, const char *level, int64_t columns,
                         double **value, double **at, int64_t *levels)
{
  int64_t size[2] = {-1, columns};
  if (!tt_h5_has_local(r, name)) return TT_OK;
  TT_TRY(tt_schema_read_array_local(r, name, TT_H5_F64, 2, size, value));
  *levels = size[0];
  return tt_schema_read_array_local(r, level, TT_H5_F64, 1, size, at);
}

static tt_err read_members(tt_h5_reader *r, tt_results *k)
{
  const struct {
    const char *name;
    double **to;
  } field[] = {{"status", &k->status},       {"best_epoch", &k->best_epoch},
               {"best_loss", &k->best_loss}, {"epochs_done", &k->epochs_done},
               {"member_index", &k->index},  {"member_weight", &k->weight}};
  for (size_t i = 0; i < sizeof field / sizeof *field; i++)
    TT_TRY(read_values(r, field[i].name, k->members, field[i].to));
  for (int i = 0; i < TT_HYPER_COUNT; i++)
    TT_TRY(read_values(r, tt_hyper_name[i], k->members, &k->hyper[i]));
  if (!tt_h5_has_local(r, "network")) return TT_OK;
  return tt_schema_read_texts_local(r, "network", k->members, &k->network);
}

static tt_err read_scores(tt_h5_reader *r, tt_results *k)
{
  char name[96];
  if (tt_h5_has_local(r, "target_name"))
    TT_TRY(tt_h5_read_texts_local(r, "target_name", &k->targets, &k->target_name));
  for (int m = 0; m < TT_METRIC_COUNT; m++) {
    int64_t size[2] = {k->members, k->targets};
    snprintf(name, sizeof name, "ensemble_%s", tt_metric_table[m].name);
    TT_TRY(read_values(r, name, k->columns, &k->score[m]));
    snprintf(name, sizeof name, "oob_%s", tt_metric_table[m].name);
    TT_TRY(read_values(r, name, k->columns, &k->oob[m]));
    snprintf(name, sizeof name, "test_%s", tt_metric_table[m].name);
    if (!tt_h5_has_local(r, name)) continue;
    TT_TRY(tt_schema_read_array_local(r, name, TT_H5_F64, 2, size, &k->member_score[m]));
  }
  TT_TRY(TT_ALLOC(k->rmse, k->columns));
  for (int64_t i = 0; i < k->columns; i++) {
    double rmse = k->score[TT_METRIC_rmse][i], brier = k->score[TT_METRIC_brier][i];
    k->rmse[i] = isnan(rmse) ? sqrt(brier) : rmse;
  }
  TT_TRY(read_values(r, "test_rows", k->columns, &k->test_rows));
  return read_values(r, "oob_rows", k->columns, &k->oob_rows);
}

static tt_err read_baselines(tt_h5_reader *r, tt_results *k)
{
  char name[96];
  for (int b = 0; b < TT_BASELINE_COUNT; b++) {
    snprintf(name, sizeof name, "baseline_%s", tt_baseline_table[b].label);
    TT_TRY(read_values(r, name, k->columns, &k->baseline[b]));
  }
  return TT_OK;
}

static double read_number(tt_h5_reader *r, const char *name)
{
  double value;
  if (!tt_h5_has_attr_local(r, "provenance", name) ||
      tt_h5_read_attr_local(r, "provenance", name, TT_H5_F64, 1, &value))
    return NAN;
  return value;
}

static tt_err read_origin(tt_h5_reader *r, tt_results *k)
{
  k->seed = k->ranks = k->threads = k->wall_seconds = NAN;
  if (!tt_h5_has_local(r, "provenance")) return TT_OK;
  TT_TRY(tt_origin_read_local(r, k->origin));
  k->seed = read_number(r, "seed");
  k->ranks = read_number(r, "ranks");
  k->threads = read_number(r, "threads");
  k->wall_seconds = read_number(r, "wall_seconds");
  k->repeated_rows = read_number(r, "repeated_rows");
  k->seen_rows = read_number(r, "seen_rows");
  if (!tt_h5_has_local(r, "provenance/resolved_config")) return TT_OK;
  TT_TRY(tt_h5_read_text_local(r, "provenance/resolved_config", &k->resolved));
  k->recalibrated = strstr(k->resolved, "\n  recalibrate: all\n") != NULL;
  return TT_OK;
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
  if (tt_h5_has_local(r, "column_label"))
    TT_TRY(tt_schema_read_texts_local(r, "column_label", k->columns, &k->label));
  TT_TRY(read_history(r, k));
  TT_TRY(read_members(r, k));
  TT_TRY(read_scores(r, k));
  TT_TRY(read_baselines(r, k));
  TT_TRY(read_curve(r, "calibration_curve", "calibration_level", k->columns, &k->calibration,
                    &k->level, &k->levels));
  TT_TRY(read_curve(r, "coverage", "coverage_level", k->columns, &k->coverage, &k->coverage_level,
                    &k->coverage_levels));
  if (tt_h5_has_local(r, "y_true")) TT_TRY(read_test(r, k));
  TT_TRY(tt_trials_read_local(r, &k->trials));
  return read_origin(r, k);
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
  char ***const of_members[] = {&k->owner, &k->network};
  char ***const of_columns[] = {&k->ensemble, &k->target, &k->units, &k->label};
  for (int i = 0; i < 2; i++) tt_h5_texts_free(k->members, of_members[i]);
  for (int i = 0; i < 4; i++) tt_h5_texts_free(k->columns, of_columns[i]);
  tt_h5_texts_free(k->targets, &k->target_name);
  tt_trials_free(&k->trials);
  for (int i = 0; i < TT_HYPER_COUNT; i++) tt_free(k->hyper[i]);
  for (int i = 0; i < TT_METRIC_COUNT; i++)
    tt_free_all(&k->member_score[i], &k->score[i], &k->oob[i]);
  for (int b = 0; b < TT_BASELINE_COUNT; b++) tt_free(k->baseline[b]);
  for (int i = 0; i < TT_ORIGIN_COUNT; i++) tt_free(k->origin[i]);
  tt_free_all(&k->title, &k->rmse, &k->level, &k->calibration, &k->loss_train, &k->loss_validation,
              &k->coverage_level, &k->coverage, &k->status, &k->best_epoch, &k->best_loss,
              &k->epochs_done, &k->index, &k->weight, &k->test_rows, &k->oob_rows, &k->resolved);
  tt_test_predictions_free(&k->test);
  tt_free(*r);
}

double tt_results_member_score(const tt_results *k, tt_metric metric, int64_t member,
                               int64_t column)
{
  int64_t target = 0;
  if (!k->member_score[metric] || strcmp(k->owner[member], k->ensemble[column]) != 0) return NAN;
  while (target < k->targets && strcmp(k->target_name[target], k->target[column]) != 0) target++;
  return target < k->targets ? k->member_score[metric][member * k->targets + target] : NAN;
}

int tt_results_predict_noise(const tt_results *k, int64_t column)
{
  for (int64_t m = 0; m < k->members; m++)
    if (isfinite(tt_results_member_score(k, TT_METRIC_nll, m, column))) return 1;
  return 0;
}
