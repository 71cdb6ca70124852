/* fold_fit.c — see fold_fit.h. */
#include "io/columns/fold_fit.h"

#include "core/base/mem.h"
#include "core/model/cohort.h"

#include <math.h>
#include <string.h>

/* Members that leave out this fold. */
typedef struct fold_owner {
  const tt_cohort *cohort;
  int64_t row_set;
  uint64_t left_out;
} fold_owner;

/* What the ranks do together, one fold after the other. */
typedef struct fold_fit {
  tt_comm *comm;
  const tt_fold_source *from;
  tt_dataset *d;
  int fits_inputs;
  int64_t folds;
  fold_owner *owner; /* [folds] */
  int8_t *split;     /* [N] d->split without the rows of the fold */
  float *x, *y;      /* [count][F], [count][T] normalized rows of this rank */
} fold_fit;

static tt_err list_fold(fold_fit *f, const tt_dataset *training, const tt_cohort *c,
                        int64_t row_set)
{
  int32_t *row = NULL;
  int64_t count = 0;
  TT_TRY(tt_cohort_rows(c, training, row_set, TT_VALIDATION, &row, &count));
  uint64_t left_out = tt_fold_hash(count, row);
  tt_free(row);
  for (int64_t k = 0; k < f->folds; k++)
    if (f->owner[k].left_out == left_out) return TT_OK;
  f->owner[f->folds++] = (fold_owner){c, row_set, left_out};
  return TT_OK;
}

/* The folds that members leave out; cohorts without kfold have none. */
static tt_err list_folds(fold_fit *f, const tt_dataset *training, const tt_cohorts *all)
{
  int64_t most = 0;
  for (int64_t k = 0; k < all->count; k++)
    if (all->at[k]->resample == TT_RESAMPLE_kfold) most += all->at[k]->members;
  TT_TRY(TT_ALLOC(f->owner, most));
  for (int64_t k = 0; k < all->count; k++) {
    const tt_cohort *c = all->at[k];
    int64_t before = -1;
    for (int64_t m = 0; c->resample == TT_RESAMPLE_kfold && m < c->members; m++) {
      int64_t row_set = tt_member_row_set(c, &c->member[m]);
      if (row_set != before) TT_TRY(list_fold(f, training, c, row_set));
      before = row_set;
    }
  }
  return TT_OK;
}

static tt_err allocate(fold_fit *f)
{
  tt_dataset *d = f->d;
  if (f->folds) TT_TRY(tt_dataset_add_folds(d, f->folds));
  TT_TRY(TT_ALLOC(f->split, d->rows));
  TT_TRY(TT_ALLOC(f->x, f->from->x->count * d->inputs));
  return TT_ALLOC(f->y, f->from->y->count * d->targets);
}

/* The split without the rows of fold k. */
static tt_err leave_out(fold_fit *f, const tt_dataset *training, int64_t k)
{
  const fold_owner *o = &f->owner[k];
  int32_t *row = NULL;
  int64_t count = 0;
  TT_TRY(tt_cohort_rows(o->cohort, training, o->row_set, TT_VALIDATION, &row, &count));
  memcpy(f->split, f->d->split, (size_t)f->d->rows);
  for (int64_t i = 0; i < count; i++) f->split[row[i]] = TT_UNUSED_ROW;
  f->d->fold[k].left_out = o->left_out;
  tt_free(row);
  return TT_OK;
}

/* Collective. Offsets and scales of fold k. */
static tt_err fit(const fold_fit *f, tt_scaler *s)
{
  tt_fit_rows x = *f->from->x, y = *f->from->y;
  tt_fitted inputs = tt_fitted_inputs(s), targets = tt_fitted_targets(s);
  tt_err e = TT_OK;
  x.split = y.split = f->split;
  inputs.keeps_lambda = targets.keeps_lambda = 1;
  if (f->fits_inputs) e = tt_fit_scales(f->comm, &x, &inputs);
  if (!e && !f->d->scaler.components) e = tt_fit_scales(f->comm, &y, &targets);
  if (e != TT_E_DATA) return e;
  char why[TT_ERR_MESSAGE_SIZE];
  snprintf(why, sizeof why, "%s", tt_err_last());
  return tt_agree(f->comm, TT_FAIL(DATA,
                                   "in the training rows of a fold: %s; or use "
                                   "data.normalize_folds: all",
                                   why));
}

/* Collective. `mine` of each rank becomes rows [first, first + N) of `all`. */
static void gather(const fold_fit *f, const float *mine, int64_t columns, float *all, int64_t first)
{
  tt_allgatherv(f->comm, mine, f->from->x->count * columns * (int64_t)sizeof *mine,
                all + first * columns, NULL);
}

/* Collective. */
static void normalize_targets(const fold_fit *f, const tt_scaler *s, int64_t first)
{
  int64_t targets = f->d->targets;
  for (int64_t i = 0; i < f->from->y->count * targets; i++)
    f->y[i] = (float)tt_scaler_normalize_target(s, i % targets, f->from->y->own[i]);
  gather(f, f->y, targets, f->d->y, first);
  if (!f->from->sigma) return;
  tt_scaler_label_variance(s, f->from->y->count, f->from->y->own, f->from->sigma, f->y);
  gather(f, f->y, targets, f->d->label_variance, first);
}

static tt_err check_finite(const fold_fit *f, int64_t values, const float *value)
{
  for (int64_t i = 0; i < values; i++)
    if (isinf(value[i]))
      return TT_FAIL(DATA,
                     "%s: dataset '%s': a value is too large for single precision with the scales "
                     "of a fold; use other units",
                     f->from->x->file, f->from->x->dataset);
  return TT_OK;
}

/* Collective. Fit fold k and normalize all rows by it. */
static tt_err add_fold(fold_fit *f, const tt_dataset *training, int64_t k)
{
  tt_scaler *s = &f->d->fold[k].scaler;
  int64_t first = (1 + k) * f->d->rows, count = f->from->x->count;
  tt_err e = tt_agree(f->comm, leave_out(f, training, k));
  if (!e) e = fit(f, s);
  if (e) return e;
  tt_scaler_normalize_inputs(s, count, f->from->x->own, f->x);
  e = tt_agree(f->comm, check_finite(f, count * f->d->inputs, f->x));
  if (e) return e;
  gather(f, f->x, f->d->inputs, f->d->x, first);
  if (!f->d->scaler.components) normalize_targets(f, s, first);
  return TT_OK;
}

tt_err tt_fit_folds(tt_comm *c, const tt_config *cfg, const tt_fold_source *src, tt_dataset *d)
{
  tt_cohorts all = {0};
  fold_fit f = {.comm = c, .from = src, .d = d};
  f.fits_inputs = cfg->data_normalize_inputs == TT_NORMALIZE_INPUTS_training;
  if (!tt_config_normalizes_folds(cfg)) return TT_OK;
  tt_dataset training = tt_dataset_for_training(d);
  tt_err e = tt_cohorts_create(cfg, d->inputs, &d->target, &training, &all);
  if (!e) e = list_folds(&f, &training, &all);
  if (!e) e = allocate(&f);
  e = tt_agree(c, e);
  training = tt_dataset_for_training(d);
  training.folds = 0; /* rows of the data set */
  for (int64_t k = 0; !e && k < f.folds; k++) e = add_fold(&f, &training, k);
  tt_free_all(&f.owner, &f.split, &f.x, &f.y);
  tt_cohorts_destroy(&all);
  return e;
}
