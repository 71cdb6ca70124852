/* scores_write.c — see scores_internal.h, and tt_scores_write of results.h. */
#include "io/results/scores_internal.h"

#include "io/data/axis_labels.h"

#include <stdio.h>

#define MEMBER_COORDINATES TT_MEMBER_COORDINATES
#define COLUMN_COORDINATES TT_COLUMN_COORDINATES

static const char *units_of(tt_metric_units kind, const char *of_target)
{
  return kind == TT_UNITS_TARGET ? of_target : kind == TT_UNITS_DIMENSIONLESS ? "1" : NULL;
}

/* One metric for all columns. */
static void write_columns(tt_schema *s, const char *prefix, int metric, const tt_scores *k,
                          const char *units)
{
  char name[64];
  const tt_metric_row *row = &tt_metric_table[metric];
  snprintf(name, sizeof name, "%s_%s", prefix, row->name);
  const tt_variable v = {name,         TT_H5_F64,         {"column"}, units_of(row->units, units),
                         row->meaning, COLUMN_COORDINATES};
  tt_schema_write_from_root(s, &v, k->ensemble[metric]);
}

/* Two variables per metric that applies to any of the forecasts: for members, then for ensembles.
 */
static void write_metrics(tt_schema *s, const tt_scores *k, const char *units)
{
  char name[64];
  for (int v = 0; v < TT_METRIC_COUNT; v++) {
    const tt_metric_row *row = &tt_metric_table[v];
    if (!(row->forecasts & k->forecasts)) continue;
    snprintf(name, sizeof name, "test_%s", row->name);
    const tt_variable of_member = {
        name,         TT_H5_F64,         {"member", "target"}, units_of(row->units, units),
        row->meaning, MEMBER_COORDINATES};
    tt_schema_write_from_root(s, &of_member, k->member[v]);
    write_columns(s, "ensemble", v, k, units);
  }
}

static void write_coverage(tt_schema *s, const tt_scores *k)
{
  double level[TT_INTERVALS], few[TT_COVERAGE_LEVELS];
  const tt_variable interval = {"coverage_level",
                                TT_H5_F64,
                                {"coverage_level"},
                                "1",
                                "probability of the central interval",
                                NULL};
  const tt_variable levels = {"calibration_level",
                              TT_H5_F64,
                              {"calibration_level"},
                              "1",
                              "probability of the central interval",
                              NULL};
  const tt_variable covered = {"coverage",
                               TT_H5_F64,
                               {"coverage_level", "column"},
                               "1",
                               "fraction of test rows inside the interval",
                               COLUMN_COORDINATES};
  const tt_variable curve = {"calibration_curve",
                             TT_H5_F64,
                             {"calibration_level", "column"},
                             "1",
                             "fraction of test rows inside the interval",
                             COLUMN_COORDINATES};
  for (int i = 0; i < TT_INTERVALS; i++) level[i] = tt_interval_level(i);
  for (int i = 0; i < TT_COVERAGE_LEVELS; i++) few[i] = level[tt_coverage_level[i]];
  tt_schema_write_coordinate(s, &interval, TT_COVERAGE_LEVELS, few);
  tt_schema_write_from_root(s, &covered, k->interval_coverage);
  tt_schema_write_coordinate(s, &levels, TT_INTERVALS, level);
  tt_schema_write_from_root(s, &curve, k->calibration_curve);
}

void tt_scores_write_variables(tt_schema *s, const tt_scores *k, const char *units)
{
  const tt_variable correlation = {"ensemble_error_correlation",
                                   TT_H5_F64,
                                   {"column"},
                                   "1",
                                   "mean correlation of the errors of two members",
                                   COLUMN_COORDINATES};
  const tt_variable rows = {"test_rows", TT_H5_I64,          {"column"},
                            "rows",      "test rows scored", COLUMN_COORDINATES};
  const tt_variable level = {"conformal_level",
                             TT_H5_F64,
                             {"conformal_level"},
                             "1",
                             "nominal coverage of the conformal interval",
                             NULL};
  const tt_variable inside = {"conformal_coverage",
                              TT_H5_F64,
                              {"conformal_level", "column"},
                              "1",
                              "fraction of test rows inside the conformal interval",
                              COLUMN_COORDINATES};
  write_metrics(s, k, units);
  tt_schema_write_from_root(s, &correlation, k->diversity);
  tt_schema_write_from_root(s, &rows, k->rows);
  write_coverage(s, k);
  if (!k->levels) return;
  tt_schema_write_coordinate(s, &level, k->levels, k->level);
  tt_schema_write_from_root(s, &inside, k->inside);
}

void tt_scores_write_out_of_bag(tt_schema *s, const tt_scores *k, const char *units)
{
  const tt_variable rows = {"oob_rows",
                            TT_H5_I64,
                            {"column"},
                            "rows",
                            "training rows that at least one member was not trained on",
                            COLUMN_COORDINATES};
  for (int v = 0; v < TT_METRIC_COUNT; v++)
    if (tt_metric_table[v].forecasts & k->forecasts && v != TT_METRIC_crps)
      write_columns(s, "oob", v, k, units);
  tt_schema_write_from_root(s, &rows, k->rows);
}

tt_err tt_scores_write(tt_comm *c, const char *file, const tt_trained_ensembles *all,
                       const tt_scores *scores, const tt_provenance *from)
{
  tt_axis_labels o = {0};
  tt_schema s;
  tt_h5_file *f = NULL;
  tt_err e = tt_agree(c, tt_axis_labels_create(all, &o));
  if (!e) e = tt_h5_create(c, file, o.members * 256 + o.columns * 1024 + (1 << 16), &f);
  if (!e) {
    tt_schema_write_header(&s, c, f, TT_SCHEMA_SCORE, from);
    tt_axis_labels_write_columns(&s, &o);
    tt_axis_labels_write_members(&s, &o);
    tt_scores_write_variables(&s, scores, o.common_units);
    e = tt_h5_commit(&f, NULL);
  }
  tt_axis_labels_free(&o);
  return e;
}
