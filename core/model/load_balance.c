/* load_balance.c — see load_balance.h. */
#include "core/model/load_balance.h"

#include "core/base/mem.h"

#include <math.h>

/* Costs on the CPU beside the products, in floating point operations (bench/results/groups): the
 * end of an epoch, 1.8 microseconds, and a row that is read from memory, 15 nanoseconds: each row
 * of a member whose rows fill the caches, and fewer of one with fewer rows. */
static const double epoch_flops = 60000.0, row_flops = 500.0;
static const double cache_bytes = 16777216.0;

double tt_load_balance_cost(const tt_cohort *c, const tt_member *m, int64_t rows)
{
  const tt_ensemble *ensemble = c->ensemble ? &c->ensemble[m->ensemble] : NULL;
  if (ensemble && ensemble->rows.count > 0) rows = ensemble->rows.count;
  double width = (double)(c->model.inputs + (ensemble ? ensemble->targets : 0));
  double memory = fmin(1.0, 4.0 * width * (double)rows / cache_bytes);
  int64_t rows_per_epoch = tt_cohort_epoch_rows(c, rows > 0 ? rows : 1);
  int64_t epochs = m->hyper.epochs > 0 ? m->hyper.epochs : 1;
  double epoch = tt_model_flops(&c->model, rows_per_epoch) +
                 memory * row_flops * (double)rows_per_epoch + epoch_flops;
  return epoch * (double)epochs;
}

tt_err tt_load_balance(const tt_cohorts *all, int64_t rows, int ranks, int rank, tt_slice *slice)
{
  double *cost = NULL;
  int64_t members = tt_cohorts_members(all), first = 0;
  tt_slice mine;
  TT_TRY(TT_ALLOC(cost, members));
  for (int64_t i = 0, at = 0; i < all->count; i++)
    for (int64_t m = 0; m < all->at[i]->members; m++)
      cost[at++] = tt_load_balance_cost(all->at[i], &all->at[i]->member[m], rows);
  tt_err e = tt_partition_by_cost(members, cost, ranks, rank, &mine);
  for (int64_t i = 0; !e && i < all->count; i++) {
    slice[i] = tt_slice_intersect(mine, first, all->at[i]->members);
    first += all->at[i]->members;
  }
  tt_free(cost);
  return e;
}

/* Whether teams of `ranks` ranks suit each cohort. */
static int suits_teams(const tt_cohorts *all, int64_t ranks)
{
  for (int64_t i = 0; i < all->count; i++) {
    const tt_cohort *c = all->at[i];
    double flops = 6.0 * (double)c->model.params * (double)c->batch_size;
    if (c->parts < ranks || flops < (double)TT_TEAM_STEP_FLOPS) return 0;
  }
  return 1;
}

int tt_load_balance_teams(const tt_cohorts *all, int64_t ranks_per_member, int64_t stages,
                          int ranks)
{
  int64_t members = tt_cohorts_members(all), parts = 1;
  int64_t most = ranks_per_member;
  if (stages > 1) most = most > 1 ? stages * most : stages;
  for (int64_t i = 0; i < all->count; i++)
    if (all->at[i]->parts > parts) parts = all->at[i]->parts;
  if (parts == 1) return ranks;
  if (most < 0 && (members >= ranks || !suits_teams(all, (ranks + members - 1) / members)))
    return ranks;
  if (most < 0) return (int)members;
  return (int)((ranks + most - 1) / most);
}

tt_team_place tt_load_balance_place(int ranks, int teams, int rank)
{
  int64_t all = ranks, team = (((int64_t)rank + 1) * teams - 1) / ranks;
  int first = (int)(all * team / teams), next = (int)(all * (team + 1) / teams);
  return (tt_team_place){(int)team, next - first, rank - first};
}
