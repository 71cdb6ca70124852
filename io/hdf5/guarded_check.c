/* guarded_check.c — see guarded_check.h. */
#include "io/hdf5/guarded_check.h"
#include "io/files/memory.h"

#include "core/base/log.h"
#include "core/base/process.h"
#include "io/hdf5/foreign_check.h"
#include "io/table/table.h"

#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILD_SECONDS = 120, CHILD_CPU_SECONDS = 60, MAX_ARGUMENTS = 64 };

/* The child */

static void set_limit(int what, rlim_t soft, rlim_t hard)
{
  const struct rlimit r = {soft, hard};
  (void)setrlimit(what, &r); /* on failure an existing lower limit stays */
}

/* At most CHILD_CPU_SECONDS from now on. */
static void limit_cpu_time(void)
{
  struct rusage used;
  struct rlimit now;
  if (getrusage(RUSAGE_SELF, &used) || getrlimit(RLIMIT_CPU, &now)) return;
  rlim_t until = (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + CHILD_CPU_SECONDS + 1;
  if (now.rlim_max == RLIM_INFINITY || until < now.rlim_max)
    set_limit(RLIMIT_CPU, until, now.rlim_max); /* SIGXCPU */
}

static void limit_resources(void)
{
#ifndef __SANITIZE_ADDRESS__ /* the shadow memory of the sanitizer is far larger */
  set_limit(RLIMIT_AS, (rlim_t)4 << 30, (rlim_t)4 << 30);
#endif
  set_limit(RLIMIT_CORE, 0, 0);
  set_limit(RLIMIT_FSIZE, 0, 0);
  signal(SIGXFSZ,
         SIG_IGN); /* if stdout is a file, writing fails, but the exit code is still correct */
  limit_cpu_time();
}

int tt_guarded_check_child_local(int argc, char **argv)
{
  limit_resources();
  if (argc < 3) return tt_err_exit_code(TT_E_USAGE);
  tt_err e = tt_foreign_check_local(argv[2], (const char *const *)argv + 3, argc - 3);
  if (e) puts(tt_err_last());
  fflush(stdout);
  return tt_err_exit_code(e);
}

/* The parent */

/* The error with this exit code; 0 if there is none, for example if a sanitizer ended the process,
 * with the code 1 of ENDED, which no check has. */
static int error_of_exit_code(int code, tt_err *out)
{
  for (int e = TT_OK; e < TT_E_COUNT; e++) {
    if (tt_err_exit_code((tt_err)e) != code || e == TT_E_ENDED) continue;
    *out = (tt_err)e;
    return 1;
  }
  return 0;
}

static int is_crash(int status)
{
  tt_err e;
  if (WIFEXITED(status)) return !error_of_exit_code(WEXITSTATUS(status), &e);
  int n = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return n == SIGSEGV || n == SIGBUS || n == SIGABRT || n == SIGFPE || n == SIGILL;
}

static tt_err child_error(const char *file, int status, int in_time, const char *text)
{
  int signal_number = WIFSIGNALED(status) ? WTERMSIG(status) : 0, crash = is_crash(status);
  tt_err e = TT_OK;
  if (!in_time || signal_number == SIGXCPU)
    return TT_FAIL(DATA,
                   "%s: checking the file took more than %d s; the file is damaged, or its "
                   "file system hangs",
                   file, in_time ? CHILD_CPU_SECONDS : CHILD_SECONDS);
  if (signal_number && !crash)
    return TT_FAIL(IO, "%s: the process that checks the file was ended by signal %d (%s)", file,
                   signal_number, strsignal(signal_number));
  if (crash)
    return TT_FAIL(
        DATA,
        "%s is damaged: the process that checks the file crashed twice (%s); create the file again",
        file, signal_number ? strsignal(signal_number) : "unexpected end");
  error_of_exit_code(WEXITSTATUS(status), &e);
  if (!e) return TT_OK;
  return tt_fail_at(__FILE__, __LINE__, e, "%s", *text ? text : tt_err_text(e));
}

const char *tt_optional_default(const char *text)
{
  return !strcmp(text, "x") ? "?x" : !strcmp(text, "y") ? "?y" : text;
}

tt_err tt_guarded_check_local(const char *file, const char *const *dataset, int n)
{
  char program[PATH_MAX];
  char *argv[MAX_ARGUMENTS] = {"tutti", "check-data", (char *)(uintptr_t)file};
  char text[TT_ERR_MESSAGE_SIZE];
  int arguments = 3;
  if (tt_table_is_table(file) || tt_memory_find(file)) return TT_OK;
  if (!tt_process_find_tutti(program, sizeof program)) {
    tt_log_root(TT_LOG_DEBUG,
                "%s is not checked in a separate process: this program is not tutti, "
                "and TUTTI_EXE does not name one",
                file);
    return TT_OK;
  }
  for (int i = 0; i < n && arguments < MAX_ARGUMENTS - 1; i++)
    if (dataset[i] && *dataset[i]) argv[arguments++] = (char *)(uintptr_t)dataset[i];
  tt_process_result child = tt_process_run(program, argv, CHILD_SECONDS, text, sizeof text);
  if (!child.failed && !child.timed_out && is_crash(child.status)) /* check once more */
    child = tt_process_run(program, argv, CHILD_SECONDS, text, sizeof text);
  text[strcspn(text, "\n")] = '\0';
  if (!child.failed) return child_error(file, child.status, !child.timed_out, text);
  tt_log_root(TT_LOG_WARN, "%s is not checked in a separate process: %s cannot be run: %s", file,
              program, strerror(child.failed));
  return TT_OK;
}
