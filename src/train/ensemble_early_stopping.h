/* ensemble_early_stopping.h — the ensemble as one: its validation loss, best weights and stopping
 * (train.early_stopping: ensemble). Floor 4. */
#ifndef TT_ENSEMBLE_EARLY_STOPPING_H
#define TT_ENSEMBLE_EARLY_STOPPING_H
#include "src/train/shard.h"

/* Where one member of the cohort stands; the same on all ranks. */
typedef struct tt_member_summary {
  int64_t epoch, batch, best_epoch; /* as in its state */
  double best_loss;
  int64_t status; /* tt_status */
} tt_member_summary;

/* Collective. Of all members of the shard's cohort, from `mine` of every rank.
 *   all  [G], owner: the caller. Errors: MEM. */
tt_err tt_member_summaries_gather(tt_comm *c, const tt_shard *w, tt_member_summary **all);

/* Epochs of ensemble e: the most of a member that did not diverge; -1: all of them diverged. */
int64_t tt_ensemble_max_epoch(const tt_ensemble *e, const tt_member_summary *all);

/* Collective. Judge the ensembles that are at the end of an epoch: predictions of the validation
 * rows by all members that count (the average of their weights where there is one), mixed in member
 * order, and the loss of that mixture. A better one makes the present weights of all of them the
 * best; after `patience` epochs without one they stop. patience and min_delta are those of the
 * ensemble's first member. Without validation rows nothing happens.
 *   due  [ensembles] 1 = judge it
 *   all  [G] from tt_member_summaries_gather now
 * Changes shard->state alone. The same bits on any number of ranks. Errors: MEM, of the engine. */
tt_err tt_ensemble_early_stopping_update(tt_comm *c, tt_shard *w, const tt_member_summary *all,
                                         const int8_t *due);
#endif
