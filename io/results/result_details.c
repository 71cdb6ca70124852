/* result_details.c — see result_details.h. */
#include "io/results/result_details.h"

#include "core/base/mem.h"
#include "io/results/scores_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static tt_err read_members(tt_h5_reader *r, tt_result_details *d)
{
  const struct {
    const char *name;
    double **to;
  } field[] = {{"status", &d->status},       {"best_epoch", &d->best_epoch},
               {"best_loss", &d->best_loss}, {"epochs_done", &d->epochs_done},
               {"attempts", &d->attempts},   {"member_index", &d->index},
               {"head", &d->head},           {"member_weight", &d->weight}};
  for (size_t i = 0; i < sizeof field / sizeof *field; i++)
    TT_TRY(tt_results_read_values_local(r, field[i].name, d->members, field[i].to));
  for (int i = 0; i < TT_HYPER_COUNT; i++)
    TT_TRY(tt_results_read_values_local(r, tt_hyper_name[i], d->members, &d->hyper[i]));
  return TT_OK;
}

static tt_err read_metrics(tt_h5_reader *r, tt_result_details *d)
{
  char name[96];
  if (tt_h5_has_local(r, "target_name"))
    TT_TRY(tt_h5_read_texts_local(r, "target_name", &d->targets, &d->target));
  for (int m = 0; m < TT_METRIC_COUNT; m++) {
    int64_t size[2] = {d->members, d->targets};
    snprintf(name, sizeof name, "ensemble_%s", tt_metric_table[m].name);
    TT_TRY(tt_results_read_values_local(r, name, d->columns, &d->score[m]));
    snprintf(name, sizeof name, "oob_%s", tt_metric_table[m].name);
    TT_TRY(tt_results_read_values_local(r, name, d->columns, &d->oob[m]));
    snprintf(name, sizeof name, "test_%s", tt_metric_table[m].name);
    if (!tt_h5_has_local(r, name)) continue;
    TT_TRY(tt_schema_read_array_local(r, name, TT_H5_F64, 2, size, &d->member_score[m]));
  }
  return TT_OK;
}

static tt_err read_baselines(tt_h5_reader *r, tt_result_details *d)
{
  char name[96];
  for (int b = 0; b < TT_BASELINE_COUNT; b++) {
    snprintf(name, sizeof name, "baseline_%s", tt_baseline_label[b]);
    TT_TRY(tt_results_read_values_local(r, name, d->columns, &d->baseline[b]));
  }
  return TT_OK;
}

static tt_err read_coverage(tt_h5_reader *r, tt_result_details *d)
{
  int64_t size[2] = {-1, d->columns};
  if (!tt_h5_has_local(r, "coverage")) return TT_OK;
  TT_TRY(tt_schema_read_array_local(r, "coverage", TT_H5_F64, 2, size, &d->coverage));
  d->coverage_levels = size[0];
  return tt_schema_read_array_local(r, "coverage_level", TT_H5_F64, 1, size, &d->coverage_level);
}

static double read_number(tt_h5_reader *r, const char *name)
{
  double value;
  if (!tt_h5_has_attr_local(r, "provenance", name) ||
      tt_h5_read_attr_local(r, "provenance", name, TT_H5_F64, 1, &value))
    return NAN;
  return value;
}

static tt_err read_origin(tt_h5_reader *r, tt_result_details *d)
{
  if (!tt_h5_has_local(r, "provenance")) return TT_OK;
  TT_TRY(tt_origin_read_local(r, d->origin));
  d->seed = read_number(r, "seed");
  d->ranks = read_number(r, "ranks");
  d->threads = read_number(r, "threads");
  d->wall_seconds = read_number(r, "wall_seconds");
  d->epochs_planned = read_number(r, "member_epochs_planned");
  d->epochs_trained = read_number(r, "member_epochs_trained");
  d->repeated_rows = read_number(r, "repeated_rows");
  d->seen_rows = read_number(r, "seen_rows");
  if (!tt_h5_has_local(r, "provenance/resolved_config")) return TT_OK;
  TT_TRY(tt_h5_read_text_local(r, "provenance/resolved_config", &d->resolved));
  d->recalibrated = strstr(d->resolved, "\n  recalibrate: all\n") != NULL;
  return TT_OK;
}

static tt_err read_all(tt_h5_reader *r, tt_result_details *d)
{
  TT_TRY(read_members(r, d));
  TT_TRY(read_metrics(r, d));
  TT_TRY(read_baselines(r, d));
  TT_TRY(
      tt_results_read_values_local(r, "ensemble_error_correlation", d->columns, &d->correlation));
  TT_TRY(tt_results_read_values_local(r, "test_rows", d->columns, &d->test_rows));
  TT_TRY(tt_results_read_values_local(r, "oob_rows", d->columns, &d->oob_rows));
  TT_TRY(read_coverage(r, d));
  if (tt_h5_has_local(r, "column_label"))
    TT_TRY(tt_schema_read_texts_local(r, "column_label", d->columns, &d->label));
  if (tt_h5_has_local(r, "network"))
    TT_TRY(tt_schema_read_texts_local(r, "network", d->members, &d->network));
  TT_TRY(tt_trials_read_local(r, &d->trials));
  return read_origin(r, d);
}

tt_err tt_result_details_read_local(const char *file, const tt_results *results,
                                    tt_result_details **out)
{
  tt_h5_reader *r = NULL;
  tt_result_details *d = NULL;
  TT_TRY(tt_h5_open_local(file, &r));
  tt_err e = TT_ALLOC(d, 1);
  if (!e) {
    d->members = results->members;
    d->columns = results->columns;
    d->seed = d->ranks = d->threads = d->wall_seconds = NAN;
    d->epochs_planned = d->epochs_trained = NAN;
    e = read_all(r, d);
  }
  tt_h5_close_local(&r);
  if (e) tt_result_details_destroy(&d);
  *out = d;
  return e;
}

void tt_result_details_destroy(tt_result_details **details)
{
  tt_result_details *d = *details;
  if (!d) return;
  if (d->target) tt_h5_texts_free(d->targets, &d->target);
  tt_trials_free(&d->trials);
  if (d->label) tt_h5_texts_free(d->columns, &d->label);
  if (d->network) tt_h5_texts_free(d->members, &d->network);
  for (int i = 0; i < TT_HYPER_COUNT; i++) tt_free(d->hyper[i]);
  for (int i = 0; i < TT_METRIC_COUNT; i++)
    tt_free_all(&d->member_score[i], &d->score[i], &d->oob[i]);
  for (int b = 0; b < TT_BASELINE_COUNT; b++) tt_free(d->baseline[b]);
  for (int i = 0; i < TT_ORIGIN_COUNT; i++) tt_free(d->origin[i]);
  tt_free_all(&d->status, &d->best_epoch, &d->best_loss, &d->epochs_done, &d->attempts, &d->index,
              &d->head, &d->weight, &d->correlation, &d->test_rows, &d->oob_rows,
              &d->coverage_level, &d->coverage, &d->resolved);
  tt_free(*details);
}

double tt_result_member_score(const tt_results *k, const tt_result_details *d, tt_metric metric,
                              int64_t member, int64_t column)
{
  int64_t target = 0;
  if (!d->member_score[metric] || strcmp(k->owner[member], k->ensemble[column]) != 0) return NAN;
  while (target < d->targets && strcmp(d->target[target], k->target[column]) != 0) target++;
  return target < d->targets ? d->member_score[metric][member * d->targets + target] : NAN;
}

int tt_result_predicts_noise(const tt_results *k, const tt_result_details *d, int64_t column)
{
  for (int64_t m = 0; m < k->members; m++)
    if (isfinite(tt_result_member_score(k, d, TT_METRIC_nll, m, column))) return 1;
  return 0;
}
