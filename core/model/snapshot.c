/* snapshot.c — see snapshot.h. */
#include "core/model/snapshot.h"

#include "core/base/mem.h"

#include <math.h>
#include <string.h>

static tt_err copy_members(const tt_cohort *c, tt_cohort *expanded)
{
  TT_TRY(TT_ALLOC(expanded->member, expanded->members));
  for (int64_t i = 0; i < expanded->members; i++) {
    expanded->member[i] = c->member[i / c->snapshots];
    expanded->member[i].snapshot = (int32_t)(i % c->snapshots) + 1;
  }
  return TT_OK;
}

static tt_err expand_cohort(const tt_cohort *c, tt_cohort **out)
{
  tt_cohort *expanded = NULL;
  tt_err e = TT_ALLOC(expanded, 1);
  if (e) return e;
  *expanded = *c;
  expanded->method = TT_METHOD_independent;
  expanded->snapshots = 0;
  expanded->members = c->members * c->snapshots;
  expanded->ensemble = NULL;
  expanded->member = NULL;
  expanded->initial = NULL;
  e = TT_ALLOC(expanded->ensemble, c->ensembles);
  for (int64_t i = 0; !e && i < c->ensembles; i++) {
    e = tt_ensemble_copy(&c->ensemble[i], &expanded->ensemble[i]);
    expanded->ensemble[i].first *= c->snapshots;
    expanded->ensemble[i].members *= c->snapshots;
  }
  if (!e) e = copy_members(c, expanded);
  if (e)
    tt_cohort_destroy(&expanded);
  else
    *out = expanded;
  return e;
}

/* Fill member `to` of the expanded state with snapshot s of member i, of the end of epoch `epochs`.
 */
static void copy_snapshot(const tt_state *from, int64_t i, int64_t s, int32_t epochs,
                          tt_state *expanded, int64_t to)
{
  int64_t params = from->params, e = from->epochs;
  int32_t done = TT_FIELD(from, epoch)[i];
  int diverged =
      TT_FIELD(from, status)[i] == TT_STATUS_diverged; /* at the end of its last epoch, or later */
  int taken = diverged ? done > epochs : done >= epochs;
  int32_t until = taken ? epochs : done;
  const float *w = taken ? TT_FIELD(from, snapshots) + (i * from->snapshots + s) * params
                         : TT_FIELD(from, weights) + i * params;
  int64_t batches = done ? (TT_FIELD(from, step)[i] - TT_FIELD(from, batch)[i]) / done : 0;
  memcpy(TT_FIELD(expanded, weights) + to * params, w, (size_t)params * sizeof *w);
  memcpy(TT_FIELD(expanded, loss_train) + to * e, TT_FIELD(from, loss_train) + i * e,
         (size_t)until * sizeof(float));
  memcpy(TT_FIELD(expanded, loss_validation) + to * e, TT_FIELD(from, loss_validation) + i * e,
         (size_t)until * sizeof(float));
  TT_FIELD(expanded, epoch)[to] = until;
  TT_FIELD(expanded, step)[to] = taken ? batches * until : TT_FIELD(from, step)[i];
  TT_FIELD(expanded, lr_factor)[to] = TT_FIELD(from, lr_factor)[i];
  TT_FIELD(expanded, attempt)[to] = TT_FIELD(from, attempt)[i];
  TT_FIELD(expanded, status)[to] = taken ? TT_STATUS_finished : TT_STATUS_diverged;
  float loss = taken ? TT_FIELD(from, loss_validation)[i * e + epochs - 1] : NAN;
  if (isnan(loss)) return;
  memcpy(TT_FIELD(expanded, best_weights) + to * params, w, (size_t)params * sizeof *w);
  TT_FIELD(expanded, best_loss)[to] = (double)loss;
  TT_FIELD(expanded, best_epoch)[to] = epochs - 1;
}

tt_err tt_snapshot_expand(const tt_cohort *c, const tt_state *mine, tt_cohort **cohort,
                          tt_state **state)
{
  int64_t each = c->snapshots;
  tt_slice slice = {mine->first * each, mine->count * each};
  tt_state_shape shape = {.params = mine->params, .epochs = mine->epochs};
  tt_state *expanded = NULL;
  TT_TRY(tt_state_create(slice, shape, &expanded));
  for (int64_t i = 0; i < mine->count; i++) {
    int32_t cycle = c->member[mine->first + i].hyper.epochs / (int32_t)each;
    for (int64_t s = 0; s < each; s++)
      copy_snapshot(mine, i, s, cycle * (int32_t)(s + 1), expanded, i * each + s);
  }
  tt_err e = expand_cohort(c, cohort);
  if (e)
    tt_state_destroy(&expanded);
  else
    *state = expanded;
  return e;
}
