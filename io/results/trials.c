/* trials.c — see trials.h. */
#include "io/results/trials.h"

#include "core/base/mem.h"

#include <math.h>

void tt_trials_free(tt_trials *t)
{
  for (int64_t i = 0; t->at && i < t->count; i++) tt_free(t->at[i].text);
  tt_free(t->at);
  *t = (tt_trials){0};
}

double tt_trial_last_score(const tt_trial *t)
{
  return t->rung < 0 ? (double)NAN : t->score[t->rung];
}

/* 1 if trial a is better than b, or equal and earlier. */
static int is_before(const tt_trials *t, int64_t a, int64_t b)
{
  const tt_trial *x = &t->at[a], *y = &t->at[b];
  double one = tt_trial_last_score(x), other = tt_trial_last_score(y);
  if (x->number != y->number) return x->number < y->number;
  if (isnan(one) != isnan(other)) return isnan(other);
  if (x->rung != y->rung) return x->rung > y->rung;
  return one < other || (!(other < one) && a < b);
}

void tt_trials_rank(const tt_trials *t, int64_t *order)
{
  for (int64_t i = 0; i < t->count; i++) {
    int64_t place = i;
    for (; place > 0 && is_before(t, i, order[place - 1]); place--) order[place] = order[place - 1];
    order[place] = i;
  }
}

/* One value of each trial. */
typedef struct trial_arrays {
  const char **ensemble, **label, **text;
  int32_t *rung;
  double *score, *weight;
} trial_arrays;

static tt_err fill(const tt_trials *t, trial_arrays *a)
{
  TT_TRY(TT_ALLOC(a->ensemble, t->count));
  TT_TRY(TT_ALLOC(a->label, t->count));
  TT_TRY(TT_ALLOC(a->text, t->count));
  TT_TRY(TT_ALLOC(a->rung, t->count));
  TT_TRY(TT_ALLOC(a->weight, t->count));
  TT_TRY(TT_ALLOC(a->score, t->count * TT_RUNGS));
  for (int64_t i = 0; i < t->count; i++) {
    const tt_trial *one = &t->at[i];
    a->ensemble[i] = one->ensemble;
    a->label[i] = one->label;
    a->text[i] = one->text;
    a->rung[i] = one->rung;
    a->weight[i] = one->weight;
    for (int k = 0; k < TT_RUNGS; k++) a->score[i * TT_RUNGS + k] = one->score[k];
  }
  return TT_OK;
}

static void write(tt_schema *s, int64_t count, const trial_arrays *a)
{
  static const char labels[] = "trial_ensemble trial_label trial_options";
  int64_t length = tt_h5_max_text_length(count, a->text);
  int64_t name = tt_h5_max_text_length(count, a->ensemble);
  if (name > length) length = name;
  tt_schema_create_dimension(s, "trial", count);
  tt_schema_create_dimension(s, "rung", TT_RUNGS);
  tt_schema_create_dimension(s, "trial_strlen", length < TT_LABEL_SIZE ? TT_LABEL_SIZE : length);
  tt_schema_write_texts(s, "trial_ensemble", "trial", "trial_strlen", a->ensemble,
                        "ensemble of the trial");
  tt_schema_write_texts(s, "trial_label", "trial", "trial_strlen", a->label, "name of the trial");
  tt_schema_write_texts(s, "trial_options", "trial", "trial_strlen", a->text,
                        "options in which trials differ");
  TT_SCHEMA_WRITE(s, a->score, "trial_score", F64, "1",
                  "mean over folds of the lowest validation loss until the end of the rung", labels,
                  "trial", "rung");
  TT_SCHEMA_WRITE(s, a->rung, "trial_rung", I32, NULL,
                  "rung at which the trial ended, from 0; -1 = not begun", labels, "trial");
  TT_SCHEMA_WRITE(s, a->weight, "trial_weight", F64, "1",
                  "share of the trial in the prediction of its ensemble", labels, "trial");
}

tt_err tt_trials_write(tt_schema *s, const tt_trials *t)
{
  trial_arrays a = {0};
  if (!t || !t->count) return TT_OK;
  tt_err e = fill(t, &a);
  if (!e) write(s, t->count, &a);
  tt_free_all(&a.ensemble, &a.label, &a.text, &a.rung, &a.score, &a.weight);
  return e;
}
