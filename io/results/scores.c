/* scores.c — memory of tt_scores and tt_test_predictions, and joining those of several cohorts; see
 * results.h. */
#include "core/base/mem.h"
#include "io/results/results.h"

#include <math.h>
#include <string.h>

const int tt_coverage_level[TT_COVERAGE_LEVELS] = {9, 17, 18};

static tt_err allocate(tt_scores *s)
{
  for (int v = 0; v < TT_METRIC_COUNT; v++) {
    TT_TRY(TT_ALLOC(s->member[v], s->members * s->targets));
    TT_TRY(TT_ALLOC(s->ensemble[v], s->columns));
  }
  TT_TRY(TT_ALLOC(s->calibration_curve, TT_INTERVALS * s->columns));
  TT_TRY(TT_ALLOC(s->interval_coverage, TT_COVERAGE_LEVELS * s->columns));
  TT_TRY(TT_ALLOC(s->diversity, s->columns));
  return TT_ALLOC(s->rows, s->columns);
}

tt_err tt_scores_create(int64_t members, int64_t targets, int64_t columns, tt_scores **out)
{
  tt_scores *s = NULL;
  TT_TRY(TT_ALLOC(s, 1));
  s->members = members;
  s->targets = targets;
  s->columns = columns;
  tt_err e = allocate(s);
  if (e)
    tt_scores_destroy(&s);
  else
    *out = s;
  return e;
}

tt_err tt_scores_add_conformal(tt_scores *s, int64_t levels, const double *level)
{
  s->levels = levels;
  TT_TRY(TT_ALLOC(s->level, levels));
  TT_TRY(TT_ALLOC(s->inside, levels * s->columns));
  if (levels) memcpy(s->level, level, (size_t)levels * sizeof *level);
  return TT_OK;
}

void tt_scores_destroy(tt_scores **s)
{
  if (!*s) return;
  for (int v = 0; v < TT_METRIC_COUNT; v++) {
    tt_free((*s)->member[v]);
    tt_free((*s)->ensemble[v]);
  }
  tt_free((*s)->calibration_curve);
  tt_free((*s)->interval_coverage);
  tt_free((*s)->diversity);
  tt_free((*s)->rows);
  tt_free((*s)->level);
  tt_free((*s)->inside);
  tt_free(*s);
}

/* Copy from[rows][width] into the table to[..][whole], starting at cell (row, column). */
static void copy_block(const double *from, int64_t rows, int64_t width, double *to, int64_t whole,
                       int64_t row, int64_t column)
{
  for (int64_t r = 0; r < rows; r++)
    memcpy(to + (row + r) * whole + column, from + r * width, (size_t)width * sizeof *to);
}

static void copy_part(const tt_scores *p, int64_t member, int64_t column, tt_scores *out)
{
  for (int v = 0; v < TT_METRIC_COUNT; v++) {
    copy_block(p->member[v], p->members, p->targets, out->member[v], out->targets, member, 0);
    copy_block(p->ensemble[v], 1, p->columns, out->ensemble[v], out->columns, 0, column);
  }
  copy_block(p->calibration_curve, TT_INTERVALS, p->columns, out->calibration_curve, out->columns,
             0, column);
  copy_block(p->interval_coverage, TT_COVERAGE_LEVELS, p->columns, out->interval_coverage,
             out->columns, 0, column);
  copy_block(p->diversity, 1, p->columns, out->diversity, out->columns, 0, column);
  copy_block(p->inside, p->levels, p->columns, out->inside, out->columns, 0, column);
  memcpy(out->rows + column, p->rows, (size_t)p->columns * sizeof *p->rows);
  out->forecasts |= p->forecasts;
}

static void fill_nan(double *to, int64_t n)
{
  for (int64_t i = 0; i < n; i++) to[i] = (double)NAN;
}

static tt_err create_concatenated(const tt_trained_ensembles *all, const tt_scores *sample,
                                  tt_scores **out)
{
  int64_t targets = 0, columns = tt_trained_ensembles_columns(all),
          members = tt_trained_ensembles_members(all);
  for (int64_t i = 0; i < all->count; i++)
    if (all->at[i]->model.targets > targets) targets = all->at[i]->model.targets;
  TT_TRY(tt_scores_create(members, targets, columns, out));
  for (int v = 0; v < TT_METRIC_COUNT; v++) {
    fill_nan((*out)->member[v], members * targets);
    fill_nan((*out)->ensemble[v], columns);
  }
  fill_nan((*out)->calibration_curve, TT_INTERVALS * columns);
  fill_nan((*out)->interval_coverage, TT_COVERAGE_LEVELS * columns);
  fill_nan((*out)->diversity, columns);
  tt_err e = tt_scores_add_conformal(*out, sample->levels, sample->level);
  if (e) tt_scores_destroy(out);
  return e;
}

tt_err tt_scores_concat(const tt_trained_ensembles *all, const tt_scores *const *part,
                        tt_scores **out)
{
  const tt_scores *sample = NULL;
  int64_t member = 0, column = 0;
  for (int64_t i = 0; i < all->count; i++) sample = part[i] ? part[i] : sample;
  TT_TRY(create_concatenated(all, sample, out));
  for (int64_t i = 0; i < all->count; i++) {
    if (part[i]) copy_part(part[i], member, column, *out);
    member += all->at[i]->members;
    column += tt_trained_ensemble_columns(all->at[i]);
  }
  return TT_OK;
}

void tt_test_predictions_free(tt_test_predictions *t)
{
  tt_free(t->row);
  tt_free(t->y);
  tt_free(t->mean);
  tt_free(t->total);
  tt_free(t->aleatoric);
  tt_free(t->epistemic);
}

enum { PREDICTION_ARRAYS = 5 };

static void prediction_arrays(tt_test_predictions *t, double **of[PREDICTION_ARRAYS])
{
  double **all[PREDICTION_ARRAYS] = {&t->y, &t->mean, &t->total, &t->aleatoric, &t->epistemic};
  memcpy(of, all, sizeof all);
}

tt_err tt_test_predictions_concat(const tt_trained_ensembles *all, const tt_test_predictions *part,
                                  tt_test_predictions *out)
{
  double **to[PREDICTION_ARRAYS], **from[PREDICTION_ARRAYS];
  int64_t whole = tt_trained_ensembles_columns(all), rows = part[0].rows, column = 0;
  prediction_arrays(out, to);
  out->rows = rows;
  for (int v = 0; part[0].y && v < PREDICTION_ARRAYS; v++) TT_TRY(TT_ALLOC(*to[v], rows * whole));
  for (int64_t i = 0; part[0].y && i < all->count; i++) {
    tt_test_predictions one = part[i];
    int64_t width = tt_trained_ensemble_columns(all->at[i]);
    prediction_arrays(&one, from);
    for (int v = 0; v < PREDICTION_ARRAYS; v++)
      copy_block(*from[v], rows, width, *to[v], whole, 0, column);
    column += width;
  }
  return TT_OK;
}
