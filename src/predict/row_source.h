/* row_source.h — the rows of one split of a data set in memory, as a source for tt_score. Floor 4.
 */
#ifndef TT_ROW_SOURCE_H
#define TT_ROW_SOURCE_H
#include "core/model/dataset.h"

/* Where the rows come from. Local calls, each row asked for by one rank.
 *   x  [count][D] normalised;  y  [count][T] in the user's units, NaN = unlabelled, T columns of
 *      the committee's target table
 *   uses_member_local  whether a member's word counts in a row; NULL: always. With it the
 * ensemble's forecast of a row is the mixture of those that count, and neither the members' own
 * scores nor diversity and crps of the mixture are known. */
typedef struct tt_row_source {
  int64_t rows;
  tt_err (*read_local)(void *from, int64_t first, int64_t count, float *x, double *y);
  void *from;
  int (*uses_member_local)(void *from, int64_t row, int64_t member);
} tt_row_source;

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
