/* call.c — see oracle_internal.h: the calls of one group, one after the other.
 *
 * try-N/output.h5     what it wrote
 * try-N/messages.txt  what it said
 * try-N/ended         how it ended, by our judgement: "crashed: ...", "later", "stopped: ...".
 * There is none while it runs, after a good end, and where we were ended first. */
#include "src/campaign/label/oracle_internal.h"

#include "core/base/process.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "src/campaign/state/file_names.h"
#include "io/campaign/oracle_files.h"
#include "src/host/stop_request.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

enum { LATER = 75, FAILED = 1, STOP = 64, SHELL_SIGNAL = 128, WHY_ROOM = 1024, MOST_SHOWN = 10 };

static void try_path(const tt_call *c, int64_t number, const char *name, char path[TT_PATH_ROOM])
{
  char within[64];
  snprintf(within, sizeof within, "try-%" PRId64 "%s%s", number, *name ? "/" : "", name);
  tt_group_path(c->group, within, path);
}

static void output_path(const tt_call *c, int64_t number, char path[TT_PATH_ROOM])
{
  try_path(c, number, c->group->csv ? "output.csv" : "output.h5", path);
}

static tt_err note_end(const tt_call *c, const char *text)
{
  char path[TT_PATH_ROOM];
  try_path(c, c->number, "ended", path);
  return tt_file_replace_local(path, text);
}

/* ---- outputs -----------------------------------------------------------------------------------
 */

/* Rows with at least one label. */
static int64_t labelled_rows(const double *y, int64_t rows, int64_t targets)
{
  int64_t n = 0;
  for (int64_t i = 0; i < rows; i++) {
    int any = 0;
    for (int64_t k = 0; k < targets; k++)
      any |= !isnan(y[i * targets + k]);
    n += any;
  }
  return n;
}

/* Read the output of a try. y: owned by the caller, in the order of the group.
 *   given     rows that stand in it;  labelled  those with a number */
static tt_err read_output(const tt_call *c, int64_t number, double **y, int64_t *given,
                          int64_t *labelled)
{
  char path[TT_PATH_ROOM];
  tt_labels *l = NULL;
  int64_t T = c->target->count;
  output_path(c, number, path);
  TT_TRY(tt_labels_read_local(path, c->target, &l));
  tt_err e = TT_ALLOC(*y, c->group->count * T);
  if (!e) e = tt_labels_match(l, c->group->count, c->group->id, *y, given);
  if (!e) *labelled = labelled_rows(*y, c->group->count, T);
  tt_labels_destroy(&l);
  return e;
}

/* Not the fault of whoever wrote the output. */
static int is_ours(tt_err e) { return e == TT_E_MEM || e == TT_E_IO || e == TT_E_CANTCREAT; }

/* ---- what earlier lives left -------------------------------------------------------------------
 */

/* A try that was not judged was running when we were ended, or had just done so. A part of its rows
 * may be missing because it was ended too: only what speaks of every row is taken. A nan in a table
 * was written there; in HDF5 it may be what a dataset begins with. */
static tt_err adopt(tt_call *c, int64_t number)
{
  double *y = NULL;
  int64_t given = 0, labelled = 0;
  tt_err e = read_output(c, number, &y, &given, &labelled);
  int whole = !e && (c->group->csv ? given : labelled) == c->group->count;
  const char *why = labelled < c->group->count ? "the oracle gave no label" : "";
  if (whole) e = tt_group_answer(c->group, c->target, y, why);
  if (whole && !e)
    tt_log_once(TT_LOG_INFO, "%s: taken from try-%" PRId64 ", which had ended before",
                c->group->directory, number);
  tt_free(y);
  return is_ours(e) ? e : TT_OK;
}

static tt_err look_at_try(tt_call *c, int64_t number)
{
  char path[TT_PATH_ROOM], text[64];
  try_path(c, number, "ended", path);
  if (number > c->number) c->number = number;
  tt_err e = tt_file_text_local(path, text, sizeof text);
  if (e == TT_E_IO) return e;
  if (!e) c->crashes += !strncmp(text, "crashed", 7);
  if (!e && !strncmp(text, "later", 5)) c->forget = number;
  return e && c->group->state == TT_GROUP_waits ? adopt(c, number) : TT_OK;
}

static tt_err look_back(tt_call *c)
{
  DIR *d = opendir(c->group->directory);
  if (!d) return TT_FAIL(IO, "%s: cannot be listed: %s", c->group->directory, strerror(errno));
  tt_err e = TT_OK;
  for (struct dirent *entry = readdir(d); !e && entry; entry = readdir(d)) {
    int64_t number = 0;
    int length = 0;
    if (sscanf(entry->d_name, "try-%9" SCNd64 "%n", &number, &length) == 1 &&
        !entry->d_name[length] && number > 0)
      e = look_at_try(c, number);
  }
  closedir(d);
  if (c->crashes > c->cfg->label_retries) c->crashes = 0;
  return e;
}

/* ---- begin -------------------------------------------------------------------------------------
 */

int tt_call_runs(const tt_call *c) { return c->pid > 0 || c->held; }

int tt_call_is_ready(const tt_call *c)
{
  return !tt_call_runs(c) && !c->gave_up && c->group->state == TT_GROUP_waits &&
         tt_clock_local() >= c->until;
}

static tt_err launch(tt_call *c, const char *input, const char *output, const char *messages)
{
  const tt_word word[] = {{"input", input}, {"output", output}};
  const tt_text_list *command = &c->cfg->label_command;
  char **argv = NULL;
  TT_TRY(tt_argv_make(command->value, command->count, word, 2, &argv));
  const tt_child_order order = {argv, c->cfg->directory, messages};
  int why = tt_child_start(&order, &c->pid);
  tt_free(argv);
  if (why == ENOSPC || why == EDQUOT)
    return TT_FAIL(IO, "%s: cannot be created: %s; free some space", messages, strerror(why));
  if (why)
    return TT_FAIL(UNAVAILABLE,
                   "label.command: '%s' cannot be started in %s: %s; correct the command and run "
                   "again",
                   command->value[0], c->cfg->directory, strerror(why));
  c->until = tt_clock_local() + c->cfg->label_timeout;
  return TT_OK;
}

static tt_err begin(tt_call *c)
{
  char input[TT_PATH_ROOM], output[TT_PATH_ROOM], messages[TT_PATH_ROOM], path[TT_PATH_ROOM];
  try_path(c, c->number + 1, "", path);
  TT_TRY(tt_make_directory_local(path));
  c->number++;
  if (c->forget) {
    try_path(c, c->forget, "", path);
    TT_TRY(tt_remove_directory_local(path));
    c->forget = 0;
  }
  tt_group_path(c->group, c->group->csv ? "input.csv" : "input.h5", input);
  output_path(c, c->number, output);
  try_path(c, c->number, "messages.txt", messages);
  return launch(c, input, output, messages);
}

tt_err tt_call_start(tt_call *c)
{
  if (!c->known) TT_TRY(look_back(c));
  c->known = 1;
  return c->group->state == TT_GROUP_waits ? begin(c) : TT_OK;
}

/* ---- the end -----------------------------------------------------------------------------------
 */

/* The first lines of its messages, indented; "" if it said nothing. */
static void first_words(const tt_call *c, char text[WHY_ROOM])
{
  char path[TT_PATH_ROOM], said[WHY_ROOM / 2];
  int lines = 0, n = 0;
  text[0] = '\0';
  try_path(c, c->number, "messages.txt", path);
  if (tt_file_text_local(path, said, sizeof said) || !*said) return;
  for (char *line = strtok(said, "\n"); line && lines < 5; line = strtok(NULL, "\n"), lines++) {
    for (char *p = line; *p; p++)
      if (iscntrl((unsigned char)*p)) *p = ' ';
    n += snprintf(text + n, (size_t)(WHY_ROOM - n), "\n  | %s", line);
  }
}

/* What it said goes to the log, but not for each of thousands. */
static void show(const tt_call *c, const char *what)
{
  static int shown;
  char text[WHY_ROOM], path[TT_PATH_ROOM];
  int level = ++shown <= MOST_SHOWN ? TT_LOG_WARN : TT_LOG_DEBUG;
  first_words(c, text);
  try_path(c, c->number, "messages.txt", path);
  tt_log_once((tt_log_level)level, "oracle: %s; %s%s", what, path, text);
}

/* `failed` comes first: a group that has no such file, but has used up its retries, is one that
 * somebody wants to be asked again. */
static tt_err crashed(tt_call *c, const char *why)
{
  char text[WHY_ROOM + 64];
  int64_t most = c->cfg->label_retries + 1;
  c->crashes++;
  c->until = 0.0;
  snprintf(text, sizeof text, "%s (crash %" PRId64 " of %" PRId64 ")", why, c->crashes, most);
  show(c, text);
  if (c->crashes >= most) TT_TRY(tt_group_fail(c->group, why));
  snprintf(text, sizeof text, "crashed: %s\n", why);
  return note_end(c, text);
}

static tt_err said_later(tt_call *c)
{
  double now = tt_clock_local();
  TT_TRY(note_end(c, "later\n"));
  c->forget = c->number;
  if (c->later <= 0.0) c->later = now;
  c->until = now + c->cfg->label_pause;
  c->gave_up = c->until - c->later > c->cfg->label_patience;
  tt_log_once(TT_LOG_DEBUG, "%s: the oracle says later (exit 75)", c->group->directory);
  return TT_OK;
}

static tt_err asked_to_stop(tt_call *c, int code)
{
  char text[WHY_ROOM], path[TT_PATH_ROOM];
  snprintf(text, sizeof text, "stopped: exit %d\n", code);
  TT_TRY(note_end(c, text));
  first_words(c, text);
  try_path(c, c->number, "messages.txt", path);
  return TT_FAIL(UNAVAILABLE,
                 "label.command stops the campaign: exit %d; correct what it says and run again; "
                 "%s%s",
                 code, path, text);
}

/* Exit code 0, and 1: then no output is as good as none. */
static tt_err take_output(tt_call *c, int code)
{
  char why[WHY_ROOM];
  double *y = NULL;
  int64_t given = 0, labelled = 0;
  tt_err e = read_output(c, c->number, &y, &given, &labelled);
  snprintf(why, sizeof why, code ? "exit %d" : "no value", code);
  if (!e && labelled)
    e = tt_group_answer(c->group, c->target, y, labelled < c->group->count ? why : "");
  else if (!is_ours(e) && (!e || code)) {
    show(c, why);
    e = tt_group_fail(c->group, why);
  } else if (!is_ours(e)) {
    snprintf(why, sizeof why, "exit 0, but %s", tt_err_last());
    e = crashed(c, why);
  }
  tt_free(y);
  return e;
}

static tt_err judge(tt_call *c, int status)
{
  char why[WHY_ROOM];
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : SHELL_SIGNAL + WTERMSIG(status);
  if (code == 0 || code == FAILED) return take_output(c, code);
  if (code == LATER) return said_later(c);
  if (code > SHELL_SIGNAL && code - SHELL_SIGNAL <= SIGRTMAX)
    snprintf(why, sizeof why, "signal %d (%s)", code - SHELL_SIGNAL,
             strsignal(code - SHELL_SIGNAL));
  else if (code < STOP)
    snprintf(why, sizeof why, "exit %d", code);
  else
    return asked_to_stop(c, code);
  return crashed(c, why);
}

/* Slurm and terminals send these to everybody; then we are about to hear it too. */
static int may_be_meant_for_us(int status)
{
  int s = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return s == SIGTERM || s == SIGINT || s == SIGHUP;
}

static tt_err too_late(tt_call *c)
{
  char why[64];
  tt_call_end(c);
  snprintf(why, sizeof why, "longer than label.timeout (%g s)", c->cfg->label_timeout);
  return crashed(c, why);
}

tt_err tt_call_poll(tt_call *c)
{
  if (c->held) {
    c->held = 0;
    return judge(c, c->status);
  }
  if (c->pid <= 0) return TT_OK;
  if (!tt_child_has_ended(c->pid, &c->status))
    return tt_clock_local() > c->until ? too_late(c) : TT_OK;
  c->pid = 0;
  c->held = may_be_meant_for_us(c->status);
  return c->held ? TT_OK : judge(c, c->status);
}

void tt_call_end(tt_call *c)
{
  if (c->pid > 0) tt_child_kill(c->pid);
  c->pid = 0;
  c->held = 0;
}
