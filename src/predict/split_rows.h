/* split_rows.h — the rows of one split of a data set in memory, as a source for tt_score. Floor 4.
 */
#ifndef TT_SPLIT_ROWS_H
#define TT_SPLIT_ROWS_H
#include "core/model/dataset.h"

typedef struct tt_split_rows {
  const tt_dataset *d; /* borrowed */
  int64_t *row;        /* [count] of the data set, ascending; owned */
  int64_t count;
} tt_split_rows;

/* Owner of out->row: the caller, tt_free, also after an error. Local. Errors: MEM. */
tt_err tt_split_rows_list(const tt_dataset *d, tt_split which, tt_split_rows *out);

/* tt_row_source.read_local; `from` points to a tt_split_rows, or to a struct that begins with one.
 */
tt_err tt_split_rows_read_local(void *from, int64_t first, int64_t count, float *x, double *y);
#endif
