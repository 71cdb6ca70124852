/* trained_ensemble.c — see trained_ensemble.h. */
#include "core/model/trained_ensemble.h"

#include "core/base/mem.h"

#include <stdio.h>
#include <string.h>

static tt_err allocate(tt_committee *c)
{
  TT_TRY(TT_ALLOC(c->ensemble, c->ensembles));
  TT_TRY(TT_ALLOC(c->w, c->members * c->model.params));
  TT_TRY(TT_ALLOC(c->weight, c->members));
  TT_TRY(TT_ALLOC(c->index, c->members));
  TT_TRY(TT_ALLOC(c->snapshot, c->members));
  return TT_ALLOC(c->status, c->members);
}

tt_err tt_committee_create(const tt_model *model, int64_t ensembles, int64_t members,
                           tt_committee **out)
{
  tt_committee *c = NULL;
  TT_TRY(TT_ALLOC(c, 1));
  c->model = *model;
  c->ensembles = ensembles;
  c->members = members;
  tt_err e = allocate(c);
  if (e)
    tt_committee_destroy(&c);
  else
    *out = c;
  return e;
}

void tt_committee_destroy(tt_committee **c)
{
  if (!*c) return;
  for (int64_t i = 0; (*c)->ensemble && i < (*c)->ensembles; i++) {
    tt_free((*c)->ensemble[i].name);
    tt_free((*c)->ensemble[i].column);
  }
  tt_free((*c)->ensemble);
  tt_free((*c)->w);
  tt_free((*c)->weight);
  tt_free((*c)->status);
  tt_free((*c)->index);
  tt_free((*c)->snapshot);
  tt_columns_free(&(*c)->input);
  tt_columns_free(&(*c)->target);
  tt_scaler_free(&(*c)->scaler);
  tt_calibration_free(&(*c)->calibration);
  tt_free(*c);
}

static tt_err copy_ensemble(const tt_ensemble *from, tt_ensemble *to)
{
  to->first = from->first;
  to->members = from->members;
  to->targets = from->targets;
  to->key = from->key;
  TT_TRY(tt_text_set(&to->name, from->name));
  TT_TRY(TT_ALLOC(to->column, from->targets));
  memcpy(to->column, from->column, (size_t)from->targets * sizeof *from->column);
  return TT_OK;
}

static tt_err describe(const tt_cohort *c, const tt_dataset *d, tt_committee *out)
{
  out->variance_floor = c->variance_floor;
  for (int64_t i = 0; i < c->members; i++) {
    out->index[i] = c->member[i].index;
    out->snapshot[i] = c->member[i].snapshot;
  }
  for (int64_t i = 0; i < c->ensembles; i++)
    TT_TRY(copy_ensemble(&c->ensemble[i], &out->ensemble[i]));
  TT_TRY(tt_columns_copy(&d->input, &out->input));
  TT_TRY(tt_columns_copy(&d->target, &out->target));
  return tt_scaler_copy(&d->scaler, &out->scaler);
}

tt_err tt_committee_from_cohort(const tt_cohort *c, const tt_dataset *d, tt_committee **out)
{
  tt_committee *made = NULL;
  TT_TRY(tt_committee_create(&c->model, c->ensembles, c->members, &made));
  tt_err e = describe(c, d, made);
  if (e)
    tt_committee_destroy(&made);
  else
    *out = made;
  return e;
}

int64_t tt_committee_width(const tt_committee *c)
{
  return c->model.targets * c->model.quantities;
}

int64_t tt_committee_columns(const tt_committee *c)
{
  return c->ensembles * tt_committee_width(c);
}

void tt_committee_label(const tt_committee *c, const tt_ensemble *e, int64_t column, char *text,
                        size_t room)
{
  int32_t j = (int32_t)(column % c->model.quantities);
  const char *name = c->target.name[e->column[column / c->model.quantities]];
  if (c->model.output == TT_OUTPUT_quantiles)
    snprintf(text, room, "%s q%g", name, (double)c->model.level[j]);
  else if (c->model.output == TT_OUTPUT_softmax && j < c->model.levels)
    snprintf(text, room, "%s=%d", name, (int)j);
  else if (c->model.output == TT_OUTPUT_softmax)
    snprintf(text, room, "%s entropy", name);
  else
    snprintf(text, room, "%s", name);
}

tt_err tt_committees_create(int64_t count, tt_committees *out)
{
  tt_committees all = {.count = count};
  TT_TRY(TT_ALLOC(all.at, count));
  *out = all;
  return TT_OK;
}

void tt_committees_destroy(tt_committees *all)
{
  for (int64_t i = 0; all->at && i < all->count; i++)
    tt_committee_destroy(&all->at[i]);
  tt_free(all->at);
  *all = (tt_committees){0, NULL};
}

int64_t tt_committees_members(const tt_committees *all)
{
  int64_t members = 0;
  for (int64_t i = 0; i < all->count; i++) members += all->at[i]->members;
  return members;
}

int64_t tt_committees_columns(const tt_committees *all)
{
  int64_t columns = 0;
  for (int64_t i = 0; i < all->count; i++) columns += tt_committee_columns(all->at[i]);
  return columns;
}
