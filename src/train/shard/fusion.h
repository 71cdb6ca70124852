/* fusion.h — training with the loss of the mean output of each ensemble (train.method: fusion), as
 * FusionRegressor and FusionClassifier of Ensemble-Pytorch do.
 *
 * Every step gathers the outputs of all members on all ranks. Members are not independent: the
 * result of a member depends on the other members of its ensemble, but not on the rank count. */
#ifndef TT_FUSION_H
#define TT_FUSION_H
#include "src/train/shard/shard.h"

/* Loss of the mean output of the members on one batch.
 *   output   [members][B][O] a member with a non-finite output is excluded from the mean
 *   row      [B] rows of the data set, -1 after the last row of a short batch
 *   delta    [B][O] derivative of (loss / rows) with respect to the outputs of each included member
 *   mean     [O] scratch
 *   finite   [members] 1 = included in the mean
 *   loss     sum over rows of the loss of the mean; NaN if no member is included
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

/* Collective. Train every active member for up to `steps` steps (the value of rank 0 counts); at
 * the end of an epoch early stopping of the ensemble is updated (ensemble_early_stopping.h). Fills
 * shard->local_progress. Errors: UNAVAILABLE (an engine without split steps: forward, apply), MEM,
 * of the engine. */
tt_err tt_fusion_train(tt_comm *c, tt_shard *shard, int64_t steps);
#endif
