/* epoch_end.h — decisions at the end of an epoch for one member: whether its weights are the best
 * so far, its reduce_on_plateau state, and its new status. For gcc and nvcc: all engines use it. */
#ifndef TT_EPOCH_END_H
#define TT_EPOCH_END_H
#include "core/formulas/hyper.h"
#include "core/formulas/schedule.h"
#include "core/model/state.h"

/* Fields of the state of a member that the end of an epoch may change. */
typedef struct tt_epoch_end {
  double best_loss;
  int32_t best_epoch;
  tt_plateau plateau;
  int best; /* out: 1 if the current weights are the best ones */
} tt_epoch_end;

/* Epoch `epoch` (from 0) is complete; returns the new status of the member.
 *   loss       mean over the validation rows, or over the training rows if there are none
 *   validated  1: `loss` is that of validation rows
 *   alone      1: the member has its own best weights and early stopping (stop: member)
 *   finite     1: all weights are finite */
TT_HD int8_t tt_epoch_end_decide(const tt_hyper *h, tt_schedule schedule, int32_t epoch,
                                 double loss, int validated, int alone, int finite, tt_epoch_end *e)
{
  int watched = validated && alone;
  e->best = 0;
  if (!finite || !isfinite(loss)) return TT_STATUS_diverged;
  e->best = watched && loss < e->best_loss - (double)h->min_delta;
  if (e->best) {
    e->best_loss = loss;
    e->best_epoch = epoch;
  }
  if (schedule == TT_SCHEDULE_reduce_on_plateau)
    e->plateau = tt_plateau_end_epoch(e->plateau, loss, h->schedule_gamma, h->schedule_min,
                                      h->schedule_step, h->min_delta);
  if (h->patience > 0 && watched && epoch - e->best_epoch >= h->patience)
    return TT_STATUS_early_stopped;
  return epoch + 1 >= h->epochs ? TT_STATUS_finished : TT_STATUS_training;
}
#endif
