/* retry.c — see retry.h. */
#include "src/train/shard/retry.h"

static tt_err restart_member(const tt_shard *shard, int64_t i)
{
  const tt_cohort *c = shard->cohort;
  int32_t attempt = TT_FIELD(shard->state, attempt)[i] + 1;
  int64_t member = shard->slice.first + i;
  tt_state *fresh = NULL;
  TT_TRY(tt_state_create((tt_slice){member, 1}, tt_cohort_state_shape(c), &fresh));
  tt_member_init_weights(c, &c->member[member], attempt, TT_FIELD(fresh, weights));
  TT_FIELD(fresh, attempt)[0] = attempt;
  TT_FIELD(fresh, lr_factor)[0] = tt_cohort_lr_factor(c, attempt);
  tt_state_copy_member(fresh, 0, shard->state, i);
  tt_state_destroy(&fresh);
  return TT_OK;
}

static tt_err restart_diverged(const tt_shard *shard, int64_t *restarted)
{
  for (int64_t i = 0; i < shard->slice.count; i++) {
    if (TT_FIELD(shard->state, status)[i] != TT_STATUS_diverged ||
        TT_FIELD(shard->state, attempt)[i] >= shard->cohort->retries)
      continue;
    TT_TRY(restart_member(shard, i));
    ++*restarted;
  }
  return TT_OK;
}

tt_err tt_retry_diverged_local(tt_shard *shard)
{
  int64_t restarted = 0;
  if (shard->cohort->retries == 0 || shard->local_progress.diverged <= shard->known_diverged)
    return TT_OK;
  TT_TRY(tt_shard_save_local(shard));
  TT_TRY(restart_diverged(shard, &restarted));
  if (restarted > 0) TT_TRY(tt_shard_load_local(shard));
  shard->local_progress.diverged -= restarted;
  shard->local_progress.training += restarted;
  shard->local_progress.restarted = restarted;
  if (restarted > 0) shard->local_progress.epoch_min = 0;
  shard->known_diverged = shard->local_progress.diverged;
  return TT_OK;
}
