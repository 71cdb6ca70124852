/* tables.c — see run_page_internal.h: scores, classes, trials of a search. */
#include "core/base/mem.h"
#include "src/report/page/run_page_internal.h"

#include <inttypes.h>
#include <math.h>

enum { MAX_CONFUSED = 12 /* most classes of a table of errors */ };

/* Scores */

static int is_known(const tt_run_page *p, const double *value)
{
  int64_t c = 0;
  while (c < p->k->columns && !isfinite(value[c])) c++;
  return c < p->k->columns;
}

static void put_scores_of(const tt_run_page *p, int64_t i, int has_oob)
{
  const tt_target *t = &p->t[i];
  const tt_results *k = p->k;
  tt_target_verdict v = tt_target_judge(p, i);
  int is_class = tt_target_is_class(k, t->first);
  const double value[] = {v.error,
                          100 * v.relative,
                          k->score[TT_METRIC_r2][t->column],
                          k->score[TT_METRIC_nll][t->column],
                          k->score[TT_METRIC_crps][t->column],
                          is_class ? (double)NAN : 100 * v.inside,
                          (double)t->rows};
  tt_page_next_row(p->f);
  tt_page_text_cell(p->f, t->title);
  tt_page_text_cell(p->f, is_class ? "class" : k->units[t->first]);
  for (size_t j = 0; j < sizeof value / sizeof *value; j++) tt_page_number_cell(p->f, value[j]);
  if (has_oob)
    tt_page_number_cell(p->f, k->oob[is_class ? TT_METRIC_accuracy : TT_METRIC_rmse][t->column]);
  for (int b = 0; b < TT_BASELINE_COUNT; b++)
    if (is_known(p, k->baseline[b])) tt_page_number_cell(p->f, k->baseline[b][t->column]);
}

void tt_run_page_put_scores(const tt_run_page *p)
{
  int has_oob = 0;
  for (int64_t c = 0; c < p->k->columns; c++) has_oob |= p->k->oob_rows[c] > 0;
  if (!p->k->rows && !has_oob) return;
  tt_page_section(
      p->f, "Scores",
      "Of the test rows. Relative error: rmse in per cent of the standard deviation of "
      "the labels; for classes, errors in per cent of those of the most frequent class. "
      "Out of bag: of the training rows, by the members that were not trained on them. "
      "Last, the rmse of simple predictors that were trained on the same rows.");
  tt_page_begin_table(p->f, "target|units|#rmse or accuracy|#relative %|#R^2|#nll|#CRPS|#in 90 %"
                            "|#rows");
  if (has_oob) tt_page_head(p->f, "out of bag", 1);
  for (int b = 0; b < TT_BASELINE_COUNT; b++)
    if (is_known(p, p->k->baseline[b])) tt_page_head(p->f, tt_baseline_table[b].name, 1);
  for (int64_t i = 0; i < p->targets; i++) put_scores_of(p, i, has_oob);
  tt_page_end_table(p->f);
}

/* Number of test rows of class `row` that are taken for class `column`. */
static int64_t confused(const tt_results *k, const tt_target *t, int64_t classes, int64_t row,
                        int64_t column)
{
  int64_t n = 0;
  for (int64_t r = 0; r < k->rows; r++) {
    const double *y = &k->test.y[r * k->columns + t->first];
    const double *mean = &k->test.mean[r * k->columns + t->first];
    int64_t top = 0;
    for (int64_t c = 1; c < classes; c++)
      if (mean[c] > mean[top]) top = c;
    n += y[row] == 1 && top == column;
  }
  return n;
}

/* The last column of a target of several classes is the entropy. */
void tt_run_page_put_confusion(const tt_run_page *p, const tt_target *t)
{
  int64_t classes = t->count - 1;
  char name[24];
  if (!tt_target_is_class(p->k, t->first) || classes < 2 || classes > MAX_CONFUSED ||
      p->k->rows == 0)
    return;
  tt_page_begin_table(p->f, "true class, taken for");
  for (int64_t c = 0; c < classes; c++) {
    snprintf(name, sizeof name, "%" PRId64, c);
    tt_page_head(p->f, name, 1);
  }
  for (int64_t row = 0; row < classes; row++) {
    tt_page_next_row(p->f);
    snprintf(name, sizeof name, "%" PRId64, row);
    tt_page_text_cell(p->f, name);
    for (int64_t c = 0; c < classes; c++)
      tt_page_number_cell(p->f, (double)confused(p->k, t, classes, row, c));
  }
  tt_page_end_table(p->f);
}

/* Search */

static void put_trial(const tt_run_page *p, const tt_trial *t)
{
  tt_page_next_row(p->f);
  tt_page_text_cell(p->f, t->ensemble);
  tt_page_text_cell(p->f, t->label);
  for (int rung = 0; rung < TT_RUNGS; rung++) tt_page_number_cell(p->f, t->score[rung]);
  tt_page_number_cell(p->f, t->weight);
  tt_page_text_cell(p->f, t->text);
}

tt_err tt_run_page_put_search(const tt_run_page *p)
{
  enum { MOST_TRIALS = 10 }; /* of an ensemble */
  const tt_trials *t = &p->k->trials;
  char text[256];
  int64_t *order = NULL, begun = 0, shown = 0;
  if (!t->count) return TT_OK;
  TT_TRY(TT_ALLOC(order, t->count));
  tt_trials_rank(t, order);
  for (int64_t i = 0; i < t->count; i++) begun += t->at[i].rung >= 0;
  snprintf(text, sizeof text,
           "%" PRId64 " trials, of which %" PRId64 " began. Validation loss of the best ones, on "
           "the folds that their members left out; the score on the test rows is above.",
           t->count, begun);
  tt_page_section(p->f, "Search", text);
  tt_page_begin_table(p->f, "ensemble|trial");
  for (int rung = 1; rung <= TT_RUNGS; rung++) {
    snprintf(text, sizeof text, "loss, rung %d", rung);
    tt_page_head(p->f, text, 1);
  }
  tt_page_head(p->f, "weight", 1);
  tt_page_head(p->f, "options", 0);
  for (int64_t i = 0; i < t->count; i++) {
    const tt_trial *x = &t->at[order[i]];
    if (i == 0 || t->at[order[i - 1]].number != x->number) shown = 0;
    if (x->rung >= 0 && shown++ < MOST_TRIALS) put_trial(p, x);
  }
  tt_page_end_table(p->f);
  tt_free(order);
  return TT_OK;
}
