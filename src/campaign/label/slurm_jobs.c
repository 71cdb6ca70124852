/* slurm_jobs.c — see slurm_jobs.h. */
#include "src/campaign/label/slurm_jobs.h"

#include "core/base/json.h"
#include "core/base/mem.h"
#include "src/campaign/state/file_names.h"
#include "src/slurm/sbatch_script.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

static const char *const submit_state_name[] = {"planned", "submitting", "submitted"};

void tt_label_jobs_path(const tt_label_request *request, const tt_label_jobs *j, int64_t part,
                        const char *ending, char path[TT_PATH_MAX])
{
  char name[96];
  snprintf(name, sizeof name, "job-%" PRId64 "-%" PRId64 "%s", j->attempt, part, ending);
  tt_campaign_path(request->directory, name, path);
}

void tt_label_jobs_free(tt_label_jobs *j)
{
  tt_free(j->job);
  *j = (tt_label_jobs){0};
}

static int is_known_id(const tt_label_jobs *j, int64_t id)
{
  for (int64_t i = 0; j && i < j->count; i++)
    if (j->job[i].submit_state == TT_SUBMIT_submitted && j->job[i].id == id) return 1;
  return 0;
}

int64_t tt_label_jobs_parse_id(const char *text, const tt_label_jobs *known)
{
  while (text && *text) {
    char *end = NULL;
    long long id = *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : 0;
    if (end && strchr("\n;_ ", *end) && id > 0 && !is_known_id(known, id)) return id;
    text = strchr(text, '\n');
    if (text) text++;
  }
  return -1;
}

/* job.json */

tt_err tt_label_jobs_write_local(const tt_label_request *request, const tt_label_jobs *j)
{
  char path[TT_PATH_MAX], *text = NULL;
  json_t *jobs = json_array();
  int failed = !jobs;
  for (int64_t i = 0; i < j->count; i++) {
    json_t *job =
        json_pack("{s:I, s:I, s:s}", "tasks", (json_int_t)j->job[i].tasks, "id",
                  (json_int_t)j->job[i].id, "state", submit_state_name[j->job[i].submit_state]);
    failed |= json_array_append_new(jobs, job);
  }
  json_t *record = json_pack("{s:I, s:I, s:I, s:s, s:o}", "round", (json_int_t)request->round,
                             "attempt", (json_int_t)j->attempt, "spare", (json_int_t)j->uncounted,
                             "name", j->name, "jobs", jobs);
  if (failed) {
    json_decref(record);
    return TT_FAIL(MEM, "out of memory for job.json");
  }
  TT_TRY(tt_json_format(record, 0, &text));
  tt_campaign_path(request->directory, "job.json", path);
  tt_err e = tt_file_write_atomic_local(path, text);
  tt_free(text);
  return e;
}

static int parse_job(json_t *object, tt_label_job *job)
{
  json_int_t tasks, id;
  const char *state;
  if (json_unpack(object, "{s:I, s:I, s:s}", "tasks", &tasks, "id", &id, "state", &state)) return 0;
  *job = (tt_label_job){.tasks = tasks, .id = id};
  for (int s = 0; s < (int)(sizeof submit_state_name / sizeof *submit_state_name); s++)
    if (!strcmp(state, submit_state_name[s])) {
      job->submit_state = (tt_submit_state)s;
      return 1;
    }
  return 0;
}

static tt_err parse_jobs(json_t *record, tt_label_jobs *j, int *valid)
{
  json_int_t attempt, uncounted;
  json_t *jobs, *job;
  const char *name;
  size_t i;
  *valid = !json_unpack(record, "{s:I, s:I, s:s, s:o}", "attempt", &attempt, "spare", &uncounted,
                        "name", &name, "jobs", &jobs) &&
           json_is_array(jobs) && attempt >= 1 && strlen(name) < sizeof j->name;
  if (!*valid) return TT_OK;
  j->attempt = attempt;
  j->uncounted = uncounted;
  strcpy(j->name, name);
  TT_TRY(TT_ALLOC(j->job, (int64_t)json_array_size(jobs)));
  json_array_foreach(jobs, i, job) *valid &= parse_job(job, &j->job[j->count++]);
  return TT_OK;
}

tt_err tt_label_jobs_read_local(const tt_label_request *request, tt_label_jobs *out)
{
  char path[TT_PATH_MAX];
  json_t *record = NULL;
  int valid = 0, exists = 0;
  tt_label_jobs j = {0};
  tt_campaign_path(request->directory, "job.json", path);
  *out = j;
  TT_TRY(tt_file_exists(path, &exists));
  if (!exists) return TT_OK;
  tt_err e = tt_json_read_file(path, &record);
  if (!e) e = parse_jobs(record, &j, &valid);
  if (e == TT_E_DATA || (!e && !valid))
    e = TT_FAIL(DATA,
                "%s is damaged: cancel the labelling jobs of this campaign that are still in the "
                "queue (squeue --me), remove the file, and run the campaign again",
                path);
  json_decref(record);
  if (e)
    tt_label_jobs_free(&j);
  else
    *out = j;
  return e;
}

/* Scripts */

static void print_output_line(FILE *f, const tt_label_request *request, const tt_label_jobs *j,
                              int64_t part)
{
  char path[TT_PATH_MAX];
  tt_label_jobs_path(request, j, part, "", path);
  fputs("#SBATCH --output=\"", f);
  tt_sbatch_print_pattern(f, path);
  fputs(".%a.out\"\n", f);
}

/* Print `count` pending groups from index `first` on, by the names of their directories. */
static void print_groups(FILE *f, const tt_labelling *a, int64_t first, int64_t count)
{
  int64_t n = 0;
  fputs("set --", f);
  for (int64_t i = 0; i < a->groups; i++) {
    if (a->group[i].state != TT_LABEL_GROUP_pending) continue;
    if (n >= first && n < first + count) fprintf(f, " %s", strrchr(a->group[i].directory, '/') + 1);
    n++;
  }
  fputs("\nshift \"$SLURM_ARRAY_TASK_ID\"\n", f);
}

/* A task whose attempt is no longer in job.json, or whose round was restarted, exits at once. */
static void print_attempt_check(FILE *f, const tt_label_jobs *j, const char *directory)
{
  fprintf(f, "grep -q '\"%s\"' ", j->name);
  tt_shell_print_quoted(f, directory);
  fputs("/job.json || { echo 'tutti: this job is no longer needed'; exit 0; }\n", f);
}

static void print_command(FILE *f, const tt_label_request *request, const char *program,
                          const char *file, const char *directory)
{
  fputs("exec ", f);
  tt_shell_print_quoted(f, program);
  fputs(" campaign task", f);
  for (int i = 0; i < request->nset; i++) {
    fputs(" --set ", f);
    tt_shell_print_quoted(f, request->set[i]);
  }
  fputc(' ', f);
  tt_shell_print_quoted(f, file);
  fputc(' ', f);
  tt_shell_print_quoted(f, directory);
  fputs("/\"$1\"\n", f);
}

/* Use absolute paths: a job may start in another directory. */
static tt_err print_task(FILE *f, const tt_label_request *request, const tt_label_jobs *j)
{
  tt_err e = TT_OK;
  char *program = realpath("/proc/self/exe", NULL);
  char *file = realpath(request->file, NULL), *directory = realpath(request->directory, NULL);
  if (program && file && directory) {
    print_attempt_check(f, j, directory);
    print_command(f, request, program, file, directory);
  } else {
    const char *missing = !program ? "/proc/self/exe" : !file ? request->file : request->directory;
    e = TT_FAIL(IO, "%s: %s", missing, strerror(errno));
  }
  free(program);
  free(file);
  free(directory);
  return e;
}

/* The user's script, complete. The line --output comes before it, so that the user can override it.
 */
static tt_err print_script(FILE *f, const tt_labelling *a, const tt_label_jobs *j, int64_t part,
                           int64_t first, const char *user_script)
{
  const tt_label_request *request = a->request;
  size_t line = strcspn(user_script, "\n");
  if (strncmp(user_script, "#!", 2) != 0)
    return TT_FAIL(CONFIG,
                   "label.script: %s is not a batch script: its first line must be like "
                   "#!/bin/bash",
                   request->cfg->label_script);
  fprintf(f, "%.*s\n", (int)line, user_script);
  print_output_line(f, request, j, part);
  fputs(user_script[line] ? user_script + line + 1 : "", f);
  fprintf(f, "\n# Written by tutti: round %" PRId64 ", attempt %" PRId64 "; one group per task\n",
          request->round, j->attempt);
  print_groups(f, a, first, j->job[part].tasks);
  return print_task(f, request, j);
}

static tt_err write_script(const tt_labelling *a, const tt_label_jobs *j, int64_t part,
                           int64_t first, const char *user_script)
{
  char path[TT_PATH_MAX], *text = NULL;
  size_t bytes = 0;
  FILE *f = open_memstream(&text, &bytes);
  if (!f) return TT_FAIL(MEM, "out of memory for a batch script");
  tt_err e = print_script(f, a, j, part, first, user_script);
  tt_label_jobs_path(a->request, j, part, ".sbatch", path);
  if (fclose(f) && !e) e = TT_FAIL(MEM, "out of memory for a batch script");
  if (!e) e = tt_file_write_atomic_local(path, text);
  free(text);
  return e;
}

/* Unique for this start, round and attempt. */
static void set_job_name(const tt_label_request *request, tt_label_jobs *j)
{
  uint64_t h = XXH3_64bits(request->incarnation, strlen(request->incarnation));
  h = XXH3_64bits_withSeed(request->directory, strlen(request->directory), h);
  snprintf(j->name, sizeof j->name, "tutti-%08" PRIx64 "-r%" PRId64 "-a%" PRId64, h >> 32,
           request->round, j->attempt);
}

tt_err tt_label_jobs_prepare_local(const tt_labelling *a, int64_t max_tasks, tt_label_jobs *j)
{
  char *user_script = NULL;
  int64_t bytes, pending = 0;
  for (int64_t i = 0; i < a->groups; i++) pending += a->group[i].state == TT_LABEL_GROUP_pending;
  TT_TRY(tt_config_read_file(a->request->cfg->label_script, &user_script, &bytes));
  tt_free(j->job);
  j->attempt++;
  j->count = (pending + max_tasks - 1) / max_tasks;
  set_job_name(a->request, j);
  tt_err e = TT_ALLOC(j->job, j->count);
  for (int64_t p = 0, first = 0; !e && p < j->count; first += j->job[p++].tasks) {
    j->job[p].tasks = pending - first < max_tasks ? pending - first : max_tasks;
    e = write_script(a, j, p, first, user_script);
  }
  if (!e) e = tt_label_jobs_write_local(a->request, j);
  tt_free(user_script);
  return e;
}

/* Commands */

/* Environment variables of the campaign's own Slurm job, and output options of squeue: a labelling
 * job must not inherit them. Variables that select the cluster are kept. */
static int is_own_job_variable(const char *variable)
{
  static const char *const own_prefixes[] = {"SLURM_", "SRUN_", "SQUEUE_", "SBATCH_ARRAY_INX"};
  static const char *const kept_prefixes[] = {"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT"};
  for (size_t i = 0; i < sizeof kept_prefixes / sizeof *kept_prefixes; i++)
    if (!strncmp(variable, kept_prefixes[i], strlen(kept_prefixes[i]))) return 0;
  for (size_t i = 0; i < sizeof own_prefixes / sizeof *own_prefixes; i++)
    if (!strncmp(variable, own_prefixes[i], strlen(own_prefixes[i]))) return 1;
  return 0;
}

tt_err tt_label_jobs_clean_argv(char *const argv[], char ***out)
{
  size_t words = 2, bytes = 0;
  for (char *const *w = argv; *w; w++) words++;
  for (char **v = environ; *v; v++)
    if (is_own_job_variable(*v)) {
      words += 2;
      bytes += strlen(*v) + 1;
    }
  char *block = NULL;
  TT_TRY(tt_alloc_bytes(&block, (int64_t)(words * sizeof *argv + bytes), 1, "a command of Slurm"));
  char **to = *out = (char **)(void *)block, *text = block + words * sizeof *argv;
  static char env[] = "env", unset[] = "-u";
  *to++ = env;
  for (char **v = environ; *v; v++)
    if (is_own_job_variable(*v)) {
      *to++ = unset;
      *to++ = text;
      size_t n = strcspn(*v, "=");
      memcpy(text, *v, n);
      text += n + 1;
    }
  while (*argv) *to++ = *argv++;
  return TT_OK;
}
