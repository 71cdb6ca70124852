/* child.h — run another program and read what it prints, in bounded time. Floor 0; local. */
#ifndef TT_CHILD_H
#define TT_CHILD_H
#include <stddef.h>

/* How it went. */
typedef struct tt_child {
  int failed; /* errno of the start, 0 = it ran */
  int late;   /* it took too long and was killed */
  int status; /* as of waitpid */
} tt_child;

/* Run `program` (searched in PATH if it has no slash) with `argv`, NULL-terminated; its standard
 * output goes to `text`, at most room - 1 bytes, its standard error to ours. Signals are as at the
 * start of a program, but SIGUSR1, SIGTERM and SIGINT are blocked: they are meant for us.
 *   seconds  until it is killed */
tt_child tt_child_run(const char *program, char *const argv[], double seconds, char *text,
                      size_t room);

/* Its exit code; -1 if it did not start, came late or was ended by a signal. */
int tt_child_code(const tt_child *c);
#endif
