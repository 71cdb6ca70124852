/* data_check.c — see data_check.h. */
#include "io/data_check.h"

#include "base/log.h"
#include "io/h5_check.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHILD_SECONDS = 120, CHILD_CPU_SECONDS = 60, MOST_ARGUMENTS = 64 };

/* ---- the child ---------------------------------------------------------------------------------
 */

static void limit(int what, rlim_t soft, rlim_t hard)
{
  const struct rlimit r = {soft, hard};
  (void)setrlimit(what, &r); /* a lower limit that is there already stays */
}

static void limit_self(void)
{
#ifndef __SANITIZE_ADDRESS__ /* whose shadow memory is far larger */
  limit(RLIMIT_AS, (rlim_t)4 << 30, (rlim_t)4 << 30);
#endif
  limit(RLIMIT_CPU, CHILD_CPU_SECONDS, CHILD_CPU_SECONDS + 5); /* SIGXCPU, then SIGKILL */
  limit(RLIMIT_CORE, 0, 0);
  limit(RLIMIT_FSIZE, 0, 0);
  signal(SIGXFSZ, SIG_IGN); /* run by hand with stdout in a file: the exit code still tells */
}

int tt_data_check_child_local(int argc, char **argv)
{
  if (argc < 3) {
    fputs("usage: tutti check-data FILE DATASET...\n", stderr);
    return tt_err_exit_code(TT_E_USAGE);
  }
  limit_self();
  tt_err e = tt_h5_check_local(argv[2], (const char *const *)argv + 3, argc - 3);
  if (e) puts(tt_err_last());
  fflush(stdout);
  return tt_err_exit_code(e);
}

/* ---- the parent --------------------------------------------------------------------------------
 */

/* The tutti program to run; 0 if there is none. */
static int find_program(char path[PATH_MAX])
{
  static const char name[] = "/tutti";
  const char *given = getenv("TUTTI_EXE");
  if (given && *given) {
    snprintf(path, PATH_MAX, "%s", given);
    return 1;
  }
  ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
  if (n < 0) return 0;
  path[n] = '\0';
  return n >= (ssize_t)sizeof name - 1 && !strcmp(path + n - (sizeof name - 1), name);
}

/* Its stdout is the pipe; signals that we have blocked or take care of are as at the start. */
static int spawn(const char *program, char *const argv[], int to, pid_t *child)
{
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  int e = posix_spawn_file_actions_init(&actions);
  if (e) return e;
  e = posix_spawnattr_init(&attributes);
  if (!e) {
    e = posix_spawn_file_actions_adddup2(&actions, to, STDOUT_FILENO);
    if (!e) e = posix_spawnattr_setsigmask(&attributes, &none);
    if (!e) e = posix_spawnattr_setsigdefault(&attributes, &all);
    if (!e)
      e = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (!e) e = posix_spawn(child, program, &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_destroy(&actions);
  return e;
}

static int64_t milliseconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Read until the child closes its end; 0 if that took too long. */
static int listen_to(int from, char *text, size_t room)
{
  size_t used = 0;
  int64_t until = milliseconds() + CHILD_SECONDS * 1000;
  for (;;) {
    struct pollfd p = {from, POLLIN, 0};
    int64_t left = until - milliseconds();
    int ready = left > 0 ? poll(&p, 1, (int)left) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return 0;
    ssize_t n = read(from, text + used, room - 1 - used);
    if (n < 0 && errno == EINTR) continue;
    if (n > 0) used += (size_t)n;
    if (n <= 0 || used == room - 1) break;
  }
  text[used] = '\0';
  text[strcspn(text, "\n")] = '\0';
  return 1;
}

/* Is it an exit code of ours? Sanitizers and libraries that end a process have others. */
static int of_exit_code(int code, tt_err *out)
{
  for (int e = TT_OK; e < TT_E_COUNT; e++) {
    if (tt_err_exit_code((tt_err)e) != code) continue;
    *out = (tt_err)e;
    return 1;
  }
  return 0;
}

static tt_err judge(const char *file, int status, int in_time, const char *text)
{
  int sign = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  int crash =
      sign == SIGSEGV || sign == SIGBUS || sign == SIGABRT || sign == SIGFPE || sign == SIGILL;
  tt_err e = TT_OK;
  if (!in_time || sign == SIGXCPU)
    return TT_FAIL(DATA,
                   "%s: opening it took a test reader more than %d s; the file is damaged, or its "
                   "file system hangs",
                   file, in_time ? CHILD_CPU_SECONDS : CHILD_SECONDS);
  if (sign && !crash)
    return TT_FAIL(IO, "%s: its test reader was ended by signal %d (%s)", file, sign,
                   strsignal(sign));
  if (crash || !of_exit_code(WEXITSTATUS(status), &e))
    return TT_FAIL(DATA,
                   "%s is damaged: reading it crashed a test reader (%s); make the file again",
                   file, crash ? strsignal(sign) : "unexpected end");
  if (!e) return TT_OK;
  return tt_fail_at(__FILE__, __LINE__, e, "%s", *text ? text : tt_err_text(e));
}

/* Wait for the child that writes into `from`. */
static tt_err attend(const char *file, pid_t child, int from)
{
  char text[TT_ERR_TEXT] = "";
  int status = 0, in_time = listen_to(from, text, sizeof text);
  if (!in_time) kill(child, SIGKILL);
  pid_t got;
  do
    got = waitpid(child, &status, 0);
  while (got < 0 && errno == EINTR);
  if (got < 0)
    return TT_FAIL(IO, "%s: its test reader cannot be waited for: %s", file, strerror(errno));
  return judge(file, status, in_time, text);
}

tt_err tt_data_check_local(const char *file, const char *const *dataset, int n)
{
  char program[PATH_MAX];
  char *argv[MOST_ARGUMENTS] = {"tutti", "check-data", (char *)(uintptr_t)file};
  int arguments = 3, ends[2];
  pid_t child = 0;
  if (!find_program(program)) {
    tt_log_once(TT_LOG_DEBUG,
                "%s is not checked in a process of its own: this program is not tutti, "
                "and TUTTI_EXE does not name one",
                file);
    return TT_OK;
  }
  for (int i = 0; i < n && arguments < MOST_ARGUMENTS - 1; i++)
    if (dataset[i] && *dataset[i]) argv[arguments++] = (char *)(uintptr_t)dataset[i];
  if (pipe2(ends, O_CLOEXEC)) return TT_FAIL(IO, "no pipe to the test reader: %s", strerror(errno));
  int failed = spawn(program, argv, ends[1], &child);
  close(ends[1]);
  tt_err e = TT_OK;
  if (failed)
    tt_log_once(TT_LOG_WARN, "%s is not checked in a process of its own: %s cannot be started: %s",
                file, program, strerror(failed));
  else
    e = attend(file, child, ends[0]);
  close(ends[0]);
  return e;
}
