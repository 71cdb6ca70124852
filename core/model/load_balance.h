/* load_balance.h — assigns the members of all cohorts to ranks by the cost of their training. */
#ifndef TT_LOAD_BALANCE_H
#define TT_LOAD_BALANCE_H
#include "core/model/cohort.h"
#include "core/model/partition.h"

/* The slice of each cohort that this rank trains. All members, cohort by cohort, form one list, and
 * each rank gets a contiguous part of it (tt_partition_by_cost); so a slice may be empty.
 *   rows   training rows in the data
 *   slice  [all->count]
 * Local. Errors: INTERNAL, MEM. */
tt_err tt_load_balance(const tt_cohorts *all, int64_t rows, int ranks, int rank, tt_slice *slice);
#endif
