/* row_split.h — training, validation and test rows by what the rows are: groups, strata, an order;
 * rows with equal inputs. Pure functions of their arguments; no ranks, no files. */
#ifndef TT_ROW_SPLIT_H
#define TT_ROW_SPLIT_H
#include "core/model/dataset.h"
TT_BEGIN_C

/* Fill split[N] so that all rows of a group are in one part. The groups come in a random order, and
 * each goes to the part that lacks the largest share of its rows, among those where it fits; what
 * the fractions leave is unused.
 * Depends on the sets of rows, the fractions and the seed only.
 *   group  [N] number of the group of a row; any numbers
 * Local. Errors: DATA (a part of a fraction above 0 gets no group), MEM. */
tt_err tt_split_groups(int64_t rows, const uint64_t *group, const double fraction[TT_SPLITS],
                       uint64_t seed, int8_t *split);

/* Fill split[N] so that every part has the same shares of all strata, up to one row of each. The
 * values are classes if they are at most 50 different ones, otherwise their ten quantiles are the
 * strata; NaN is a stratum of its own.
 *   unit  [N] as of tt_split_first_rows: the rows of a unit are in one part, in the stratum of its
 *         first row; NULL: each row for itself
 * Local. Errors: as tt_split_groups. */
tt_err tt_split_strata(int64_t rows, const double *value, const uint64_t *unit,
                       const double fraction[TT_SPLITS], uint64_t seed, int8_t *split);

/* Fill split[N] by ascending value: first the training rows, then validation, then test. Equal
 * values stay in one part. Local. Errors: as tt_split_groups; DATA (a value is not finite). */
tt_err tt_split_order(int64_t rows, const double *value, const double fraction[TT_SPLITS],
                      int8_t *split);

/* Stands for all inputs of a row: a hash of 128 bits, so that rows that differ have other keys. */
typedef struct tt_row_key {
  uint64_t low, high;
} tt_row_key;

/* first[N]: the first row with the key of each row. Returns in *repeated the number of rows with
 * the key of an earlier row. Local. Errors: MEM. */
tt_err tt_split_first_rows(int64_t rows, const tt_row_key *key, uint64_t *first, int64_t *repeated);

/* Join the units that have rows of one group: unit[N] becomes the first row of all that belong
 * together, by chains of units and groups too.
 *   unit   [N] as of tt_split_first_rows
 *   group  [N]
 * Local. Errors: MEM. */
tt_err tt_split_join_groups(int64_t rows, const uint64_t *group, uint64_t *unit);

/* repeated_rows > 0 and seen_rows of a data set in words, `between` two parts of at most 70
 * characters. Returns text [TT_REPEATED_TEXT]. */
enum { TT_REPEATED_TEXT = 240 };
const char *tt_repeated_rows_text(int64_t repeated, int64_t seen, const char *between, char *text);

/* The fold of each of `count` rows, so that equal units are in one fold.
 *   row      [count] numbers of the rows;  unit  [N]
 *   ordered  0: the largest groups first, equal ones in a random order, each to the fold with the
 *            fewest rows; if each group is one row, the sizes of two folds differ by at most one
 *            1: blocks of ascending units
 *   fold     [count]
 * Local. Errors: MEM. */
tt_err tt_split_folds(int64_t count, const int32_t *row, const uint64_t *unit, int ordered,
                      int64_t folds, uint64_t seed, int16_t *fold);

/* Numbers in ascending order of the values; -0 and 0 are equal, NaN comes last. */
uint64_t tt_split_order_key(double value);
TT_END_C
#endif
