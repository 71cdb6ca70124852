/* trainer_options.c — what a trainer can train; see trainer_batch.h. */
#include "src/api/trainer_batch.h"

#include <string.h>

/* Options that need more than rows of the caller, one row each: condition, message. */
#define REFUSED(X)                                                                                 \
  X(t->cohorts.count != 1,                                                                         \
    "the ensembles have different networks, losses or batch sizes: create a trainer for each")     \
  X(c->resample != TT_RESAMPLE_none,                                                               \
    "train.resample: the caller gives each member its rows; use none, and an index in the batch")  \
  X(t->cfg->selections > 0, "ensembles[].rows: the caller gives each member its rows")             \
  X(t->cfg->top_by.count > 0, "by needs a data set")                                               \
  X(t->cfg->data_targets_pca > 0, "data.targets_pca needs a data set")                             \
  X(*t->cfg->data_sigma, "data.sigma needs a data set")                                            \
  X(t->cfg->combine_method != TT_COMBINE_mean,                                                     \
    "combine weighs members by validation rows, which a trainer does not have")                    \
  X(t->cfg->calibration_conformal.count || t->cfg->calibration_recalibrate == TT_RECALIBRATE_all,  \
    "calibration needs validation rows, which a trainer does not have")                            \
  X(strcmp(t->cfg->data_missing, "error") != 0 || strcmp(t->cfg->data_categories, "none") != 0,    \
    "data.missing and data.categories need a data set: give amounts, all of them")                 \
  X(c->model.front.layers && c->model.front.layer[0].encodes,                                      \
    "model.front: ple needs the training rows of a data set")                                      \
  X(*t->cfg->train_init_from, "train.init_from: use tutti_trainer_set_weights")                    \
  X(t->cfg->run_stages > 1, "run.stages: a trainer is for one process")                            \
  X(t->cfg->campaign, "a trainer has no campaign: the program asks and tells")                     \
  X(!t->epoch_rows && tt_cohort_lr_varies(c),                                                      \
    "train.schedule and train.warmup count epochs: set epoch_rows, or use schedule: constant and " \
    "tutti_trainer_set_learning_rate")                                                             \
  X(!t->epoch_rows && c->average == TT_AVERAGE_swa,                                                \
    "train.average: swa averages at the ends of epochs: set epoch_rows, or use ema")               \
  X(!t->epoch_rows && waits_to_average(c),                                                         \
    "train.average_start counts epochs: set epoch_rows, or average from the start")

static int waits_to_average(const tt_cohort *c)
{
  for (int64_t i = 0; i < c->members; i++)
    if (c->average != TT_AVERAGE_none && c->member[i].hyper.average_start > 0) return 1;
  return 0;
}

tt_err tt_trainer_check_options(const tutti_trainer *t)
{
  const tt_cohort *c = t->cohorts.at[0];
#define X(condition, message)                                                                      \
  if (condition) return TT_FAIL(CONFIG, "%s", message);
  REFUSED(X)
#undef X
  return TT_OK;
}
