/* process.c — see process.h. */
#include "core/base/process.h"

#include "core/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* Start the child with stdout in the pipe. The signals that ask tutti to stop are blocked in it:
 * Slurm sends them to every process of a step, but tutti still needs the output of the child, which
 * ends soon anyway. */
static int spawn(const char *program, char *const argv[], int output, pid_t *child)
{
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t stops, all;
  sigemptyset(&stops);
  sigaddset(&stops, SIGUSR1);
  sigaddset(&stops, SIGTERM);
  sigaddset(&stops, SIGINT);
  sigfillset(&all);
  int e = posix_spawn_file_actions_init(&actions);
  if (e) return e;
  e = posix_spawnattr_init(&attributes);
  if (!e) {
    e = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    if (!e) e = posix_spawnattr_setsigmask(&attributes, &stops);
    if (!e) e = posix_spawnattr_setsigdefault(&attributes, &all);
    if (!e)
      e = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (!e) e = posix_spawnp(child, program, &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_destroy(&actions);
  return e;
}

/* Read until the child closes the pipe, or `text` is full; 0 after a timeout. */
static int read_output(int pipe, double seconds, char *text, size_t capacity)
{
  size_t used = 0;
  double until = tt_monotonic_seconds() + seconds;
  for (;;) {
    struct pollfd p = {pipe, POLLIN, 0};
    double left = until - tt_monotonic_seconds();
    int ready = left > 0.0 ? poll(&p, 1, (int)(left * 1000.0)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return 0;
    ssize_t n = read(pipe, text + used, capacity - 1 - used);
    if (n < 0 && errno == EINTR) continue;
    if (n > 0) used += (size_t)n;
    if (n <= 0 || used == capacity - 1) break;
  }
  text[used] = '\0';
  return 1;
}

tt_process_result tt_process_run(const char *program, char *const argv[], double seconds,
                                 char *text, size_t capacity)
{
  tt_process_result c = {0};
  pid_t child = 0, got;
  int ends[2];
  text[0] = '\0';
  if (pipe2(ends, O_CLOEXEC)) return (tt_process_result){.failed = errno};
  c.failed = spawn(program, argv, ends[1], &child);
  close(ends[1]);
  if (!c.failed) {
    c.timed_out = !read_output(ends[0], seconds, text, capacity);
    if (c.timed_out) kill(child, SIGKILL);
    do got = waitpid(child, &c.status, 0);
    while (got < 0 && errno == EINTR);
    if (got < 0) c.failed = errno;
  }
  close(ends[0]);
  return c;
}

int tt_process_find_tutti(char *path, size_t capacity)
{
  static const char name[] = "/tutti";
  const char *given = getenv("TUTTI_EXE");
  if (given && *given) return snprintf(path, capacity, "%s", given) < (int)capacity;
  ssize_t n = readlink("/proc/self/exe", path, capacity - 1);
  if (n < 0) return 0;
  path[n] = '\0';
  return n >= (ssize_t)sizeof name - 1 && !strcmp(path + n - (sizeof name - 1), name);
}

int tt_process_exit_code(const tt_process_result *c)
{
  return c->failed || c->timed_out || !WIFEXITED(c->status) ? -1 : WEXITSTATUS(c->status);
}
