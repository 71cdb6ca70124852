/* round.c — see driver_internal.h: one round, stage by stage. */
#include "core/base/mem.h"
#include "src/campaign/driver/stage.h"

tt_err tt_round_run(tt_campaign *k)
{
  tt_err e = tt_stage_train(k);
  if (!e) e = tt_stage_score(k);
  if (!e) e = tt_stage_choose(k);
  if (!e) e = tt_stage_ask(k);
  return e ? e : tt_stage_merge(k);
}

void tt_round_forget(tt_campaign *k)
{
  tt_committees_destroy(&k->model);
  for (int64_t i = 0; k->column && i < k->columns; i++)
    tt_free(k->column[i]);
  tt_free(k->column);
  k->columns = 0;
  tt_taken_free(&k->taken);
  tt_picks_destroy(&k->picks);
  tt_answers_destroy(&k->answers);
  if (k->cfg && !*k->cfg->pool_file) tt_pool_close_local(&k->pool);
}
