/* command_mode.c — see oracle_internal.h: label.mode command, so many calls at a time; and the
 * calls of one group alone. */
#include "src/campaign/label/oracle_internal.h"

#include "core/base/mem.h"
#include "src/campaign/state/file_names.h"
#include "io/campaign/oracle_files.h"
#include "io/checkpoint/checkpoint.h"
#include "src/host/stop_request.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double most_seconds = 0.5; /* that a poll begins calls */

static tt_err start(tt_asking *a)
{
  tt_call *call = NULL;
  TT_TRY(TT_ALLOC(call, a->groups));
  for (int64_t i = 0; i < a->groups; i++)
    call[i] = (tt_call){.cfg = a->q->cfg, .target = a->target, .group = &a->group[i]};
  a->mine = call;
  return TT_OK;
}

static void end(tt_asking *a)
{
  tt_call *call = a->mine;
  for (int64_t i = 0; call && i < a->groups; i++)
    tt_call_end(&call[i]);
  tt_free(a->mine);
}

/* Those that run; *running: how many are left. */
static tt_err poll_running(tt_asking *a, tt_call *call, int64_t *running)
{
  *running = 0;
  for (int64_t i = 0; i < a->groups; i++) {
    if (!tt_call_runs(&call[i])) continue;
    if (a->stopping && call[i].held) continue;
    TT_TRY(tt_call_poll(&call[i]));
    a->stirred |= !tt_call_runs(&call[i]);
    *running += tt_call_runs(&call[i]);
  }
  return TT_OK;
}

static tt_err start_ready(tt_asking *a, tt_call *call, int64_t *running)
{
  double until = tt_clock_local() + most_seconds;
  for (int64_t i = 0; i < a->groups && *running < a->q->cfg->label_concurrency; i++) {
    if (!tt_call_is_ready(&call[i])) continue;
    TT_TRY(tt_ckpt_owner_local(a->q->campaign, a->q->incarnation));
    TT_TRY(tt_call_start(&call[i]));
    a->stirred = 1;
    *running += tt_call_runs(&call[i]);
    if (tt_clock_local() > until) break;
  }
  return TT_OK;
}

static tt_err out_of_patience(const tt_config *cfg, const char *directory)
{
  return TT_FAIL(STOPPED,
                 "%s: the oracle has said later (exit 75) for label.patience (%g s); what is "
                 "labelled is kept, run again to go on",
                 directory, cfg->label_patience);
}

static tt_err poll_all(tt_asking *a)
{
  tt_call *call = a->mine;
  int64_t running = 0, waiting = 0, given_up = 0;
  TT_TRY(poll_running(a, call, &running));
  if (!a->stopping) TT_TRY(start_ready(a, call, &running));
  for (int64_t i = 0; i < a->groups; i++) {
    waiting += a->group[i].state == TT_GROUP_waits;
    given_up += a->group[i].state == TT_GROUP_waits && call[i].gave_up;
  }
  a->left = waiting;
  return waiting && given_up == waiting ? out_of_patience(a->q->cfg, a->q->directory) : TT_OK;
}

const tt_label_way tt_label_by_command = {start, poll_all, end};

/* ---- one group alone ---------------------------------------------------------------------------
 */

static tt_err call_until_done(tt_call *c)
{
  int nap = 0; /* ms */
  while (c->group->state == TT_GROUP_waits) {
    int ran = tt_call_runs(c);
    TT_TRY(tt_call_poll(c));
    if (tt_call_is_ready(c)) TT_TRY(tt_call_start(c));
    if (c->gave_up) return out_of_patience(c->cfg, c->group->directory);
    nap = ran != tt_call_runs(c) ? 10 : nap < 500 ? nap + 10 : 500;
    if (c->group->state == TT_GROUP_waits) poll(NULL, 0, nap);
  }
  return TT_OK;
}

/* The names of the targets lie beside the groups. */
static tt_err ask_group(const tt_config *cfg, const char *directory)
{
  char beside[TT_PATH_ROOM], header[TT_PATH_ROOM];
  tt_columns target = {0};
  tt_group group = {0};
  tt_file_directory_local(directory, beside);
  tt_campaign_path(beside, "header.csv", header);
  tt_err e = tt_header_read_local(header, &target);
  if (!e) e = tt_group_open(directory, &group);
  if (!e) {
    tt_call call = {.cfg = cfg, .target = &target, .group = &group};
    e = call_until_done(&call);
    tt_call_end(&call);
  }
  tt_group_free(&group);
  tt_columns_free(&target);
  return e;
}

tt_err tt_ask_group_local(const tt_config *cfg, const char *group)
{
  char *directory = realpath(group, NULL);
  if (!directory) return TT_FAIL(NOINPUT, "%s: %s", group, strerror(errno));
  tt_err e = ask_group(cfg, directory);
  tt_task_ended_local(directory, e);
  free(directory);
  return e;
}
