/* trained_ensemble.c — see trained_ensemble.h. */
#include "core/model/trained_ensemble.h"

#include "core/base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static tt_err allocate(tt_trained_ensemble *c)
{
  TT_TRY(TT_ALLOC(c->ensemble, c->ensembles));
  TT_TRY(TT_ALLOC(c->w, c->members * c->model.params));
  TT_TRY(TT_ALLOC(c->weight, c->members));
  TT_TRY(TT_ALLOC(c->index, c->members));
  TT_TRY(TT_ALLOC(c->snapshot, c->members));
  TT_TRY(TT_ALLOC(c->x_low, c->model.inputs));
  TT_TRY(TT_ALLOC(c->x_high, c->model.inputs));
  for (int64_t i = 0; i < c->model.inputs; i++) c->x_low[i] = c->x_high[i] = NAN;
  return TT_ALLOC(c->status, c->members);
}

tt_err tt_trained_ensemble_create(const tt_model *model, int64_t ensembles, int64_t members,
                                  tt_trained_ensemble **out)
{
  tt_trained_ensemble *c = NULL;
  TT_TRY(TT_ALLOC(c, 1));
  c->model = *model;
  c->ensembles = ensembles;
  c->members = members;
  tt_err e = allocate(c);
  if (e)
    tt_trained_ensemble_destroy(&c);
  else
    *out = c;
  return e;
}

void tt_trained_ensemble_destroy(tt_trained_ensemble **c)
{
  if (!*c) return;
  for (int64_t i = 0; (*c)->ensemble && i < (*c)->ensembles; i++) {
    tt_free((*c)->ensemble[i].name);
    tt_free((*c)->ensemble[i].column);
  }
  tt_free_all(&(*c)->ensemble, &(*c)->w, &(*c)->weight, &(*c)->status, &(*c)->index,
              &(*c)->snapshot, &(*c)->x_low, &(*c)->x_high, &(*c)->typical_epistemic);
  tt_columns_free(&(*c)->input);
  tt_columns_free(&(*c)->target);
  tt_scaler_free(&(*c)->scaler);
  tt_calibration_free(&(*c)->calibration);
  tt_free(*c);
}

static void find_ranges(const tt_dataset *d, tt_trained_ensemble *c)
{
  for (int64_t r = 0; d->split && r < d->rows; r++)
    for (int64_t i = 0; d->split[r] == TT_TRAIN && i < d->inputs; i++) {
      double x = (double)d->x[r * d->inputs + i];
      c->x_low[i] = fmin(c->x_low[i], x); /* fmin and fmax ignore NaN */
      c->x_high[i] = fmax(c->x_high[i], x);
    }
}

/* With components of the targets every ensemble predicts all of them. */
static tt_err take_all_targets(int64_t targets, tt_ensemble *e)
{
  tt_free(e->column);
  e->targets = targets;
  TT_TRY(TT_ALLOC(e->column, targets));
  for (int64_t k = 0; k < targets; k++) e->column[k] = (int32_t)k;
  return TT_OK;
}

static tt_err copy_metadata(const tt_cohort *c, const tt_dataset *d, tt_trained_ensemble *out)
{
  out->variance_floor = c->variance_floor;
  for (int64_t i = 0; i < c->members; i++) {
    out->index[i] = c->member[i].index;
    out->snapshot[i] = c->member[i].snapshot;
  }
  for (int64_t i = 0; i < c->ensembles; i++) {
    TT_TRY(tt_ensemble_copy(&c->ensemble[i], &out->ensemble[i]));
    if (d->scaler.components) TT_TRY(take_all_targets(d->targets, &out->ensemble[i]));
  }
  find_ranges(d, out);
  TT_TRY(tt_columns_copy(&d->input, &out->input));
  TT_TRY(tt_columns_copy(&d->target, &out->target));
  return tt_scaler_copy(&d->scaler, &out->scaler);
}

tt_err tt_trained_ensemble_from_cohort(const tt_cohort *c, const tt_dataset *d,
                                       tt_trained_ensemble **out)
{
  tt_trained_ensemble *trained = NULL;
  TT_TRY(tt_trained_ensemble_create(&c->model, c->ensembles, c->members, &trained));
  tt_err e = copy_metadata(c, d, trained);
  if (e)
    tt_trained_ensemble_destroy(&trained);
  else
    *out = trained;
  return e;
}

int tt_trained_ensemble_knows_ranges(const tt_trained_ensemble *c) { return !isnan(c->x_low[0]); }

double tt_trained_ensemble_beyond(const tt_trained_ensemble *c, int64_t input, float x)
{
  double low = c->x_low[input], high = c->x_high[input];
  double beyond = fmax(0.0, fmax(low - (double)x, (double)x - high));
  return high > low ? beyond / (high - low) : beyond;
}

int64_t tt_trained_ensemble_targets(const tt_trained_ensemble *c)
{
  return c->scaler.components ? c->scaler.targets : c->model.targets;
}

void tt_trained_ensemble_expand(const tt_trained_ensemble *c, int64_t rows, int64_t stride,
                                const float *amplitude, const float *variance, float *mean,
                                float *spread)
{
  enum { BLOCK = 64 };
  const tt_scaler *s = &c->scaler;
  for (int64_t first = 0; first < rows; first += BLOCK) {
    int64_t n = rows - first < BLOCK ? rows - first : BLOCK;
    for (int64_t t = 0; t < s->targets; t++) {
      double sum[BLOCK], squares[BLOCK];
      for (int64_t r = 0; r < n; r++) sum[r] = s->component_mean[t], squares[r] = s->residual[t];
      for (int64_t l = 0; l < s->components; l++) {
        double by = s->component[l * s->targets + t];
        const float *a = amplitude + l * stride + first, *v = variance + l * stride + first;
        for (int64_t r = 0; r < n; r++) {
          sum[r] += by * (double)a[r];
          squares[r] += by * by * (double)v[r];
        }
      }
      for (int64_t r = 0; r < n; r++) {
        mean[t * stride + first + r] = (float)sum[r];
        spread[t * stride + first + r] = (float)squares[r];
      }
    }
  }
}

int64_t tt_trained_ensemble_width(const tt_trained_ensemble *c)
{
  return tt_trained_ensemble_targets(c) * c->model.quantities;
}

int64_t tt_trained_ensemble_columns(const tt_trained_ensemble *c)
{
  return c->ensembles * tt_trained_ensemble_width(c);
}

void tt_trained_ensemble_column_name(const tt_trained_ensemble *c, const tt_ensemble *e,
                                     int64_t column, char *text, size_t room)
{
  int32_t j = (int32_t)(column % c->model.quantities);
  const char *name = c->target.name[e->column[column / c->model.quantities]];
  switch (tt_output_forecast(c->model.output)) {
  case TT_FORECAST_quantiles:
    snprintf(text, room, "%s q%g", name, (double)c->model.level[j]);
    return;
  case TT_FORECAST_categorical:
    if (j < c->model.levels)
      snprintf(text, room, "%s=%d", name, (int)j);
    else
      snprintf(text, room, "%s entropy", name);
    return;
  default: snprintf(text, room, "%s", name);
  }
}

tt_err tt_trained_ensembles_create(int64_t count, tt_trained_ensembles *out)
{
  tt_trained_ensembles all = {.count = count};
  TT_TRY(TT_ALLOC(all.at, count));
  *out = all;
  return TT_OK;
}

void tt_trained_ensembles_destroy(tt_trained_ensembles *all)
{
  for (int64_t i = 0; all->at && i < all->count; i++) tt_trained_ensemble_destroy(&all->at[i]);
  tt_free(all->at);
  *all = (tt_trained_ensembles){0, NULL};
}

int64_t tt_trained_ensembles_members(const tt_trained_ensembles *all)
{
  int64_t members = 0;
  for (int64_t i = 0; i < all->count; i++) members += all->at[i]->members;
  return members;
}

int64_t tt_trained_ensembles_columns(const tt_trained_ensembles *all)
{
  int64_t columns = 0;
  for (int64_t i = 0; i < all->count; i++) columns += tt_trained_ensemble_columns(all->at[i]);
  return columns;
}
