/* watchdog.c — see watchdog.h. */
#include "src/host/watchdog.h"

#include "core/base/clock.h"
#include "mpi/fatal.h"
#include "src/host/status_file.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static pthread_t thread;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake;
static int running, ending; /* under lock */
static double limit;        /* under lock */
static char my_directory[PATH_MAX], my_incarnation[128];
static int my_rank;
static _Atomic double last;
static _Atomic(const char *) my_phase;

static void end_process(double idle_seconds)
{
  char reason[256];
  const char *during = atomic_load(&my_phase);
  snprintf(reason, sizeof reason, "rank %d made no progress for %.0f s during %s", my_rank,
           idle_seconds, during);
  fprintf(
      stderr,
      "tutti: error: watchdog: %s; a rank hangs or was stopped. The last checkpoint is complete: "
      "run again to continue (raise run.watchdog if a step may take this long)\n",
      reason);
  if (my_directory[0])
    (void)tt_status_file_update_local(my_directory, my_incarnation, "hung", reason, 75);
  _exit(75);
}

/* The hook of mpi/fatal.h, on the rank that ends all ranks. */
static void record_fatal_error(const char *reason, int exit_code)
{
  const char *state = exit_code == tt_err_exit_code(TT_E_STOPPED) ? "hung" : "failed";
  if (my_directory[0])
    (void)tt_status_file_update_local(my_directory, my_incarnation, state, reason, exit_code);
}

static void *watch(void *arg)
{
  (void)arg;
  pthread_mutex_lock(&lock);
  while (!ending) {
    double idle_seconds = tt_monotonic_seconds() - atomic_load(&last);
    if (idle_seconds > limit) end_process(idle_seconds);
    double poll_seconds = limit / 10.0 < 1.0 ? limit / 10.0 : 1.0;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(poll_seconds * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_cond_timedwait(&wake, &lock, &until);
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}

static int start_thread(void)
{
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&wake, &attr);
  pthread_condattr_destroy(&attr);
  ending = 0;
  return pthread_create(&thread, NULL, watch, NULL);
}

tt_err tt_watchdog_start_local(const char *directory, const char *incarnation, int rank,
                               double seconds)
{
  tt_watchdog_heartbeat_local("start");
  tt_fatal_set_hook_local(record_fatal_error);
  pthread_mutex_lock(&lock);
  my_rank = rank;
  limit = seconds;
  snprintf(my_directory, sizeof my_directory, "%s", directory ? directory : "");
  snprintf(my_incarnation, sizeof my_incarnation, "%s", incarnation ? incarnation : "");
  int failed = running ? 0 : start_thread();
  running = !failed;
  pthread_mutex_unlock(&lock);
  return failed ? TT_FAIL(INTERNAL, "the watchdog thread cannot be started") : TT_OK;
}

void tt_watchdog_heartbeat_local(const char *phase)
{
  atomic_store(&my_phase, phase);
  atomic_store(&last, tt_monotonic_seconds());
}

void tt_watchdog_stop_local(void)
{
  pthread_mutex_lock(&lock);
  int was = running;
  tt_fatal_set_hook_local(NULL);
  running = 0;
  ending = 1;
  if (was) pthread_cond_signal(&wake);
  pthread_mutex_unlock(&lock);
  if (was) pthread_join(thread, NULL);
}
