/* campaign.c — see campaign.h. The heart is rounds(). */
#include "src/campaign/driver/stage.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "src/host/status_file.h"
#include "src/host/stop_request.h"
#include "src/host/watchdog.h"

#include <inttypes.h>

/* Rules that look at scores do not see that section score or select has changed. */
static void say_ended(const tt_campaign *k)
{
  int rule = k->h->ended;
  tt_log_once(TT_LOG_INFO, "the campaign has ended after %" PRId64 " rounds: %s (%s)", k->h->rounds,
              tt_rule_name[rule], tt_rule_option[rule]);
  if (rule == TT_RULE_candidates || rule == TT_RULE_accurate)
    tt_log_once(TT_LOG_INFO,
                "with other options of score or select, --from %" PRId64 ":score goes on",
                k->h->rounds);
}

static tt_err run_round(tt_campaign *k)
{
  tt_err e = tt_stage_train(k);
  if (!e) e = tt_stage_score(k);
  if (!e) e = tt_stage_choose(k);
  if (!e) e = tt_stage_ask(k);
  return e ? e : tt_stage_merge(k);
}

static tt_err rounds(tt_campaign *k)
{
  int64_t done = 0;
  tt_err e = TT_OK;
  while (!e && k->h->ended < 0 && (k->o->rounds == 0 || done < k->o->rounds)) {
    k->number = k->h->rounds + 1;
    e = run_round(k);
    tt_round_forget(k);
    done++;
  }
  if (!e && k->h->ended >= 0) say_ended(k);
  return e;
}

/* Collective. A training may keep more time for its end than the campaign would. */
static const char *why_stopped(tt_campaign *k)
{
  tt_stop why =
      tt_stop_agreed(k->c, tt_limit_deadline_local(&k->limit), k->cfg->campaign_directory);
  if (why) return tt_stop_word(why);
  return k->stage == TT_STAGE_label ? "oracle" : tt_stop_word(TT_STOP_time);
}

static void say_end(tt_campaign *k, tt_err e)
{
  const char *state = !e ? "done" : e == TT_E_STOPPED ? "stopped" : "failed";
  const char *why = e == TT_E_STOPPED ? why_stopped(k) : "";
  if (!e && k->h->ended < 0) state = "stopped"; /* so many rounds were asked for, no more */
  tt_campaign_tell_local(k, state, e ? tt_err_last() : "", why, tt_err_exit_code(e));
}

static void cleanup(tt_campaign *k)
{
  tt_round_forget(k);
  tt_pool_close_local(&k->pool);
  tt_base_data_destroy(&k->base);
  tt_history_destroy(&k->h);
  tt_journal_close_local(&k->journal);
  tt_job_close(&k->job);
}

tt_err tt_campaign_run(tt_comm *c, const tt_campaign_options *o)
{
  tt_campaign k = {.c = c, .o = o, .started = tt_clock_local(), .number = 1};
  tt_stop_listen_local();
  tt_err e = tt_campaign_begin(&k);
  if (!e) k.resumed = TT_STAGE_COUNT * k.h->rounds;
  if (!e) e = rounds(&k);
  if (k.h) say_end(&k, e);
  tt_watchdog_stop_local();
  cleanup(&k);
  return e;
}
