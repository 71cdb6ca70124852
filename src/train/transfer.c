/* transfer.c — see transfer.h. */
#include "src/train/transfer.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "src/job/initial_model.h"

#include <inttypes.h>
#include <stdio.h>

/* The rows behind those of the group of all rows. Targets have no common units: the networks
 * predict normalized ones. */
static tt_err take_rows(const tt_dataset *all, tt_dataset *d)
{
  const tt_by_groups *g = all->groups;
  int64_t first = g->pooled ? g->rows[0].count : 0;
  *d = *all;
  d->rows -= first;
  d->x += first * d->inputs;
  d->y += first * d->targets;
  d->split += first;
  d->origin += first;
  d->unit = NULL;
  d->groups = NULL;
  d->ids = (tt_row_ids){0};
  TT_TRY(tt_scaler_copy(&g->scaler[g->count - 1], &d->scaler));
  for (int64_t t = 0; t < d->targets; t++) {
    d->scaler.y_mean[t] = 0.0;
    d->scaler.y_scale[t] = d->scaler.y_lambda[t] = 1.0;
    d->scaler.y_normalize[t] = TT_NORMALIZE_none;
  }
  return TT_OK;
}

/* Options that are for the groups are left out. */
static tt_err set_options(const tt_job *job, tt_transfer *t)
{
  tt_config *cfg = t->job->cfg;
  t->ensemble = job->cfg->ensemble[0];
  t->ensemble.train_freeze = 0;
  t->ensemble.train_layer_rates.count = 0;
  cfg->ensemble = &t->ensemble;
  cfg->top_by.count = 0;
  cfg->top_by_transfer = TT_BY_TRANSFER_none;
  cfg->run_baselines = 0;
  tt_free(t->job->resolved);
  return tt_config_to_yaml(cfg, &t->job->resolved);
}

tt_err tt_transfer_open_local(const tt_job *job, tt_transfer *t)
{
  const char *directory = job->cfg->run_directory;
  int n = snprintf(t->directory, sizeof t->directory, "%s/transfer", directory);
  if (n >= (int)sizeof t->directory)
    return TT_FAIL(CANTCREAT, "%s: the path is too long", directory);
  TT_TRY(tt_job_derive_local(job, t->directory, job->cfg->run_seed, &t->job));
  TT_TRY(set_options(job, t));
  TT_TRY(take_rows(job->data, &t->data));
  t->job->data = &t->data;
  tt_log_root(TT_LOG_INFO,
              "by_transfer: one ensemble learns from the %" PRId64 " rows of all groups",
              t->data.rows);
  return TT_OK;
}

void tt_transfer_close(tt_transfer *t)
{
  tt_scaler_free(&t->data.scaler);
  if (t->job) t->job->data = NULL;
  tt_job_close(&t->job);
}

tt_err tt_transfer_apply(tt_comm *c, const tt_transfer *t, tt_job *job)
{
  char *path = NULL;
  tt_err e = tt_agree(c, tt_text_format(&path, "%s/model.h5", t->directory));
  if (!e) {
    tt_free(job->cfg->train_init_from);
    job->cfg->train_init_from = path;
    e = tt_initial_model_apply(c, job->cfg, job->data, &job->cohorts, &job->initial);
  }
  return e;
}
