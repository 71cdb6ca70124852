/* ranks.h — shared by the suites of several ranks: the communicator and a directory. main_mpi.c
 * creates and removes both. */
#ifndef TT_TEST_RANKS_H
#define TT_TEST_RANKS_H
#include "core/base/log.h"
#include "core/base/mem.h"
#include "tests/support/check.h"
#include "tests/support/scratch.h"

#include <inttypes.h>

extern tt_comm *comm;
/* Directory of the running suite, removed after it; or the directory in TUTTI_TEST_KEEP, which is
 * kept. */
extern char scratch[SCRATCH_ROOM];

/* For TT_SUITE: warnings are not printed. */
static inline int errors_only(void **unused)
{
  (void)unused;
  tt_log_set_level(TT_LOG_ERROR);
  return 0;
}

/* Path of a file in `scratch`; valid for the next seven calls. */
static inline const char *at(const char *name)
{
  static char path[8][2 * SCRATCH_ROOM];
  static int next;
  next = (next + 1) % 8;
  snprintf(path[next], sizeof path[next], "%s/%s", scratch, name);
  return path[next];
}

/* Collective. A communicator whose vote number `vote`, from 1 on, fails on a rank. */
static inline tt_comm *comm_with_fault(int rank, int64_t vote)
{
  char fault[32];
  tt_comm *c = NULL;
  snprintf(fault, sizeof fault, "%d:%" PRId64, rank, vote);
  setenv("TUTTI_FAULT", fault, 1);
  TT_CHECK_OK(tt_comm_begin(&c));
  unsetenv("TUTTI_FAULT");
  return c;
}

/* Collective. An error of one rank is an error of all: each vote of a call fails once on each rank;
 * then all ranks have the error, and nothing leaks. Returns the number of votes. */
static inline int64_t each_vote_may_fail(tt_err (*call)(tt_comm *))
{
  int64_t votes = 0;
  for (int bad = 0; bad < tt_comm_ranks(comm); bad++) {
    tt_err e = TT_E_IO;
    for (votes = 0; e; votes++) {
      int64_t before = tt_mem_live_blocks();
      tt_comm *c = comm_with_fault(bad, votes + 1);
      e = call(c);
      if (e) TT_CHECK_HAS(tt_err_last(), "fault injected");
      tt_comm_end(&c);
      TT_CHECK((int)tt_agree(comm, e), ==, (int)e);
      TT_CHECK(tt_mem_live_blocks(), ==, before);
    }
  }
  return votes;
}
#endif
