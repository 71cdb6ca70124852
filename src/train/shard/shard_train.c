/* shard_train.c — see shard_train.h. */
#include "src/train/shard/shard_train.h"

#include "core/base/clock.h"
#include "src/host/progress_display.h"
#include "src/train/shard/retry.h"
#include "src/train/shard/team_training.h"

static tt_err merge_progress(tt_comm *c, tt_shards *all)
{
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < all->count; i++)
    e = tt_progress_merge(c, &all->at[i].local_progress, &all->at[i].progress);
  return e;
}

/* Estimate the steps that take `aim` seconds on this rank; the last `steps` took `seconds`. */
static int64_t next_steps(int64_t steps, double seconds, double aim)
{
  double want = (double)steps * aim / (seconds > 1e-6 ? seconds : 1e-6);
  double most = 8.0 * (double)steps;
  if (want > most) want = most;
  return want < 1.0 ? 1 : (int64_t)want;
}

/* The ranks of a team call this together: also after an error, which then ends the training of all
 * of them. */
static tt_err train_independent(tt_shards *all, double seconds)
{
  tt_err e = TT_OK;
  for (int64_t i = 0; i < all->count; i++) {
    tt_shard *shard = &all->at[i];
    double before = tt_monotonic_seconds();
    if (shard->held) continue;
    e = tt_team_train(shard, e, shard->steps);
    if (!e) e = tt_retry_diverged_local(shard);
    if (shard->local_progress.training > 0)
      shard->steps = next_steps(shard->steps, tt_monotonic_seconds() - before, seconds);
  }
  return e;
}

tt_err tt_shards_train(tt_comm *c, tt_shards *all, double seconds)
{
  int64_t active = 0;
  for (int64_t i = 0; i < all->count; i++) active += all->at[i].progress.training > 0;
  double each = seconds / (double)(active > 1 ? active : 1);
  tt_err e = tt_agree(c, train_independent(all, each));
  return e ? e : merge_progress(c, all);
}

static tt_err update_local_progress(tt_shards *all)
{
  for (int64_t i = 0; i < all->count; i++) TT_TRY(tt_shard_train_local(&all->at[i], 0));
  return TT_OK;
}

tt_err tt_shards_update_progress(tt_comm *c, tt_shards *all)
{
  tt_err e = tt_agree(c, update_local_progress(all));
  return e ? e : merge_progress(c, all);
}
