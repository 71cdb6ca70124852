/* history.h — quantiles of the losses of the members of one ensemble for each epoch. Local. */
#ifndef TT_REPORT_HISTORY_H
#define TT_REPORT_HISTORY_H
#include "io/results/results_read.h"

enum { TT_LOSS_KINDS = 2, TT_LOSS_QUANTILES = 3 }; /* training, validation; 0.1, 0.5, 0.9 */

/* Over the members that are training in an epoch; NaN if there are none. */
typedef struct tt_loss_history {
  int64_t first, end; /* members of the ensemble */
  double *members;    /* [E] number of members that are training; owns the memory of all */
  double *quantile[TT_LOSS_KINDS][TT_LOSS_QUANTILES]; /* [E] each */
} tt_loss_history;

/* Losses of the ensemble whose first member is `first`; out->end is the first member of the next
 * one. Owner: the caller, tt_loss_history_free (accepts a zeroed struct). Errors: MEM. */
tt_err tt_loss_history_create(const tt_results *k, int64_t first, tt_loss_history *out);
void tt_loss_history_free(tt_loss_history *h);
#endif
