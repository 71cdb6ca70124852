/* stop_request.c — see stop_request.h. */
#include "src/host/stop_request.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t heard; /* the last signal, 0 = none */

static void hear(int number)
{
  if (number == SIGINT && heard == SIGINT) _exit(128 + SIGINT);
  heard = number;
}

void tt_stop_listen_local(void)
{
  static const int asked[] = {SIGTERM, SIGUSR1, SIGINT};
  struct sigaction act;
  memset(&act, 0, sizeof act);
  act.sa_handler = hear;
  act.sa_flags = SA_RESTART;
  sigemptyset(&act.sa_mask);
  for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
    sigaction(asked[i], &act, NULL);
}

double tt_clock_local(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static tt_stop ask_local(const tt_comm *c, double deadline, const char *directory)
{
  tt_stop why = deadline > 0.0 && tt_clock_local() >= deadline ? TT_STOP_time : TT_STOP_no;
  if (heard) why = heard == SIGINT ? TT_STOP_interrupt : TT_STOP_signal;
  if (directory && tt_comm_is_root(c)) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/STOP", directory);
    if (!access(path, F_OK)) why = TT_STOP_file;
  }
  return why;
}

tt_stop tt_stop_agreed(tt_comm *c, double deadline, const char *directory)
{
  int64_t why = (int64_t)ask_local(c, deadline, directory);
  tt_max_i64(c, &why, 1);
  return (tt_stop)why;
}

const char *tt_stop_word(tt_stop why)
{
  static const char *const word[] = {"", "time", "signal", "interrupt", "file"};
  return word[why];
}

const char *tt_stop_text(tt_stop why)
{
  switch (why) {
  case TT_STOP_time: return "the time limit";
  case TT_STOP_file: return "the file STOP";
  case TT_STOP_signal:
  case TT_STOP_interrupt:
    return heard == SIGTERM   ? "SIGTERM"
           : heard == SIGUSR1 ? "SIGUSR1"
           : heard == SIGINT  ? "SIGINT"
                              : "a signal";
  default: return "nothing";
  }
}
