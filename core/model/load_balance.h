/* load_balance.h — assigns the members of all cohorts to ranks by the cost of their training. */
#ifndef TT_LOAD_BALANCE_H
#define TT_LOAD_BALANCE_H
#include "core/model/cohort.h"
#include "core/model/partition.h"

/* Floating point operations of the training of a member without early stopping; missing labels of
 * an ensemble are ignored. With `by` the rows of all parts of its group count.
 *   rows  training rows in the data
 * Local. */
double tt_load_balance_cost(const tt_cohort *c, const tt_member *m, int64_t rows);

/* The slice of each cohort that this rank trains. All members, cohort by cohort, form one list, and
 * each rank gets a contiguous part of it (tt_partition_by_cost); so a slice may be empty.
 *   rows   training rows in the data
 *   slice  [all->count]
 * Local. Errors: INTERNAL, MEM. */
tt_err tt_load_balance(const tt_cohorts *all, int64_t rows, int ranks, int rank, tt_slice *slice);

/* Number of teams of ranks; the ranks of a team train its members together, each some of the parts
 * of a batch, or some of the layers. As many as ranks: each rank trains its members alone.
 *   ranks_per_member  run.ranks_per_member: most ranks of a team; -1 = auto: as many teams as
 *                     members, if there are more ranks than members, every cohort has parts for all
 *                     ranks of a team, and its steps are long (TT_TEAM_STEP_FLOPS); else each
 *                     rank alone. Without a cohort with parts each rank is alone.
 *   stages            run.stages; above 1: most ranks of a team are stages x ranks_per_member, with
 *                     auto stages, whatever the members and their steps are
 * Local. */
int tt_load_balance_teams(const tt_cohorts *all, int64_t ranks_per_member, int64_t stages,
                          int ranks);

/* Operations of a step of one member from which on a team is faster than one rank, roughly: 6 P B
 * of about 0.1 ms on a core. */
enum { TT_TEAM_STEP_FLOPS = 6000000 };

/* The place of a rank if `ranks` ranks make `teams` teams: contiguous ranks, in teams whose sizes
 * differ by at most one. */
typedef struct tt_team_place {
  int team;        /* number of its team */
  int ranks, rank; /* number of ranks in the team; number of this rank in it, from 0 */
} tt_team_place;
tt_team_place tt_load_balance_place(int ranks, int teams, int rank);
#endif
