/* progress.h — where members stand, made into a tt_progress: what all engines share. Floor 3. */
#ifndef TT_PROGRESS_H
#define TT_PROGRESS_H
#include "core/engine/engine.h"
#ifdef __cplusplus
extern "C" {
#endif

/* What a report needs to know of one member. */
typedef struct tt_member_progress {
  int64_t taken; /* optimiser steps in this call of train */
  int32_t epoch; /* whole epochs done */
  float loss;    /* training loss of the last of them; not looked at before the first */
  int8_t status; /* tt_status */
} tt_member_progress;

/* Count the members, add up their steps, and take quartiles of the losses of those that have one
 * and did not diverge.
 *   at      [members], put into another order
 *   epochs  epoch_min when nobody trains any more */
void tt_progress_from_members(int64_t members, tt_member_progress *at, int64_t epochs,
                              tt_progress *out);
#ifdef __cplusplus
}
#endif
#endif
