/* ensemble_training.c — see ensemble_training.h. */
#include "src/train/shard/ensemble_training.h"

#include "core/base/mem.h"
#include "src/train/shard/ensemble_early_stopping.h"
#include "src/train/shard/team_training.h"

typedef struct joint_epoch {
  tt_member_summary *before, *after; /* [G] before and after the epoch */
  int8_t *due;                       /* [ensembles] 1 = its members completed an epoch */
  int64_t steps;                     /* of this rank's members */
} joint_epoch;

static tt_err train_epoch(tt_shard *shard, joint_epoch *x)
{
  tt_err e = tt_team_train(shard, TT_OK, INT64_MAX);
  x->steps = shard->local_progress.member_steps;
  e = tt_team_collect(shard, e);
  return e ? e : tt_shard_save_local(shard);
}

static tt_err update_early_stopping(tt_comm *c, tt_shard *shard, joint_epoch *x)
{
  const tt_cohort *cohort = shard->cohort;
  for (int64_t i = 0; i < cohort->ensembles; i++) {
    const tt_ensemble *e = &cohort->ensemble[i];
    x->due[i] = tt_ensemble_max_epoch(e, x->after) > tt_ensemble_max_epoch(e, x->before);
  }
  return tt_ensemble_early_stopping_update(c, shard, x->after, x->due);
}

static tt_err reload_engine_local(tt_shard *shard, const joint_epoch *x)
{
  TT_TRY(tt_shard_load_local(shard));
  TT_TRY(tt_shard_train_local(shard, 0)); /* 0 steps: only update local_progress */
  shard->local_progress.member_steps = x->steps;
  return TT_OK;
}

tt_err tt_ensemble_train_epoch(tt_comm *c, tt_shard *shard)
{
  joint_epoch x = {0};
  tt_err e = tt_shard_save_local(shard);
  if (!e) e = TT_ALLOC(x.due, shard->cohort->ensembles);
  e = tt_agree(c, e);
  if (!e) e = tt_member_summaries_gather(c, shard, &x.before);
  if (!e) e = tt_agree(c, train_epoch(shard, &x));
  if (!e) e = tt_member_summaries_gather(c, shard, &x.after);
  if (!e) e = update_early_stopping(c, shard, &x);
  if (!e) e = tt_agree(c, reload_engine_local(shard, &x));
  tt_free(x.before);
  tt_free(x.after);
  tt_free(x.due);
  return e;
}
