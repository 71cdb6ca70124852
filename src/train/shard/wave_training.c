/* wave_training.c — see wave_training.h. */
#include "src/train/shard/wave_training.h"

#include "core/base/mem.h"
#include "src/host/watchdog.h"

/* Which waves have a member of `count` shards in training. After a save.
 *   due  [waves], owner: the caller */
static tt_err find_due(const tt_shards *all, int64_t first, int64_t count, int8_t **due)
{
  int64_t number = 0;
  TT_TRY(TT_ALLOC(*due, all->waves.count));
  for (int64_t i = 0; i < first + count; i++)
    for (int64_t m = 0; m < all->at[i].slice.count; m++, number++)
      if (i >= first && TT_FIELD(all->at[i].state, status)[m] == TT_STATUS_training)
        (*due)[number / all->waves.members] = 1;
  return TT_OK;
}

/* The next wave after the present one with a member in training, the present one last; -1: none.
 * After a save. */
static tt_err find_next(const tt_shards *all, int64_t *next)
{
  int8_t *due = NULL;
  TT_TRY(find_due(all, 0, all->count, &due));
  *next = -1;
  for (int64_t k = 1; *next < 0 && k <= all->waves.count; k++) {
    int64_t wave = (all->wave + k) % all->waves.count;
    if (due[wave]) *next = wave;
  }
  tt_free(due);
  return TT_OK;
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

static tt_err save_all(tt_shards *all)
{
  for (int64_t i = 0; i < all->count; i++) TT_TRY(tt_shard_save_local(&all->at[i]));
  return TT_OK;
}

tt_err tt_wave_advance_local(tt_shards *all)
{
  int64_t next;
  if (all->waves.count < 2 || wave_trains(all)) return TT_OK;
  TT_TRY(save_all(all));
  TT_TRY(find_next(all, &next));
  tt_shards_release_engines_local(all);
  if (next >= 0) TT_TRY(tt_shards_open_wave_local(all, next));
  for (int64_t i = 0; i < all->count; i++) {
    if (next < 0) TT_TRY(tt_shard_load_local(&all->at[i]));
    TT_TRY(report(&all->at[i]));
  }
  return TT_OK;
}

static tt_err change_wave(tt_shards *all, int64_t wave)
{
  tt_watchdog_heartbeat_local("training");
  TT_TRY(save_all(all));
  tt_shards_release_engines_local(all);
  return tt_shards_open_wave_local(all, wave);
}

tt_err tt_wave_train_each(tt_shards *all, int64_t first, int64_t count, tt_wave_train *train)
{
  int8_t *due = NULL;
  int64_t open = all->wave;
  if (all->waves.count < 2) return train(&all->at[first], count);
  tt_err e = find_due(all, first, count, &due);
  for (int64_t k = 0; !e && k < all->waves.count; k++) {
    int64_t wave = (open + k) % all->waves.count;
    if (!due[wave]) continue;
    if (wave != all->wave) e = change_wave(all, wave);
    if (!e) e = train(&all->at[first], count);
  }
  tt_free(due);
  return e;
}
