/* workers.c — see oracle.h: the processes of the workers of an asynchronous campaign. */
#include "src/campaign/label/oracle_internal.h"

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/process.h"
#include "io/files/owner.h"
#include "slurm/jobs.h"
#include "src/campaign/state/file_names.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SHORT_RUNS = 5, END_MS = 2000 };
static const double short_run = 30.0, pause_after_run = 0.2; /* s */

typedef struct worker_process {
  char directory[TT_PATH_MAX];
  pid_t pid; /* 0 = does not run */
  double started;
  int short_runs; /* in a row */
  int left;       /* 1 = it has nothing to do any more */
} worker_process;

struct tt_workers {
  const tt_config *cfg;
  char *directory, *command; /* DIR/label; for a shell */
  int64_t count;
  worker_process *worker; /* [count] */
  const char **task;      /* [count] names of their directories */
  int slurm;
  tt_slurm_jobs jobs;
};

/* Those of label.concurrency, then others that an earlier start has left. */
static tt_err list_workers(tt_workers *w)
{
  int64_t *number = NULL, count = 0, most = w->cfg->label_concurrency;
  TT_TRY(tt_label_groups_list_local(w->directory, &number, &count));
  tt_err e = TT_ALLOC(w->worker, most + count);
  if (!e) e = TT_ALLOC(w->task, most + count);
  for (int64_t i = 0; !e && i < most + count; i++) {
    int64_t own = i < most ? i + 1 : number[i - most];
    if (i >= most && own <= most) continue;
    worker_process *one = &w->worker[w->count];
    tt_label_group_directory(w->directory, own, one->directory);
    e = tt_directory_create(one->directory);
    for (int stop = 0; !e && stop < 2; stop++) e = tt_label_task_unmark(one->directory, stop);
    w->task[w->count++] = strrchr(one->directory, '/') + 1;
  }
  tt_free(number);
  return e;
}

static tt_err start_process(const tt_workers *w, worker_process *one)
{
  char *shell = NULL, log[TT_PATH_MAX], name[] = "sh", option[] = "-c";
  TT_TRY(tt_text_format(&shell, "exec %s \"$0\"", w->command));
  char *const argv[] = {name, option, shell, one->directory, NULL};
  tt_path_join(one->directory, "worker.log", log);
  const tt_process_options o = {.argv = argv, .output = log};
  int why = tt_process_start(&o, &one->pid);
  tt_free(shell);
  one->started = tt_monotonic_seconds();
  return why ? TT_FAIL(UNAVAILABLE, "a worker cannot be started: sh: %s", strerror(why)) : TT_OK;
}

static tt_err open_workers(const tt_label_request *q, tt_workers *w)
{
  TT_TRY(tt_text_format(&w->directory, "%s/label", q->campaign));
  TT_TRY(tt_directory_create(w->directory));
  TT_TRY(list_workers(w));
  TT_TRY(tt_label_task_command(q, &w->command));
  const tt_slurm_order order = {w->cfg,      w->directory,   w->command,
                                q->campaign, q->incarnation, q->round};
  return w->slurm ? tt_slurm_jobs_open_local(&order, &w->jobs) : TT_OK;
}

tt_err tt_workers_begin_local(const tt_label_request *request, tt_workers **out)
{
  *out = NULL;
  TT_TRY(TT_ALLOC(*out, 1));
  (*out)->cfg = request->cfg;
  (*out)->slurm = request->cfg->label_mode == TT_LABEL_slurm;
  TT_TRY(tt_owner_check_local(request->campaign));
  TT_TRY(open_workers(request, *out));
  return tt_workers_poll_local(*out, 1);
}

/* Children */

/* The oracle has stopped a worker, which wrote why. *later: it has asked to retry later. */
static tt_err read_marks(const worker_process *one, int *later)
{
  char path[TT_PATH_MAX], text[2048];
  int stop = 0;
  TT_TRY(tt_label_task_mark(one->directory, 0, path, later));
  TT_TRY(tt_label_task_mark(one->directory, 1, path, &stop));
  if (!stop) return TT_OK;
  TT_TRY(tt_file_read_text(path, text, sizeof text));
  text[strcspn(text, "\n")] = '\0';
  return TT_FAIL(UNAVAILABLE, "%s", text);
}

static tt_err handle_end(worker_process *one, int status, int *later)
{
  TT_TRY(read_marks(one, later));
  one->left = *later || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
  int is_short = tt_monotonic_seconds() - one->started < short_run;
  one->short_runs = is_short ? one->short_runs + 1 : 0;
  if (one->left || one->short_runs < MAX_SHORT_RUNS) return TT_OK;
  return TT_FAIL(UNAVAILABLE, "%s ends within %g s, %d times in a row; see its worker.log",
                 one->directory, short_run, one->short_runs);
}

static tt_err poll_process(const tt_workers *w, worker_process *one, int *later)
{
  int status = 0;
  double now = tt_monotonic_seconds();
  if (one->pid && tt_process_has_exited(one->pid, &status)) {
    one->pid = 0;
    TT_TRY(handle_end(one, status, later));
  }
  if (one->pid || one->left || now < one->started + pause_after_run) return TT_OK;
  return start_process(w, one);
}

/* Slurm */

/* An array that has ended, of a limit of time or because there were no points, is submitted
 * again. */
static tt_err poll_jobs(tt_workers *w, int progressed)
{
  tt_slurm_event event;
  if (progressed) w->jobs.last_progress = tt_monotonic_seconds();
  TT_TRY(tt_slurm_jobs_poll_local(&w->jobs, &event));
  if (event == TT_SLURM_ENDED) return tt_slurm_jobs_end_attempt_local(&w->jobs);
  if (event != TT_SLURM_READY) return TT_OK;
  return tt_slurm_jobs_continue_local(&w->jobs, w->task, w->count);
}

tt_err tt_workers_poll_local(tt_workers *w, int progressed)
{
  int64_t given_up = 0;
  if (w->slurm) TT_TRY(poll_jobs(w, progressed));
  for (int64_t i = 0; i < w->count; i++) {
    int later = 0;
    if (w->slurm)
      TT_TRY(read_marks(&w->worker[i], &later));
    else
      TT_TRY(poll_process(w, &w->worker[i], &later));
    given_up += later;
  }
  return given_up < w->count ? TT_OK
                             : TT_FAIL(STOPPED,
                                       "%s: the oracle has asked to retry later (exit code 75) for "
                                       "label.max_wait (%g s); run again to continue",
                                       w->directory, w->cfg->label_max_wait);
}

static void end_processes(tt_workers *w)
{
  int status, running = 1;
  double until = tt_monotonic_seconds() + 1e-3 * END_MS;
  for (int64_t i = 0; i < w->count; i++)
    if (w->worker[i].pid) kill(w->worker[i].pid, SIGTERM);
  for (; running && tt_monotonic_seconds() < until; poll(NULL, 0, 10)) {
    running = 0;
    for (int64_t i = 0; i < w->count; i++) {
      worker_process *one = &w->worker[i];
      if (one->pid && tt_process_has_exited(one->pid, &status)) one->pid = 0;
      running |= one->pid != 0;
    }
  }
  for (int64_t i = 0; i < w->count; i++)
    if (w->worker[i].pid) tt_process_kill(w->worker[i].pid);
}

void tt_workers_end_local(tt_workers **workers, int ended)
{
  tt_workers *w = *workers;
  if (!w) return;
  end_processes(w);
  if (w->slurm && ended) tt_slurm_jobs_cancel_local(&w->jobs);
  if (w->slurm) tt_slurm_jobs_close_local(&w->jobs, 1);
  free(w->command);
  tt_free_all(&w->directory, &w->worker, &w->task, workers);
}
