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
#define X(field, rows) TT_TRY(TT_ALLOC(s->field, (rows)*s->columns));
  TT_SCORE_TABLES(X)
#undef X
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
  if (e) tt_scores_destroy(&s);
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
#define X(field, rows) tt_free((*s)->field);
  TT_SCORE_TABLES(X)
#undef X
  tt_free_all(&(*s)->rows, &(*s)->level, &(*s)->inside, s);
}

/* Copy from[rows][width] into the table to[..][whole], starting at cell (row, column). */
static void copy_block(const double *src, int64_t rows, int64_t width, double *dst, int64_t whole,
                       int64_t row, int64_t column)
{
  for (int64_t r = 0; r < rows; r++)
    memcpy(dst + (row + r) * whole + column, src + r * width, (size_t)width * sizeof *dst);
}

static void copy_part(const tt_scores *p, int64_t member, int64_t column, tt_scores *out)
{
  for (int v = 0; v < TT_METRIC_COUNT; v++) {
    copy_block(p->member[v], p->members, p->targets, out->member[v], out->targets, member, 0);
    copy_block(p->ensemble[v], 1, p->columns, out->ensemble[v], out->columns, 0, column);
  }
#define X(field, rows) copy_block(p->field, rows, p->columns, out->field, out->columns, 0, column);
  TT_SCORE_TABLES(X)
#undef X
  copy_block(p->inside, p->levels, p->columns, out->inside, out->columns, 0, column);
  memcpy(out->rows + column, p->rows, (size_t)p->columns * sizeof *p->rows);
  out->forecasts |= p->forecasts;
  out->baselines |= p->baselines;
}

static void fill_nan(double *dst, int64_t n)
{
  for (int64_t i = 0; i < n; i++) dst[i] = (double)NAN;
}

static tt_err create_concatenated(const tt_trained_ensembles *all, const tt_scores *sample,
                                  tt_scores **out)
{
  int64_t targets = 0, columns = tt_trained_ensembles_columns(all),
          members = tt_trained_ensembles_members(all);
  for (int64_t i = 0; i < all->count; i++)
    if (tt_trained_ensemble_targets(all->at[i]) > targets)
      targets = tt_trained_ensemble_targets(all->at[i]);
  TT_TRY(tt_scores_create(members, targets, columns, out));
  for (int v = 0; v < TT_METRIC_COUNT; v++) {
    fill_nan((*out)->member[v], members * targets);
    fill_nan((*out)->ensemble[v], columns);
  }
#define X(field, rows) fill_nan((*out)->field, (rows)*columns);
  TT_SCORE_TABLES(X)
#undef X
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

void tt_test_predictions_arrays(tt_test_predictions *t, double **array[TT_TEST_VARIABLE_COUNT])
{
#define X(field, ...) array[TT_TEST_##field] = &t->field;
  TT_TEST_VARIABLES(X)
#undef X
}

void tt_test_predictions_free(tt_test_predictions *t)
{
  tt_free_all(&t->row, &t->group);
#define X(field, ...) tt_free(t->field);
  TT_TEST_VARIABLES(X)
#undef X
}

tt_err tt_test_predictions_concat(const tt_trained_ensembles *all, const tt_test_predictions *part,
                                  tt_test_predictions *out)
{
  int64_t whole = tt_trained_ensembles_columns(all), rows = part[0].rows, column = 0;
  out->rows = rows;
  if (!part[0].y) return TT_OK;
#define X(field, ...) TT_TRY(TT_ALLOC(out->field, rows *whole));
  TT_TEST_VARIABLES(X)
#undef X
  for (int64_t i = 0; i < all->count; i++) {
    int64_t width = tt_trained_ensemble_columns(all->at[i]);
#define X(field, ...) copy_block(part[i].field, rows, width, out->field, whole, 0, column);
    TT_TEST_VARIABLES(X)
#undef X
    column += width;
  }
  return TT_OK;
}
