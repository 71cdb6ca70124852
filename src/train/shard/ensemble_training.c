/* ensemble_training.c — see ensemble_training.h. */
#include "src/train/shard/ensemble_training.h"

#include "core/base/mem.h"
#include "src/train/shard/ensemble_early_stopping.h"
#include "src/train/shard/team_training.h"

typedef struct joint_epoch {
  tt_member_summary *before, *after; /* [G] before and after the epoch */
  int8_t *due;                       /* [ensembles] 1 = its members completed an epoch */
} joint_epoch;

static tt_err train_epoch(tt_shard *shard, int64_t joined)
{
  tt_err e = TT_OK;
  for (int64_t k = 0; k < joined; k++) {
    e = tt_team_train(&shard[k], e, INT64_MAX);
    e = tt_team_collect(&shard[k], e);
    if (!e) e = tt_shard_save_local(&shard[k]);
  }
  return e;
}

static tt_err update_early_stopping(tt_comm *c, tt_shard *shard, int64_t joined, joint_epoch *x)
{
  for (int64_t i = 0; i < shard->cohort->ensembles; i++) {
    const tt_ensemble e = tt_joined_ensemble(shard, joined, i);
    x->due[i] = tt_ensemble_max_epoch(&e, x->after) > tt_ensemble_max_epoch(&e, x->before);
  }
  return tt_ensemble_early_stopping_update(c, shard, joined, x->after, x->due);
}

static tt_err reload_engine_local(tt_shard *shard)
{
  int64_t steps = shard->local_progress.member_steps;
  TT_TRY(tt_shard_load_local(shard));
  TT_TRY(tt_shard_train_local(shard, 0)); /* 0 steps: only update local_progress */
  shard->local_progress.member_steps = steps;
  return TT_OK;
}

tt_err tt_ensemble_train_epoch(tt_comm *c, tt_shard *shard, int64_t joined)
{
  joint_epoch x = {0};
  tt_err e = TT_ALLOC(x.due, shard->cohort->ensembles);
  for (int64_t k = 0; k < joined; k++) shard[k].local_progress.member_steps = 0;
  for (int64_t k = 0; !e && k < joined; k++) e = tt_shard_save_local(&shard[k]);
  e = tt_agree(c, e);
  if (!e) e = tt_member_summaries_gather(c, shard, joined, &x.before);
  if (!e) e = tt_agree(c, train_epoch(shard, joined));
  if (!e) e = tt_member_summaries_gather(c, shard, joined, &x.after);
  if (!e) e = update_early_stopping(c, shard, joined, &x);
  for (int64_t k = 0; !e && k < joined; k++) e = tt_agree(c, reload_engine_local(&shard[k]));
  tt_free(x.before);
  tt_free(x.after);
  tt_free(x.due);
  return e;
}
