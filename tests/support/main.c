/* main.c — main of the test programs of one process. If there are several suites, each runs in a
 * separate process, with the environment, working directory and signals of a fresh start. */
#include "tests/support/suites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int run_apart(const char *suite)
{
  int status = 0;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) exit(tt_tests_run(suite) != 0);
  if (child < 0 || waitpid(child, &status, 0) != child) return 1;
  if (WIFSIGNALED(status)) fprintf(stderr, "%s: %s\n", suite, strsignal(WTERMSIG(status)));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
  int done = tt_tests_begin(argc, argv), failed = 0, skipped = 0;
  if (done >= 0) return done;
  const char *suite = tt_tests_next(NULL);
  if (!tt_tests_next(suite)) return tt_tests_run(suite) != 0;
  for (suite = tt_tests_next(NULL); suite; suite = tt_tests_next(suite)) {
    int status = run_apart(suite);
    skipped += status == TT_TEST_SKIPPED;
    failed += status && status != TT_TEST_SKIPPED;
  }
  return failed ? 1 : skipped ? TT_TEST_SKIPPED : 0;
}
