/* ensemble_early_stopping.h — validation loss, best weights and early stopping of whole
 * ensembles (train.early_stopping: ensemble). */
#ifndef TT_ENSEMBLE_EARLY_STOPPING_H
#define TT_ENSEMBLE_EARLY_STOPPING_H
#include "src/train/shard/shard.h"

/* Training position of one member of the cohort; the same on all ranks. */
typedef struct tt_member_summary {
  int64_t epoch, batch, best_epoch; /* as in its state */
  double best_loss;
  int64_t status; /* tt_status */
} tt_member_summary;

/* Here `joined` shards are those of one ensemble of several networks (tt_cohorts_joined), or one
 * shard. Their members are numbered one shard after the other. */

/* Collective. Gather the summaries of all members of the cohorts of the shards.
 *   all  [G], owner: the caller
 * Errors: MEM. */
tt_err tt_member_summaries_gather(tt_comm *c, const tt_shard *shard, int64_t joined,
                                  tt_member_summary **all);

/* Ensemble `number` of the first shard with its members in all of them; texts and columns are
 * borrowed. */
tt_ensemble tt_joined_ensemble(const tt_shard *shard, int64_t joined, int64_t number);

/* Largest epoch count of the members of ensemble e that did not diverge; -1 if all diverged. */
int64_t tt_ensemble_max_epoch(const tt_ensemble *e, const tt_member_summary *all);

/* Collective. Early stopping of the ensembles of the first shard that are at the end of an epoch.
 * The loss of an ensemble is the loss of the mixture of its members' predictions on the validation
 * rows, mixed in member order; members with averaged weights predict with the average. If the loss
 * improves, the present weights of all its members become their best weights; after `patience`
 * epochs without an improvement the members stop. patience, min_delta and the loss function are
 * those of the ensemble's first member. Without validation rows the function does nothing.
 *   all  [G] from tt_member_summaries_gather, up to date
 *   due  [ensembles] 1 = update this ensemble
 * Changes only the states of the shards. Bit-identical on any number of ranks. Errors: MEM, of the
 * engine. */
tt_err tt_ensemble_early_stopping_update(tt_comm *c, tt_shard *shard, int64_t joined,
                                         const tt_member_summary *all, const int8_t *due);

/* Host memory of it for a cohort with `members` members on this rank, in bytes, without the
 * predictions' own and the list of validation rows. */
double tt_ensemble_early_stopping_bytes(const tt_cohort *c, int64_t members);
/* That of a GPU: of the weights and predictions. */
double tt_ensemble_early_stopping_device_bytes(const tt_cohort *c, int64_t members);
#endif
