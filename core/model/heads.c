/* heads.c — see heads.h. */
#include "core/model/heads.h"

#include "core/base/mem.h"

#include <string.h>

/* `each` members of every member of c. */
static tt_err copy_members(const tt_cohort *c, int64_t each, tt_cohort *expanded)
{
  TT_TRY(TT_ALLOC(expanded->member, expanded->members));
  for (int64_t i = 0; i < expanded->members; i++) {
    expanded->member[i] = c->member[i / each];
    expanded->member[i].head = (int32_t)(i % each) + 1;
  }
  return TT_OK;
}

static tt_err expand_cohort(const tt_cohort *c, tt_cohort **out)
{
  tt_cohort *expanded = NULL;
  int64_t each = tt_cohort_expansion(c);
  tt_err e = TT_ALLOC(expanded, 1);
  if (e) return e;
  *expanded = *c;
  expanded->model = tt_model_of_head(&c->model);
  expanded->members = c->members * each;
  expanded->ensemble = NULL;
  expanded->member = NULL;
  expanded->initial = NULL;
  expanded->encoding = NULL;
  e = tt_front_own(&expanded->model.front);
  if (!e) e = TT_ALLOC(expanded->ensemble, c->ensembles);
  for (int64_t i = 0; !e && i < c->ensembles; i++) {
    e = tt_ensemble_copy(&c->ensemble[i], &expanded->ensemble[i]);
    expanded->ensemble[i].first *= each;
    expanded->ensemble[i].members *= each;
  }
  if (!e) e = copy_members(c, each, expanded);
  if (e) tt_cohort_destroy(&expanded);
  *out = expanded;
  return e;
}

/* Fill member `copy` of the expanded state with head h of member i. */
static void copy_head(const tt_model *m, const tt_state *src, int64_t i, int64_t h,
                      tt_state *expanded, int64_t copy)
{
  static const int same[] = {
      TT_STATE_FIELD_best_loss,       TT_STATE_FIELD_best_epoch, TT_STATE_FIELD_step,
      TT_STATE_FIELD_epoch,           TT_STATE_FIELD_batch,      TT_STATE_FIELD_loss_sum,
      TT_STATE_FIELD_status,          TT_STATE_FIELD_loss_train, TT_STATE_FIELD_lr_factor,
      TT_STATE_FIELD_loss_validation, TT_STATE_FIELD_attempt};
  int64_t params = expanded->params;
  int averaged = src->averages && TT_FIELD(src, averaged)[i] > 0;
  const float *w = averaged ? TT_FIELD(src, average) : TT_FIELD(src, weights);
  tt_model_copy_head(m, h, w + i * src->params, TT_FIELD(expanded, weights) + copy * params);
  tt_model_copy_head(m, h, TT_FIELD(src, best_weights) + i * src->params,
                     TT_FIELD(expanded, best_weights) + copy * params);
  for (size_t f = 0; f < sizeof same / sizeof *same; f++) {
    tt_state_field a = tt_state_get(src, same[f]), b = tt_state_get(expanded, same[f]);
    size_t bytes = (size_t)(a.length * a.bytes);
    memcpy((char *)b.data + (size_t)copy * bytes, (const char *)a.data + (size_t)i * bytes, bytes);
  }
}

static void copy_state(const tt_cohort *c, const tt_state *mine, tt_state *expanded)
{
  int64_t each = tt_cohort_expansion(c);
  for (int64_t k = 0; k < mine->count * each; k++)
    copy_head(&c->model, mine, k / each, k % each, expanded, k);
}

tt_err tt_heads_expand(const tt_cohort *c, const tt_state *mine, tt_cohort **cohort,
                       tt_state **state)
{
  int64_t each = tt_cohort_expansion(c);
  tt_slice slice = {mine->first * each, mine->count * each};
  tt_state_shape shape = {.params = tt_model_of_head(&c->model).params, .epochs = mine->epochs};
  tt_state *expanded = NULL;
  TT_TRY(tt_state_create(slice, shape, &expanded));
  copy_state(c, mine, expanded);
  tt_err e = expand_cohort(c, cohort);
  if (e)
    tt_state_destroy(&expanded);
  else
    *state = expanded;
  return e;
}
