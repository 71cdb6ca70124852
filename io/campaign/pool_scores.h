/* pool_scores.h — pool_scores.h5: the scores of all candidates in a round.
 *
 * Dataset score (list, candidate) float32, NaN = queried or excluded; L = 1, or one list for each
 * ensemble (score.ensemble_reduction: quota), with its name in list_name. The rows are the
 * candidates first, first + 1, ...; `first` is an attribute.
 */
#ifndef TT_POOL_SCORES_H
#define TT_POOL_SCORES_H
#include "io/hdf5/h5.h"
#include "io/hdf5/provenance.h"
#include "mpi/comm.h"

#include <stdint.h>

typedef struct tt_pool_scores_writer tt_pool_scores_writer;

/* Collective: create, write, commit (verify, then rename); discard removes the temporary file.
 *   list  [lists] names; with one list ignored
 * write: this rank's candidates [first, first + count), count may be 0; score [L][count].
 * Errors: CANTCREAT, IO, MEM. */
tt_err tt_pool_scores_create(tt_comm *c, const char *file, int64_t lists, const char *const *list,
                             int64_t first, int64_t rows, const tt_provenance *provenance,
                             tt_pool_scores_writer **out);
tt_err tt_pool_scores_write(tt_pool_scores_writer *f, int64_t first, int64_t count,
                            const float *score);
tt_err tt_pool_scores_commit(tt_pool_scores_writer **f);
void tt_pool_scores_discard(tt_pool_scores_writer **f);

/* Local; serial driver; reads in pieces. Errors: NOINPUT, DATA, IO, MEM. */
typedef struct tt_pool_scores_reader {
  tt_h5_reader *file;
  int64_t lists, first, rows;
} tt_pool_scores_reader;
tt_err tt_pool_scores_open_local(const char *file, tt_pool_scores_reader **out);
tt_err tt_pool_scores_read_local(tt_pool_scores_reader *r, int64_t list, int64_t first,
                                 int64_t count, float *score);
void tt_pool_scores_close_local(tt_pool_scores_reader **r);
#endif
