/* slurm_mode.c — see oracle_internal.h: label.mode slurm, array jobs for the groups of a round. */
#include "src/campaign/label/oracle_internal.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/files/owner.h"
#include "slurm/jobs.h"
#include "slurm/script.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct slurm_state {
  tt_slurm_jobs jobs;
  char *call;        /* the command of a task */
  const char **task; /* [groups] names of the directories of pending groups */
} slurm_state;

/* Files that a task writes for the campaign */

static const char *const task_mark_name[] = {"later", "stop"};

void tt_label_task_report_local(const char *group, tt_err e)
{
  char path[TT_PATH_MAX], text[2048];
  if (e != TT_E_STOPPED && e != TT_E_UNAVAILABLE) return;
  tt_path_join(group, task_mark_name[e == TT_E_UNAVAILABLE], path);
  snprintf(text, sizeof text, "%.2040s\n", tt_err_last());
  if (tt_file_write_atomic_local(path, text)) tt_log_root(TT_LOG_WARN, "%s", tt_err_last());
}

tt_err tt_label_task_mark(const char *directory, int stop, char path[TT_PATH_MAX], int *exists)
{
  tt_path_join(directory, task_mark_name[stop], path);
  return tt_file_exists(path, exists);
}

tt_err tt_label_task_unmark(const char *directory, int stop)
{
  char path[TT_PATH_MAX];
  tt_path_join(directory, task_mark_name[stop], path);
  return unlink(path) && errno != ENOENT ? TT_FAIL_ERRNO(IO, "%s", path) : TT_OK;
}

static tt_err remove_task_marks(const tt_labeling *a, int stop)
{
  TT_TRY(tt_owner_check_local(a->request->campaign));
  for (int64_t i = 0; i < a->groups; i++) TT_TRY(tt_label_task_unmark(a->group[i].directory, stop));
  return TT_OK;
}

/* The oracle stopped the campaign in one task, which wrote `mark`. */
static tt_err stop_by_task(const tt_labeling *a, tt_slurm_jobs *jobs, const char *mark)
{
  char text[2048];
  TT_TRY(tt_owner_check_local(a->request->campaign));
  tt_slurm_jobs_cancel_local(jobs);
  if (tt_file_read_text(mark, text, sizeof text)) snprintf(text, sizeof text, "see %.1900s", mark);
  text[strcspn(text, "\n")] = '\0';
  return TT_FAIL(UNAVAILABLE, "%s", text);
}

/* Groups */

static tt_err update_groups(tt_labeling *a, tt_slurm_jobs *jobs)
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
    TT_TRY(tt_label_task_mark(g->directory, 1, path, &stop));
    if (stop) return stop_by_task(a, jobs, path);
  }
  a->progressed |= pending < a->pending;
  a->pending = pending;
  return TT_OK;
}

/* The jobs have ended, but some groups are pending. Groups whose oracle asked to retry later are
 * submitted by the next start, the others at once, in all label.retries + 1 times. */
static tt_err end_attempt(tt_labeling *a, tt_slurm_jobs *jobs)
{
  char path[TT_PATH_MAX], reason[160];
  int64_t later = 0, tries = jobs->attempt - jobs->uncounted;
  int last = tries > a->request->cfg->label_retries, ask_later = 0;
  snprintf(reason, sizeof reason,
           "its Slurm job has left the queue without a result, attempt %" PRId64 " of %" PRId64,
           tries, a->request->cfg->label_retries + 1);
  for (int64_t i = 0; i < a->groups; i++) {
    tt_label_group *g = &a->group[i];
    if (g->state != TT_LABEL_GROUP_pending) continue;
    TT_TRY(tt_label_task_mark(g->directory, 0, path, &ask_later));
    later += ask_later;
    if (!ask_later && last) TT_TRY(tt_label_group_write_failed(g, reason));
  }
  int64_t lost = a->pending - later;
  if (last) a->pending = later;
  a->progressed = 1;
  if (last)
    jobs->uncounted = jobs->attempt; /* if the user removes `failed`, all retries are left */
  else if (!lost)
    jobs->uncounted++;
  TT_TRY(tt_slurm_jobs_end_attempt_local(jobs));
  if (lost && !last)
    tt_log_root(TT_LOG_WARN,
                "round %" PRId64 ": jobs %s have left the queue; groups without labels, submitted "
                "again: %" PRId64,
                a->request->round, jobs->name, a->pending);
  if (later > 0 && (last || !lost))
    return TT_FAIL(STOPPED,
                   "%s: the oracle has asked to retry later (exit code 75) for label.max_wait (%g "
                   "s); accepted labels are kept, run again to continue",
                   a->request->directory, a->request->cfg->label_max_wait);
  return TT_OK;
}

/* The backend */

tt_err tt_label_task_command(const tt_label_request *q, char **text)
{
  size_t bytes;
  FILE *f = open_memstream(text, &bytes);
  if (!f) return TT_FAIL(MEM, "out of memory for a batch script");
  tt_err e = TT_OK;
  char *program = realpath("/proc/self/exe", NULL), *file = realpath(q->file, NULL);
  if (program && file) {
    tt_shell_print_quoted(f, program);
    fputs(" campaign task", f);
    for (int i = 0; i < q->nset; i++) {
      fputs(" --set ", f);
      tt_shell_print_quoted(f, q->set[i]);
    }
    fputc(' ', f);
    tt_shell_print_quoted(f, file);
    fputc(' ', f);
  } else
    e = TT_FAIL(IO, "%s: %s", !program ? "/proc/self/exe" : q->file, strerror(errno));
  free(program);
  free(file);
  return fclose(f) && !e ? TT_FAIL(MEM, "out of memory for a batch script") : e;
}

static tt_err start_slurm(tt_labeling *a)
{
  slurm_state *s = NULL;
  const tt_label_request *q = a->request;
  TT_TRY(TT_ALLOC(s, 1));
  a->backend_data = s;
  TT_TRY(TT_ALLOC(s->task, a->groups));
  TT_TRY(remove_task_marks(a, 1));
  TT_TRY(tt_label_task_command(q, &s->call));
  const tt_slurm_order order = {q->cfg,      q->directory,   s->call,
                                q->campaign, q->incarnation, q->round};
  return tt_slurm_jobs_open_local(&order, &s->jobs);
}

static tt_err continue_jobs(tt_labeling *a, slurm_state *s)
{
  int64_t n = 0;
  if (s->jobs.count == 0) TT_TRY(remove_task_marks(a, 0));
  for (int64_t i = 0; i < a->groups; i++)
    if (a->group[i].state == TT_LABEL_GROUP_pending)
      s->task[n++] = strrchr(a->group[i].directory, '/') + 1;
  return tt_slurm_jobs_continue_local(&s->jobs, s->task, n);
}

static tt_err poll_slurm(tt_labeling *a)
{
  slurm_state *s = a->backend_data;
  double before = s->jobs.last_progress;
  tt_slurm_event event;
  TT_TRY(tt_slurm_jobs_poll_local(&s->jobs, &event));
  a->progressed |= s->jobs.last_progress > before;
  if (event == TT_SLURM_ENDED) return end_attempt(a, &s->jobs);
  if (event != TT_SLURM_READY) return TT_OK;
  TT_TRY(update_groups(a, &s->jobs));
  TT_TRY(tt_label_groups_check_failed(a));
  return a->pending > 0 && !a->stopping ? continue_jobs(a, s) : TT_OK;
}

static void stop_slurm(tt_labeling *a)
{
  slurm_state *s = a->backend_data;
  if (!s) return;
  if (a->hopeless && !tt_owner_check_local(a->request->campaign))
    tt_slurm_jobs_cancel_local(&s->jobs);
  tt_slurm_jobs_close_local(&s->jobs, a->pending > 0);
  free(s->call);
  tt_free_all(&s->task, &a->backend_data);
}

const tt_label_backend tt_label_backend_slurm = {start_slurm, poll_slurm, stop_slurm};
