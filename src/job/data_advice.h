/* data_advice.h — what the training rows show that needs attention, as sentences at the end of
 * `tutti train`. Local. */
#ifndef TT_DATA_ADVICE_H
#define TT_DATA_ADVICE_H
#include "core/model/cohort.h"

enum { TT_DATA_ADVICE_MOST = 7, TT_DATA_ADVICE_TEXT = 1024 };
typedef struct tt_data_advice {
  int64_t count;
  char text[TT_DATA_ADVICE_MOST][TT_DATA_ADVICE_TEXT];
} tt_data_advice;

/* A sentence for each of these that holds, with the names of the inputs or ensembles:
 *   an input has the same value in all training rows, or a target has
 *   an input has an indicator (data.missing), but is never missing
 *   two inputs have the same values in all training rows
 *   an ensemble leaves out rows that have some of its labels, but not all
 *   an ensemble has fewer training rows than weights of a network, and no validation rows: no epoch
 *     is chosen as the best one
 * Errors: MEM. */
tt_err tt_data_advice_find(const tt_dataset *d, const tt_cohorts *all, tt_data_advice *out);

/* Log these sentences as warnings, and the labels of each target where some are unknown, on rank 0.
 * Errors: MEM. */
tt_err tt_data_advice_log_local(const tt_dataset *d, const tt_cohorts *all);
#endif
