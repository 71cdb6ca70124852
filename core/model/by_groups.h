/* by_groups.h — the groups of `by`: an ensemble with its own rows and scales for each value of some
 * columns, all with the same network and settings. Local. */
#ifndef TT_BY_GROUPS_H
#define TT_BY_GROUPS_H
#include "core/model/trained_ensemble.h"
TT_BEGIN_C

/* Name of the group of all rows, whose ensemble predicts rows of small and unknown groups. */
#define TT_BY_POOLED "(pooled)"

/* A team of threads for fewer rows of a group would wait longer than it computes. */
enum { TT_BY_FEW_ROWS = 4096 };

/* Unit of rows that are in folds each for itself, where other groups have units. */
#define TT_BY_NO_UNIT UINT64_MAX

/* Group g is ensemble g of the only cohort, or of the only trained ensemble. The names stand in the
 * order of tt_by_compare, behind that of the group of all rows, if there is one. */
typedef struct tt_by_groups {
  char *columns;          /* names of the columns, a list (core/base/list.h) */
  char *ensemble;         /* name of the ensemble of the job */
  int64_t count;          /* E */
  int pooled;             /* 1: group 0 has all rows */
  char **name;            /* [E] value of the column, or list of the values of several */
  tt_slice *rows;         /* [E] in the data set; all zero in a model */
  tt_scaler *scaler;      /* [E] */
  double *x_low, *x_high; /* [E][F] as in tt_trained_ensemble, of a model */
  int64_t small;          /* groups with too few rows for an ensemble of their own */
  char **small_name;      /* [small] */
  int64_t *small_rows;    /* [small] */
} tt_by_groups;

/* Everything is allocated, but not the names and the arrays of the scalers. Owner: the caller.
 *   inputs  F of the networks
 * Errors: MEM. */
tt_err tt_by_groups_create(int64_t count, int64_t small, int64_t inputs, tt_by_groups **out);
void tt_by_groups_destroy(tt_by_groups **g); /* accepts NULL */

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
