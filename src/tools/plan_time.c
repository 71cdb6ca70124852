/* plan_time.c — `tutti plan --measure`; see plan_internal.h. */
#include "src/tools/plan_internal.h"

#include "core/base/log.h"
#include "core/base/text.h"
#include "io/files/memory.h"
#include "src/train/trainer.h"

tt_err tt_plan_measure(const tt_job_options *o, const tt_config *cfg, int ranks,
                       tt_time_estimate *out)
{
  tt_log_level level = tt_log_get_settings().level;
  tt_memory_files files = {0};
  tt_comm *alone = NULL;
  tt_job *job = NULL;
  if (ranks > 1) return TT_FAIL(USAGE, "--measure is for one rank: leave --ranks out");
  if (tt_config_searches(cfg))
    return TT_FAIL(USAGE, "--measure: the time of a search depends on its trials; see search.time");
  TT_TRY(tt_comm_alone_local(&alone));
  tt_memory_use(&files);
  tt_log_set_level(TT_LOG_ERROR);
  tt_err e = tt_job_open(alone, o, &job);
  if (!e) e = tt_text_set(&job->cfg->run_directory, TT_MEMORY_ROOT "plan");
  if (!e)
    e = tt_train(alone,
                 &(tt_train_options){.prepared = job, .quiet = 1, .no_scores = 1, .estimate = out});
  tt_job_close(&job);
  tt_log_set_level(level);
  tt_memory_use(NULL);
  tt_memory_free(&files);
  tt_comm_end(&alone);
  return e;
}
