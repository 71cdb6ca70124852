/* wave_training.c — see wave_training.h. */
#include "src/train/shard/wave_training.h"

/* The next wave after the present one with a member in training, the present one last; -1: none.
 * After a save. */
static int64_t next_wave(const tt_shards *all)
{
  int64_t next = -1, nearest = all->waves.count + 1, number = 0;
  for (int64_t i = 0; i < all->count; i++)
    for (int64_t m = 0; m < all->at[i].slice.count; m++, number++) {
      if (TT_FIELD(all->at[i].state, status)[m] != TT_STATUS_training) continue;
      int64_t wave = number / all->waves.members;
      int64_t distance = (wave - all->wave - 1 + 2 * all->waves.count) % all->waves.count;
      if (distance >= nearest) continue;
      nearest = distance;
      next = wave;
    }
  return next;
}

static int wave_trains(const tt_shards *all)
{
  for (int64_t i = 0; i < all->count; i++)
    if (all->at[i].local_progress.training > all->at[i].local_progress.waiting) return 1;
  return 0;
}

/* Progress after a change of waves; the steps of the call stay. */
static tt_err report(tt_shard *shard)
{
  int64_t steps = shard->local_progress.member_steps, restarted = shard->local_progress.restarted;
  TT_TRY(tt_shard_train_local(shard, 0));
  shard->local_progress.member_steps = steps;
  shard->local_progress.restarted = restarted;
  return TT_OK;
}

tt_err tt_wave_advance_local(tt_shards *all)
{
  if (all->waves.count < 2 || wave_trains(all)) return TT_OK;
  for (int64_t i = 0; i < all->count; i++) TT_TRY(tt_shard_save_local(&all->at[i]));
  tt_shards_release_engines_local(all);
  int64_t next = next_wave(all);
  if (next >= 0) TT_TRY(tt_shards_open_wave_local(all, next));
  for (int64_t i = 0; i < all->count; i++) {
    if (next < 0) TT_TRY(tt_shard_load_local(&all->at[i]));
    TT_TRY(report(&all->at[i]));
  }
  return TT_OK;
}
