/* jobs.c — see jobs.h. */
#include "slurm/jobs_internal.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/process.h"
#include "io/files/owner.h"

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

/* Job numbers and environment */

static int is_known_id(const tt_slurm_jobs *j, int64_t id)
{
  for (int64_t i = 0; j && i < j->count; i++)
    if (j->job[i].submit_state == TT_SUBMIT_submitted && j->job[i].id == id) return 1;
  return 0;
}

/* The job number in the output of `sbatch --parsable`, squeue or sacct: that of the first line that
 * begins with a number which is not in `known` (NULL = empty). -1 = there is none. */
static int64_t parse_id(const char *text, const tt_slurm_jobs *known)
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

/* Environment variables of the campaign's own Slurm job, and output options of squeue: a labeling
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

/* `env` runs the command: if it is missing, that is a failure of the command. */
static tt_err start_command(tt_slurm_jobs *s, slurm_command what, char *const argv[])
{
  tt_process_options o = {.argv = argv, .output = s->output_file, .drops = is_own_job_variable};
  if (what == SUBMIT)
    tt_job_file_path(s, s->current_job, ".said", s->output_file);
  else
    tt_path_join(s->order.directory, "slurm.said", s->output_file);
  int reason = tt_process_start(&o, &s->pid);
  if (reason)
    return TT_FAIL(UNAVAILABLE, "label.mode: slurm: %s cannot be run: %s", argv[1],
                   strerror(reason));
  s->command = what;
  s->deadline = tt_monotonic_seconds() + command_timeout;
  return TT_OK;
}

/* List jobs by name and user; FIND_JOB: also ended ones that Slurm still lists. */
static tt_err start_squeue(tt_slurm_jobs *s, slurm_command what)
{
  char user[32];
  char *argv[] = {"env", "squeue", "-h", "-u", user, "-n", s->name, "-o", "%F", NULL, NULL, NULL};
  snprintf(user, sizeof user, "%lu", (unsigned long)getuid());
  if (what == FIND_JOB) {
    argv[9] = "-t";
    argv[10] = "all";
  }
  return start_command(s, what, argv);
}

static tt_err start_sacct(tt_slurm_jobs *s)
{
  char *argv[] = {"env",        "sacct",  "-n",    "-X", "-P",    "-S",
                  "now-30days", "--name", s->name, "-o", "JobID", NULL};
  return start_command(s, FIND_IN_SACCT, argv);
}

/* Write state `submitting` before sbatch, so that no job goes unrecorded. */
static tt_err start_sbatch(tt_slurm_jobs *s)
{
  char name[128], array[64], where[TT_PATH_MAX + 16], script[TT_PATH_MAX];
  char *argv[] = {"env", "sbatch", "--parsable", name, array, where, script, NULL};
  tt_slurm_job *job = &s->job[s->current_job];
  int64_t at_once = s->order.cfg->label_concurrency / s->count;
  snprintf(name, sizeof name, "--job-name=%s", s->name);
  snprintf(array, sizeof array, "--array=0-%" PRId64 "%%%" PRId64, job->tasks - 1,
           at_once > 0 ? at_once : 1);
  snprintf(where, sizeof where, "--chdir=%s", s->order.cfg->directory);
  tt_job_file_path(s, s->current_job, ".sbatch", script);
  TT_TRY(tt_owner_check_local(s->order.owner));
  job->submit_state = TT_SUBMIT_submitting;
  TT_TRY(tt_job_file_write_local(s));
  return start_command(s, SUBMIT, argv);
}

static tt_err record_submitted(tt_slurm_jobs *s, int64_t id)
{
  s->job[s->current_job].submit_state = TT_SUBMIT_submitted;
  s->job[s->current_job].id = id;
  s->refused_submits = s->missing_polls = 0;
  s->listed = 1;
  s->last_progress = tt_monotonic_seconds();
  TT_TRY(tt_job_file_write_local(s));
  tt_log_root(TT_LOG_INFO,
              "round %" PRId64 ": groups are labeled by Slurm job %" PRId64
              " (%s), tasks: %" PRId64,
              s->order.round, id, s->name, s->job[s->current_job].tasks);
  return TT_OK;
}

/* The first line of the output of a command. */
static const char *first_line(char *text)
{
  text[strcspn(text, "\n")] = '\0';
  return *text ? text : "no output";
}

/* Retry with growing pauses; log only the first of several failures in a row. */
static void schedule_retry(tt_slurm_jobs *s, int failures, int code, char *text)
{
  double wait = s->order.cfg->label_poll_interval;
  for (int i = 0; i < failures && wait < max_pause; i++) wait *= 2.0;
  s->next_command_at = tt_monotonic_seconds() + (wait < max_pause ? wait : max_pause);
  if (failures == 1)
    tt_log_root(TT_LOG_WARN, "%s failed (exit code %d: %.200s); it will run again, no job is lost",
                command_name[s->command], code, first_line(text));
}

/* After an error of sbatch the job may still be in the queue: FIND_JOB comes next. */
static tt_err handle_sbatch(tt_slurm_jobs *s, int code, char *text)
{
  int64_t id = parse_id(text, NULL);
  if (code == 0 && id > 0) return record_submitted(s, id);
  if (++s->refused_submits >= REFUSED_SUBMITS_MAX)
    return TT_FAIL(UNAVAILABLE, "sbatch refuses label.script %s: %.300s",
                   s->order.cfg->label_script, first_line(text));
  s->missing_polls = 0;
  schedule_retry(s, s->refused_submits, code, text);
  return TT_OK;
}

static void handle_scontrol(tt_slurm_jobs *s, const char *text)
{
  const char *cursor = strstr(text, "MaxArraySize");
  long long n = cursor && (cursor = strchr(cursor, '=')) ? strtoll(cursor + 1, NULL, 10) : 0;
  s->max_array_size = n > 1 ? n - 1 : default_array_size;
}

/* Search a job without a recorded number: record it, or mark the job as not submitted. */
static tt_err handle_find(tt_slurm_jobs *s, const char *text)
{
  int64_t id = parse_id(text, s);
  if (id > 0) return record_submitted(s, id);
  if (s->command == FIND_JOB && ++s->missing_polls < MISSING_POLLS_MAX) return TT_OK;
  if (s->command == FIND_JOB) return start_sacct(s);
  s->job[s->current_job].submit_state = TT_SUBMIT_planned;
  s->missing_polls = 0;
  return tt_job_file_write_local(s);
}

static void handle_poll(tt_slurm_jobs *s, const char *text, tt_slurm_event *event)
{
  int listed = parse_id(text, NULL) > 0;
  s->missing_polls = listed ? 0 : s->missing_polls + 1;
  s->listed |= listed;
  if (s->missing_polls >= MISSING_POLLS_MAX) *event = TT_SLURM_ENDED;
}

/* Handle the output of a command. Without accounting sacct fails: the job is then not found. */
static tt_err handle_command_end(tt_slurm_jobs *s, int code, tt_slurm_event *event)
{
  char *output_file = NULL, nothing[] = "";
  int64_t bytes;
  tt_err e = TT_OK;
  TT_TRY(tt_config_read_file(s->output_file, &output_file, &bytes));
  s->next_command_at = tt_monotonic_seconds() + s->order.cfg->label_poll_interval;
  if (s->command == SUBMIT) {
    e = handle_sbatch(s, code, output_file);
  } else if (s->command == FIND_IN_SACCT) {
    e = handle_find(s, code == 0 ? output_file : nothing);
  } else if (code != 0) {
    schedule_retry(s, ++s->failed_commands, code, output_file);
    if (s->command == SHOW_CONFIG && s->failed_commands >= MISSING_POLLS_MAX)
      s->max_array_size = default_array_size;
  } else {
    s->failed_commands = 0;
    if (s->command == SHOW_CONFIG) handle_scontrol(s, output_file);
    if (s->command == FIND_JOB) e = handle_find(s, output_file);
    if (s->command == POLL_QUEUE) handle_poll(s, output_file, event);
  }
  tt_free(output_file);
  return e;
}

/* The jobs */

/* Read the job numbers from the output of sbatch for jobs in state submitting. */
static tt_err recover_job_ids(tt_slurm_jobs *s)
{
  char path[TT_PATH_MAX], text[4096];
  int exists = 0;
  for (s->current_job = 0; s->current_job < s->count; s->current_job++) {
    if (s->job[s->current_job].submit_state != TT_SUBMIT_submitting) continue;
    tt_job_file_path(s, s->current_job, ".said", path);
    TT_TRY(tt_file_exists(path, &exists));
    if (!exists) continue;
    TT_TRY(tt_file_read_text(path, text, sizeof text));
    int64_t id = parse_id(text, s);
    if (id > 0) TT_TRY(record_submitted(s, id));
  }
  if (s->count > 0)
    tt_log_root(TT_LOG_INFO, "round %" PRId64 ": labeled by Slurm jobs %s of an earlier start",
                s->order.round, s->name);
  return TT_OK;
}

tt_err tt_slurm_jobs_open_local(const tt_slurm_order *o, tt_slurm_jobs *out)
{
  *out = (tt_slurm_jobs){.order = *o, .last_progress = tt_monotonic_seconds()};
  TT_TRY(tt_job_file_read_local(out));
  return recover_job_ids(out);
}

/* Index of the first job in this state; -1 = there is none. */
static int64_t find_job_in_state(const tt_slurm_jobs *s, tt_submit_state submit_state)
{
  for (int64_t i = 0; i < s->count; i++)
    if (s->job[i].submit_state == submit_state) return i;
  return -1;
}

static int has_job_in_state(const tt_slurm_jobs *s, tt_submit_state submit_state)
{
  return find_job_in_state(s, submit_state) >= 0;
}

/* 1 if nothing is lost when the campaign stops now: the jobs are in the queue, or Slurm does not
 * answer. A job that has ended must be noticed first. */
static int can_wait(const tt_slurm_jobs *s)
{
  if (has_job_in_state(s, TT_SUBMIT_submitting)) return s->failed_commands > 0;
  if (s->count == 0 || has_job_in_state(s, TT_SUBMIT_planned)) return 0;
  return (s->listed && !s->missing_polls) || s->failed_commands > 0;
}

/* Count progress if fewer tasks are left than before. Errors: STOPPED (none for label.max_wait). */
static tt_err check_progress(tt_slurm_jobs *s, int64_t tasks)
{
  double most = s->order.cfg->label_max_wait, now = tt_monotonic_seconds();
  if (tasks < s->tasks) {
    s->last_progress = now;
    s->missing_polls = 0;
  }
  s->tasks = tasks;
  if (now - s->last_progress <= most || !can_wait(s)) return TT_OK;
  return TT_FAIL(STOPPED,
                 "round %" PRId64 ": %" PRId64 " groups still wait for Slurm jobs %s; no progress "
                 "for label.max_wait (%g s); the jobs continue, run again later",
                 s->order.round, tasks, s->name, most);
}

/* Drop an attempt of an earlier start if no job of it was submitted: it is prepared again, because
 * the user may have corrected the script. */
static void drop_unsubmitted(tt_slurm_jobs *s)
{
  if (s->prepared_now || s->count == 0 || has_job_in_state(s, TT_SUBMIT_submitted) ||
      has_job_in_state(s, TT_SUBMIT_submitting))
    return;
  s->attempt--;
  s->count = 0;
}

tt_err tt_slurm_jobs_continue_local(tt_slurm_jobs *s, const char *const *task, int64_t n)
{
  TT_TRY(check_progress(s, n));
  drop_unsubmitted(s);
  char *show_config[] = {"env", "scontrol", "show", "config", NULL};
  if (s->count == 0 && s->max_array_size == 0) return start_command(s, SHOW_CONFIG, show_config);
  if (s->count == 0) {
    TT_TRY(tt_job_scripts_write_local(s, task, n));
    s->prepared_now = 1;
  }
  s->current_job = find_job_in_state(s, TT_SUBMIT_submitting);
  if (s->current_job >= 0) return start_squeue(s, FIND_JOB);
  s->current_job = find_job_in_state(s, TT_SUBMIT_planned);
  if (s->current_job >= 0) return start_sbatch(s);
  return start_squeue(s, POLL_QUEUE);
}

/* Handle the running command if it has ended; kill it after command_timeout. */
static tt_err poll_command(tt_slurm_jobs *s, tt_slurm_event *event)
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
  return handle_command_end(s, code, event);
}

tt_err tt_slurm_jobs_poll_local(tt_slurm_jobs *s, tt_slurm_event *event)
{
  *event = TT_SLURM_BUSY;
  if (s->pid) return poll_command(s, event);
  if (tt_monotonic_seconds() >= s->next_command_at) *event = TT_SLURM_READY;
  return TT_OK;
}

tt_err tt_slurm_jobs_end_attempt_local(tt_slurm_jobs *s)
{
  s->missing_polls = 0;
  s->count = 0;
  return tt_job_file_write_local(s);
}

/* Wait for a running sbatch, to record its job number; kill another command. */
static void finish_command(tt_slurm_jobs *s)
{
  tt_slurm_event event;
  double deadline = tt_monotonic_seconds() + 20.0;
  while (s->pid && s->command == SUBMIT && tt_monotonic_seconds() < deadline) {
    if (poll_command(s, &event)) break;
    poll(NULL, 0, 20);
  }
  if (s->pid) tt_process_kill(s->pid);
  s->pid = 0;
}

void tt_slurm_jobs_cancel_local(tt_slurm_jobs *s)
{
  char text[256] = "", id[32], path[TT_PATH_MAX];
  int pending = 0;
  finish_command(s);
  for (int64_t i = 0; i < s->count; i++) {
    char *argv[] = {"scancel", id, NULL};
    snprintf(id, sizeof id, "%" PRId64, s->job[i].id);
    if (s->job[i].submit_state != TT_SUBMIT_submitted) continue;
    tt_process_result c = tt_process_run("scancel", argv, 20.0, text, sizeof text);
    pending |= tt_process_exit_code(&c) != 0;
  }
  tt_path_join(s->order.directory, "job.json", path);
  if (!pending) unlink(path);
  tt_slurm_jobs_free(s);
}

void tt_slurm_jobs_close_local(tt_slurm_jobs *s, int wanted)
{
  finish_command(s);
  if (wanted && has_job_in_state(s, TT_SUBMIT_submitted))
    tt_log_root(TT_LOG_INFO, "Slurm jobs %s continue to label; the next start reads their results",
                s->name);
  tt_slurm_jobs_free(s);
}
