/* slurm_mode.c — see oracle_internal.h: label.mode slurm, an array job for the groups of a round.
 *
 * Commands of Slurm run in the background, one at a time, so that a slow controller does not block
 * the campaign. Only repeated failures of sbatch end a campaign. A failing squeue is run again, and
 * a job counts as ended only if several polls in a row do not list it, because the files of its
 * tasks may become visible on this node later. */
#include "src/campaign/label/slurm_jobs.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/process.h"
#include "io/hdf5/owner.h"
#include "src/campaign/state/file_names.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
  MISSING_POLLS_MAX = 6,  /* polls in a row without a job until it counts as ended */
  REFUSED_SUBMITS_MAX = 6 /* failures of sbatch in a row until the campaign stops */
};
static const int64_t default_array_size = 1000; /* tasks of an array if MaxArraySize is unknown */
static const double command_timeout = 60.0;     /* s, for one command */
static const double max_pause = 300.0;          /* s, between two failing commands */

typedef enum slurm_command {
  NO_COMMAND,
  SHOW_CONFIG,
  SUBMIT,
  FIND_JOB,
  FIND_IN_SACCT,
  POLL_QUEUE
} slurm_command;
static const char *const command_name[] = {"", "scontrol", "sbatch", "squeue", "sacct", "squeue"};

typedef struct slurm_state {
  tt_label_jobs jobs;
  int prepared_now;                     /* 1 = this process prepared the attempt */
  int64_t max_array_size;               /* tasks of an array; 0 = not known yet */
  slurm_command slurm_command;          /* the running command */
  pid_t pid;                            /* of the running command; 0 = none runs */
  char output_file[TT_PATH_MAX];        /* its stdout and stderr */
  double deadline;                      /* s: when it is killed */
  int64_t current_job;                  /* index of its job */
  double next_command_at;               /* s: earliest start of the next command */
  double last_progress;                 /* s: when a group was last labelled or a job submitted */
  int missing_polls;                    /* polls in a row that did not list the job */
  int listed;                           /* 1 = submitted or listed since this start */
  int failed_commands, refused_submits; /* failures in a row: of other commands, of sbatch */
} slurm_state;

/* Files that a task writes for the campaign */

static const char *const task_mark_name[] = {"later", "stop"};

void tt_label_task_report_local(const char *group, tt_err e)
{
  char path[TT_PATH_MAX], text[2048];
  if (e != TT_E_STOPPED && e != TT_E_UNAVAILABLE) return;
  tt_campaign_path(group, task_mark_name[e == TT_E_UNAVAILABLE], path);
  snprintf(text, sizeof text, "%.2040s\n", tt_err_last());
  if (tt_file_write_atomic_local(path, text)) tt_log_root(TT_LOG_WARN, "%s", tt_err_last());
}

static tt_err has_task_mark(const tt_label_group *g, int stop, char path[TT_PATH_MAX], int *exists)
{
  tt_label_group_path(g, task_mark_name[stop], path);
  return tt_file_exists(path, exists);
}

static tt_err remove_task_marks(const tt_labelling *a, int stop)
{
  char path[TT_PATH_MAX];
  TT_TRY(tt_owner_check_local(a->request->campaign));
  for (int64_t i = 0; i < a->groups; i++) {
    tt_label_group_path(&a->group[i], task_mark_name[stop], path);
    if (unlink(path) && errno != ENOENT)
      return TT_FAIL(IO, "%s: cannot be removed: %s", path, strerror(errno));
  }
  return TT_OK;
}

/* Cancel the jobs. Remove job.json, so that the next start begins with a first attempt. */
static void cancel_jobs(const tt_labelling *a, slurm_state *s)
{
  char text[256] = "", id[32], path[TT_PATH_MAX];
  int pending = 0;
  for (int64_t i = 0; i < s->jobs.count; i++) {
    char *argv[] = {"scancel", id, NULL};
    snprintf(id, sizeof id, "%" PRId64, s->jobs.job[i].id);
    if (s->jobs.job[i].submit_state != TT_SUBMIT_submitted) continue;
    tt_process_result c = tt_process_run("scancel", argv, 20.0, text, sizeof text);
    pending |= tt_process_exit_code(&c) != 0;
  }
  tt_campaign_path(a->request->directory, "job.json", path);
  if (!pending) unlink(path);
  tt_label_jobs_free(&s->jobs);
}

/* The oracle stopped the campaign in one task, which wrote `mark`. */
static tt_err stop_by_task(const tt_labelling *a, slurm_state *s, const char *mark)
{
  char text[2048];
  TT_TRY(tt_owner_check_local(a->request->campaign));
  cancel_jobs(a, s);
  if (tt_file_read_text(mark, text, sizeof text)) snprintf(text, sizeof text, "see %.1900s", mark);
  text[strcspn(text, "\n")] = '\0';
  return TT_FAIL(UNAVAILABLE, "%s", text);
}

/* Groups */

static tt_err update_groups(tt_labelling *a, slurm_state *s)
{
  char path[TT_PATH_MAX];
  int64_t pending = 0;
  int stop = 0;
  for (int64_t i = 0; i < a->groups; i++) {
    tt_label_group *g = &a->group[i];
    if (g->state != TT_LABEL_GROUP_pending) continue;
    TT_TRY(tt_label_group_update(g));
    if (g->state != TT_LABEL_GROUP_pending) continue;
    pending++;
    TT_TRY(has_task_mark(g, 1, path, &stop));
    if (stop) return stop_by_task(a, s, path);
  }
  if (pending < a->pending) {
    a->progressed = 1;
    s->last_progress = tt_monotonic_seconds();
    s->missing_polls = 0;
  }
  a->pending = pending;
  return TT_OK;
}

static tt_err stop_after_max_wait(const tt_labelling *a, const slurm_state *s)
{
  return TT_FAIL(STOPPED,
                 "round %" PRId64 ": %" PRId64 " of %" PRId64 " groups still wait for Slurm jobs "
                 "%s; no progress for label.max_wait (%g s); the jobs continue, run again later",
                 a->request->round, a->pending, a->groups, s->jobs.name,
                 a->request->cfg->label_max_wait);
}

/* The jobs have ended, but some groups are pending. Groups whose oracle asked to retry later are
 * submitted by the next start, the others at once, in all label.retries + 1 times. */
static tt_err end_attempt(tt_labelling *a, slurm_state *s)
{
  char path[TT_PATH_MAX], reason[160];
  int64_t later = 0, tries = s->jobs.attempt - s->jobs.uncounted;
  int last = tries > a->request->cfg->label_retries, ask_later = 0;
  snprintf(reason, sizeof reason,
           "its Slurm job has left the queue without a result, attempt %" PRId64 " of %" PRId64,
           tries, a->request->cfg->label_retries + 1);
  for (int64_t i = 0; i < a->groups; i++) {
    tt_label_group *g = &a->group[i];
    if (g->state != TT_LABEL_GROUP_pending) continue;
    TT_TRY(has_task_mark(g, 0, path, &ask_later));
    later += ask_later;
    if (!ask_later && last) TT_TRY(tt_label_group_write_failed(g, reason));
  }
  int64_t lost = a->pending - later;
  if (last) a->pending = later;
  a->progressed = 1;
  s->missing_polls = 0;
  if (last)
    s->jobs.uncounted = s->jobs.attempt; /* if the user removes `failed`, all retries are left */
  else if (!lost)
    s->jobs.uncounted++;
  s->jobs.count = 0;
  TT_TRY(tt_label_jobs_write_local(a->request, &s->jobs));
  if (lost && !last)
    tt_log_root(TT_LOG_WARN,
                "round %" PRId64 ": jobs %s have left the queue; groups without labels, submitted "
                "again: %" PRId64,
                a->request->round, s->jobs.name, a->pending);
  if (later > 0 && (last || !lost))
    return TT_FAIL(STOPPED,
                   "%s: the oracle has asked to retry later (exit code 75) for label.max_wait (%g "
                   "s); accepted labels are kept, run again to continue",
                   a->request->directory, a->request->cfg->label_max_wait);
  return TT_OK;
}

/* Commands */

static tt_err start_command(tt_labelling *a, slurm_state *s, slurm_command what,
                            char *const slurm_command[])
{
  char **argv = NULL;
  if (what == SUBMIT)
    tt_label_jobs_path(a->request, &s->jobs, s->current_job, ".said", s->output_file);
  else
    tt_campaign_path(a->request->directory, "slurm.said", s->output_file);
  TT_TRY(tt_label_jobs_clean_argv(slurm_command, &argv));
  tt_process_options order = {.argv = argv, .directory = NULL, .output = s->output_file};
  int reason = tt_process_start(&order, &s->pid);
  tt_free(argv);
  if (reason)
    return TT_FAIL(UNAVAILABLE, "label.mode: slurm: %s cannot be run: %s", slurm_command[0],
                   strerror(reason));
  s->slurm_command = what;
  s->deadline = tt_monotonic_seconds() + command_timeout;
  return TT_OK;
}

static tt_err start_scontrol(tt_labelling *a, slurm_state *s)
{
  char *argv[] = {"scontrol", "show", "config", NULL};
  return start_command(a, s, SHOW_CONFIG, argv);
}

/* List jobs by name and user; FIND_JOB: also ended ones that Slurm still lists. */
static tt_err start_squeue(tt_labelling *a, slurm_state *s, slurm_command what)
{
  char user[32];
  char *argv[] = {"squeue", "-h", "-u", user, "-n", s->jobs.name, "-o", "%F", NULL, NULL, NULL};
  snprintf(user, sizeof user, "%lu", (unsigned long)getuid());
  if (what == FIND_JOB) {
    argv[8] = "-t";
    argv[9] = "all";
  }
  return start_command(a, s, what, argv);
}

static tt_err start_sacct(tt_labelling *a, slurm_state *s)
{
  char *argv[] = {"sacct",  "-n",         "-X", "-P",    "-S", "now-30days",
                  "--name", s->jobs.name, "-o", "JobID", NULL};
  return start_command(a, s, FIND_IN_SACCT, argv);
}

/* Write state `submitting` before sbatch, so that no job goes unrecorded. */
static tt_err start_sbatch(tt_labelling *a, slurm_state *s)
{
  char name[128], array[64], where[TT_PATH_MAX + 16], script[TT_PATH_MAX];
  char *argv[] = {"sbatch", "--parsable", name, array, where, script, NULL};
  tt_label_job *job = &s->jobs.job[s->current_job];
  int64_t at_once = a->request->cfg->label_concurrency / s->jobs.count;
  snprintf(name, sizeof name, "--job-name=%s", s->jobs.name);
  snprintf(array, sizeof array, "--array=0-%" PRId64 "%%%" PRId64, job->tasks - 1,
           at_once > 0 ? at_once : 1);
  snprintf(where, sizeof where, "--chdir=%s", a->request->cfg->directory);
  tt_label_jobs_path(a->request, &s->jobs, s->current_job, ".sbatch", script);
  TT_TRY(tt_owner_check_local(a->request->campaign));
  job->submit_state = TT_SUBMIT_submitting;
  TT_TRY(tt_label_jobs_write_local(a->request, &s->jobs));
  return start_command(a, s, SUBMIT, argv);
}

static tt_err record_submitted(tt_labelling *a, slurm_state *s, int64_t id)
{
  s->jobs.job[s->current_job].submit_state = TT_SUBMIT_submitted;
  s->jobs.job[s->current_job].id = id;
  s->refused_submits = s->missing_polls = 0;
  s->listed = 1;
  s->last_progress = tt_monotonic_seconds();
  a->progressed = 1;
  TT_TRY(tt_label_jobs_write_local(a->request, &s->jobs));
  tt_log_root(TT_LOG_INFO,
              "round %" PRId64 ": groups are labelled by Slurm job %" PRId64
              " (%s), tasks: %" PRId64,
              a->request->round, id, s->jobs.name, s->jobs.job[s->current_job].tasks);
  return TT_OK;
}

/* The first line of the output of a command. */
static const char *first_line(char *text)
{
  text[strcspn(text, "\n")] = '\0';
  return *text ? text : "no output";
}

/* Retry with growing pauses; log only the first of several failures in a row. */
static void schedule_retry(const tt_labelling *a, slurm_state *s, int failures, int code,
                           char *text)
{
  double wait = a->request->cfg->label_poll_interval;
  for (int i = 0; i < failures && wait < max_pause; i++) wait *= 2.0;
  s->next_command_at = tt_monotonic_seconds() + (wait < max_pause ? wait : max_pause);
  if (failures == 1)
    tt_log_root(TT_LOG_WARN, "%s failed (exit code %d: %.200s); it will run again, no job is lost",
                command_name[s->slurm_command], code, first_line(text));
}

/* After an error of sbatch the job may still be in the queue: FIND_JOB comes next. */
static tt_err handle_sbatch(tt_labelling *a, slurm_state *s, int code, char *text)
{
  int64_t id = tt_label_jobs_parse_id(text, NULL);
  if (code == 0 && id > 0) return record_submitted(a, s, id);
  if (++s->refused_submits >= REFUSED_SUBMITS_MAX)
    return TT_FAIL(UNAVAILABLE, "sbatch refuses label.script %s: %.300s",
                   a->request->cfg->label_script, first_line(text));
  s->missing_polls = 0;
  schedule_retry(a, s, s->refused_submits, code, text);
  return TT_OK;
}

static void handle_scontrol(slurm_state *s, const char *text)
{
  const char *at = strstr(text, "MaxArraySize");
  long long n = at && (at = strchr(at, '=')) ? strtoll(at + 1, NULL, 10) : 0;
  s->max_array_size = n > 1 ? n - 1 : default_array_size;
}

/* Search a job without a recorded number: record it, or mark the job as not submitted. */
static tt_err handle_find(tt_labelling *a, slurm_state *s, const char *text)
{
  int64_t id = tt_label_jobs_parse_id(text, &s->jobs);
  if (id > 0) return record_submitted(a, s, id);
  if (s->slurm_command == FIND_JOB && ++s->missing_polls < MISSING_POLLS_MAX) return TT_OK;
  if (s->slurm_command == FIND_JOB) return start_sacct(a, s);
  s->jobs.job[s->current_job].submit_state = TT_SUBMIT_planned;
  s->missing_polls = 0;
  return tt_label_jobs_write_local(a->request, &s->jobs);
}

static tt_err handle_poll(tt_labelling *a, slurm_state *s, const char *text)
{
  int listed = tt_label_jobs_parse_id(text, NULL) > 0;
  s->missing_polls = listed ? 0 : s->missing_polls + 1;
  s->listed |= listed;
  return s->missing_polls < MISSING_POLLS_MAX ? TT_OK : end_attempt(a, s);
}

/* Handle the output of a command. Without accounting sacct fails: the job is then not found. */
static tt_err handle_command_end(tt_labelling *a, slurm_state *s, int code)
{
  char *output_file = NULL, nothing[] = "";
  int64_t bytes;
  tt_err e = TT_OK;
  TT_TRY(tt_config_read_file(s->output_file, &output_file, &bytes));
  s->next_command_at = tt_monotonic_seconds() + a->request->cfg->label_poll_interval;
  if (s->slurm_command == SUBMIT) {
    e = handle_sbatch(a, s, code, output_file);
  } else if (s->slurm_command == FIND_IN_SACCT) {
    e = handle_find(a, s, code == 0 ? output_file : nothing);
  } else if (code != 0) {
    schedule_retry(a, s, ++s->failed_commands, code, output_file);
    if (s->slurm_command == SHOW_CONFIG && s->failed_commands >= MISSING_POLLS_MAX)
      s->max_array_size = default_array_size;
  } else {
    s->failed_commands = 0;
    if (s->slurm_command == SHOW_CONFIG) handle_scontrol(s, output_file);
    if (s->slurm_command == FIND_JOB) e = handle_find(a, s, output_file);
    if (s->slurm_command == POLL_QUEUE) e = handle_poll(a, s, output_file);
  }
  tt_free(output_file);
  return e;
}

/* The backend */

/* Read the job numbers from the output of sbatch for jobs in state submitting. */
static tt_err recover_job_ids(tt_labelling *a, slurm_state *s)
{
  char path[TT_PATH_MAX], text[4096];
  int exists = 0;
  for (s->current_job = 0; s->current_job < s->jobs.count; s->current_job++) {
    if (s->jobs.job[s->current_job].submit_state != TT_SUBMIT_submitting) continue;
    tt_label_jobs_path(a->request, &s->jobs, s->current_job, ".said", path);
    TT_TRY(tt_file_exists(path, &exists));
    if (!exists) continue;
    TT_TRY(tt_file_read_text(path, text, sizeof text));
    int64_t id = tt_label_jobs_parse_id(text, &s->jobs);
    if (id > 0) TT_TRY(record_submitted(a, s, id));
  }
  if (s->jobs.count > 0)
    tt_log_root(TT_LOG_INFO, "round %" PRId64 ": labelled by Slurm jobs %s of an earlier start",
                a->request->round, s->jobs.name);
  return TT_OK;
}

static tt_err start_slurm(tt_labelling *a)
{
  slurm_state *s = NULL;
  TT_TRY(TT_ALLOC(s, 1));
  a->backend_data = s;
  s->last_progress = tt_monotonic_seconds();
  TT_TRY(remove_task_marks(a, 1));
  TT_TRY(tt_label_jobs_read_local(a->request, &s->jobs));
  return recover_job_ids(a, s);
}

/* Set current_job to the first job in this state; 0 = there is none. */
static int find_job_in_state(slurm_state *s, tt_submit_state submit_state)
{
  for (s->current_job = 0; s->current_job < s->jobs.count; s->current_job++)
    if (s->jobs.job[s->current_job].submit_state == submit_state) return 1;
  return 0;
}

/* Drop an attempt of an earlier start if no job of it was submitted: it is prepared again, because
 * the user may have corrected label.script. */
static void drop_unsubmitted(slurm_state *s)
{
  if (s->prepared_now || s->jobs.count == 0) return;
  if (find_job_in_state(s, TT_SUBMIT_submitted) || find_job_in_state(s, TT_SUBMIT_submitting))
    return;
  s->jobs.attempt--;
  s->jobs.count = 0;
}

/* Choose and start the next command of Slurm. */
static tt_err start_next_command(tt_labelling *a, slurm_state *s)
{
  drop_unsubmitted(s);
  if (s->jobs.count == 0 && s->max_array_size == 0) return start_scontrol(a, s);
  if (s->jobs.count == 0) {
    TT_TRY(remove_task_marks(a, 0));
    TT_TRY(tt_label_jobs_prepare_local(a, s->max_array_size, &s->jobs));
    s->prepared_now = 1;
  }
  int waited = tt_monotonic_seconds() - s->last_progress > a->request->cfg->label_max_wait;
  if (find_job_in_state(s, TT_SUBMIT_submitting))
    return waited && s->failed_commands ? stop_after_max_wait(a, s) : start_squeue(a, s, FIND_JOB);
  if (find_job_in_state(s, TT_SUBMIT_planned)) return start_sbatch(a, s);
  int in_queue = s->listed && !s->missing_polls; /* a job that has ended must be noticed first */
  return waited && (in_queue || s->failed_commands) ? stop_after_max_wait(a, s)
                                                    : start_squeue(a, s, POLL_QUEUE);
}

/* Handle the running command if it has ended; kill it after command_timeout. */
static tt_err poll_command(tt_labelling *a, slurm_state *s)
{
  int status = 0, code = -1;
  if (tt_process_has_exited(s->pid, &status)) {
    code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  } else if (tt_monotonic_seconds() > s->deadline) {
    tt_process_kill(s->pid);
  } else {
    return TT_OK;
  }
  s->pid = 0;
  return handle_command_end(a, s, code);
}

static tt_err poll_slurm(tt_labelling *a)
{
  slurm_state *s = a->backend_data;
  if (s->pid) return poll_command(a, s);
  if (tt_monotonic_seconds() < s->next_command_at) return TT_OK;
  TT_TRY(update_groups(a, s));
  TT_TRY(tt_label_groups_check_failed(a));
  return a->pending > 0 && !a->stopping ? start_next_command(a, s) : TT_OK;
}

/* Wait for a running sbatch, to record its job number. */
static void stop_slurm(tt_labelling *a)
{
  slurm_state *s = a->backend_data;
  if (!s) return;
  double deadline = tt_monotonic_seconds() + 20.0;
  while (s->pid && s->slurm_command == SUBMIT && tt_monotonic_seconds() < deadline) {
    if (poll_command(a, s)) break;
    poll(NULL, 0, 20);
  }
  if (s->pid) tt_process_kill(s->pid);
  if (a->hopeless && !tt_owner_check_local(a->request->campaign)) cancel_jobs(a, s);
  if (a->pending > 0 && find_job_in_state(s, TT_SUBMIT_submitted))
    tt_log_root(TT_LOG_INFO, "Slurm jobs %s continue to label; the next start reads their results",
                s->jobs.name);
  tt_label_jobs_free(&s->jobs);
  tt_free(a->backend_data);
}

const tt_label_backend tt_label_backend_slurm = {start_slurm, poll_slurm, stop_slurm};
