/* process.h — other programs: run one and read what it prints, in bounded time; or let one run
 * beside us. Never a shell. Floor 0; local. */
#ifndef TT_PROCESS_H
#define TT_PROCESS_H
#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* How it went. */
typedef struct tt_process_result {
  int failed;    /* errno of the start, 0 = it ran */
  int timed_out; /* it took too long and was killed */
  int status;    /* as of waitpid */
} tt_process_result;

/* Run `program` (searched in PATH if it has no slash) with `argv`, NULL-terminated; its standard
 * output goes to `text`, at most room - 1 bytes, its standard error to ours. Signals are as at the
 * start of a program, but SIGUSR1, SIGTERM and SIGINT are blocked: they are meant for us.
 *   seconds  until it is killed */
tt_process_result tt_process_run(const char *program, char *const argv[], double seconds,
                                 char *text, size_t room);

/* Its exit code; -1 if it did not start, came late or was ended by a signal. */
int tt_process_exit_code(const tt_process_result *c);

/* ---- A program that runs beside us -------------------------------------------------------------
 * It leads a process group of its own and dies with the thread that started it, where the kernel
 * can do that (PR_SET_PDEATHSIG: start it from a thread that stays). It gets no open file of ours
 * but the three below, no blocked signal, and none of the variables by which a launcher tells a
 * rank of MPI who it is: it may be an MPI program itself. SIGUSR1 is ignored: Slurm sends it to
 * every process of a step, and it is meant for us. */
typedef struct tt_process_options {
  char *const *argv;     /* NULL-terminated; argv[0] is searched in PATH if it has no slash */
  const char *directory; /* where it starts, and what a relative argv[0] begins at; NULL = ours */
  const char *output;    /* new or emptied file for its standard output and error */
} tt_process_options;

/* Start it; its standard input is empty. 0 and *pid, or the errno of what did not work. */
int tt_process_start(const tt_process_options *o, pid_t *pid);

/* Has it ended? Then 1, *status as of waitpid, all that is left of its group is killed, and the pid
 * is no more. Never waits. */
int tt_process_has_exited(pid_t pid, int *status);

/* Kill it with its group and wait for it. */
void tt_process_kill(pid_t pid);

/* What an argument may hold: {name}. */
typedef struct tt_placeholder {
  const char *name, *value;
} tt_placeholder;

/* argv for a command [count] with every {name} in it replaced; other braces stay as they are. One
 * block: free it with tt_free. Errors: MEM. */
tt_err tt_argv_expand(char *const *command, int64_t count, const tt_placeholder *word, int words,
                      char ***argv);
#endif
