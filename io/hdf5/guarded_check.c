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

/* Read one request: *n texts; 0 at the end of the input. Texts live until the next request. */
static int read_request(char *text[MAX_ARGUMENTS], size_t capacity[MAX_ARGUMENTS], int *n)
{
  for (*n = 0; *n < MAX_ARGUMENTS; ++*n) {
    if (getdelim(&text[*n], &capacity[*n], '\0', stdin) < 1) return 0;
    if (!*text[*n]) return *n > 0;
  }
  return 0;
}

static int serve(void)
{
  static char *text[MAX_ARGUMENTS];
  static size_t capacity[MAX_ARGUMENTS];
  for (int n; read_request(text, capacity, &n);) {
    limit_cpu_time();
    tt_err e = tt_foreign_check_local(text[0], (const char *const *)text + 1, n - 1);
    printf("%d %.*s\n", tt_err_exit_code(e), e ? (int)strcspn(tt_err_last(), "\n") : 0,
           e ? tt_err_last() : "");
    fflush(stdout);
  }
  for (int i = 0; i < MAX_ARGUMENTS; i++) free(text[i]);
  return 0;
}

int tt_guarded_check_child_local(int argc, char **argv)
{
  limit_resources();
  if (argc < 3) return serve();
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

/* The child that is kept for several files */

static struct {
  int wanted, answers; /* answers of the present child */
  tt_process_server child;
} kept;

static void end_kept(int *status, int *timed_out)
{
  *status = tt_process_server_end(&kept.child, timed_out);
  kept.answers = 0;
}

void tt_guarded_check_keep_local(int keep)
{
  int status, timed_out;
  kept.wanted = keep;
  if (!keep && kept.child.pid) end_kept(&status, &timed_out);
}

/* The request for argv[2], argv[3], ...; its bytes, 0 if it does not fit. */
static size_t format_request(char *const argv[], char *request, size_t capacity)
{
  size_t used = 0;
  for (char *const *word = argv + 2; *word; word++) {
    size_t n = strlen(*word) + 1;
    if (used + n + 1 > capacity) return 0;
    memcpy(request + used, *word, n);
    used += n;
  }
  request[used] = '\0';
  return used + 1;
}

/* Ask the kept child. *done = 0: it cannot be used, a child of its own is needed. A crash of a
 * child that has checked other files before proves nothing about this one. */
static tt_err ask_kept(const char *program, char *const argv[], char *text, int *done)
{
  static char request[PATH_MAX * 2];
  char *const server[] = {argv[0], argv[1], NULL};
  size_t bytes = format_request(argv, request, sizeof request);
  *done = 0;
  if (!bytes || (!kept.child.pid && tt_process_server_start(program, server, &kept.child)))
    return TT_OK;
  int first = kept.answers++ == 0, status = 0, late = 0, code = 0, used = 0;
  if (tt_process_server_ask(&kept.child, request, bytes, CHILD_SECONDS, text,
                            TT_ERR_MESSAGE_SIZE) &&
      sscanf(text, "%d %n", &code, &used) == 1) {
    *done = 1;
    if (!code) return TT_OK;
    end_kept(&status, &late); /* the file may have left traces in it */
    return child_error(argv[2], code << 8, 1, text + used);
  }
  end_kept(&status, &late);
  *done = first && !is_crash(status); /* after a crash a child of its own checks once more */
  return *done ? child_error(argv[2], status, !late, "") : TT_OK;
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
  int done = 0;
  tt_err e = kept.wanted ? ask_kept(program, argv, text, &done) : TT_OK;
  if (done) return e;
  tt_process_result child = tt_process_run(program, argv, CHILD_SECONDS, text, sizeof text);
  if (!child.failed && !child.timed_out && is_crash(child.status)) /* check once more */
    child = tt_process_run(program, argv, CHILD_SECONDS, text, sizeof text);
  text[strcspn(text, "\n")] = '\0';
  if (!child.failed) return child_error(file, child.status, !child.timed_out, text);
  tt_log_root(TT_LOG_WARN, "%s is not checked in a separate process: %s cannot be run: %s", file,
              program, strerror(child.failed));
  return TT_OK;
}
