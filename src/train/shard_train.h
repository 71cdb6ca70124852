/* shard_train.h — all cohorts of this rank trained for a while, each by its method. Floor 4. */
#ifndef TT_SHARD_TRAIN_H
#define TT_SHARD_TRAIN_H
#include "src/train/shard.h"

/* Collective. Where the members stand, without moving them: fills local_progress and progress of
 * every crew. Errors: of the engine, MEM. */
tt_err tt_shards_update_progress(tt_comm *c, tt_shards *all);

/* Collective. Train every crew in turn, all together for about `seconds`; fills local_progress and
 * progress. How far each comes depends on the clock, its members' results do not. Diverged members
 * with retries left begin again (retry.h). Crews whose members look at each other go by epochs
 * (ensemble_training.h) or by steps of all ranks (fusion.h). Errors: of the engine, MEM. */
tt_err tt_shards_train(tt_comm *c, tt_shards *all, double seconds);
#endif
