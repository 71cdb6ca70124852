/* process.h — child processes: run a program and read its output, with a timeout; or start a
 * program in the background. No shell is used. Local. */
#ifndef TT_PROCESS_H
#define TT_PROCESS_H
#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct tt_process_result {
  int failed;    /* errno of the start, 0 = the program ran */
  int timed_out; /* 1 = killed after `seconds` */
  int status;    /* of waitpid */
} tt_process_result;

/* Run `program` (searched in PATH if it has no slash) with `argv`, NULL-terminated; its standard
 * output goes to `text`, at most capacity - 1 bytes, its standard error to that of the caller.
 * Signals have their default actions, but SIGUSR1, SIGTERM and SIGINT are blocked: they are for
 * tutti only.
 *   seconds  timeout, after which the program is killed */
tt_process_result tt_process_run(const char *program, char *const argv[], double seconds,
                                 char *text, size_t capacity);

/* The tutti program that a child process can run: TUTTI_EXE names it, or it is this program; 0 if
 * there is none, as in a client of libtutti. */
int tt_process_find_tutti(char *path, size_t capacity);

/* Exit code of the program; -1 if it did not start, timed out or was ended by a signal. */
int tt_process_exit_code(const tt_process_result *c);

/* A program in the background. It leads a new process group. The kernel kills it when the thread
 * that started it ends (PR_SET_PDEATHSIG), so start it from a long-lived thread. It inherits no
 * open files but the standard ones set below, no blocked signals, and none of the variables by
 * which an MPI launcher identifies a rank: the program may be an MPI program itself. SIGUSR1 is
 * ignored in it: Slurm sends SIGUSR1 to every process of a step, but it is for tutti only. */
typedef struct tt_process_options {
  char *const *argv;     /* NULL-terminated; argv[0] is searched in PATH if it has no slash */
  const char *directory; /* working directory, and base of a relative argv[0]; NULL = current one */
  const char *output;    /* file for standard output and error; created or truncated */
  int (*drops)(const char *variable); /* 1 = not to inherit this NAME=value either; NULL = none */
} tt_process_options;

/* Whether a launcher of MPI programs may have started this process together with others: one of the
 * variables by which a launcher identifies a rank is set, or the Slurm step has several tasks. */
int tt_process_is_launched_local(void);

/* 0 if `program` can be started in `directory` as tt_process_start does, otherwise an errno:
 * ENOENT, EACCES. Only its file is checked, so the start may still fail. */
int tt_process_find(const char *program, const char *directory);

/* Start it; its standard input is empty. Returns 0 and *pid, or an errno. */
int tt_process_start(const tt_process_options *o, pid_t *pid);

/* 1 if the program has ended: then *status is that of waitpid, the rest of its process group is
 * killed, and the pid must not be used any more. Never waits. */
int tt_process_has_exited(pid_t pid, int *status);

/* Kill the program with its process group and wait for it. */
void tt_process_kill(pid_t pid);

/* {name} in an argument is replaced by `value`. */
typedef struct tt_placeholder {
  const char *name, *value;
} tt_placeholder;

/* argv for a command [count] with every {name} of placeholder[placeholders] replaced; other braces
 * stay. *argv is one block, owned by the caller, tt_free. Errors: MEM. */
tt_err tt_argv_expand(char *const *command, int64_t count, const tt_placeholder *placeholder,
                      int placeholders, char ***argv);
#endif
