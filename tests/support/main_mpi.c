/* main_mpi.c — main of the test programs of several ranks: MPI starts once; each suite has a
 * directory of its own. */
#include "tests/support/ranks.h"
#include "tests/support/suites.h"

tt_comm *comm;
char scratch[SCRATCH_ROOM];

static int64_t run(const char *suite)
{
  const char *keep = getenv("TUTTI_TEST_KEEP");
  if (keep)
    snprintf(scratch, sizeof scratch, "%s", keep);
  else
    scratch_begin(comm, scratch);
  if (!scratch[0]) return 1;
  tt_log_set_level(TT_LOG_INFO);
  int64_t failed = tt_tests_run(suite);
  tt_allreduce_sum_i64(comm, &failed, 1);
  if (!keep) scratch_end(comm, scratch);
  return failed;
}

int main(int argc, char **argv)
{
  int64_t failed = 0;
  int done = tt_tests_begin(argc, argv);
  if (done >= 0) return done;
  if (tt_comm_begin(&comm)) return 1;
  for (const char *suite = tt_tests_next(NULL); suite; suite = tt_tests_next(suite))
    failed += run(suite);
  tt_comm_end(&comm);
  return failed != 0;
}
