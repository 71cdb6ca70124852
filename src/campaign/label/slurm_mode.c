/* slurm_mode.c — see oracle_internal.h: label.mode slurm, an array job for the groups of a round.
 *
 * One command of Slurm at a time runs beside us, so that a slow controller holds up nobody. Nothing
 * it says ends a campaign but sbatch refusing a job again and again: a failing squeue is asked
 * again, and a job counts as gone only when it was not there for several looks in a row; files may
 * come later than that to this node. */
#include "src/campaign/label/slurm_jobs.h"

#include "core/base/process.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "src/campaign/state/file_names.h"
#include "io/checkpoint/checkpoint.h"
#include "src/host/stop_request.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
  LOOKS = 6,   /* in a row, until a job counts as gone */
  REFUSALS = 6 /* of sbatch in a row, until the campaign stops */
};
static const int64_t usual_most = 1000;   /* tasks of an array, where Slurm does not say */
static const double patience = 60.0;      /* for one command */
static const double longest_wait = 300.0; /* between two, when they fail */

typedef enum command { NONE, LIMITS, SUBMIT, FIND, ACCOUNT, LOOK } command;
static const char *const program[] = {"", "scontrol", "sbatch", "squeue", "sacct", "squeue"};

typedef struct slurm {
  tt_jobs jobs;
  int planned;     /* the attempt is of this life */
  int64_t most;    /* tasks of an array; 0 = not known yet */
  command command; /* that runs */
  pid_t pid;
  char said[TT_PATH_ROOM]; /* file with what it says */
  double until;            /* when it is killed */
  int64_t part;            /* the job it is about */
  double next;             /* nothing is begun before */
  double news;             /* when a group was answered last */
  int absent;              /* looks in a row that did not see the job */
  int failing, refused;    /* commands, submissions that failed in a row */
} slurm;

/* ---- what a task leaves for the campaign ----------------------------------------------------- */

static const char *const mark_name[] = {"later", "stop"};

void tt_task_ended_local(const char *group, tt_err e)
{
  char path[TT_PATH_ROOM], text[2048];
  if (e != TT_E_STOPPED && e != TT_E_UNAVAILABLE) return;
  tt_campaign_path(group, mark_name[e == TT_E_UNAVAILABLE], path);
  snprintf(text, sizeof text, "%.2040s\n", tt_err_last());
  if (tt_file_replace_local(path, text)) tt_log_once(TT_LOG_WARN, "%s", tt_err_last());
}

static int has_mark(const tt_group *g, int stop, char path[TT_PATH_ROOM])
{
  tt_group_path(g, mark_name[stop], path);
  return !access(path, F_OK);
}

static tt_err remove_marks(const tt_asking *a, int stop)
{
  char path[TT_PATH_ROOM];
  for (int64_t i = 0; i < a->groups; i++)
    if (has_mark(&a->group[i], stop, path) && unlink(path) && errno != ENOENT)
      return TT_FAIL(IO, "%s: cannot be removed: %s", path, strerror(errno));
  return TT_OK;
}

/* The oracle has told a task to stop the campaign: the others need not begin. Without its jobs the
 * round begins anew. */
static tt_err stop_all(const tt_asking *a, slurm *s, const char *mark)
{
  char text[2048] = "", id[32], path[TT_PATH_ROOM];
  int left = 0;
  for (int64_t i = 0; i < s->jobs.count; i++) {
    char *argv[] = {"scancel", id, NULL};
    snprintf(id, sizeof id, "%" PRId64, s->jobs.job[i].id);
    if (s->jobs.job[i].sent != TT_SENT_yes) continue;
    tt_child c = tt_child_run("scancel", argv, 20.0, text, sizeof text);
    left |= tt_child_code(&c) != 0;
  }
  tt_campaign_path(a->q->directory, "job.json", path);
  if (!left) unlink(path);
  tt_jobs_free(&s->jobs);
  if (tt_file_text_local(mark, text, sizeof text)) snprintf(text, sizeof text, "see %.1900s", mark);
  text[strcspn(text, "\n")] = '\0';
  return TT_FAIL(UNAVAILABLE, "%s", text);
}

/* ---- the groups ---- */

static tt_err look_at_groups(tt_asking *a, slurm *s)
{
  char path[TT_PATH_ROOM];
  int64_t left = 0;
  for (int64_t i = 0; i < a->groups; i++) {
    tt_group *g = &a->group[i];
    if (g->state != TT_GROUP_waits) continue;
    tt_group_look(g);
    left += g->state == TT_GROUP_waits;
    if (g->state == TT_GROUP_waits && has_mark(g, 1, path)) return stop_all(a, s, path);
  }
  if (left < a->left) {
    a->stirred = 1;
    s->news = tt_clock_local();
    s->absent = 0;
  }
  a->left = left;
  return TT_OK;
}

static tt_err out_of_patience(const tt_asking *a, const slurm *s)
{
  return TT_FAIL(STOPPED,
                 "round %" PRId64 ": %" PRId64 " of %" PRId64 " groups still wait for Slurm jobs "
                 "%s, nothing new for label.patience (%g s); the jobs go on, run again later",
                 a->q->round, a->left, a->groups, s->jobs.name, a->q->cfg->label_patience);
}

/* The jobs have gone, but not all groups have an answer. Those whose oracle said later ask again in
 * another life, the others at once, but not for ever. */
static tt_err end_attempt(tt_asking *a, slurm *s)
{
  char path[TT_PATH_ROOM], why[160];
  int64_t later = 0, tries = s->jobs.attempt - s->jobs.spare;
  int last = tries > a->q->cfg->label_retries;
  snprintf(why, sizeof why,
           "its Slurm job has left the queue without an answer, attempt %" PRId64 " of %" PRId64,
           tries, a->q->cfg->label_retries + 1);
  for (int64_t i = 0; i < a->groups; i++) {
    tt_group *g = &a->group[i];
    if (g->state != TT_GROUP_waits) continue;
    if (has_mark(g, 0, path))
      later++;
    else if (last)
      TT_TRY(tt_group_fail(g, why));
  }
  int64_t lost = a->left - later;
  if (last) a->left = later;
  a->stirred = 1;
  s->absent = 0;
  if (last)
    s->jobs.spare = s->jobs.attempt; /* a group whose `failed` is removed begins anew */
  else if (!lost)
    s->jobs.spare++;
  s->jobs.count = 0;
  TT_TRY(tt_jobs_write_local(a->q, &s->jobs));
  if (lost && !last)
    tt_log_once(TT_LOG_WARN,
                "round %" PRId64 ": jobs %s have left the queue, %" PRId64
                " groups have no answer: submitted again",
                a->q->round, s->jobs.name, a->left);
  if (later > 0 && (last || !lost))
    return TT_FAIL(STOPPED,
                   "%s: the oracle has said later (exit 75) for label.patience (%g s); what is "
                   "labelled is kept, run again to go on",
                   a->q->directory, a->q->cfg->label_patience);
  return TT_OK;
}

/* ---- commands ----------------------------------------------------------------------------------
 */

/* What a job of Slurm knows of itself, and how people like their squeue; but not which cluster this
 * is: a labelling job must not take itself for a part of the campaign's. */
static int is_of_our_job(const char *variable)
{
  static const char *const ours[] = {"SLURM_", "SRUN_", "SQUEUE_", "SBATCH_ARRAY_INX"};
  static const char *const not_ours[] = {"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT"};
  for (size_t i = 0; i < sizeof not_ours / sizeof *not_ours; i++)
    if (!strncmp(variable, not_ours[i], strlen(not_ours[i]))) return 0;
  for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
    if (!strncmp(variable, ours[i], strlen(ours[i]))) return 1;
  return 0;
}

/* argv behind `env -u NAME -u NAME ...`; one block, free it with tt_free. */
static tt_err without_our_job(char *const argv[], char ***out)
{
  size_t words = 2, bytes = 0;
  for (char *const *w = argv; *w; w++)
    words++;
  for (char **v = environ; *v; v++)
    if (is_of_our_job(*v)) {
      words += 2;
      bytes += strlen(*v) + 1;
    }
  char *block = NULL;
  TT_TRY(tt_alloc_bytes(&block, (int64_t)(words * sizeof *argv + bytes), 1, "a command of Slurm"));
  char **to = *out = (char **)(void *)block, *text = block + words * sizeof *argv;
  static char env[] = "env", unset[] = "-u";
  *to++ = env;
  for (char **v = environ; *v; v++)
    if (is_of_our_job(*v)) {
      *to++ = unset;
      *to++ = text;
      size_t n = strcspn(*v, "=");
      memcpy(text, *v, n);
      text += n + 1;
    }
  while (*argv)
    *to++ = *argv++;
  return TT_OK;
}

static tt_err run(tt_asking *a, slurm *s, command what, char *const command[])
{
  char **argv = NULL;
  if (what == SUBMIT)
    tt_jobs_path(a->q, &s->jobs, s->part, ".said", s->said);
  else
    tt_campaign_path(a->q->directory, "slurm.said", s->said);
  TT_TRY(without_our_job(command, &argv));
  tt_child_order order = {.argv = argv, .directory = NULL, .output = s->said};
  int why = tt_child_start(&order, &s->pid);
  tt_free(argv);
  if (why)
    return TT_FAIL(UNAVAILABLE, "label.mode: slurm: %s cannot be run: %s", command[0],
                   strerror(why));
  s->command = what;
  s->until = tt_clock_local() + patience;
  return TT_OK;
}

static tt_err ask_limits(tt_asking *a, slurm *s)
{
  char *argv[] = {"scontrol", "show", "config", NULL};
  return run(a, s, LIMITS, argv);
}

/* By name and user; FIND: also those that have ended, as long as Slurm remembers them. */
static tt_err ask_queue(tt_asking *a, slurm *s, command what)
{
  char user[32];
  char *argv[] = {"squeue", "-h", "-u", user, "-n", s->jobs.name, "-o", "%F", NULL, NULL, NULL};
  snprintf(user, sizeof user, "%lu", (unsigned long)getuid());
  if (what == FIND) {
    argv[8] = "-t";
    argv[9] = "all";
  }
  return run(a, s, what, argv);
}

static tt_err ask_account(tt_asking *a, slurm *s)
{
  char *argv[] = {"sacct",  "-n",         "-X", "-P",    "-S", "now-30days",
                  "--name", s->jobs.name, "-o", "JobID", NULL};
  return run(a, s, ACCOUNT, argv);
}

/* The record says that it may be there before it can be. */
static tt_err submit(tt_asking *a, slurm *s)
{
  char name[128], array[64], where[TT_PATH_ROOM + 16], script[TT_PATH_ROOM];
  char *argv[] = {"sbatch", "--parsable", name, array, where, script, NULL};
  tt_array_job *job = &s->jobs.job[s->part];
  int64_t at_once = a->q->cfg->label_concurrency / s->jobs.count;
  snprintf(name, sizeof name, "--job-name=%s", s->jobs.name);
  snprintf(array, sizeof array, "--array=0-%" PRId64 "%%%" PRId64, job->tasks - 1,
           at_once > 0 ? at_once : 1);
  snprintf(where, sizeof where, "--chdir=%s", a->q->cfg->directory);
  tt_jobs_path(a->q, &s->jobs, s->part, ".sbatch", script);
  TT_TRY(tt_ckpt_owner_local(a->q->campaign, a->q->incarnation));
  job->sent = TT_SENT_maybe;
  TT_TRY(tt_jobs_write_local(a->q, &s->jobs));
  return run(a, s, SUBMIT, argv);
}

static tt_err submitted(tt_asking *a, slurm *s, int64_t id)
{
  s->jobs.job[s->part].sent = TT_SENT_yes;
  s->jobs.job[s->part].id = id;
  s->refused = s->absent = 0;
  s->news = tt_clock_local();
  a->stirred = 1;
  TT_TRY(tt_jobs_write_local(a->q, &s->jobs));
  tt_log_once(TT_LOG_INFO,
              "round %" PRId64 ": %" PRId64 " groups are labelled by Slurm job %" PRId64 " (%s)",
              a->q->round, s->jobs.job[s->part].tasks, id, s->jobs.name);
  return TT_OK;
}

/* The first line of what a command said, for people. */
static const char *first_line(char *text)
{
  text[strcspn(text, "\n")] = '\0';
  return *text ? text : "it said nothing";
}

/* Longer and longer pauses; the first failure of a row is told. */
static void try_again(const tt_asking *a, slurm *s, int failures, int code, char *text)
{
  double wait = a->q->cfg->label_pause;
  for (int i = 0; i < failures && wait < longest_wait; i++)
    wait *= 2.0;
  s->next = tt_clock_local() + (wait < longest_wait ? wait : longest_wait);
  if (failures == 1)
    tt_log_once(TT_LOG_WARN,
                "%s failed (exit code %d: %.200s): asked again; no job is lost by that",
                program[s->command], code, first_line(text));
}

/* It may be in the queue for all that: FIND comes next. */
static tt_err take_submission(tt_asking *a, slurm *s, int code, char *text)
{
  int64_t id = tt_jobs_number(text, NULL);
  if (code == 0 && id > 0) return submitted(a, s, id);
  if (++s->refused >= REFUSALS)
    return TT_FAIL(UNAVAILABLE, "sbatch does not take label.script %s: %.300s",
                   a->q->cfg->label_script, first_line(text));
  s->absent = 0;
  try_again(a, s, s->refused, code, text);
  return TT_OK;
}

static void take_limits(slurm *s, const char *text)
{
  const char *at = strstr(text, "MaxArraySize");
  long long n = at && (at = strchr(at, '=')) ? strtoll(at + 1, NULL, 10) : 0;
  s->most = n > 1 ? n - 1 : usual_most;
}

/* A job whose number was lost, found or surely not there. */
static tt_err take_finding(tt_asking *a, slurm *s, const char *text)
{
  int64_t id = tt_jobs_number(text, &s->jobs);
  if (id > 0) return submitted(a, s, id);
  if (s->command == FIND && ++s->absent < LOOKS) return TT_OK;
  if (s->command == FIND) return ask_account(a, s);
  s->jobs.job[s->part].sent = TT_SENT_not;
  s->absent = 0;
  return tt_jobs_write_local(a->q, &s->jobs);
}

static tt_err take_look(tt_asking *a, slurm *s, const char *text)
{
  s->absent = tt_jobs_number(text, NULL) > 0 ? 0 : s->absent + 1;
  return s->absent < LOOKS ? TT_OK : end_attempt(a, s);
}

/* A command has ended. Where there is no accounting sacct fails, and knows nothing. */
static tt_err take(tt_asking *a, slurm *s, int code)
{
  char *text = NULL, nothing[] = "";
  int64_t bytes;
  tt_err e = TT_OK;
  if (tt_config_read_file_local(s->said, &text, &bytes)) text = NULL;
  char *said = text ? text : nothing;
  s->next = tt_clock_local() + a->q->cfg->label_pause;
  if (s->command == SUBMIT) {
    e = take_submission(a, s, code, said);
  } else if (s->command == ACCOUNT) {
    e = take_finding(a, s, code == 0 ? said : nothing);
  } else if (code != 0 || !text) {
    try_again(a, s, ++s->failing, code, said);
    if (s->command == LIMITS && s->failing >= LOOKS) s->most = usual_most;
  } else {
    s->failing = 0;
    if (s->command == LIMITS) take_limits(s, said);
    if (s->command == FIND) e = take_finding(a, s, said);
    if (s->command == LOOK) e = take_look(a, s, said);
  }
  tt_free(text);
  return e;
}

/* ---- the mode ----------------------------------------------------------------------------------
 */

/* Of a job that may have been submitted in an earlier life sbatch may have said the number. */
static tt_err recall(tt_asking *a, slurm *s)
{
  char path[TT_PATH_ROOM], text[4096];
  for (s->part = 0; s->part < s->jobs.count; s->part++) {
    if (s->jobs.job[s->part].sent != TT_SENT_maybe) continue;
    tt_jobs_path(a->q, &s->jobs, s->part, ".said", path);
    int64_t id = tt_file_text_local(path, text, sizeof text) ? -1 : tt_jobs_number(text, &s->jobs);
    if (id > 0) TT_TRY(submitted(a, s, id));
  }
  if (s->jobs.count > 0)
    tt_log_once(TT_LOG_INFO, "round %" PRId64 ": labelled by Slurm jobs %s of an earlier start",
                a->q->round, s->jobs.name);
  return TT_OK;
}

static tt_err start(tt_asking *a)
{
  slurm *s = NULL;
  TT_TRY(TT_ALLOC(s, 1));
  a->mine = s;
  s->news = tt_clock_local();
  TT_TRY(remove_marks(a, 1));
  TT_TRY(tt_jobs_read_local(a->q, &s->jobs));
  return recall(a, s);
}

/* The first job in this state becomes the one to speak of. */
static int find_job(slurm *s, tt_sent sent)
{
  for (s->part = 0; s->part < s->jobs.count; s->part++)
    if (s->jobs.job[s->part].sent == sent) return 1;
  return 0;
}

/* Nothing was submitted of an earlier life's attempt: it is made anew, for label.script may have
 * been mended since. */
static void forget_unsent(slurm *s)
{
  if (s->planned || s->jobs.count == 0) return;
  if (find_job(s, TT_SENT_yes) || find_job(s, TT_SENT_maybe)) return;
  s->jobs.attempt--;
  s->jobs.count = 0;
}

/* What there is to ask of Slurm now. */
static tt_err go_on(tt_asking *a, slurm *s)
{
  forget_unsent(s);
  if (s->jobs.count == 0 && s->most == 0) return ask_limits(a, s);
  if (s->jobs.count == 0) {
    TT_TRY(remove_marks(a, 0));
    TT_TRY(tt_jobs_plan_local(a, s->most, &s->jobs));
    s->planned = 1;
  }
  int waited = tt_clock_local() - s->news > a->q->cfg->label_patience;
  if (find_job(s, TT_SENT_maybe))
    return waited && s->failing ? out_of_patience(a, s) : ask_queue(a, s, FIND);
  if (find_job(s, TT_SENT_not)) return submit(a, s);
  return waited ? out_of_patience(a, s) : ask_queue(a, s, LOOK);
}

/* The command that runs, if it has ended or takes too long. */
static tt_err listen_to(tt_asking *a, slurm *s)
{
  int status = 0, code = -1;
  if (tt_child_has_ended(s->pid, &status)) {
    code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  } else if (tt_clock_local() > s->until) {
    tt_child_kill(s->pid);
  } else {
    return TT_OK;
  }
  s->pid = 0;
  return take(a, s, code);
}

static tt_err poll_slurm(tt_asking *a)
{
  slurm *s = a->mine;
  if (s->pid) return listen_to(a, s);
  if (tt_clock_local() < s->next) return TT_OK;
  TT_TRY(look_at_groups(a, s));
  return a->left > 0 && !a->stopping ? go_on(a, s) : TT_OK;
}

/* A submission under way is waited for: its number is worth it. */
static void end(tt_asking *a)
{
  slurm *s = a->mine;
  if (!s) return;
  double until = tt_clock_local() + 20.0;
  while (s->pid && s->command == SUBMIT && tt_clock_local() < until) {
    if (listen_to(a, s)) break;
    poll(NULL, 0, 20);
  }
  if (s->pid) tt_child_kill(s->pid);
  if (a->left > 0 && find_job(s, TT_SENT_yes))
    tt_log_once(TT_LOG_INFO, "Slurm jobs %s go on labelling; the next start looks for them",
                s->jobs.name);
  tt_jobs_free(&s->jobs);
  tt_free(a->mine);
}

const tt_label_way tt_label_by_slurm = {start, poll_slurm, end};
