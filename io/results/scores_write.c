/* scores_write.c — see scores_internal.h, and tt_scores_write of results.h. */
#include "io/results/scores_internal.h"

#include <stdio.h>
#include <string.h>

const char *tt_metric_units_text(tt_metric_units kind, const char *of_target)
{
  return kind == TT_UNITS_TARGET ? of_target : kind == TT_UNITS_DIMENSIONLESS ? "1" : NULL;
}

/* With groups, the axis of the groups comes before the axis of the columns. */
static void write_columns(tt_schema *s, const tt_scores *k, const void *data, tt_variable v)
{
  int n = 0;
  while (strcmp(v.dim[n], "column") != 0) n++;
  if (k->groups) {
    v.dim[n] = TT_GROUP_AXIS;
    v.dim[n + 1] = "column";
    v.coordinates = TT_COLUMN_COORDINATES " group";
  }
  tt_schema_write_from_root(s, &v, data);
}

/* A variable with one value, or one row of values, per column. */
#define WRITE_COLUMNS(data_, name_, type_, units_, meaning_, ...)                                  \
  write_columns(s, k, data_,                                                                       \
                (tt_variable)TT_VARIABLE(name_, type_, units_, meaning_, TT_COLUMN_COORDINATES,    \
                                         __VA_ARGS__))

/* One metric for all columns. */
static void write_metric(tt_schema *s, const char *prefix, int metric, const tt_scores *k,
                         const char *units)
{
  char name[64];
  const tt_metric_row *row = &tt_metric_table[metric];
  snprintf(name, sizeof name, "%s_%s", prefix, row->name);
  WRITE_COLUMNS(k->ensemble[metric], name, F64, tt_metric_units_text(row->units, units),
                row->meaning, "column");
}

/* Two variables per metric that applies to any of the forecasts: for members, then for ensembles.
 */
static void write_metrics(tt_schema *s, const tt_scores *k, const tt_axis_labels *o)
{
  char name[64];
  for (int v = 0; v < TT_METRIC_COUNT; v++) {
    const tt_metric_row *row = &tt_metric_table[v];
    if (!(row->forecasts & k->forecasts)) continue;
    snprintf(name, sizeof name, "test_%s", row->name);
    TT_SCHEMA_WRITE(s, tt_axis_labels_by_target(o, k->member[v]), name, F64,
                    tt_metric_units_text(row->units, o->common_units), row->meaning,
                    TT_MEMBER_COORDINATES " " TT_TARGET_COORDINATES, "member", "target");
    write_metric(s, "ensemble", v, k, o->common_units);
  }
}

static void write_baselines(tt_schema *s, const tt_scores *k, const char *units)
{
  char name[64], meaning[128];
  for (int b = 0; b < TT_BASELINE_COUNT && k->baselines; b++) {
    snprintf(name, sizeof name, "baseline_%s", tt_baseline_table[b].label);
    snprintf(meaning, sizeof meaning, "rmse of %s on the test rows", tt_baseline_table[b].name);
    WRITE_COLUMNS(k->baseline + b * k->columns, name, F64, units, meaning, "column");
  }
}

/* Fractions of the rows inside few central intervals.
 *   new  1 = also write the coordinate */
static void write_coverage(tt_schema *s, const char *name, const char *meaning, int new,
                           const tt_scores *k)
{
  static const char interval[] = "probability of the central interval";
  double few[TT_COVERAGE_LEVELS];
  for (int i = 0; i < TT_COVERAGE_LEVELS; i++) few[i] = tt_interval_level(tt_coverage_level[i]);
  if (new) TT_SCHEMA_COORDINATE(s, TT_COVERAGE_LEVELS, few, "coverage_level", F64, "1", interval);
  WRITE_COLUMNS(k->interval_coverage, name, F64, "1", meaning, "coverage_level", "column");
}

static void write_calibration_curve(tt_schema *s, const tt_scores *k)
{
  static const char interval[] = "probability of the central interval";
  double level[TT_INTERVALS];
  for (int i = 0; i < TT_INTERVALS; i++) level[i] = tt_interval_level(i);
  TT_SCHEMA_COORDINATE(s, TT_INTERVALS, level, "calibration_level", F64, "1", interval);
  WRITE_COLUMNS(k->calibration_curve, "calibration_curve", F64, "1",
                "fraction of test rows inside the interval", "calibration_level", "column");
}

void tt_scores_write_variables(tt_schema *s, const tt_scores *k, const tt_axis_labels *o)
{
  tt_axis_labels_write_targets(s, o);
  write_metrics(s, k, o);
  write_baselines(s, k, o->common_units);
  WRITE_COLUMNS(k->diversity, "ensemble_error_correlation", F64, "1",
                "mean correlation of the errors of two members", "column");
  WRITE_COLUMNS(k->rows, "test_rows", I64, "1", "test rows scored", "column");
  write_coverage(s, "coverage", "fraction of test rows inside the interval", 1, k);
  write_calibration_curve(s, k);
  if (!k->levels) return;
  TT_SCHEMA_COORDINATE(s, k->levels, k->level, "conformal_level", F64, "1",
                       "nominal coverage of the conformal interval");
  WRITE_COLUMNS(k->inside, "conformal_coverage", F64, "1",
                "fraction of test rows inside the conformal interval", "conformal_level", "column");
}

void tt_scores_write_out_of_bag(tt_schema *s, const tt_scores *k, int tested, const char *units)
{
  for (int v = 0; v < TT_METRIC_COUNT; v++)
    if (tt_metric_table[v].forecasts & k->forecasts) write_metric(s, "oob", v, k, units);
  WRITE_COLUMNS(k->rows, "oob_rows", I64, "1",
                "training rows that at least one member was not trained on", "column");
  write_coverage(s, "oob_coverage", "fraction of these training rows inside the interval", !tested,
                 k);
}

tt_err tt_scores_write(tt_comm *c, const char *file, const tt_trained_ensembles *all,
                       const tt_scores *scores, const tt_provenance *provenance)
{
  tt_axis_labels o = {0};
  tt_schema s;
  tt_h5_file *f = NULL;
  tt_err e = tt_axis_labels_create(all, &o);
  if (!e) e = tt_axis_labels_reserve(&o);
  e = tt_agree(c, e);
  if (!e) e = tt_h5_create(c, file, o.members * 256 + o.columns * 1024 + (1 << 16), &f);
  if (!e) {
    tt_schema_write_header(&s, c, f, TT_SCHEMA_SCORE, provenance);
    tt_axis_labels_write_columns(&s, &o);
    tt_axis_labels_write_members(&s, &o);
    tt_scores_write_variables(&s, scores, &o);
    e = tt_h5_commit(&f);
  }
  tt_axis_labels_free(&o);
  return e;
}
