/* test_team_nccl.c — run.exchange: nccl, on the double of NCCL (nccl.cpp): the bits are those of
 * one engine; a call that fails on one rank ends all ranks, and none waits for ever. */
#include "tests/support/team_problem.h"

#include "src/train/team_link.h"

#include <sched.h>

static int is_bad(void) { return tt_comm_rank(comm) == tt_comm_ranks(comm) - 1; }

static void start_linked(problem *p, int teams, cast *c)
{
  on_device = 1;
  start(p, teams, 0, &ENGINE, c);
  on_device = 0;
  if (tt_team_ranks(c->team) > 1) TT_CHECK_OK(tt_team_link_open(c->team, ENGINE.team->link, 0));
}

TT_TEST (nccl_gives_the_bits_of_one_rank) {
  for (int i = 0; i < 3; i++) {
    problem p = make(i);
    tt_state *want = problem_run(&p, plain(), everyone(&p), 7);
    cast c;
    start_linked(&p, 1 + i % 2, &c);
    TT_CHECK_OK(tt_team_train(c.shard, TT_OK, 1000));
    TT_CHECK_OK(tt_team_collect(c.shard, TT_OK));
    TT_CHECK_OK(tt_shard_save_local(c.shard));
    for (int64_t k = 0; k < c.shard->slice.count; k++)
      same_member(want, c.shard->state, c.shard->slice.first + k, "by NCCL");
    end(&c);
    tt_state_destroy(&want);
    problem_free(&p);
  }
}

/* The first call fails, or a later one. */
static void fail_in_a_call(const char *function, int number)
{
  problem p = make(1);
  cast c;
  char fault[64];
  start_linked(&p, 1, &c);
  snprintf(fault, sizeof fault, "%s:%d", function, number);
  if (is_bad()) setenv("TT_NCCL_FAIL", fault, 1);
  tt_err e = tt_team_train(c.shard, TT_OK, 1000);
  unsetenv("TT_NCCL_FAIL");
  TT_CHECK((int)e, ==, is_bad() ? (int)TT_E_UNAVAILABLE : (int)TT_OK);
  if (is_bad()) TT_CHECK_HAS(tt_err_last(), "use run.exchange: host");
  TT_CHECK((int)tt_team_train(c.shard, e, 1), ==, (int)e);
  end(&c);
  problem_free(&p);
}

TT_TEST (a_call_that_fails_on_one_rank_ends_all) {
  static const char *const function[] = {"ncclSend", "ncclRecv", "ncclGroupEnd",
                                         "ncclCommGetAsyncError"};
  for (int k = 0; k < 4 && tt_comm_ranks(comm) > 1; k++)
    for (int number = 1; number < 8; number += 5) fail_in_a_call(function[k], number);
}

/* Every rank finds out, or this test does not end. */
TT_TEST (a_link_that_fails_on_one_rank_opens_on_none) {
  static const char *const function[] = {"ncclCommInitRankConfig:1", "ncclCommGetAsyncError:1"};
  for (int k = 0; k < 2 && tt_comm_ranks(comm) > 1; k++) {
    tt_team *team = NULL;
    TT_CHECK_OK(tt_team_create(comm, 0, &team));
    if (is_bad()) setenv("TT_NCCL_FAIL", function[k], 1);
    tt_err e = tt_team_link_open(team, ENGINE.team->link, 0);
    unsetenv("TT_NCCL_FAIL");
    TT_CHECK((int)e, ==, is_bad() ? (int)TT_E_UNAVAILABLE : (int)TT_OK);
    while (!tt_team_is_broken_local(team)) (void)sched_yield(); /* the message is on its way */
    tt_team_destroy(&team);
  }
}
