/* trials.c — see trials.h. */
#include "io/results/trials.h"

#include "core/base/mem.h"

#include <math.h>
#include <string.h>

void tt_trials_free(tt_trials *t)
{
  for (int64_t i = 0; t->at && i < t->count; i++)
    tt_free_all(&t->at[i].ensemble, &t->at[i].label, &t->at[i].text);
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

/* The texts of a variable, in a field of all trials. */
static tt_err read_texts(tt_h5_reader *r, const char *name, size_t offset, tt_trials *t)
{
  char **text = NULL;
  TT_TRY(tt_schema_read_texts_local(r, name, t->count, &text));
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < t->count; i++)
    e = tt_text_set((char **)(void *)((char *)&t->at[i] + offset), text[i]);
  tt_h5_texts_free(t->count, &text);
  return e;
}

static tt_err read_all(tt_h5_reader *r, tt_trials *t)
{
  int64_t size[2] = {-1, TT_RUNGS};
  double *score = NULL, *weight = NULL, *rung = NULL;
  TT_TRY(tt_schema_read_array_local(r, "trial_score", TT_H5_F64, 2, size, &score));
  tt_err e = tt_schema_read_array_local(r, "trial_weight", TT_H5_F64, 1, size, &weight);
  if (!e) e = tt_schema_read_array_local(r, "trial_rung", TT_H5_F64, 1, size, &rung);
  if (!e) e = TT_ALLOC(t->at, size[0]);
  for (int64_t i = 0; !e && i < size[0]; i++) {
    tt_trial *x = &t->at[i];
    x->rung = rung[i] < 0.0 || rung[i] >= TT_RUNGS ? -1 : (int32_t)rung[i];
    x->weight = weight[i];
    memcpy(x->score, score + i * TT_RUNGS, sizeof x->score);
    t->count = i + 1;
  }
  tt_free_all(&score, &weight, &rung);
  if (!e) e = read_texts(r, "trial_ensemble", offsetof(tt_trial, ensemble), t);
  if (!e) e = read_texts(r, "trial_label", offsetof(tt_trial, label), t);
  if (!e) e = read_texts(r, "trial_options", offsetof(tt_trial, text), t);
  for (int64_t i = 1; !e && i < t->count; i++)
    t->at[i].number = t->at[i - 1].number + (strcmp(t->at[i].ensemble, t->at[i - 1].ensemble) != 0);
  return e;
}

tt_err tt_trials_read_local(tt_h5_reader *r, tt_trials *out)
{
  *out = (tt_trials){0};
  if (!tt_h5_has_local(r, "trial_score")) return TT_OK;
  tt_err e = read_all(r, out);
  if (e) tt_trials_free(out);
  return e;
}
