/* command_mode.c — see oracle_internal.h: label.mode command, label.concurrency calls at a time;
 * and the calls of a single group. */
#include "src/campaign/label/oracle_internal.h"

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "io/campaign/oracle_files.h"
#include "src/campaign/state/file_names.h"
#include "src/host/stop_request.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_PAUSE_MS = 5, MAX_PAUSE_MS = 500 };
static const double max_start_seconds = 0.5; /* time in which one poll starts calls */

static tt_err create_calls(tt_labeling *a)
{
  tt_oracle_call *call = NULL;
  TT_TRY(TT_ALLOC(call, a->groups));
  for (int64_t i = 0; i < a->groups; i++)
    call[i] = (tt_oracle_call){.cfg = a->request->cfg, .target = a->target, .group = &a->group[i]};
  a->backend_data = call;
  return TT_OK;
}

static void end_calls(tt_labeling *a)
{
  tt_oracle_call *call = a->backend_data;
  for (int64_t i = 0; call && i < a->groups; i++) tt_oracle_call_kill(&call[i]);
  tt_free(a->backend_data);
}

/* Poll the running calls; *running: number of calls that still run. */
static tt_err poll_running(tt_labeling *a, tt_oracle_call *call, int64_t *running)
{
  *running = 0;
  for (int64_t i = 0; i < a->groups; i++) {
    if (!tt_oracle_call_is_running(&call[i])) continue;
    if (a->stopping && call[i].exit_pending) continue;
    TT_TRY(tt_oracle_call_poll(&call[i]));
    a->progressed |= !tt_oracle_call_is_running(&call[i]);
    *running += tt_oracle_call_is_running(&call[i]);
  }
  return TT_OK;
}

static tt_err start_ready(tt_labeling *a, tt_oracle_call *call, int64_t *running)
{
  double until = tt_monotonic_seconds() + max_start_seconds;
  for (int64_t i = 0; i < a->groups && *running < a->request->cfg->label_concurrency; i++) {
    if (!tt_oracle_call_is_ready(&call[i])) continue;
    TT_TRY(tt_oracle_call_start(&call[i]));
    a->progressed = 1;
    *running += tt_oracle_call_is_running(&call[i]);
    if (tt_monotonic_seconds() > until) break;
  }
  return TT_OK;
}

static tt_err stop_after_max_wait(const tt_config *cfg, const char *directory)
{
  return TT_FAIL(
      STOPPED,
      "%s: the oracle has asked to retry later (exit code 75) for label.max_wait (%g s); "
      "accepted labels are kept, run again to continue",
      directory, cfg->label_max_wait);
}

static tt_err poll_all(tt_labeling *a)
{
  tt_oracle_call *call = a->backend_data;
  int64_t running = 0, waiting = 0, given_up = 0;
  TT_TRY(poll_running(a, call, &running));
  if (!a->stopping) TT_TRY(tt_label_groups_check_failed(a));
  if (!a->stopping) TT_TRY(start_ready(a, call, &running));
  for (int64_t i = 0; i < a->groups; i++) {
    waiting += a->group[i].state == TT_LABEL_GROUP_pending;
    given_up += a->group[i].state == TT_LABEL_GROUP_pending && call[i].max_wait_exceeded;
  }
  a->pending = waiting;
  return waiting && given_up == waiting
             ? stop_after_max_wait(a->request->cfg, a->request->directory)
             : TT_OK;
}

const tt_label_backend tt_label_backend_command = {create_calls, poll_all, end_calls};

/* A single group */

tt_err tt_oracle_call_finish(tt_oracle_call *c)
{
  double since = tt_monotonic_seconds();
  while (c->group->state == TT_LABEL_GROUP_pending) {
    int ran = tt_oracle_call_is_running(c);
    if (tt_stop_signaled_local()) return TT_FAIL(STOPPED, "stopped by %s", tt_stop_signal_local());
    TT_TRY(tt_oracle_call_poll(c));
    if (tt_oracle_call_is_ready(c)) TT_TRY(tt_oracle_call_start(c));
    if (c->max_wait_exceeded) return stop_after_max_wait(c->cfg, c->group->directory);
    if (ran != tt_oracle_call_is_running(c)) since = tt_monotonic_seconds();
    double pause_ms = 10.0 * (tt_monotonic_seconds() - since); /* 1 % of the time so far */
    pause_ms = pause_ms < MIN_PAUSE_MS ? MIN_PAUSE_MS : fmin(pause_ms, MAX_PAUSE_MS);
    if (c->group->state == TT_LABEL_GROUP_pending) poll(NULL, 0, (int)pause_ms);
  }
  return TT_OK;
}

/* The names of the targets are in header.csv of the parent directory. */
static tt_err label_group(const tt_config *cfg, const char *directory)
{
  char beside[TT_PATH_MAX], header[TT_PATH_MAX];
  tt_columns target = {0};
  tt_label_group group = {0};
  tt_file_dirname_local(directory, beside);
  tt_path_join(beside, "header.csv", header);
  tt_err e = tt_output_header_read_local(header, &target);
  if (!e) e = tt_label_group_open(directory, &group);
  if (!e) {
    tt_oracle_call call = {.cfg = cfg, .target = &target, .group = &group};
    e = tt_oracle_call_finish(&call);
    tt_oracle_call_kill(&call);
  }
  tt_label_group_free(&group);
  tt_columns_free(&target);
  return e;
}

tt_err tt_oracle_label_group_local(const tt_config *cfg, const char *group)
{
  char *directory = realpath(group, NULL);
  if (!directory) return TT_FAIL(NOINPUT, "%s: %s", group, strerror(errno));
  tt_err e = label_group(cfg, directory);
  tt_label_task_report_local(directory, e);
  free(directory);
  return e;
}
