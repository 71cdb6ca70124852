/* baseline_scores.c — tt_score_baselines of score.h. */
#include "core/base/mem.h"
#include "core/stats/baselines.h"
#include "src/score/score.h"

#include <math.h>

enum { MOST_TARGETS = 8 };

/* One target of an ensemble. */
typedef struct target_rows {
  const tt_dataset *d;
  int32_t selection; /* of training rows; -1: all */
  int64_t target;    /* column of the data set */
  tt_baseline_rows rows;
  double *store, *label, *prediction; /* all numbers; label: of the test rows */
} target_rows;

static int is_row(const target_rows *t, int64_t r, tt_split which)
{
  const tt_dataset *d = t->d;
  if ((tt_split)d->split[r] != which || !isfinite(d->y[r * d->targets + t->target])) return 0;
  return which != TT_TRAIN || t->selection < 0 || d->selected[t->selection * d->rows + r];
}

/*   x, y  NULL: not copied. Returns the number of rows. */
static int64_t take_rows(const target_rows *t, tt_split which, double *x, double *y)
{
  const tt_dataset *d = t->d;
  int64_t n = 0;
  for (int64_t r = 0; r < d->rows; r++) {
    if (!is_row(t, r, which)) continue;
    for (int64_t i = 0; x && i < d->inputs; i++)
      x[n * d->inputs + i] = (double)d->x[r * d->inputs + i];
    if (y) y[n] = (double)d->y[r * d->targets + t->target];
    n++;
  }
  return n;
}

/* All but the mean read the inputs. */
static int reads_inputs(const tt_baseline_rows *rows)
{
  int possible = 0;
  for (int b = 0; b < TT_BASELINE_COUNT; b++)
    possible |= b != TT_BASELINE_mean && tt_baseline_is_possible((tt_baseline)b, rows);
  return possible;
}

static tt_err allocate(target_rows *t)
{
  int64_t n = take_rows(t, TT_TRAIN, NULL, NULL), m = take_rows(t, TT_TEST, NULL, NULL);
  t->rows = (tt_baseline_rows){.train = n, .test = m, .inputs = t->d->inputs};
  int64_t copied = reads_inputs(&t->rows) ? t->d->inputs : 0;
  TT_TRY(TT_ALLOC(t->store, n * (copied + 1) + m * (copied + 2)));
  double *x = t->store, *x_test = x + n * copied, *y = x_test + m * copied;
  t->rows.x = x;
  t->rows.x_test = x_test;
  t->rows.y = y;
  t->label = y + n;
  t->prediction = t->label + m;
  take_rows(t, TT_TRAIN, copied ? x : NULL, y);
  take_rows(t, TT_TEST, copied ? x_test : NULL, t->label);
  return TT_OK;
}

/* In the user's units. */
static double rmse(const target_rows *t)
{
  double sum = 0.0;
  for (int64_t i = 0; i < t->rows.test; i++) {
    double y = tt_scaler_denormalize_target(&t->d->scaler, t->target, t->label[i]);
    double p = tt_scaler_denormalize_target(&t->d->scaler, t->target, t->prediction[i]);
    sum += (p - y) * (p - y);
  }
  return sqrt(sum / (double)t->rows.test);
}

/*   score  [TT_BASELINE_COUNT] */
static tt_err score_target(target_rows *t, double *score)
{
  tt_err e = allocate(t);
  for (int b = 0; !e && b < TT_BASELINE_COUNT; b++) {
    if (!t->rows.test || !tt_baseline_is_possible((tt_baseline)b, &t->rows)) continue;
    e = tt_baseline_predict((tt_baseline)b, &t->rows, t->prediction);
    if (!e) score[b] = rmse(t);
  }
  tt_free(t->store);
  return e;
}

static tt_err score_local(const tt_dataset *d, const tt_trained_ensemble *m, tt_scores *s)
{
  int64_t targets = tt_trained_ensemble_targets(m), each = m->model.quantities;
  for (int64_t i = 0; i < m->ensembles * targets; i++) {
    const tt_ensemble *e = &m->ensemble[i / targets];
    int64_t column = i / targets * tt_trained_ensemble_width(m) + i % targets * each;
    double score[TT_BASELINE_COUNT] = {NAN, NAN, NAN, NAN};
    target_rows t = {.d = d, .selection = e->selection, .target = e->column[i % targets]};
    TT_TRY(score_target(&t, score));
    for (int64_t k = 0; k < TT_BASELINE_COUNT * each; k++)
      s->baseline[k / each * s->columns + column + k % each] = score[k / each];
  }
  return TT_OK;
}

static int are_numbers(const tt_model *m, int64_t ensembles, int64_t targets)
{
  return tt_output_labels(m->output) == TT_LABEL_TYPE_real && ensembles * targets <= MOST_TARGETS;
}

double tt_score_baseline_bytes(const tt_model *m, int64_t ensembles, int64_t train, int64_t test)
{
  const tt_baseline_rows rows = {.train = train, .test = test, .inputs = m->inputs};
  double copied = 2.0 + (reads_inputs(&rows) ? (double)m->inputs : 0.0);
  if (!are_numbers(m, ensembles, m->targets) || test < 1) return 0.0;
  return 8.0 * (double)(train + test) * copied + tt_baseline_bytes(&rows);
}

tt_err tt_score_baselines(tt_comm *c, const tt_dataset *d, const tt_trained_ensemble *m,
                          tt_scores *s)
{
  int known = !d->weight && are_numbers(&m->model, m->ensembles, tt_trained_ensemble_targets(m));
  int64_t count = TT_BASELINE_COUNT * s->columns;
  for (int64_t i = 0; i < count; i++) s->baseline[i] = (double)NAN;
  if (!known) return TT_OK;
  tt_err e = tt_agree(c, tt_comm_is_root(c) ? score_local(d, m, s) : TT_OK);
  if (!e) tt_bcast(c, s->baseline, count * (int64_t)sizeof *s->baseline);
  if (!e) s->baselines = 1;
  return e;
}
