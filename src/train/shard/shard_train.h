/* shard_train.h — training of all shards for a time interval, each with its train.method. */
#ifndef TT_SHARD_TRAIN_H
#define TT_SHARD_TRAIN_H
#include "src/train/shard/shard.h"

/* Collective. Fill local_progress and progress of every shard, without training.
 * Errors: of the engine, MEM. */
tt_err tt_shards_update_progress(tt_comm *c, tt_shards *all);

/* Collective. Train the shards one after the other, together for about `seconds`; fills
 * local_progress and progress. The number of steps depends on the clock, the results of the members
 * do not. Diverged members with retries left are restarted (retry.h); shards that are held wait.
 * Errors: of the engine, MEM. */
tt_err tt_shards_train(tt_comm *c, tt_shards *all, double seconds);
#endif
