/* campaign.c — see campaign.h. */
#include "core/base/clock.h"
#include "src/campaign/driver/driver_internal.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "src/host/status_file.h"
#include "src/host/stop_request.h"
#include "src/host/watchdog.h"

#include <inttypes.h>
#include <string.h>

/* Rules that depend on scores are not evaluated again if section score or select changes. */
static void log_stop_rule(const tt_campaign *k)
{
  int rule = k->h->ended;
  tt_log_root(TT_LOG_INFO, "the campaign has ended after %" PRId64 " round%s: %s (%s)",
              k->h->rounds, k->h->rounds == 1 ? "" : "s", tt_stop_rule_name[rule],
              tt_history_end_cause(k->h));
  int by_window = rule == TT_STOP_RULE_candidates && tt_current_round(k)->pool > 0;
  if (by_window || rule == TT_STOP_RULE_accurate)
    tt_log_root(TT_LOG_INFO,
                "to continue after a change of section score or select, run with --from %" PRId64
                ":score",
                k->h->rounds);
}

static tt_err run_round(tt_campaign *k)
{
  tt_err e = tt_run_train_stage(k);
  if (!e) e = tt_run_score_stage(k);
  if (!e) e = tt_run_select_stage(k);
  if (!e) e = tt_run_label_stage(k);
  return e ? e : tt_run_merge_stage(k);
}

static tt_err begin_workers(tt_campaign *k)
{
  int needed =
      tt_campaign_is_asynchronous(k) && k->cfg->label_mode != TT_LABEL_ask && !k->o->replay;
  if (!needed || k->h->ended >= 0) return TT_OK;
  k->round_number = k->h->rounds + 1;
  const tt_label_request q = tt_campaign_label_request(k, NULL);
  return tt_agree(k->c, tt_comm_is_root(k->c) ? tt_workers_begin_local(&q, &k->workers) : TT_OK);
}

static tt_err rounds(tt_campaign *k)
{
  int64_t done = 0;
  tt_err e = begin_workers(k);
  while (!e && k->h->ended < 0 && (k->o->rounds == 0 || done < k->o->rounds)) {
    k->round_number = k->h->rounds + 1;
    e = tt_campaign_take_labels(k);
    if (!e) e = run_round(k);
    tt_round_free(k);
    done++;
  }
  if (!e && k->h->ended >= 0) log_stop_rule(k);
  return e;
}

/* Collective. Training may stop earlier before the time limit than the campaign does. */
static const char *stop_reason(tt_campaign *k)
{
  tt_stop_reason stop_cause =
      tt_stop_agreed(k->c, tt_time_limit_deadline_local(&k->time_limit), k->directory);
  if (stop_cause) return tt_stop_name(stop_cause);
  return k->stage == TT_STAGE_label ? "oracle" : tt_stop_name(TT_STOP_time);
}

static void write_final_status(tt_campaign *k, tt_err e)
{
  const char *state = !e ? "done" : e == TT_E_STOPPED ? "stopped" : "failed";
  const char *stop_cause = e == TT_E_STOPPED ? stop_reason(k) : "";
  if (!e && k->h->ended < 0) state = "stopped"; /* stopped by option rounds */
  tt_campaign_write_status_local(k, state, e ? tt_err_last() : "", stop_cause, tt_err_exit_code(e));
  int obeyed = !e || !strcmp(stop_cause, tt_stop_name(TT_STOP_file));
  if (!k->claimed || !tt_comm_is_root(k->c)) return;
  if (obeyed) tt_stop_remove_file_local(k->directory);
  tt_ckpt_clean_up_local(k->directory);
}

static void cleanup(tt_campaign *k)
{
  tt_round_free(k);
  tt_pool_close_local(&k->pool);
  tt_dataset_destroy(&k->data);
  tt_free_all(&k->x, &k->y, &k->sigma, &k->best);
  tt_columns_free(&k->label);
  tt_history_destroy(&k->h);
  tt_journal_close_local(&k->journal);
  tt_points_close_local(&k->points);
  tt_job_close(&k->job);
}

tt_err tt_campaign_run(tt_comm *c, const tt_campaign_options *o)
{
  tt_campaign k = {.c = c, .o = o, .started = tt_monotonic_seconds(), .round_number = 1};
  tt_err e = tt_campaign_open(&k);
  if (!e) k.resumed = TT_STAGE_COUNT * k.h->rounds;
  if (!e) e = rounds(&k);
  tt_workers_end_local(&k.workers, !e && k.h->ended >= 0);
  tt_inbox_end_local(&k.inbox);
  if (k.claimed) e = tt_ckpt_explain(c, k.directory, e);
  if (k.h) write_final_status(&k, e);
  tt_watchdog_stop_local();
  if (k.claimed) tt_ckpt_release_local(c, k.directory);
  cleanup(&k);
  return e;
}
