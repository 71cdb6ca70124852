/* results_write.c — tt_results_write of results_io.h; the layout is in docs/files.md. */
#include "base/mem.h"
#include "io/outline.h"
#include "io/results_io.h"

#include <inttypes.h>
#include <stdio.h>

#define MEMBER TT_OUTLINE_MEMBER " learning_rate"
#define COLUMN TT_OUTLINE_COLUMN

enum { HALF = 9, MOST = 17, NEARLY_ALL = 18 }; /* tt_interval: 50, 90, 95 % */

/* What the arguments hold in another form, made before anything is written. */
typedef struct tables {
  tt_outline outline;
  int32_t *epoch;   /* [E] 0, 1, 2, ... */
  double *coverage; /* [3][C] */
  double level[TT_INTERVALS];
#define X(field, type, ...) type *field; /* [G] */
  TT_HYPERS(X)
#undef X
} tables;

static void free_tables(tables *t)
{
  tt_outline_free(&t->outline);
  tt_free(t->epoch);
  tt_free(t->coverage);
#define X(field, ...) tt_free(t->field);
  TT_HYPERS(X)
#undef X
}

static tt_err make_tables_local(const tt_cohort *cohort, const tt_committee *all,
                                const tt_state *mine, const tt_scores *scores, tables *t)
{
  int64_t columns = tt_committee_columns(all);
  if (mine->epochs != cohort->max_epochs || all->members != cohort->members)
    return TT_FAIL(INTERNAL, "%" PRId64 " epochs of %" PRId64 ", %" PRId64 " members of %" PRId64,
                   mine->epochs, cohort->max_epochs, all->members, cohort->members);
  TT_TRY(tt_outline_make(all, &t->outline));
  TT_TRY(TT_ALLOC(t->epoch, cohort->max_epochs));
  for (int64_t i = 0; i < cohort->max_epochs; i++)
    t->epoch[i] = (int32_t)i;
#define X(field, ...)                                                                              \
  TT_TRY(TT_ALLOC(t->field, all->members));                                                        \
  for (int64_t i = 0; i < all->members; i++)                                                       \
    t->field[i] = cohort->member[i].hyper.field;
  TT_HYPERS(X)
#undef X
  TT_TRY(TT_ALLOC(t->coverage, 3 * columns));
  for (int i = 0; i < TT_INTERVALS; i++)
    t->level[i] = tt_interval(i);
  for (int64_t i = 0; scores && i < columns; i++) {
    const double *of = scores->coverage + i;
    t->coverage[i] = of[HALF * columns];
    t->coverage[columns + i] = of[MOST * columns];
    t->coverage[2 * columns + i] = of[NEARLY_ALL * columns];
  }
  return TT_OK;
}

static void write_hypers(tt_schema *s, const tables *t)
{
#define X(field, ctype, h5, units, meaning)                                                        \
  tt_schema_root(s, &(tt_variable){#field, TT_H5_##h5, {"member"}, units, meaning, "ensemble"},    \
                 t->field);
  TT_HYPERS(X)
#undef X
}

/* History and end of each member: from its own rank. */
static void write_members(tt_schema *s, const tt_state *m)
{
  const tt_variable status = {"status", TT_H5_I8, {"member"}, NULL, "how training ended", MEMBER};
  const tt_variable rows[] = {
      {"loss_train", TT_H5_F32, {"member", "epoch"}, "1", "mean training loss of an epoch", MEMBER},
      {"loss_validation", TT_H5_F32, {"member", "epoch"}, "1", "validation loss", MEMBER},
      {"best_loss", TT_H5_F64, {"member"}, "1", "lowest validation loss", MEMBER},
      {"best_epoch", TT_H5_I32, {"member"}, NULL, "its epoch, from 0; -1 = none", MEMBER},
      {"epochs_done", TT_H5_I32, {"member"}, "epochs", "whole epochs trained", MEMBER},
      {"steps_done", TT_H5_I64, {"member"}, "steps", "optimiser steps taken", MEMBER}};
  const void *data[] = {TT_FIELD(m, loss_train), TT_FIELD(m, loss_validation),
                        TT_FIELD(m, best_loss),  TT_FIELD(m, best_epoch),
                        TT_FIELD(m, epoch),      TT_FIELD(m, step)};
  tt_schema_slice(s, &status, m->first, m->count, TT_FIELD(m, status));
  tt_schema_flags(s, "status", TT_STATUS_diverged + 1, tt_schema_status);
  for (int i = 0; i < 6; i++)
    tt_schema_slice(s, &rows[i], m->first, m->count, data[i]);
}

/* One variable per metric that any of the forecasts has: of members, then of ensembles. */
static void write_metrics(tt_schema *s, const tt_scores *k, const char *units)
{
  char name[64];
  for (int v = 0; v < TT_METRIC_COUNT; v++) {
    const tt_metric_row *row = &tt_metric_table[v];
    const char *const of[] = {NULL, "1", units};
    if (!(row->outputs & k->outputs)) continue;
    snprintf(name, sizeof name, "test_%s", row->name);
    tt_schema_root(
        s,
        &(tt_variable){name, TT_H5_F64, {"member", "target"}, of[row->units], row->meaning, MEMBER},
        k->member[v]);
    snprintf(name, sizeof name, "ensemble_%s", row->name);
    tt_schema_root(
        s, &(tt_variable){name, TT_H5_F64, {"column"}, of[row->units], row->meaning, COLUMN},
        k->ensemble[v]);
  }
}

static void write_scores(tt_schema *s, const tt_scores *k, const tables *t, const char *units)
{
  const double shown[] = {0.5, 0.9, 0.95};
  const tt_variable interval = {
      "interval", TT_H5_F64, {"interval"}, "1", "probability of the central interval", NULL};
  const tt_variable covered = {
      "coverage", TT_H5_F64, {"interval", "column"}, "1", "share of test rows inside the interval",
      COLUMN};
  const tt_variable level = {
      "level", TT_H5_F64, {"level"}, "1", "probability of the central interval", NULL};
  const tt_variable curve = {
      "calibration", TT_H5_F64, {"level", "column"}, "1", "share of test rows inside the interval",
      COLUMN};
  const tt_variable alike = {"ensemble_error_correlation",
                             TT_H5_F64,
                             {"column"},
                             "1",
                             "mean correlation of the errors of two members",
                             COLUMN};
  const tt_variable rows = {"test_rows", TT_H5_I64, {"column"}, "rows", "test rows scored", COLUMN};
  write_metrics(s, k, units);
  tt_schema_root(s, &alike, k->diversity);
  tt_schema_root(s, &rows, k->rows);
  tt_schema_coordinate(s, &interval, 3, shown);
  tt_schema_root(s, &covered, t->coverage);
  tt_schema_coordinate(s, &level, TT_INTERVALS, t->level);
  tt_schema_root(s, &curve, k->coverage);
}

static void write_test(tt_schema *s, const tt_test_table *t, const char *units)
{
  const tt_variable row = {"sample", TT_H5_I64, {"sample"}, NULL, "row of the data file, from 0",
                           NULL};
  const tt_variable v[] = {
      {"y_true", TT_H5_F64, {"sample", "column"}, units, "measured", COLUMN},
      {"y_pred_mean", TT_H5_F64, {"sample", "column"}, units, "predicted mean", COLUMN},
      {"y_pred_std", TT_H5_F64, {"sample", "column"}, units, "standard deviation", COLUMN},
      {"y_pred_std_aleatoric",
       TT_H5_F64,
       {"sample", "column"},
       units,
       "noise the members see in the data",
       COLUMN},
      {"y_pred_std_epistemic",
       TT_H5_F64,
       {"sample", "column"},
       units,
       "disagreement of the members",
       COLUMN}};
  const double *data[] = {t->y, t->mean, t->total, t->aleatoric, t->epistemic};
  tt_schema_coordinate(s, &row, t->rows, t->row);
  for (int i = 0; i < 5; i++)
    tt_schema_root(s, &v[i], data[i]);
}

tt_err tt_results_write(tt_comm *c, const char *file, const tt_cohort *cohort,
                        const tt_committee *all, const tt_state *mine, const tt_scores *scores,
                        const tt_test_table *test, const tt_provenance *from)
{
  const tt_variable epoch = {"epoch", TT_H5_I32, {"epoch"}, NULL, "epoch, from 0", NULL};
  tables t = {0};
  tt_schema s;
  tt_h5_file *f = NULL;
  const char *units;
  int64_t rows = test ? test->rows : 0;
  int64_t bytes = cohort->members * (cohort->max_epochs * 8 + 256) +
                  rows * tt_committee_columns(all) * 48 + (1 << 16);
  tt_err e = tt_agree(c, make_tables_local(cohort, all, mine, scores, &t));
  if (!e) e = tt_h5_create(c, file, bytes, &f);
  if (!e) {
    units = t.outline.common_units;
    tt_schema_begin(&s, c, f, TT_SCHEMA_RESULT, from);
    tt_outline_write_columns(&s, &t.outline);
    tt_outline_write_members(&s, &t.outline);
    tt_schema_coordinate(&s, &epoch, cohort->max_epochs, t.epoch);
    write_hypers(&s, &t);
    write_members(&s, mine);
    if (scores) write_scores(&s, scores, &t, units);
    if (rows > 0) write_test(&s, test, units);
    e = tt_h5_commit(&f, NULL);
  }
  free_tables(&t);
  return e;
}
