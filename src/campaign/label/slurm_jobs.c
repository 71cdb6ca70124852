/* slurm_jobs.c — see slurm_jobs.h. */
#include "src/campaign/label/slurm_jobs.h"

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

/* ---- job.json ----------------------------------------------------------------------------------
 */

static void print_jobs(FILE *f, const tt_label_request *request, const tt_label_jobs *j)
{
  fprintf(f,
          "{\n  \"round\": %" PRId64 ",\n  \"attempt\": %" PRId64 ",\n  \"spare\": %" PRId64
          ",\n  \"name\": \"%s\",\n  \"jobs\": [\n",
          request->round, j->attempt, j->uncounted, j->name);
  for (int64_t i = 0; i < j->count; i++)
    fprintf(f, "    {\"tasks\": %" PRId64 ", \"id\": %" PRId64 ", \"state\": \"%s\"}%s\n",
            j->job[i].tasks, j->job[i].id, submit_state_name[j->job[i].submit_state],
            i + 1 < j->count ? "," : "");
  fprintf(f, "  ]\n}\n");
}

tt_err tt_label_jobs_write_local(const tt_label_request *request, const tt_label_jobs *j)
{
  char path[TT_PATH_MAX], *text = NULL;
  size_t bytes = 0;
  FILE *f = open_memstream(&text, &bytes);
  if (!f) return TT_FAIL(MEM, "out of memory for the record of a job");
  print_jobs(f, request, j);
  tt_campaign_path(request->directory, "job.json", path);
  tt_err e = fclose(f) ? TT_FAIL(MEM, "out of memory for the record of a job")
                       : tt_file_write_atomic_local(path, text);
  free(text);
  return e;
}

static int parse_job(const char *line, tt_label_job *job)
{
  char state[16];
  int n = sscanf(line, " {\"tasks\": %" SCNd64 ", \"id\": %" SCNd64 ", \"state\": \"%15[a-z]",
                 &job->tasks, &job->id, state);
  for (int s = 0; n == 3 && s < (int)(sizeof submit_state_name / sizeof *submit_state_name); s++)
    if (!strcmp(state, submit_state_name[s])) {
      job->submit_state = (tt_submit_state)s;
      return 1;
    }
  return 0;
}

/* Lines as print writes them; *count of jobs, -1 = damaged. */
static tt_err parse_jobs(const char *text, tt_label_jobs *j, int *valid)
{
  int64_t room = 0;
  *valid = 0;
  if (sscanf(text,
             "{ \"round\": %*d, \"attempt\": %" SCNd64 ", \"spare\": %" SCNd64
             ", \"name\": \"%95[^\"]",
             &j->attempt, &j->uncounted, j->name) != 3)
    return TT_OK;
  for (const char *at = text; (at = strstr(at, "{\"tasks\"")); at++) room++;
  TT_TRY(TT_ALLOC(j->job, room));
  for (const char *at = text; (at = strstr(at, "{\"tasks\"")); at++)
    if (!parse_job(at, &j->job[j->count++])) return TT_OK;
  *valid = j->attempt >= 1 && strstr(text, "\n  ]\n}\n");
  return TT_OK;
}

tt_err tt_label_jobs_read_local(const tt_label_request *request, tt_label_jobs *out)
{
  char path[TT_PATH_MAX], *text = NULL;
  int64_t bytes;
  int valid;
  tt_label_jobs j = {0};
  tt_campaign_path(request->directory, "job.json", path);
  *out = j;
  if (access(path, F_OK)) return TT_OK;
  TT_TRY(tt_config_read_file(path, &text, &bytes));
  tt_err e = parse_jobs(text, &j, &valid);
  if (!e && !valid)
    e = TT_FAIL(DATA,
                "%s is damaged: cancel the labelling jobs of this campaign that are still there "
                "(squeue --me), remove the file, and run the campaign again",
                path);
  tt_free(text);
  if (e)
    tt_label_jobs_free(&j);
  else
    *out = j;
  return e;
}

/* ---- the scripts -------------------------------------------------------------------------------
 */

/* In a file name that Slurm fills in a percent sign stands for itself when doubled. */
static void print_output_line(FILE *f, const tt_label_request *request, const tt_label_jobs *j,
                              int64_t part)
{
  char path[TT_PATH_MAX];
  tt_label_jobs_path(request, j, part, "", path);
  fputs("#SBATCH --output=\"", f);
  for (const char *c = path; *c; c++) fputs(*c == '%' ? "%%" : (char[]){*c, '\0'}, f);
  fputs(".%a.out\"\n", f);
}

/* The groups that wait, from the first-th on; their directories lie in `directory`. */
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

/* A task that starts after its attempt was given up, or its round begun anew, has nothing to do. */
static void print_attempt_check(FILE *f, const tt_label_jobs *j, const char *directory)
{
  fprintf(f, "grep -q '\"%s\"' ", j->name);
  tt_shell_print_quoted(f, directory);
  fputs("/job.json || { echo 'tutti: this job is no longer asked for'; exit 0; }\n", f);
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

/* Absolute: a job starts elsewhere. */
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

/* The user's text, less nothing; where output goes is said first, so that the user's word wins. */
static tt_err print_script(FILE *f, const tt_labelling *a, const tt_label_jobs *j, int64_t part,
                           int64_t first, const char *user_script)
{
  const tt_label_request *request = a->request;
  size_t line = strcspn(user_script, "\n");
  if (strncmp(user_script, "#!", 2) != 0)
    return TT_FAIL(CONFIG,
                   "label.script: %s is no batch script: its first line must be one like "
                   "#!/bin/bash",
                   request->cfg->label_script);
  fprintf(f, "%.*s\n", (int)line, user_script);
  print_output_line(f, request, j, part);
  fputs(user_script[line] ? user_script + line + 1 : "", f);
  fprintf(f,
          "\n# ---- written by tutti: round %" PRId64 ", attempt %" PRId64
          "; a group for each task\n",
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

/* Of this start, this round and this attempt alone. */
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
