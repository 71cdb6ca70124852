/* run_status.c — see run_status.h. */
#include "src/report/run_status.h"

#include "core/base/text.h"
#include "src/host/status_file.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* A run updates its status every 10 s; a slow file system may delay it. */
enum { STALE_SECONDS = 120 };

typedef struct run_summary {
  const char *directory;
  tt_status_file file;
  int64_t checkpoint_age; /* s; -1 = no checkpoint */
  int results;
  char job[24];
  int64_t restart;
} run_summary;

/* Seconds since a file was written; -1 if there is no file. */
static int64_t file_age(const char *directory, const char *name)
{
  char path[PATH_MAX];
  struct stat s;
  int n = snprintf(path, sizeof path, "%s/%s", directory, name);
  if (n >= (int)sizeof path || stat(path, &s) != 0) return -1;
  int64_t age = (int64_t)(time(NULL) - s.st_mtime);
  return age > 0 ? age : 0;
}

static tt_err read_run(const char *directory, run_summary *o)
{
  char name[64];
  o->directory = directory;
  TT_TRY(tt_status_file_read_local(directory, &o->file));
  const tt_run_status *s = &o->file.status;
  snprintf(name, sizeof name, "ckpt-g%06" PRId64 ".h5", s->generation);
  o->checkpoint_age = s->generation > 0 ? file_age(directory, name) : -1;
  o->results = file_age(directory, "model.h5") >= 0 && file_age(directory, "results.h5") >= 0;
  snprintf(o->job, sizeof o->job, "%.*s", (int)strcspn(s->incarnation, "."), s->incarnation);
  const char *dot = strchr(s->incarnation, '.');
  o->restart = dot ? strtoll(dot + 1, NULL, 10) : 0;
  return TT_OK;
}

static void print_state(const run_summary *o)
{
  const tt_run_status *s = &o->file.status;
  char text[32];
  int running = !strcmp(s->state, "training");
  printf("state       %s", s->state);
  if (!running) printf(", exit code %" PRId64, s->exit_code);
  if (strcmp(o->job, "0") != 0 && *o->job)
    printf(", Slurm job %s, restart %" PRId64, o->job, o->restart);
  printf("\n%s%s", *s->reason ? "reason      " : "", s->reason);
  printf("%supdated     %s, %s ago", *s->reason ? "\n" : "", s->time,
         tt_duration_text((double)o->file.age, text));
  if (running && o->file.age > STALE_SECONDS)
    printf(": not updated since; if the job was killed, run it again to resume");
  printf("\n");
}

static void print_summary(const run_summary *o)
{
  const tt_run_status *s = &o->file.status;
  char text[32];
  int running = !strcmp(s->state, "training");
  print_state(o);
  printf("members     %" PRId64 ": %" PRId64 " in training, %" PRId64 " finished, %" PRId64
         " stopped early, %" PRId64 " diverged\n",
         s->members, s->training, s->finished, s->early_stopped, s->diverged);
  printf("epoch       %" PRId64 " of at most %" PRId64 "\n", s->epoch, s->epochs);
  if (s->generation == 0)
    printf("checkpoint  none\n");
  else if (o->checkpoint_age < 0)
    printf("checkpoint  %" PRId64 "\n", s->generation);
  else
    printf("checkpoint  %" PRId64 ", %s ago\n", s->generation,
           tt_duration_text((double)o->checkpoint_age, text));
  if (s->rate > 0.0) printf("rate        %.3g member-steps/s\n", s->rate);
  if (running) printf("time left   %s\n", tt_duration_text(s->eta, text));
  printf("results     %s\n", o->results ? "model.h5, results.h5" : "none yet");
}

static tt_err print_json(const run_summary *o)
{
  json_t *object = json_object();
  tt_run_status_to_json(&object, &o->file.status);
  tt_json_set(&object, "job", tt_json_text(o->job));
  tt_json_set(&object, "restart", json_integer(o->restart));
  tt_json_set(&object, "age_seconds", json_integer(o->file.age));
  tt_json_set(&object, "checkpoint_age_seconds", json_integer(o->checkpoint_age));
  tt_json_set(&object, "results", json_integer(o->results));
  return tt_json_print(object, 2);
}

tt_err tt_run_status_print_local(const char *directory, int json)
{
  static run_summary o;
  TT_TRY(read_run(directory, &o));
  if (json) return print_json(&o);
  print_summary(&o);
  return TT_OK;
}
