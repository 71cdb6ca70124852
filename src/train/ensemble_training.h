/* ensemble_training.h — training of a crew whose ensembles stop as one (train.early_stopping:
 * ensemble). Floor 4. */
#ifndef TT_ENSEMBLE_TRAINING_H
#define TT_ENSEMBLE_TRAINING_H
#include "src/train/shard.h"

/* Collective. One epoch of every member that still trains, then the ensembles' early stopping is
 * updated (ensemble_early_stopping.h). There are no retries: what was judged without a member would
 * end up with it. Depends on the members' states alone, not on calls, ranks or restarts. Fills
 * shard->local_progress. Errors: MEM, of the engine. */
tt_err tt_ensemble_train_epoch(tt_comm *c, tt_shard *shard);
#endif
