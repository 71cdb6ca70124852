/* wave_training.h — the change from one wave to the next (wave.h). */
#ifndef TT_WAVE_TRAINING_H
#define TT_WAVE_TRAINING_H
#include "src/train/shard/shard.h"

/* After the shards have trained: if no member of the wave trains any more, save it, and open the
 * next one that has a member in training; if there is none, no engine is left. Updates
 * local_progress. Local. Errors: of the engine, MEM. */
tt_err tt_wave_advance_local(tt_shards *all);

/* Train the members in the engines of `count` shards, and save them. */
typedef tt_err tt_wave_train(tt_shard *shard, int64_t count);

/* Call `train` once for the shards from number `first` on; with several waves once in each wave
 * that has a member of these shards in training. The open wave comes first, so that of n waves
 * n - 1 are opened; the last one stays open. Call tt_shard_save_local of the shards before.
 * Collective in a team, which has one wave; else local. Errors: of the engine, of train, MEM. */
tt_err tt_wave_train_each(tt_shards *all, int64_t first, int64_t count, tt_wave_train *train);
#endif
