/* epoch_end.h — decisions at the end of an epoch for one member, beside tt_plateau_end_epoch
 * (schedule.h). For gcc and nvcc: all engines use it. */
#ifndef TT_EPOCH_END_H
#define TT_EPOCH_END_H
#include "core/formulas/hyper.h"
#include "core/formulas/schedule.h"
#include "core/model/state.h"

/* 1 if the weights with that validation loss are the best so far. */
TT_HD int tt_epoch_is_best(const tt_hyper *h, double loss, double best_loss)
{
  return loss < best_loss - (double)h->min_delta;
}

/* 1 if early stopping ends the training of weights whose best epoch is best_epoch (from 0). */
TT_HD int tt_epoch_exceeds_patience(const tt_hyper *h, int64_t epoch, int64_t best_epoch)
{
  return h->patience > 0 && epoch - best_epoch >= h->patience;
}

/* Status of a member after epoch `epoch` (from 0).
 *   watched  1: it has validation rows
 *   finite   1: its weights and the loss are finite */
TT_HD tt_status tt_epoch_end_status(const tt_hyper *h, int32_t epoch, int32_t best_epoch,
                                    int watched, int finite)
{
  if (!finite) return TT_STATUS_diverged;
  if (watched && tt_epoch_exceeds_patience(h, epoch, best_epoch)) return TT_STATUS_early_stopped;
  return epoch + 1 >= h->epochs ? TT_STATUS_finished : TT_STATUS_training;
}

/* Training loss of the last epoch of member i that is complete; 0 if no epoch is.
 *   loss_train  [M][epochs] as in the state
 *   done        complete epochs of the member */
TT_HD float tt_last_epoch_loss(const float *loss_train, int64_t epochs, int64_t i, int64_t done)
{
  return done > 0 ? loss_train[i * epochs + done - 1] : 0.0f;
}
#endif
