/* stage.c — see driver_internal.h. */
#include "core/base/clock.h"
#include "src/campaign/driver/driver_internal.h"

#include "core/base/log.h"
#include "io/files/owner.h"
#include "src/host/watchdog.h"

#include <inttypes.h>

static tt_err hash_outputs_local(const tt_campaign *k, const tt_stage_io *w, uint64_t *hash)
{
  char path[TT_PATH_MAX];
  *hash = 0;
  for (int i = 0; i < 2 && w->file[i]; i++) {
    uint64_t file_hash = 0;
    tt_round_file_path(k, w->file[i], path);
    TT_TRY(tt_file_hash_local(path, &file_hash));
    *hash = tt_hash_u64(*hash, file_hash);
  }
  return TT_OK;
}

static tt_err outputs_exist_local(const tt_campaign *k, const tt_stage_io *w, int *exist)
{
  char path[TT_PATH_MAX];
  *exist = 1;
  for (int i = 0; i < 2 && w->file[i] && *exist; i++) {
    tt_round_file_path(k, w->file[i], path);
    TT_TRY(tt_file_exists(path, exist));
  }
  return TT_OK;
}

static tt_err is_done_local(const tt_campaign *k, const tt_stage_io *w, double *seconds, int *done)
{
  const tt_journal_entry *e = tt_journal_find(k->journal, k->round_number, k->stage);
  uint64_t outputs = 0;
  *done = 0;
  if (!e || e->inputs != w->inputs) return TT_OK;
  TT_TRY(outputs_exist_local(k, w, done));
  if (!*done) return TT_OK;
  TT_TRY(hash_outputs_local(k, w, &outputs));
  *seconds = e->seconds;
  *done = outputs == e->outputs;
  return TT_OK;
}

/* Collective. Rank 0 checks the journal; *seconds: wall time of the finished stage. */
static tt_err is_done(const tt_campaign *k, const tt_stage_io *w, double *seconds, int *done)
{
  tt_err e = tt_agree(k->c, tt_comm_is_root(k->c) ? is_done_local(k, w, seconds, done) : TT_OK);
  if (e) return e;
  tt_bcast(k->c, done, sizeof *done);
  tt_bcast(k->c, seconds, sizeof *seconds);
  return TT_OK;
}

static tt_err write_journal_local(tt_campaign *k, const tt_stage_io *w, double seconds)
{
  tt_journal_entry e = {
      .round = k->round_number, .stage = k->stage, .inputs = w->inputs, .seconds = seconds};
  if (!tt_comm_is_root(k->c)) return TT_OK;
  TT_TRY(tt_owner_check_local(k->directory));
  TT_TRY(hash_outputs_local(k, w, &e.outputs));
  return tt_journal_append_done_local(k->journal, &e);
}

tt_err tt_run_stage(tt_campaign *k, tt_stage stage_id, const tt_stage_io *w,
                    tt_stage_function *function, double *seconds)
{
  int done = 0;
  k->stage = stage_id;
  *seconds = 0.0;
  tt_watchdog_heartbeat_local(tt_stage_name[stage_id]);
  tt_campaign_write_status_local(k, "running", tt_stage_name[stage_id], "", -1);
  tt_err e = is_done(k, w, seconds, &done);
  if (e) return e;
  if (done) {
    tt_log_root(TT_LOG_DEBUG, "round %" PRId64 ": stage %s is already done", k->round_number,
                tt_stage_name[stage_id]);
    return TT_OK;
  }
  double start = tt_monotonic_seconds();
  e = function(k, w);
  *seconds = tt_monotonic_seconds() - start;
  tt_bcast(k->c, seconds, sizeof *seconds);
  return e ? e : tt_agree(k->c, write_journal_local(k, w, *seconds));
}
