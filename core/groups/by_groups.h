/* by_groups.h — the groups of `by` (core/model/dataset.h): their names, their rows, and the data
 * set, cohort and model of one group. Local. */
#ifndef TT_BY_GROUPS_H
#define TT_BY_GROUPS_H
#include "core/model/trained_ensemble.h"
TT_BEGIN_C

/* One thread predicts and scores a group with fewer rows: several wait longer than they compute. */
enum { TT_BY_FEW_ROWS = 4096 };

/* The name of the group with this value: a whole number is written as 7, not 7.0 or 07, in a column
 * of numbers and in one that has texts too. Returns text or number. */
enum { TT_BY_NUMBER_SIZE = 24 };
const char *tt_by_name(const char *text, char number[TT_BY_NUMBER_SIZE]);
/* Order of two names: first whole numbers, ascending, then texts. */
int tt_by_compare(const char *a, const char *b);
/* Number of the group with this name, or of the small group; -1: there is none. */
int64_t tt_by_groups_find(const tt_by_groups *g, const char *name);
int64_t tt_by_groups_find_small(const tt_by_groups *g, const char *name);

/* Sort rows by their groups: those of group g are order[first[g]], ..., order[first[g + 1] - 1],
 * ascending.
 *   group         [rows] below `groups`; rows with -1 are left out
 *   first, order  [groups + 1], [rows]; owner: the caller, also after an error
 * Errors: MEM. */
tt_err tt_by_sort_rows(int64_t rows, const int32_t *group, int64_t groups, int64_t **first,
                       int64_t **order);

/* A data set that has only the rows of one group. Its arrays are those of d. */
tt_dataset tt_by_groups_data(const tt_dataset *d, int64_t group);

/* A cohort that has only the ensemble of one group. The caller frees its `member` and `ensemble`;
 * all else belongs to c. Errors: MEM. */
tt_err tt_by_groups_cohort(const tt_cohort *c, int64_t group, tt_cohort *out);

/* Copy the results of the steps after the training (member weights, calibration, ranges) from the
 * model of one group into the model of all groups. Errors: MEM. */
tt_err tt_by_groups_insert(const tt_trained_ensemble *one, int64_t group, tt_trained_ensemble *all);

/* A model without groups, which has only the ensemble of one group. Owner: the caller. Errors:
 * MEM. */
tt_err tt_by_groups_extract(const tt_trained_ensemble *all, int64_t group,
                            tt_trained_ensemble **out);
TT_END_C
#endif
