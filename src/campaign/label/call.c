/* call.c — see oracle_internal.h: the calls of one group, one after the other.
 *
 * try-N/output.h5     output of the call
 * try-N/messages.txt  its stdout and stderr
 * try-N/ended         why its output was not accepted: "crashed: ...", "later", "stopped: ...". The
 *                     file does not exist while the call runs, after success, and if this process
 *                     was killed first. */
#include "src/campaign/label/oracle_internal.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/process.h"
#include "io/campaign/oracle_files.h"
#include "io/files/owner.h"
#include "src/campaign/state/file_names.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

enum {
  EXIT_RETRY_LATER = 75,
  EXIT_IMPOSSIBLE = 65, /* EX_DATAERR of sysexits.h */
  EXIT_FIRST_FATAL = 64,
  EXIT_SIGNAL_BASE = 128,
  REASON_SIZE = 1024,
  MAX_LOGGED = 10
};

static void try_path(const tt_oracle_call *c, int64_t try_number, const char *name,
                     char path[TT_PATH_MAX])
{
  char within[64];
  snprintf(within, sizeof within, "try-%" PRId64 "%s%s", try_number, *name ? "/" : "", name);
  tt_path_join(c->group->directory, within, path);
}

static void output_path(const tt_oracle_call *c, int64_t try_number, char path[TT_PATH_MAX])
{
  try_path(c, try_number, c->group->csv ? "output.csv" : "output.h5", path);
}

static tt_err write_ended(const tt_oracle_call *c, const char *text)
{
  char path[TT_PATH_MAX];
  try_path(c, c->last_try, "ended", path);
  return tt_file_write_atomic_local(path, text);
}

/* Outputs */

/* Read the output of a try. y: owned by the caller, in the order of the group.
 *   rows_present  rows in the output;  labeled  rows with at least one number */
static tt_err read_output(const tt_oracle_call *c, int64_t try_number, double **y,
                          int64_t *rows_present, int64_t *labeled)
{
  char path[TT_PATH_MAX];
  output_path(c, try_number, path);
  TT_TRY(tt_label_group_read_output(c->group, c->target, path, y, rows_present));
  *labeled = tt_labeled_rows(*y, c->group->count, c->target->count);
  return TT_OK;
}

/* An error of this process, not of the output. */
static int is_internal_error(tt_err e)
{
  return e == TT_E_MEM || e == TT_E_IO || e == TT_E_CANTCREAT;
}

/* Tries of earlier starts */

/* No `ended` file: the call was still running, or had just ended, when the campaign was killed. The
 * call may have been killed half way, so accept its output only if it is complete: CSV with every
 * row present, HDF5 with every row labeled (a nan in HDF5 may be the fill value). */
static tt_err recover_output(tt_oracle_call *c, int64_t try_number)
{
  double *y = NULL;
  int64_t rows_present = 0, labeled = 0;
  tt_err e = read_output(c, try_number, &y, &rows_present, &labeled);
  int complete = !e && (c->group->csv ? rows_present : labeled) == c->group->count;
  const char *reason = labeled < c->group->count ? "the oracle gave no label" : "";
  if (complete) e = tt_label_group_write_labels(c->group, c->target, y, reason);
  if (complete && !e)
    tt_log_root(TT_LOG_INFO, "%s: accepted the output of try-%" PRId64 " of an earlier start",
                c->group->directory, try_number);
  tt_free(y);
  return is_internal_error(e) ? e : TT_OK;
}

static tt_err read_try(tt_oracle_call *c, int64_t try_number)
{
  char path[TT_PATH_MAX], text[64];
  int ended = 0;
  try_path(c, try_number, "ended", path);
  if (try_number > c->last_try) c->last_try = try_number;
  TT_TRY(tt_file_exists(path, &ended));
  if (!ended)
    return c->group->state == TT_LABEL_GROUP_pending ? recover_output(c, try_number) : TT_OK;
  TT_TRY(tt_file_read_text(path, text, sizeof text));
  c->crashes += !strncmp(text, "crashed", 7);
  if (!strncmp(text, "later", 5)) c->retry_later_try = try_number;
  return TT_OK;
}

static tt_err scan_tries(tt_oracle_call *c)
{
  int64_t *number = NULL, count;
  TT_TRY(tt_directory_list_numbers(c->group->directory, "try-", 1, "", &number, &count));
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < count; i++) e = read_try(c, number[i]);
  tt_free(number);
  if (c->crashes > c->cfg->label_retries) c->crashes = 0;
  return e;
}

/* Start */

int tt_oracle_call_is_running(const tt_oracle_call *c) { return c->pid > 0 || c->exit_pending; }

int tt_oracle_call_is_ready(const tt_oracle_call *c)
{
  return !tt_oracle_call_is_running(c) && !c->max_wait_exceeded &&
         c->group->state == TT_LABEL_GROUP_pending && tt_monotonic_seconds() >= c->deadline;
}

static tt_err start_process(tt_oracle_call *c, const char *input, const char *output,
                            const char *messages)
{
  const tt_placeholder word[] = {{"input", input}, {"output", output}};
  const tt_text_list *command = &c->cfg->label_command;
  char **argv = NULL;
  TT_TRY(tt_argv_expand(command->value, command->count, word, 2, &argv));
  const tt_process_options order = {argv, c->cfg->directory, messages, NULL};
  int reason = tt_process_start(&order, &c->pid);
  tt_free(argv);
  if (reason == ENOSPC || reason == EDQUOT)
    return TT_FAIL(IO, "%s: cannot be created: %s; free some space", messages, strerror(reason));
  if (reason)
    return TT_FAIL(UNAVAILABLE,
                   "label.command: '%s' cannot be started in %s: %s; correct the command and run "
                   "again",
                   command->value[0], c->cfg->directory, strerror(reason));
  c->deadline = tt_monotonic_seconds() + c->cfg->label_timeout;
  return TT_OK;
}

static tt_err start_try(tt_oracle_call *c)
{
  char input[TT_PATH_MAX], output[TT_PATH_MAX], messages[TT_PATH_MAX], path[TT_PATH_MAX];
  try_path(c, c->last_try + 1, "", path);
  TT_TRY(tt_owner_check_local(path));
  TT_TRY(tt_directory_create(path));
  c->last_try++;
  if (c->retry_later_try) {
    try_path(c, c->retry_later_try, "", path);
    TT_TRY(tt_directory_remove(path));
    c->retry_later_try = 0;
  }
  tt_path_join(c->group->directory, c->group->csv ? "input.csv" : "input.h5", input);
  output_path(c, c->last_try, output);
  try_path(c, c->last_try, "messages.txt", messages);
  return start_process(c, input, output, messages);
}

tt_err tt_oracle_call_start(tt_oracle_call *c)
{
  if (!c->scanned) TT_TRY(scan_tries(c));
  c->scanned = 1;
  return c->group->state == TT_LABEL_GROUP_pending ? start_try(c) : TT_OK;
}

/* End */

/* The first lines of messages.txt, indented; "" if it is empty. */
static void read_first_messages(const tt_oracle_call *c, char text[REASON_SIZE])
{
  char path[TT_PATH_MAX], messages_text[REASON_SIZE / 2];
  int lines = 0, n = 0;
  text[0] = '\0';
  try_path(c, c->last_try, "messages.txt", path);
  if (tt_file_read_text(path, messages_text, sizeof messages_text) || !*messages_text) return;
  for (char *line = strtok(messages_text, "\n"); line && lines < 5;
       line = strtok(NULL, "\n"), lines++) {
    for (char *p = line; *p; p++)
      if (iscntrl((unsigned char)*p)) *p = ' ';
    n += snprintf(text + n, (size_t)(REASON_SIZE - n), "\n  | %s", line);
  }
}

/* Log the messages of a failed call; only the first MAX_LOGGED as warnings. */
static void log_failure(const tt_oracle_call *c, const char *what)
{
  static int shown;
  char text[REASON_SIZE], path[TT_PATH_MAX];
  int level = ++shown <= MAX_LOGGED ? TT_LOG_WARN : TT_LOG_DEBUG;
  read_first_messages(c, text);
  try_path(c, c->last_try, "messages.txt", path);
  tt_log_root((tt_log_level)level, "oracle: %s; %s%s", what, path, text);
}

/* Write `failed` before `ended`: a group without `failed` that has used all retries is then one
 * whose `failed` the user has removed to have it labeled again. */
static tt_err record_crash(tt_oracle_call *c, const char *reason)
{
  char text[REASON_SIZE + 64];
  int64_t most = c->cfg->label_retries + 1;
  c->crashes++;
  c->deadline = 0.0;
  snprintf(text, sizeof text, "%s (crash %" PRId64 " of %" PRId64 ")", reason, c->crashes, most);
  log_failure(c, text);
  if (c->crashes >= most) TT_TRY(tt_label_group_write_failed(c->group, reason));
  snprintf(text, sizeof text, "crashed: %s\n", reason);
  return write_ended(c, text);
}

static tt_err record_retry_later(tt_oracle_call *c)
{
  double now = tt_monotonic_seconds();
  TT_TRY(write_ended(c, "later\n"));
  c->retry_later_try = c->last_try;
  if (c->retry_later_since <= 0.0) c->retry_later_since = now;
  c->deadline = now + c->cfg->label_poll_interval;
  c->max_wait_exceeded = c->deadline - c->retry_later_since > c->cfg->label_max_wait;
  tt_log_root(TT_LOG_DEBUG, "%s: the oracle asks to retry later (exit code 75)",
              c->group->directory);
  return TT_OK;
}

static tt_err stop_campaign(tt_oracle_call *c, int code)
{
  char text[REASON_SIZE], path[TT_PATH_MAX];
  snprintf(text, sizeof text, "stopped: exit %d\n", code);
  TT_TRY(write_ended(c, text));
  read_first_messages(c, text);
  try_path(c, c->last_try, "messages.txt", path);
  return TT_FAIL(UNAVAILABLE,
                 "label.command stops the campaign: exit %d; correct the reported error and run "
                 "again; %s%s",
                 code, path, text);
}

/* Exit codes 0 and 65. With 65 an invalid or missing output means that all rows failed. */
static tt_err accept_output(tt_oracle_call *c, int code)
{
  char reason[REASON_SIZE];
  double *y = NULL;
  int64_t rows_present = 0, labeled = 0;
  tt_err e = read_output(c, c->last_try, &y, &rows_present, &labeled);
  snprintf(reason, sizeof reason, code ? "exit %d" : "no value", code);
  if (!e && labeled)
    e = tt_label_group_write_labels(c->group, c->target, y,
                                    labeled < c->group->count ? reason : "");
  else if (!is_internal_error(e) && (!e || code)) {
    log_failure(c, reason);
    e = tt_label_group_write_failed(c->group, reason);
  } else if (!is_internal_error(e)) {
    snprintf(reason, sizeof reason, "exit 0, but %s", tt_err_last());
    e = record_crash(c, reason);
  }
  tt_free(y);
  return e;
}

static tt_err handle_exit(tt_oracle_call *c, int status)
{
  char reason[REASON_SIZE];
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_SIGNAL_BASE + WTERMSIG(status);
  if (code == 0 || code == EXIT_IMPOSSIBLE) return accept_output(c, code);
  if (code == EXIT_RETRY_LATER) return record_retry_later(c);
  if (code > EXIT_SIGNAL_BASE && code - EXIT_SIGNAL_BASE <= SIGRTMAX)
    snprintf(reason, sizeof reason, "signal %d (%s)", code - EXIT_SIGNAL_BASE,
             strsignal(code - EXIT_SIGNAL_BASE));
  else if (code < EXIT_FIRST_FATAL)
    snprintf(reason, sizeof reason, "exit %d", code);
  else
    return stop_campaign(c, code);
  return record_crash(c, reason);
}

/* Slurm and terminals send these signals to all processes: this process may get the signal too. */
static int is_broadcast_signal(int status)
{
  int s = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return s == SIGTERM || s == SIGINT || s == SIGHUP;
}

static tt_err handle_timeout(tt_oracle_call *c)
{
  char reason[64];
  tt_oracle_call_kill(c);
  snprintf(reason, sizeof reason, "longer than label.timeout (%g s)", c->cfg->label_timeout);
  return record_crash(c, reason);
}

tt_err tt_oracle_call_poll(tt_oracle_call *c)
{
  if (c->exit_pending) {
    c->exit_pending = 0;
    return handle_exit(c, c->status);
  }
  if (c->pid <= 0) return TT_OK;
  if (!tt_process_has_exited(c->pid, &c->status))
    return tt_monotonic_seconds() > c->deadline ? handle_timeout(c) : TT_OK;
  c->pid = 0;
  c->exit_pending = is_broadcast_signal(c->status);
  return c->exit_pending ? TT_OK : handle_exit(c, c->status);
}

void tt_oracle_call_kill(tt_oracle_call *c)
{
  if (c->pid > 0) tt_process_kill(c->pid);
  c->pid = 0;
  c->exit_pending = 0;
}
