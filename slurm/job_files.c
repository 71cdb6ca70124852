/* job_files.c — see jobs_internal.h. */
#include "slurm/jobs_internal.h"

#include "core/base/json.h"
#include "core/base/mem.h"
#include "io/files/files.h"
#include "slurm/script.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

static const char *const submit_state_name[] = {"planned", "submitting", "submitted"};

void tt_job_file_path(const tt_slurm_jobs *s, int64_t part, const char *ending,
                      char path[TT_PATH_MAX])
{
  char name[96];
  snprintf(name, sizeof name, "job-%" PRId64 "-%" PRId64 "%s", s->attempt, part, ending);
  tt_path_join(s->order.directory, name, path);
}

void tt_slurm_jobs_free(tt_slurm_jobs *s)
{
  tt_free(s->job);
  s->attempt = s->uncounted = s->count = 0;
}

/* job.json */

tt_err tt_job_file_write_local(const tt_slurm_jobs *s)
{
  char path[TT_PATH_MAX], *text = NULL;
  json_t *jobs = json_array();
  int failed = !jobs;
  for (int64_t i = 0; i < s->count; i++) {
    json_t *job =
        json_pack("{s:I, s:I, s:s}", "tasks", (json_int_t)s->job[i].tasks, "id",
                  (json_int_t)s->job[i].id, "state", submit_state_name[s->job[i].submit_state]);
    failed |= json_array_append_new(jobs, job);
  }
  json_t *record = json_pack("{s:I, s:I, s:I, s:s, s:o}", "round", (json_int_t)s->order.round,
                             "attempt", (json_int_t)s->attempt, "spare", (json_int_t)s->uncounted,
                             "name", s->name, "jobs", jobs);
  if (failed) {
    json_decref(record);
    return TT_FAIL(MEM, "out of memory for job.json");
  }
  TT_TRY(tt_json_format(record, 0, &text));
  tt_path_join(s->order.directory, "job.json", path);
  tt_err e = tt_file_write_atomic_local(path, text);
  tt_free(text);
  return e;
}

static int parse_job(json_t *object, tt_slurm_job *job)
{
  json_int_t tasks, id;
  const char *state;
  if (json_unpack(object, "{s:I, s:I, s:s}", "tasks", &tasks, "id", &id, "state", &state)) return 0;
  *job = (tt_slurm_job){.tasks = tasks, .id = id};
  for (int s = 0; s < (int)(sizeof submit_state_name / sizeof *submit_state_name); s++)
    if (!strcmp(state, submit_state_name[s])) {
      job->submit_state = (tt_submit_state)s;
      return 1;
    }
  return 0;
}

static tt_err parse_jobs(json_t *record, tt_slurm_jobs *s, int *valid)
{
  json_int_t attempt, uncounted;
  json_t *jobs, *job;
  const char *name;
  size_t i;
  *valid = !json_unpack(record, "{s:I, s:I, s:s, s:o}", "attempt", &attempt, "spare", &uncounted,
                        "name", &name, "jobs", &jobs) &&
           json_is_array(jobs) && attempt >= 1 && strlen(name) < sizeof s->name;
  if (!*valid) return TT_OK;
  s->attempt = attempt;
  s->uncounted = uncounted;
  strcpy(s->name, name);
  TT_TRY(TT_ALLOC(s->job, (int64_t)json_array_size(jobs)));
  json_array_foreach(jobs, i, job) *valid &= parse_job(job, &s->job[s->count++]);
  return TT_OK;
}

tt_err tt_job_file_read_local(tt_slurm_jobs *s)
{
  char path[TT_PATH_MAX];
  json_t *record = NULL;
  int valid = 0, exists = 0;
  tt_path_join(s->order.directory, "job.json", path);
  TT_TRY(tt_file_exists(path, &exists));
  if (!exists) return TT_OK;
  tt_err e = tt_json_read_file(path, &record);
  if (!e) e = parse_jobs(record, s, &valid);
  if (e == TT_E_DATA || (!e && !valid))
    e = TT_FAIL(DATA,
                "%s is damaged: cancel the labeling jobs of this campaign that are still in the "
                "queue (squeue --me), remove the file, and run the campaign again",
                path);
  json_decref(record);
  if (e) tt_slurm_jobs_free(s);
  return e;
}

/* Scripts */

/* The user's script, complete. The line --output comes before it, so that the user can override it.
 * A task whose attempt is no longer in job.json, or whose round was restarted, exits at once. Paths
 * are absolute: a job may start in another directory.
 *   task  those of this part */
static tt_err print_script(FILE *f, const tt_slurm_jobs *s, int64_t part, const char *const *task,
                           const char *user_script)
{
  char path[TT_PATH_MAX], directory[PATH_MAX];
  size_t line = strcspn(user_script, "\n");
  if (strncmp(user_script, "#!", 2) != 0)
    return TT_FAIL(CONFIG,
                   "label.script: %s is not a batch script: its first line must be like "
                   "#!/bin/bash",
                   s->order.cfg->label_script);
  if (!realpath(s->order.directory, directory))
    return TT_FAIL(IO, "%s: %s", s->order.directory, strerror(errno));
  tt_job_file_path(s, part, "", path);
  fprintf(f, "%.*s\n#SBATCH --output=\"", (int)line, user_script);
  tt_sbatch_print_pattern(f, path);
  fprintf(f, ".%%a.out\"\n%s", user_script[line] ? user_script + line + 1 : "");
  fprintf(f, "\n# Written by tutti: round %" PRId64 ", attempt %" PRId64 "; one group per task\n",
          s->order.round, s->attempt);
  fputs("set --", f);
  for (int64_t i = 0; i < s->job[part].tasks; i++) fprintf(f, " %s", task[i]);
  fprintf(f, "\nshift \"$SLURM_ARRAY_TASK_ID\"\ngrep -q '\"%s\"' ", s->name);
  tt_shell_print_quoted(f, directory);
  fputs("/job.json || { echo 'tutti: this job is no longer needed'; exit 0; }\n", f);
  fprintf(f, "exec %s ", s->order.call);
  tt_shell_print_quoted(f, directory);
  fputs("/\"$1\"\n", f);
  return TT_OK;
}

static tt_err write_script(const tt_slurm_jobs *s, int64_t part, const char *const *task,
                           const char *user_script)
{
  char path[TT_PATH_MAX], *text = NULL;
  size_t bytes = 0;
  FILE *f = open_memstream(&text, &bytes);
  if (!f) return TT_FAIL(MEM, "out of memory for a batch script");
  tt_err e = print_script(f, s, part, task, user_script);
  tt_job_file_path(s, part, ".sbatch", path);
  if (fclose(f) && !e) e = TT_FAIL(MEM, "out of memory for a batch script");
  if (!e) e = tt_file_write_atomic_local(path, text);
  free(text);
  return e;
}

/* Unique for this start, round and attempt. */
static void set_job_name(tt_slurm_jobs *s)
{
  uint64_t h = XXH3_64bits(s->order.incarnation, strlen(s->order.incarnation));
  h = XXH3_64bits_withSeed(s->order.directory, strlen(s->order.directory), h);
  snprintf(s->name, sizeof s->name, "tutti-%08" PRIx64 "-r%" PRId64 "-a%" PRId64, h >> 32,
           s->order.round, s->attempt);
}

tt_err tt_job_scripts_write_local(tt_slurm_jobs *s, const char *const *task, int64_t n)
{
  char *user_script = NULL;
  int64_t bytes, most = s->max_array_size;
  TT_TRY(tt_config_read_file(s->order.cfg->label_script, &user_script, &bytes));
  tt_free(s->job);
  s->attempt++;
  s->count = (n + most - 1) / most;
  set_job_name(s);
  tt_err e = TT_ALLOC(s->job, s->count);
  for (int64_t p = 0, first = 0; !e && p < s->count; first += s->job[p++].tasks) {
    s->job[p].tasks = n - first < most ? n - first : most;
    e = write_script(s, p, task + first, user_script);
  }
  if (!e) e = tt_job_file_write_local(s);
  tt_free(user_script);
  return e;
}

void tt_slurm_job_numbers_local(const char *directory, char *text, size_t capacity)
{
  tt_slurm_jobs s = {.order.directory = directory};
  size_t used = 0;
  *text = '\0';
  if (tt_job_file_read_local(&s)) return;
  for (int64_t i = 0; i < s.count; i++)
    if (s.job[i].submit_state == TT_SUBMIT_submitted && used + 24 <= capacity)
      used += (size_t)snprintf(text + used, capacity - used, "%s%" PRId64, used ? ":" : "",
                               s.job[i].id);
  tt_slurm_jobs_free(&s);
}
