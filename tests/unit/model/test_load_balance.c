/* test_load_balance.c — laws of the partition of members over ranks: each member once, costs as equal as
 * whole members allow, equal counts if all members cost the same. */
#include "tests/support/check.h"

#include "core/base/rng.h"
#include "core/model/load_balance.h"
#include "core/model/partition.h"

enum { MOST = 40, RANKS = 12 };

static double cost_at(int law, int64_t i)
{
  uint32_t random = tt_random(1, 2, TT_PURPOSE_SHUFFLE, (uint32_t)law, (uint32_t)i).v[0];
  switch (law) {
  case 0: return 3.25;                /* equal costs */
  case 1: return i < 9 ? 1e12 : 1.0;  /* two cohorts */
  case 2: return 1.0 + (double)i;     /* epochs from few to many */
  case 3: return i == 7 ? 1e9 : 1e-3; /* one with a higher cost than all others together */
  default: return 1.0 + (double)(random % 1000u); /* random costs */
  }
}

enum { LAWS = 7 };

static void check_deal(int law, int64_t members, int ranks)
{
  double cost[MOST], total = 0.0, most = 0.0;
  int64_t next = 0, least_count = members, most_count = 0;
  for (int64_t i = 0; i < members; i++) {
    cost[i] = cost_at(law, i);
    total += cost[i];
    if (cost[i] > most) most = cost[i];
  }
  for (int rank = 0; rank < ranks; rank++) {
    tt_slice s;
    double part = 0.0;
    TT_CHECK_OK(tt_partition_by_cost(members, cost, ranks, rank, &s));
    if (s.count > 0) TT_CHECK(s.first, ==, next);
    for (int64_t i = 0; i < s.count; i++) part += cost[s.first + i];
    TT_CHECK(part, <=, (total / ranks + most) * (1.0 + 1e-12));
    next += s.count;
    if (s.count < least_count) least_count = s.count;
    if (s.count > most_count) most_count = s.count;
  }
  TT_CHECK(next, ==, members);
  if (law == 0) TT_CHECK(most_count - least_count, <=, 1);
}

TT_TEST (every_member_has_one_rank_and_costs_are_balanced) {
  for (int law = 0; law < LAWS; law++)
    for (int64_t members = 1; members <= MOST; members++)
      for (int ranks = 1; ranks <= RANKS; ranks++) check_deal(law, members, ranks);
}

TT_TEST (equal_costs_give_equal_counts) {
  double cost[MOST];
  for (int64_t i = 0; i < MOST; i++) cost[i] = 0.1;
  for (int ranks = 1; ranks <= RANKS; ranks++)
    for (int rank = 0; rank < ranks; rank++) {
      tt_slice one, other;
      TT_CHECK_OK(tt_partition_by_cost(MOST, cost, ranks, rank, &one));
      TT_CHECK_OK(tt_partition_even(MOST, ranks, rank, &other));
      TT_CHECK(one.first, ==, other.first);
      TT_CHECK(one.count, ==, other.count);
    }
}

TT_TEST (a_cost_must_be_above_zero) {
  tt_slice s;
  TT_CHECK((int)tt_partition_by_cost(2, (double[]){1.0, 0.0}, 1, 0, &s), ==, (int)TT_E_INTERNAL);
  TT_CHECK((int)tt_partition_by_cost(2, (double[]){1.0, -1.0}, 1, 0, &s), ==, (int)TT_E_INTERNAL);
  TT_CHECK((int)tt_partition_by_cost(1, (double[]){1.0}, 1, 1, &s), ==, (int)TT_E_INTERNAL);
}

/* Cohorts of 3, 0, 4 and 5 members one after another: a part of a cohort counts from its first
 * member. */
TT_TEST (a_range_of_all_members_is_a_range_of_each_cohort) {
  const int64_t size[] = {3, 0, 4, 5};
  for (int64_t begin = 0; begin <= 12; begin++)
    for (int64_t end = begin; end <= 12; end++) {
      int64_t first = 0, found = 0;
      for (int i = 0; i < 4; i++) {
        tt_slice s = tt_slice_intersect((tt_slice){begin, end - begin}, first, size[i]);
        TT_CHECK(s.first >= 0 && s.count >= 0 && s.first + s.count <= size[i], ==, 1);
        for (int64_t m = 0; m < s.count; m++) {
          int64_t offset = first + s.first + m;
          TT_CHECK(offset >= begin && offset < end, ==, 1);
        }
        found += s.count;
        first += size[i];
      }
      TT_CHECK(found, ==, end - begin);
    }
}

/* Teams: contiguous ranks, none empty, sizes that differ by at most one. */
TT_TEST (every_rank_has_one_place_in_one_team) {
  for (int ranks = 1; ranks <= 20; ranks++)
    for (int teams = 1; teams <= ranks; teams++) {
      int rank = 0;
      for (int team = 0; team < teams; team++) {
        int size = tt_load_balance_place(ranks, teams, rank).ranks;
        TT_CHECK(size >= ranks / teams && size <= (ranks + teams - 1) / teams, ==, 1);
        for (int i = 0; i < size; i++, rank++) {
          tt_team_place place = tt_load_balance_place(ranks, teams, rank);
          TT_CHECK(place.team, ==, team);
          TT_CHECK(place.ranks, ==, size);
          TT_CHECK(place.rank, ==, i);
        }
      }
      TT_CHECK(rank, ==, ranks);
    }
}

static int teams_of(int64_t members, int64_t parts, int64_t batch, int64_t per_member, int ranks)
{
  tt_cohort c = {
      .members = members, .parts = parts, .batch_size = batch, .model = {.params = 10000}};
  tt_cohort *cohort[] = {&c};
  return tt_load_balance_teams(&(tt_cohorts){1, cohort}, per_member, 1, ranks);
}

TT_TEST (several_ranks_train_a_member_where_it_pays_or_is_said) {
  TT_CHECK(teams_of(1, 8, 1000, -1, 4), ==, 1); /* auto: long steps */
  TT_CHECK(teams_of(3, 8, 1000, -1, 8), ==, 3);
  TT_CHECK(teams_of(1, 8, 10, -1, 4), ==, 4);   /* short steps */
  TT_CHECK(teams_of(1, 2, 1000, -1, 4), ==, 4); /* not enough parts */
  TT_CHECK(teams_of(4, 8, 1000, -1, 4), ==, 4); /* a member for each rank */
  TT_CHECK(teams_of(4, 8, 10, 2, 5), ==, 3);    /* as the user says */
  TT_CHECK(teams_of(4, 8, 10, 8, 4), ==, 1);
  TT_CHECK(teams_of(4, 8, 10, 1, 4), ==, 4);
  TT_CHECK(teams_of(1, 1, 1000, 4, 4), ==, 4); /* without parts each rank is alone */
}
