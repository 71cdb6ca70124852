/* fusion.h — training of a crew by the loss of its ensembles' means (train.method: fusion). As
 * FusionRegressor and FusionClassifier of Ensemble-Pytorch. Floor 4.
 *
 * Every step gathers the outputs of all members on all ranks. Members are no longer independent: a
 * member's result depends on its ensemble; not on the number of ranks. */
#ifndef TT_FUSION_H
#define TT_FUSION_H
#include "src/train/shard.h"

/* Loss of the mean of some members' outputs on one batch.
 *   output   [members][B][O] outputs; a member with one that is not finite is left out
 *   row      [B] rows of the data set, -1 after the last of a short batch
 *   loss     sum over rows of the loss of the mean; NaN if no member is left
 *   delta    [B][O] derivative of (loss / rows) by the outputs of each member left
 *   sound    [members] 1 = was in the mean
 *   mean     [O] room
 * Local. */
typedef struct tt_fusion_batch {
  int64_t members;
  const float *output;
  const int32_t *row;
  float *delta, *mean;
  int8_t *finite;
  double loss;
} tt_fusion_batch;
void tt_fusion_loss_local(const tt_cohort *c, const tt_dataset *d, const tt_ensemble *e,
                          tt_fusion_batch *f);

/* Collective. Up to `steps` (rank 0's) steps of every member that still trains; at the end of an
 * epoch early stopping of its ensemble is updated (ensemble_early_stopping.h). Fills
 * shard->local_progress. Errors: UNAVAILABLE (an engine without steps in two halves), MEM, of the
 * engine. */
tt_err tt_fusion_train(tt_comm *c, tt_shard *w, int64_t steps);
#endif
