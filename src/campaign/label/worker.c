/* worker.c — see oracle.h: the process of one worker of an asynchronous campaign. */
#include "src/campaign/label/oracle_internal.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/campaign/oracle_files.h"
#include "src/campaign/points/requests.h"
#include "src/campaign/state/file_names.h"
#include "src/host/stop_request.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MIN_NAP_MS = 20 };

typedef struct worker {
  const tt_config *cfg;
  const char *directory; /* DIR/label/0003 */
  char name[32];         /* "worker 0003" */
  int leaves;            /* label.concurrency is smaller now: it only tells what it has */
  tt_columns input, target;
  int64_t group;         /* number of the present one */
  tt_label_group untold; /* the one before, if its labels are not told yet; else count is 0 */
} worker;

/* Points */

/* A directory without an input is what a kill has left of the removal of an older group. */
static tt_err write_input(const worker *w, const char *group, const tt_asked *a)
{
  char input[TT_PATH_MAX];
  tt_path_join(group, w->cfg->label_format == TT_FORMAT_csv ? "input.csv" : "input.h5", input);
  TT_TRY(tt_directory_remove(group));
  TT_TRY(tt_directory_create(group));
  return tt_oracle_input_write_local(input, a->count, a->id, a->x, a->text, &w->input,
                                     &(tt_row_ids){0});
}

/* For a group that has none. The group names the lease: a worker that was killed gets the same
 * points again. */
static tt_err take_points(const worker *w, int64_t number)
{
  char lease[64], group[TT_PATH_MAX];
  tt_label_group known = {0};
  tt_asked a;
  tt_label_group_directory(w->directory, number, group);
  tt_err open = tt_label_group_open(group, &known);
  tt_label_group_free(&known);
  if (open != TT_E_NOINPUT) return open;
  snprintf(lease, sizeof lease, "%s group %04" PRId64, w->name, number);
  int64_t most = w->leaves ? 0 : w->cfg->label_rows_per_call;
  tt_err e =
      tt_ask_points_local(w->cfg->campaign_directory, w->name, lease, most, 0, w->input.count, &a);
  if (!e) e = write_input(w, group, &a);
  tt_asked_free(&a);
  return e;
}

/* Labels */

static tt_err tell_group(const worker *w, const tt_label_group *g)
{
  char why[1024] = "";
  double *y = NULL;
  tt_err e = tt_label_group_read_results(g, &w->target, &y, why, sizeof why);
  do {
    if (!e)
      e = tt_tell_points_local(w->cfg->campaign_directory, w->name, g->count, g->id,
                               w->target.count, y, why);
  } while (e == TT_E_STOPPED && !tt_stop_signaled_local());
  tt_free(y);
  return e;
}

static tt_err tell_untold(worker *w)
{
  if (!w->untold.count) return TT_OK;
  tt_err e = tell_group(w, &w->untold);
  if (!e) tt_label_group_free(&w->untold);
  return e;
}

/* Failed groups stay for the user; the newest one, because its number is counted on. The input is
 * removed first: a group with an input and without its labels would be labeled again. */
static tt_err remove_group(const worker *w, int64_t number)
{
  char group[TT_PATH_MAX], input[TT_PATH_MAX];
  int labeled = 0, failed = 0;
  tt_label_group_directory(w->directory, number, group);
  TT_TRY(tt_label_group_ended_local(group, &labeled, &failed));
  if (!labeled) return TT_OK;
  for (int csv = 0; csv < 2; csv++) {
    tt_path_join(group, csv ? "input.csv" : "input.h5", input);
    if (unlink(input) && errno != ENOENT) return TT_FAIL_ERRNO(IO, "%s", input);
  }
  return tt_directory_remove(group);
}

/* The workers of an array ask less often: they may be many, on a slow file system. They do not hold
 * their nodes for long: when all have ended, the campaign submits the array again, also those that
 * were killed. *ended: there is no more work. */
static tt_err wait_for_points(worker *w, int *ended)
{
  int slurm = w->cfg->label_mode == TT_LABEL_slurm;
  double since = tt_monotonic_seconds(), most_ms = 1e3 * w->cfg->label_poll_interval;
  double patience = fmin(10.0 * w->cfg->label_poll_interval, w->cfg->label_max_wait);
  double nap_ms = MIN_NAP_MS;
  if (!slurm && most_ms > 1e3) most_ms = 1e3;
  for (;;) {
    tt_err e = take_points(w, w->group);
    if (e != TT_E_STOPPED && e != TT_E_ENDED) return e;
    TT_TRY(tell_untold(w));
    *ended = e == TT_E_ENDED || w->leaves || (slurm && tt_monotonic_seconds() - since > patience);
    if (*ended) return TT_OK;
    if (tt_stop_signaled_local()) return e;
    poll(NULL, 0, (int)nap_ms);
    nap_ms = 2.0 * nap_ms < most_ms ? 2.0 * nap_ms : most_ms;
  }
}

/* While the call runs, the labels of the group before are told, and the next points are taken: then
 * the next call begins at once. */
static tt_err call_group(worker *w, tt_label_group *g)
{
  tt_oracle_call call = {.cfg = w->cfg, .target = &w->target, .group = g};
  tt_err e = g->state == TT_LABEL_GROUP_pending ? tt_oracle_call_start(&call) : TT_OK;
  if (!e) e = tell_untold(w);
  if (!e) e = remove_group(w, w->group - 1);
  if (!e && tt_oracle_call_is_running(&call)) e = take_points(w, w->group + 1);
  if (e == TT_E_STOPPED || e == TT_E_ENDED) e = TT_OK; /* none now */
  if (!e) e = tt_oracle_call_finish(&call);
  tt_oracle_call_kill(&call);
  return e;
}

static tt_err label_group(worker *w, int *ended)
{
  char path[TT_PATH_MAX];
  tt_label_group g = {0};
  tt_label_group_directory(w->directory, w->group, path);
  tt_err e = tt_label_group_open(path, &g);
  if (e == TT_E_NOINPUT) {
    e = wait_for_points(w, ended);
    if (!e && *ended) return TT_OK;
    if (!e) e = tt_label_group_open(path, &g);
  }
  if (!e) e = call_group(w, &g);
  if (e) {
    tt_label_group_free(&g);
    return e;
  }
  w->untold = g;
  w->group++;
  return TT_OK;
}

/* The worker */

/* Tell the groups that an earlier start has left, and find the first one to be labeled; if there is
 * none, the newest one is taken once more, because its number is counted on. */
static tt_err read_groups(worker *w, const int64_t *number, int64_t count)
{
  char path[TT_PATH_MAX];
  int pending = 0;
  w->group = count ? number[count - 1] : 1;
  for (int64_t i = 0; i < count && !pending; i++) {
    tt_label_group_directory(w->directory, number[i], path);
    tt_err e = tt_label_group_open(path, &w->untold);
    pending = e == TT_E_NOINPUT || w->untold.state == TT_LABEL_GROUP_pending;
    if (pending) w->group = number[i];
    if (pending) tt_label_group_free(&w->untold);
    if (e && e != TT_E_NOINPUT) return e;
    TT_TRY(tell_untold(w));
  }
  return TT_OK;
}

static tt_err open_worker(worker *w)
{
  int64_t *number = NULL, count = 0;
  const char *own = strrchr(w->directory, '/') + 1;
  snprintf(w->name, sizeof w->name, "worker %.20s", own);
  w->leaves = strtoll(own, NULL, 10) > w->cfg->label_concurrency;
  for (int stop = 0; stop < 2; stop++) TT_TRY(tt_label_task_unmark(w->directory, stop));
  TT_TRY(tt_points_columns_local(w->cfg->campaign_directory, &w->input, &w->target));
  TT_TRY(tt_label_groups_list_local(w->directory, &number, &count));
  tt_err e = read_groups(w, number, count);
  tt_free(number);
  return e;
}

tt_err tt_worker_run_local(const tt_config *cfg, const char *directory)
{
  int ended = 0;
  worker w = {.cfg = cfg};
  char *absolute = realpath(directory, NULL);
  if (!absolute) return TT_FAIL_ERRNO(NOINPUT, "%s", directory);
  w.directory = absolute;
  tt_stop_install_handlers_local();
  tt_err e = open_worker(&w);
  while (!e && !ended) e = label_group(&w, &ended);
  if (!e && w.leaves) e = tt_directory_remove(absolute);
  if (!tt_stop_signaled_local()) tt_label_task_report_local(absolute, e);
  tt_label_group_free(&w.untold);
  tt_columns_free(&w.input);
  tt_columns_free(&w.target);
  free(absolute);
  return e;
}
