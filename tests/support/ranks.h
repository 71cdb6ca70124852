/* ranks.h — what the suites of several ranks share: the ranks, and a directory. main_mpi.c begins
 * and ends both. */
#ifndef TT_TEST_RANKS_H
#define TT_TEST_RANKS_H
#include "core/base/log.h"
#include "tests/support/scratch.h"

extern tt_comm *comm;
/* Of the suite that runs, removed after it; or the one that TUTTI_TEST_KEEP names, which stays. */
extern char scratch[SCRATCH_ROOM];

/* For TT_SUITE: warnings are not printed. */
static inline int errors_only(void **unused)
{
  (void)unused;
  tt_log_set_level(TT_LOG_ERROR);
  return 0;
}
#endif
