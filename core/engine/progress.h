/* progress.h — a tt_progress from the progress of single members; used by all engines. Local. */
#ifndef TT_PROGRESS_H
#define TT_PROGRESS_H
#include "core/engine/engine.h"
TT_BEGIN_C

/* Progress of one member. */
typedef struct tt_member_progress {
  int64_t taken; /* optimizer steps in this call of train */
  int32_t epoch; /* whole epochs done */
  float loss;    /* training loss of the last whole epoch; not used if epoch is 0 */
  int8_t status; /* tt_status */
} tt_member_progress;

/* Count the members by status, sum their steps, and compute the quartiles of the losses of members
 * that finished an epoch and did not diverge.
 *   progress  [members], reordered
 *   epochs  value of epoch_min if no member is training */
void tt_progress_from_members(int64_t members, tt_member_progress *progress, int64_t epochs,
                              tt_progress *out);
TT_END_C
#endif
