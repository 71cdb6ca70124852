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

static const char *const sent_name[] = {"planned", "submitting", "submitted"};

void tt_jobs_path(const tt_question *q, const tt_jobs *j, int64_t part, const char *ending,
                  char path[TT_PATH_ROOM])
{
  char name[96];
  snprintf(name, sizeof name, "job-%" PRId64 "-%" PRId64 "%s", j->attempt, part, ending);
  tt_campaign_path(q->directory, name, path);
}

void tt_jobs_free(tt_jobs *j)
{
  tt_free(j->job);
  *j = (tt_jobs){0};
}

static int knows(const tt_jobs *j, int64_t id)
{
  for (int64_t i = 0; j && i < j->count; i++)
    if (j->job[i].sent == TT_SENT_yes && j->job[i].id == id) return 1;
  return 0;
}

int64_t tt_jobs_number(const char *text, const tt_jobs *known)
{
  while (text && *text) {
    char *end = NULL;
    long long id = *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : 0;
    if (end && strchr("\n;_ ", *end) && id > 0 && !knows(known, id)) return id;
    text = strchr(text, '\n');
    if (text) text++;
  }
  return -1;
}

/* ---- job.json ----------------------------------------------------------------------------------
 */

static void print(FILE *f, const tt_question *q, const tt_jobs *j)
{
  fprintf(f,
          "{\n  \"round\": %" PRId64 ",\n  \"attempt\": %" PRId64 ",\n  \"spare\": %" PRId64
          ",\n  \"name\": \"%s\",\n  \"jobs\": [\n",
          q->round, j->attempt, j->spare, j->name);
  for (int64_t i = 0; i < j->count; i++)
    fprintf(f, "    {\"tasks\": %" PRId64 ", \"id\": %" PRId64 ", \"state\": \"%s\"}%s\n",
            j->job[i].tasks, j->job[i].id, sent_name[j->job[i].sent], i + 1 < j->count ? "," : "");
  fprintf(f, "  ]\n}\n");
}

tt_err tt_jobs_write_local(const tt_question *q, const tt_jobs *j)
{
  char path[TT_PATH_ROOM], *text = NULL;
  size_t bytes = 0;
  FILE *f = open_memstream(&text, &bytes);
  if (!f) return TT_FAIL(MEM, "out of memory for the record of a job");
  print(f, q, j);
  tt_campaign_path(q->directory, "job.json", path);
  tt_err e = fclose(f) ? TT_FAIL(MEM, "out of memory for the record of a job")
                       : tt_file_replace_local(path, text);
  free(text);
  return e;
}

static int take_job(const char *line, tt_array_job *job)
{
  char state[16];
  int n = sscanf(line, " {\"tasks\": %" SCNd64 ", \"id\": %" SCNd64 ", \"state\": \"%15[a-z]",
                 &job->tasks, &job->id, state);
  for (int s = 0; n == 3 && s < (int)(sizeof sent_name / sizeof *sent_name); s++)
    if (!strcmp(state, sent_name[s])) {
      job->sent = (tt_sent)s;
      return 1;
    }
  return 0;
}

/* Lines as print writes them; *count of jobs, -1 = damaged. */
static tt_err take(const char *text, tt_jobs *j, int *good)
{
  int64_t room = 0;
  *good = 0;
  if (sscanf(text,
             "{ \"round\": %*d, \"attempt\": %" SCNd64 ", \"spare\": %" SCNd64
             ", \"name\": \"%95[^\"]",
             &j->attempt, &j->spare, j->name) != 3)
    return TT_OK;
  for (const char *at = text; (at = strstr(at, "{\"tasks\"")); at++)
    room++;
  TT_TRY(TT_ALLOC(j->job, room));
  for (const char *at = text; (at = strstr(at, "{\"tasks\"")); at++)
    if (!take_job(at, &j->job[j->count++])) return TT_OK;
  *good = j->attempt >= 1 && strstr(text, "\n  ]\n}\n");
  return TT_OK;
}

tt_err tt_jobs_read_local(const tt_question *q, tt_jobs *out)
{
  char path[TT_PATH_ROOM], *text = NULL;
  int64_t bytes;
  int good;
  tt_jobs j = {0};
  tt_campaign_path(q->directory, "job.json", path);
  *out = j;
  if (access(path, F_OK)) return TT_OK;
  TT_TRY(tt_config_read_file_local(path, &text, &bytes));
  tt_err e = take(text, &j, &good);
  if (!e && !good)
    e = TT_FAIL(DATA,
                "%s is damaged: cancel the labelling jobs of this campaign that are still there "
                "(squeue --me), remove the file, and run the campaign again",
                path);
  tt_free(text);
  if (e)
    tt_jobs_free(&j);
  else
    *out = j;
  return e;
}

/* ---- the scripts -------------------------------------------------------------------------------
 */

/* In a file name that Slurm fills in a percent sign stands for itself when doubled. */
static void print_output_line(FILE *f, const tt_question *q, const tt_jobs *j, int64_t part)
{
  char path[TT_PATH_ROOM];
  tt_jobs_path(q, j, part, "", path);
  fputs("#SBATCH --output=\"", f);
  for (const char *c = path; *c; c++)
    fputs(*c == '%' ? "%%" : (char[]){*c, '\0'}, f);
  fputs(".%a.out\"\n", f);
}

/* The groups that wait, from the first-th on; their directories lie in `directory`. */
static void print_groups(FILE *f, const tt_asking *a, int64_t first, int64_t count)
{
  int64_t n = 0;
  fputs("set --", f);
  for (int64_t i = 0; i < a->groups; i++) {
    if (a->group[i].state != TT_GROUP_waits) continue;
    if (n >= first && n < first + count) fprintf(f, " %s", strrchr(a->group[i].directory, '/') + 1);
    n++;
  }
  fputs("\nshift \"$SLURM_ARRAY_TASK_ID\"\n", f);
}

/* A task that starts after its attempt was given up, or its round begun anew, has nothing to do. */
static void print_fence(FILE *f, const tt_jobs *j, const char *directory)
{
  fprintf(f, "grep -q '\"%s\"' ", j->name);
  tt_shell_quoted(f, directory);
  fputs("/job.json || { echo 'tutti: this job is no longer asked for'; exit 0; }\n", f);
}

static void print_command(FILE *f, const tt_question *q, const char *program, const char *file,
                          const char *directory)
{
  fputs("exec ", f);
  tt_shell_quoted(f, program);
  fputs(" campaign task", f);
  for (int i = 0; i < q->nset; i++) {
    fputs(" --set ", f);
    tt_shell_quoted(f, q->set[i]);
  }
  fputc(' ', f);
  tt_shell_quoted(f, file);
  fputc(' ', f);
  tt_shell_quoted(f, directory);
  fputs("/\"$1\"\n", f);
}

/* Absolute: a job starts elsewhere. */
static tt_err print_call(FILE *f, const tt_question *q, const tt_jobs *j)
{
  tt_err e = TT_OK;
  char *program = realpath("/proc/self/exe", NULL);
  char *file = realpath(q->file, NULL), *directory = realpath(q->directory, NULL);
  if (program && file && directory) {
    print_fence(f, j, directory);
    print_command(f, q, program, file, directory);
  } else {
    const char *missing = !program ? "/proc/self/exe" : !file ? q->file : q->directory;
    e = TT_FAIL(IO, "%s: %s", missing, strerror(errno));
  }
  free(program);
  free(file);
  free(directory);
  return e;
}

/* The user's text, less nothing; where output goes is said first, so that the user's word wins. */
static tt_err print_script(FILE *f, const tt_asking *a, const tt_jobs *j, int64_t part,
                           int64_t first, const char *user)
{
  const tt_question *q = a->q;
  size_t line = strcspn(user, "\n");
  if (strncmp(user, "#!", 2) != 0)
    return TT_FAIL(CONFIG,
                   "label.script: %s is no batch script: its first line must be one like "
                   "#!/bin/bash",
                   q->cfg->label_script);
  fprintf(f, "%.*s\n", (int)line, user);
  print_output_line(f, q, j, part);
  fputs(user[line] ? user + line + 1 : "", f);
  fprintf(f,
          "\n# ---- written by tutti: round %" PRId64 ", attempt %" PRId64
          "; a group for each task\n",
          q->round, j->attempt);
  print_groups(f, a, first, j->job[part].tasks);
  return print_call(f, q, j);
}

static tt_err write_script(const tt_asking *a, const tt_jobs *j, int64_t part, int64_t first,
                           const char *user)
{
  char path[TT_PATH_ROOM], *text = NULL;
  size_t bytes = 0;
  FILE *f = open_memstream(&text, &bytes);
  if (!f) return TT_FAIL(MEM, "out of memory for a batch script");
  tt_err e = print_script(f, a, j, part, first, user);
  tt_jobs_path(a->q, j, part, ".sbatch", path);
  if (fclose(f) && !e) e = TT_FAIL(MEM, "out of memory for a batch script");
  if (!e) e = tt_file_replace_local(path, text);
  free(text);
  return e;
}

/* Of this start, this round and this attempt alone. */
static void make_name(const tt_question *q, tt_jobs *j)
{
  uint64_t h = XXH3_64bits(q->incarnation, strlen(q->incarnation));
  h = XXH3_64bits_withSeed(q->directory, strlen(q->directory), h);
  snprintf(j->name, sizeof j->name, "tutti-%08" PRIx64 "-r%" PRId64 "-a%" PRId64, h >> 32, q->round,
           j->attempt);
}

tt_err tt_jobs_plan_local(const tt_asking *a, int64_t most, tt_jobs *j)
{
  char *user = NULL;
  int64_t bytes, left = 0;
  for (int64_t i = 0; i < a->groups; i++)
    left += a->group[i].state == TT_GROUP_waits;
  TT_TRY(tt_config_read_file_local(a->q->cfg->label_script, &user, &bytes));
  tt_free(j->job);
  j->attempt++;
  j->count = (left + most - 1) / most;
  make_name(a->q, j);
  tt_err e = TT_ALLOC(j->job, j->count);
  for (int64_t p = 0, first = 0; !e && p < j->count; first += j->job[p++].tasks) {
    j->job[p].tasks = left - first < most ? left - first : most;
    e = write_script(a, j, p, first, user);
  }
  if (!e) e = tt_jobs_write_local(a->q, j);
  tt_free(user);
  return e;
}
