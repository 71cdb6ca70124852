/* load_balance.h — the members of all cohorts over the ranks, by what their training costs. Floor
 * 1. */
#ifndef TT_LOAD_BALANCE_H
#define TT_LOAD_BALANCE_H
#include "core/model/cohort.h"
#include "core/model/partition.h"

/* What the training of a member costs when no patience ends it: floating point operations of its
 * steps. `rows` training rows in the data; ensembles with fewer labels count as if they had all. */
double tt_load_balance_cost(const tt_cohort *c, const tt_member *m, int64_t rows);

/* This rank's members of each cohort. They lie on one line, cohort by cohort, of which each rank
 * has a contiguous part (tt_partition_by_cost), so a contiguous, maybe empty, slice of every
 * cohort. slice [all->count] Local. Errors: INTERNAL, MEM. */
tt_err tt_load_balance(const tt_cohorts *all, int64_t rows, int ranks, int rank, tt_slice *slice);
#endif
