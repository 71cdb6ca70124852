/* row_source.h — sources of rows for tt_score; one source is a split of a data set in memory. */
#ifndef TT_ROW_SOURCE_H
#define TT_ROW_SOURCE_H
#include "core/model/dataset.h"
#include "core/stats/moments.h"

/* A source of rows. The calls are local; a rank reads its own rows, and with a shard those of all
 * ranks.
 *   x       [count][D] normalized
 *   y       [count][T] in the user's units, NaN = unlabeled; T columns of the model's target table
 *   weight  [count] sample weights; scores depend on their ratios only
 *   read_variance_local  variance[count][T] of the errors of the labels, normalized: the label is
 *                        compared with a forecast whose variance has it too; NULL = not known
 *   uses_member_local  1 if the member is used for the row; NULL = all members are used
 *
 * With uses_member_local the prediction of a row is the mixture of the used members; scores of
 * members and diversity are not computed. */
typedef struct tt_row_source {
  int64_t rows;
  tt_err (*read_local)(void *from, int64_t first, int64_t count, float *x, double *y,
                       double *weight);
  void *from;
  tt_uses_member *uses_member_local;
  void (*read_variance_local)(void *from, int64_t first, int64_t count, double *variance);
} tt_row_source;

typedef struct tt_split_rows {
  const tt_dataset *d; /* borrowed */
  int64_t *row;        /* [count] rows of the data set, ascending; owned */
  int64_t count;
} tt_split_rows;

/* Owner of out->row: the caller, tt_free, also after an error. Local. Errors: MEM. */
tt_err tt_split_rows_list(const tt_dataset *d, tt_split which, tt_split_rows *out);

/* tt_row_source.read_local; `src` points to a tt_split_rows, or to a struct that begins with one.
 */
tt_err tt_split_rows_read_local(void *src, int64_t first, int64_t count, float *x, double *y,
                                double *weight);

/* tt_row_source.read_variance_local of such rows, NULL if the data set has no variances. */
typedef void tt_read_variance(void *src, int64_t first, int64_t count, double *variance);
tt_read_variance *tt_split_rows_variance(const tt_split_rows *s);
#endif
