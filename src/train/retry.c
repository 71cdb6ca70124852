/* retry.c — see retry.h. */
#include "src/train/retry.h"

#include <string.h>

/* Member i of `mine` becomes the only one of `fresh`. */
static void replace(const tt_state *fresh, tt_state *mine, int64_t i)
{
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) {
    tt_state_field from = tt_state_get(fresh, f), to = tt_state_get(mine, f);
    size_t bytes = (size_t)(to.bytes * to.length);
    memcpy((char *)to.data + (size_t)i * bytes, from.data, bytes);
  }
}

static tt_err restart(const tt_crew *w, int64_t i)
{
  const tt_cohort *c = w->cohort;
  int32_t attempt = TT_FIELD(w->mine, attempt)[i] + 1;
  int64_t member = w->slice.first + i;
  tt_state *fresh = NULL;
  TT_TRY(tt_state_create((tt_slice){member, 1}, tt_cohort_state_shape(c), &fresh));
  tt_cohort_init(c, &c->member[member], attempt, TT_FIELD(fresh, weights));
  TT_FIELD(fresh, attempt)[0] = attempt;
  TT_FIELD(fresh, rate)[0] = (float)tt_power((double)c->retry_rate, attempt);
  replace(fresh, w->mine, i);
  tt_state_destroy(&fresh);
  return TT_OK;
}

/* Every diverged member of w->mine that has retries left becomes as new. */
static tt_err restart_all(const tt_crew *w, int64_t *restarted)
{
  for (int64_t i = 0; i < w->slice.count; i++) {
    if (TT_FIELD(w->mine, status)[i] != TT_STATUS_diverged ||
        TT_FIELD(w->mine, attempt)[i] >= w->cohort->retries)
      continue;
    TT_TRY(restart(w, i));
    ++*restarted;
  }
  return TT_OK;
}

tt_err tt_retry_local(tt_crew *w)
{
  int64_t restarted = 0;
  if (w->cohort->retries == 0 || w->here.diverged <= w->failed) return TT_OK;
  TT_TRY(tt_crew_save_local(w));
  TT_TRY(restart_all(w, &restarted));
  if (restarted > 0) TT_TRY(tt_crew_load_local(w));
  w->here.diverged -= restarted;
  w->here.training += restarted;
  w->here.restarted = restarted;
  if (restarted > 0) w->here.epoch_min = 0;
  w->failed = w->here.diverged;
  return TT_OK;
}
