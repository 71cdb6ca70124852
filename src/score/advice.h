/* advice.h — what the results of a run show that needs attention, and what to do about it, as
 * sentences: at the end of `tutti train` and on the page of `tutti report`. Local. */
#ifndef TT_ADVICE_H
#define TT_ADVICE_H
#include "core/base/text.h"
#include "io/results/results_read.h"

/* A sentence for each of these that holds, with the names of the ensembles or targets:
 *   validation or test rows have the inputs of a training row
 *   a baseline has a lower test rmse, by 5 % and by more than the rmse varies by chance
 *   the 90 % intervals hold far fewer test rows: under 80 %, and by more than three standard
 *     deviations of a binomial count
 *   most members of an ensemble had a falling validation loss when training ended: the best loss of
 *     the last tenth of the epochs is lower by over 1 % of all that was gained after the first
 *     tenth, and the gain per epoch is at least half of that of the four tenths before
 *   the members of an ensemble had a far larger loss on the validation rows than on the training
 *     rows in their best epochs; the first such ensemble is named
 *   most members of an ensemble were best in one of their first three epochs, of 20 or more */
void tt_advice_find(const tt_results *k, tt_sentences *out);

/* Read a results.h5 and log its advice as warnings, on rank 0. Errors: NOINPUT, DATA, IO, MEM. */
tt_err tt_advice_log_local(const char *results);
#endif
