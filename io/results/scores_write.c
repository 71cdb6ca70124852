/* scores_write.c — see scores_internal.h, and tt_scores_write of results.h. */
#include "io/results/scores_internal.h"

#include "io/data/axis_labels.h"

#include <stdio.h>

#define MEMBER TT_OUTLINE_MEMBER
#define COLUMN TT_OUTLINE_COLUMN

static const char *units_of(tt_metric_units kind, const char *of_target)
{
  return kind == TT_UNITS_TARGET ? of_target : kind == TT_UNITS_PLAIN ? "1" : NULL;
}

/* One metric of columns. */
static void put_columns(tt_schema *s, const char *prefix, int metric, const tt_scores *k,
                        const char *units)
{
  char name[64];
  const tt_metric_row *row = &tt_metric_table[metric];
  snprintf(name, sizeof name, "%s_%s", prefix, row->name);
  const tt_variable v = {name,         TT_H5_F64, {"column"}, units_of(row->units, units),
                         row->meaning, COLUMN};
  tt_schema_root(s, &v, k->ensemble[metric]);
}

/* One variable per metric that any of the forecasts has: of members, then of ensembles. */
static void put_metrics(tt_schema *s, const tt_scores *k, const char *units)
{
  char name[64];
  for (int v = 0; v < TT_METRIC_COUNT; v++) {
    const tt_metric_row *row = &tt_metric_table[v];
    if (!(row->outputs & k->outputs)) continue;
    snprintf(name, sizeof name, "test_%s", row->name);
    const tt_variable of_member = {
        name, TT_H5_F64, {"member", "target"}, units_of(row->units, units), row->meaning, MEMBER};
    tt_schema_root(s, &of_member, k->member[v]);
    put_columns(s, "ensemble", v, k, units);
  }
}

static void put_coverage(tt_schema *s, const tt_scores *k)
{
  double level[TT_INTERVALS], few[TT_SHOWN];
  const tt_variable interval = {
      "interval", TT_H5_F64, {"interval"}, "1", "probability of the central interval", NULL};
  const tt_variable levels = {
      "level", TT_H5_F64, {"level"}, "1", "probability of the central interval", NULL};
  const tt_variable covered = {
      "coverage", TT_H5_F64, {"interval", "column"}, "1", "share of test rows inside the interval",
      COLUMN};
  const tt_variable curve = {
      "calibration", TT_H5_F64, {"level", "column"}, "1", "share of test rows inside the interval",
      COLUMN};
  for (int i = 0; i < TT_INTERVALS; i++)
    level[i] = tt_interval(i);
  for (int i = 0; i < TT_SHOWN; i++)
    few[i] = level[tt_shown[i]];
  tt_schema_coordinate(s, &interval, TT_SHOWN, few);
  tt_schema_root(s, &covered, k->covered);
  tt_schema_coordinate(s, &levels, TT_INTERVALS, level);
  tt_schema_root(s, &curve, k->coverage);
}

void tt_scores_put(tt_schema *s, const tt_scores *k, const char *units)
{
  const tt_variable alike = {"ensemble_error_correlation",
                             TT_H5_F64,
                             {"column"},
                             "1",
                             "mean correlation of the errors of two members",
                             COLUMN};
  const tt_variable rows = {"test_rows", TT_H5_I64, {"column"}, "rows", "test rows scored", COLUMN};
  const tt_variable level = {"conformal_level",
                             TT_H5_F64,
                             {"conformal_level"},
                             "1",
                             "share of new rows the interval is made to cover",
                             NULL};
  const tt_variable inside = {"conformal_coverage",
                              TT_H5_F64,
                              {"conformal_level", "column"},
                              "1",
                              "share of test rows inside the conformal interval",
                              COLUMN};
  put_metrics(s, k, units);
  tt_schema_root(s, &alike, k->diversity);
  tt_schema_root(s, &rows, k->rows);
  put_coverage(s, k);
  if (!k->levels) return;
  tt_schema_coordinate(s, &level, k->levels, k->level);
  tt_schema_root(s, &inside, k->inside);
}

void tt_scores_put_out_of_bag(tt_schema *s, const tt_scores *k, const char *units)
{
  const tt_variable rows = {
      "oob_rows", TT_H5_I64, {"column"}, "rows", "training rows that some member did not see",
      COLUMN};
  for (int v = 0; v < TT_METRIC_COUNT; v++)
    if (tt_metric_table[v].outputs & k->outputs && v != TT_METRIC_crps)
      put_columns(s, "oob", v, k, units);
  tt_schema_root(s, &rows, k->rows);
}

tt_err tt_scores_write(tt_comm *c, const char *file, const tt_committees *all,
                       const tt_scores *scores, const tt_provenance *from)
{
  tt_outline o = {0};
  tt_schema s;
  tt_h5_file *f = NULL;
  tt_err e = tt_agree(c, tt_outline_make(all, &o));
  if (!e) e = tt_h5_create(c, file, o.members * 256 + o.columns * 1024 + (1 << 16), &f);
  if (!e) {
    tt_schema_begin(&s, c, f, TT_SCHEMA_SCORE, from);
    tt_outline_write_columns(&s, &o);
    tt_outline_write_members(&s, &o);
    tt_scores_put(&s, scores, o.common_units);
    e = tt_h5_commit(&f, NULL);
  }
  tt_outline_free(&o);
  return e;
}
