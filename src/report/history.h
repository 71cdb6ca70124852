/* history.h — losses of the members of one ensemble, epoch by epoch. Floor 5; local. */
#ifndef TT_REPORT_HISTORY_H
#define TT_REPORT_HISTORY_H
#include "io/results/results.h"

enum { TT_LOSS_KINDS = 2, TT_LOSS_QUANTILES = 3 }; /* training, validation; 0.1, 0.5, 0.9 */

/* Of the members that still train; NaN where none does. */
typedef struct tt_loss_history {
  int64_t first, end;                                 /* members of the ensemble */
  double *members;                                    /* [E] how many still train */
  double *quantile[TT_LOSS_KINDS][TT_LOSS_QUANTILES]; /* [E] each */
} tt_loss_history;

/* Of the ensemble that begins with member `first`; the next one begins with out->end. Owner: the
 * caller, tt_loss_history_free (accepts a zeroed one). Errors: MEM. */
tt_err tt_loss_history_create(const tt_results *k, int64_t first, tt_loss_history *out);
void tt_loss_history_free(tt_loss_history *h);
#endif
