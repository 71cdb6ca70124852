/* run_status.c — see run_status.h. */
#include "src/report/run_status.h"

#include "core/base/directory.h"
#include "core/base/text.h"
#include "io/results/group_scores.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct run_summary {
  const char *directory;
  tt_status_file file;
  int64_t checkpoint_age; /* s; -1 = no checkpoint */
  int results;
} run_summary;

/* Seconds since a file was written; -1 if there is no file. */
static int64_t file_age(const char *directory, const char *name)
{
  char path[TT_PATH_MAX];
  struct stat s;
  tt_path_join(directory, name, path);
  if (stat(path, &s) != 0) return -1;
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
  return TT_OK;
}

void tt_status_line_print(const char *label, const char *format, ...)
{
  enum { INDENT = 12 };
  char text[TT_ERR_MESSAGE_SIZE + 256];
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  printf("%-*s", INDENT - 1, label);
  tt_text_print_words(INDENT, text);
}

static void print_state(const run_summary *o)
{
  const tt_run_status *s = &o->file.status;
  char text[32], code[40] = "", job[96] = "";
  int running = !strcmp(s->state, "training");
  if (!running) snprintf(code, sizeof code, ", exit code %" PRId64, s->exit_code);
  if (o->file.job)
    snprintf(job, sizeof job, ", Slurm job %" PRId64 ", restart %" PRId64, o->file.job,
             o->file.restart);
  tt_status_line_print("state", "%s%s%s", s->state, code, job);
  if (*s->reason) tt_status_line_print("reason", "%s", s->reason);
  tt_status_line_print("updated", "%s, %s ago%s", s->time,
                       tt_duration_text((double)o->file.age, text),
                       running && o->file.age > TT_STATUS_STALE
                           ? ": not updated since; if the job was killed, run it again to resume"
                           : "");
}

/* The last whole line of metrics.jsonl, NULL = none. Owner: the caller. */
static json_t *last_metrics(const char *directory)
{
  enum { TAIL = 4096 };
  char path[TT_PATH_MAX], text[TAIL + 1];
  FILE *f = NULL;
  tt_path_join(directory, "metrics.jsonl", path);
  if (access(path, F_OK) || tt_file_open_stream(path, &f)) return NULL;
  if (fseek(f, -TAIL, SEEK_END)) rewind(f); /* a shorter file */
  text[fread(text, 1, TAIL, f)] = '\0';
  fclose(f);
  char *end = strrchr(text, '\n');
  if (!end) return NULL;
  *end = '\0';
  char *line = strrchr(text, '\n');
  return json_loads(line ? line + 1 : text, 0, NULL);
}

static void print_loss(const run_summary *o)
{
  json_t *line = last_metrics(o->directory), *median = json_object_get(line, "loss_q50");
  if (json_is_number(median))
    tt_status_line_print("loss", "%.3g, half of the members from %.3g to %.3g",
                         json_number_value(median),
                         json_number_value(json_object_get(line, "loss_q25")),
                         json_number_value(json_object_get(line, "loss_q75")));
  json_decref(line);
}

void tt_status_progress_print(const tt_run_status *s)
{
  char text[32];
  tt_status_line_print("members",
                       "%" PRId64 ": %" PRId64 " in training, %" PRId64 " finished, %" PRId64
                       " stopped early, %" PRId64 " diverged",
                       s->members, s->training, s->finished, s->early_stopped, s->diverged);
  if (s->epochs)
    tt_status_line_print("epoch", "%" PRId64 " of at most %" PRId64, s->epoch, s->epochs);
  else
    tt_status_line_print("epoch", "not known before training begins");
  if (s->rate > 0.0) tt_status_line_print("rate", "%.3g member-steps/s", s->rate);
  if (!strcmp(s->state, "training"))
    tt_status_line_print("time left", "%s", tt_duration_text(s->eta, text));
}

static void print_summary(const run_summary *o)
{
  int64_t generation = o->file.status.generation;
  char text[32];
  print_state(o);
  tt_status_progress_print(&o->file.status);
  print_loss(o);
  if (generation == 0)
    tt_status_line_print("checkpoint", "none");
  else
    tt_status_line_print("checkpoint", "%" PRId64 ", %s ago", generation,
                         tt_duration_text((double)o->checkpoint_age, text));
  tt_status_line_print("results", "%s", o->results ? "model.h5, results.h5" : "none yet");
}

/* The scores of the groups of `by`, if there are any. */
static tt_err print_groups(const char *directory)
{
  char path[TT_PATH_MAX], *text = NULL;
  snprintf(path, sizeof path, "%s/results.h5", directory);
  if (!tt_group_scores_exist(path)) return TT_OK;
  tt_err e = tt_group_scores_text(path, &text);
  if (!e) fputs(text, stdout);
  free(text);
  return e;
}

static tt_err print_json(const run_summary *o)
{
  json_t *object = json_object();
  tt_run_status_to_json(&object, &o->file.status);
  tt_json_set(&object, "job", json_sprintf("%" PRId64, o->file.job));
  tt_json_set(&object, "restart", json_integer(o->file.restart));
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
  return o.results ? print_groups(directory) : TT_OK;
}

tt_err tt_run_is_running_local(const char *directory, int *running)
{
  static tt_status_file file;
  TT_TRY(tt_status_file_read_local(directory, &file));
  const char *state = file.status.state;
  *running = !strcmp(state, "training") || !strcmp(state, "running");
  return TT_OK;
}
