/* stop_request.c — see stop_request.h. */
#include "src/host/stop_request.h"

#include "core/base/clock.h"
#include "core/base/directory.h"
#include "core/base/log.h"
#include "io/files/owner.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STOP_SIGNALS = 3 };
static const int stop_signals[STOP_SIGNALS] = {SIGTERM, SIGUSR1, SIGINT};
static struct sigaction earlier[STOP_SIGNALS]; /* before tt_stop_install_handlers_local */
static volatile sig_atomic_t received_signal;  /* the last signal, 0 = none */
static _Thread_local int (*ask)(void *);       /* tt_stop_ask_local */
static _Thread_local void *ask_context;

static void handle_signal(int number)
{
  if (number == SIGINT && received_signal == SIGINT) _exit(128 + SIGINT);
  received_signal = number;
}

void tt_stop_install_handlers_local(void)
{
  struct sigaction act;
  memset(&act, 0, sizeof act);
  act.sa_handler = handle_signal;
  act.sa_flags = SA_RESTART;
  sigemptyset(&act.sa_mask);
  received_signal = 0;
  for (int i = 0; i < STOP_SIGNALS; i++) sigaction(stop_signals[i], &act, &earlier[i]);
}

int tt_stop_restore_handlers_local(void)
{
  for (int i = 0; i < STOP_SIGNALS; i++) sigaction(stop_signals[i], &earlier[i], NULL);
  return received_signal;
}

void tt_stop_ask_local(int (*function)(void *), void *context)
{
  ask = function;
  ask_context = context;
}

int tt_stop_signaled_local(void) { return received_signal != 0; }

const char *tt_stop_signal_local(void)
{
  return received_signal ? tt_stop_text(TT_STOP_signal) : NULL;
}

static void stop_path(const char *directory, char path[TT_PATH_MAX])
{
  snprintf(path, TT_PATH_MAX, "%s/STOP", directory);
}

static tt_stop_reason stop_reason_local(const tt_comm *c, double deadline, const char *directory)
{
  tt_stop_reason why =
      deadline > 0.0 && tt_monotonic_seconds() >= deadline ? TT_STOP_time : TT_STOP_none;
  if (ask && ask(ask_context)) why = TT_STOP_interrupt;
  if (received_signal && !ask) why = received_signal == SIGINT ? TT_STOP_interrupt : TT_STOP_signal;
  if (directory && tt_comm_is_root(c)) {
    char path[TT_PATH_MAX];
    stop_path(directory, path);
    if (!access(path, F_OK)) why = TT_STOP_file;
  }
  return why;
}

tt_stop_reason tt_stop_agreed(tt_comm *c, double deadline, const char *directory)
{
  int64_t why = (int64_t)stop_reason_local(c, deadline, directory);
  tt_allreduce_max_i64(c, &why, 1);
  return (tt_stop_reason)why;
}

void tt_stop_remove_file_local(const char *directory)
{
  char path[TT_PATH_MAX];
  stop_path(directory, path);
  if (tt_owner_check_local(path) || !unlink(path) || errno == ENOENT) return;
  tt_log_root(TT_LOG_WARN, "%s cannot be removed (%s): the next start will stop at once", path,
              strerror(errno));
}

const char *tt_stop_name(tt_stop_reason why)
{
  static const char *const name[] = {"", "time", "signal", "interrupt", "file"};
  return name[why];
}

const char *tt_stop_text(tt_stop_reason why)
{
  switch (why) {
  case TT_STOP_time: return "the time limit";
  case TT_STOP_file: return "the file STOP";
  case TT_STOP_signal:
  case TT_STOP_interrupt:
    return received_signal == SIGTERM   ? "SIGTERM"
           : received_signal == SIGUSR1 ? "SIGUSR1"
           : received_signal == SIGINT  ? "SIGINT"
                                        : "a signal";
  default: return "nothing";
  }
}
