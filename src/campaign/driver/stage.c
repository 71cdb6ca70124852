/* stage.c — see stage.h. */
#include "src/campaign/driver/stage.h"

#include "core/base/log.h"
#include "src/host/watchdog.h"

#include <inttypes.h>

static tt_err outputs_local(const tt_campaign *k, const tt_work *w, uint64_t *hash)
{
  char path[TT_PATH_ROOM];
  *hash = 0;
  for (int i = 0; i < 2 && w->file[i]; i++) {
    uint64_t own = 0;
    tt_round_file(k, w->file[i], path);
    TT_TRY(tt_file_hash_local(path, &own));
    *hash = tt_hash_u64(*hash, own);
  }
  return TT_OK;
}

static int is_done_local(const tt_campaign *k, const tt_work *w, double *seconds)
{
  const tt_entry *e = tt_journal_find(k->journal, k->number, k->stage);
  uint64_t outputs = 0;
  if (!e || e->inputs != w->inputs || outputs_local(k, w, &outputs)) return 0;
  *seconds = e->seconds;
  return outputs == e->outputs;
}

/* Collective. Rank 0 knows; *seconds is what the stage took. */
static int is_done(const tt_campaign *k, const tt_work *w, double *seconds)
{
  int64_t done = tt_comm_is_root(k->c) && is_done_local(k, w, seconds);
  tt_bcast(k->c, &done, sizeof done);
  tt_bcast(k->c, seconds, sizeof *seconds);
  return (int)done;
}

static tt_err note_local(tt_campaign *k, const tt_work *w, double seconds)
{
  tt_entry e = {.round = k->number, .stage = k->stage, .inputs = w->inputs, .seconds = seconds};
  if (!tt_comm_is_root(k->c)) return TT_OK;
  TT_TRY(tt_ckpt_owner_local(k->cfg->campaign_directory, k->id.incarnation));
  TT_TRY(outputs_local(k, w, &e.outputs));
  return tt_journal_done_local(k->journal, &e);
}

tt_err tt_stage_run(tt_campaign *k, tt_stage which, const tt_work *w, tt_do_stage *does,
                    double *seconds)
{
  k->stage = which;
  *seconds = 0.0;
  tt_watchdog_alive_local(tt_stage_name[which]);
  tt_campaign_tell_local(k, "running", tt_stage_name[which], "", -1);
  if (is_done(k, w, seconds)) {
    tt_log_once(TT_LOG_DEBUG, "round %" PRId64 ": %s is done already", k->number,
                tt_stage_name[which]);
    return TT_OK;
  }
  double start = tt_clock_local();
  tt_err e = does(k, w);
  *seconds = tt_clock_local() - start;
  tt_bcast(k->c, seconds, sizeof *seconds);
  return e ? e : tt_agree(k->c, note_local(k, w, *seconds));
}
