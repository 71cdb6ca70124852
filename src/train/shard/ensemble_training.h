/* ensemble_training.h — training of a shard with early stopping of whole ensembles
 * (train.early_stopping: ensemble). */
#ifndef TT_ENSEMBLE_TRAINING_H
#define TT_ENSEMBLE_TRAINING_H
#include "src/train/shard/shard.h"

/* Collective. Train every active member of `joined` shards for one epoch, then update early
 * stopping of the ensembles (ensemble_early_stopping.h). joined is 1; an ensemble of several
 * networks has one shard for each network, and joined is their number. Diverged members are not
 * retried: the validation losses of earlier epochs would not include the retried member. The
 * result depends only on the states of the members, not on the number of calls, ranks or restarts.
 * Fills local_progress of the shards. Errors: MEM, of the engine. */
tt_err tt_ensemble_train_epoch(tt_comm *c, tt_shard *shard, int64_t joined);
#endif
