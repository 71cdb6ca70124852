/* by_groups.h — the groups of `by` (core/model/dataset.h): their names, and one of them as a job
 * of its own. Local. */
#ifndef TT_BY_GROUPS_H
#define TT_BY_GROUPS_H
#include "core/model/trained_ensemble.h"
TT_BEGIN_C

/* A team of threads for fewer rows of a group would wait longer than it computes. */
enum { TT_BY_FEW_ROWS = 4096 };

/* Order of two names: whole numbers first, by their size, then texts. */
int tt_by_compare(const char *a, const char *b);
/* The group of this name that has an ensemble of its own, or -1; place of the name among the small
 * ones, or -1. */
int64_t tt_by_groups_find(const tt_by_groups *g, const char *name);
int64_t tt_by_groups_find_small(const tt_by_groups *g, const char *name);

/* The rows of one group, as if they were all there are. Borrows from d. */
tt_dataset tt_by_groups_data(const tt_dataset *d, int64_t group);

/* The cohort of one group: that of a job with its rows alone. Borrows all but member and ensemble,
 * which the caller frees. Errors: MEM. */
tt_err tt_by_groups_cohort(const tt_cohort *c, int64_t group, tt_cohort *out);

/* Copy what the steps after the training find (member weights, calibration, ranges) from the
 * trained ensemble of one group to that of all. Errors: MEM. */
tt_err tt_by_groups_insert(const tt_trained_ensemble *one, int64_t group, tt_trained_ensemble *all);

/* The ensemble of one group, with its weights, as an ordinary model. Owner: the caller. Errors:
 * MEM. */
tt_err tt_by_groups_extract(const tt_trained_ensemble *all, int64_t group,
                            tt_trained_ensemble **out);
TT_END_C
#endif
