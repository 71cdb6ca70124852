/* ranks.h — shared by the suites of several ranks: the communicator and a directory. main_mpi.c
 * creates and removes both. */
#ifndef TT_TEST_RANKS_H
#define TT_TEST_RANKS_H
#include "core/base/log.h"
#include "tests/support/scratch.h"

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
#endif
