/* train_stage.c — see driver_internal.h: train the campaign's job on the present labels. */
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "io/model/model_file.h"
#include "io/results/axis_labels.h"
#include "src/campaign/driver/driver_internal.h"
#include "src/host/watchdog.h"
#include "src/train/trainer.h"

#include <string.h>

/* Without a warm start each round has its own seed, so that its members are independent of earlier
 * rounds. With a warm start the seed stays: members keep their input subsets, folds and noise. */
static int64_t round_seed(const tt_campaign *k)
{
  if (k->cfg->campaign_warm_start != TT_WARM_START_none) return k->cfg->run_seed;
  uint64_t seed = (uint64_t)k->cfg->run_seed + (uint64_t)(k->round_number - 1) * 1000003u;
  return (int64_t)(seed & (uint64_t)INT64_MAX);
}

/* Whether the members of this round begin with the weights of the round before. */
static int is_warm(const tt_campaign *k)
{
  return k->cfg->campaign_warm_start == TT_WARM_START_params && k->round_number > 1;
}

static uint64_t hash_train_inputs(const tt_campaign *k)
{
  uint64_t warm = is_warm(k) ? k->h->round[k->round_number - 2].model : 0;
  uint64_t h = tt_hash_u64(k->data->hash, tt_config_result_hash(k->cfg));
  h = tt_hash_u64(h, tt_config_section_hash(k->cfg, "combine"));
  h = tt_hash_u64(h, tt_config_section_hash(k->cfg, "calibration"));
  h = tt_hash_u64(h, tt_campaign_hash_labels(k));
  return tt_hash_u64(tt_hash_u64(h, (uint64_t)round_seed(k)), warm);
}

/* Seconds left, as an option of training; 0 = no limit. */
static double seconds_left(const tt_campaign *k)
{
  double deadline = tt_time_limit_deadline_local(&k->time_limit),
         left = deadline - tt_monotonic_seconds();
  if (deadline <= 0.0) return 0.0;
  return left > 0.01 ? left : 0.01;
}

/* The campaign's job with the data, directory and seed of this round. */
static tt_err run_training(tt_campaign *k)
{
  char path[TT_PATH_MAX], earlier[TT_PATH_MAX];
  tt_train_options o = {.any_device = k->o->any_device, .quiet = 1, .stop_directory = k->directory};
  tt_round_file_path(k, "", path);
  tt_err e = tt_agree(k->c, tt_job_derive_local(k->job, path, round_seed(k), &o.prepared));
  if (!e && is_warm(k)) {
    tt_round_path(k->directory, k->round_number - 1, "model.h5", earlier);
    o.prepared->cfg->train_init_from = earlier;
  }
  if (!e)
    e = tt_round_data_create(k->c, o.prepared->cfg, k->data, k->x, k->y, k->sigma, k->h,
                             &o.prepared->data);
  o.max_time = seconds_left(k);
  if (!e) e = tt_train(k->c, &o);
  tt_job_close(&o.prepared);
  tt_err watched = tt_watchdog_start_local(k->directory, k->run_id.incarnation, tt_comm_rank(k->c),
                                           k->cfg->run_watchdog);
  return e ? e : tt_agree(k->c, watched);
}

static tt_err do_train(tt_campaign *k, const tt_stage_io *w)
{
  tt_err e = tt_comm_is_root(k->c) ? tt_campaign_prepare_directory_local(k, 0, w->inputs) : TT_OK;
  e = tt_agree(k->c, e);
  return e ? e : run_training(k);
}

static tt_err name_columns_local(tt_campaign *k)
{
  tt_axis_labels labels = {0};
  int64_t ensembles = 0;
  TT_TRY(tt_axis_labels_create(&k->model, &labels));
  for (int64_t i = 0; i < k->model.count; i++) ensembles += k->model.at[i]->ensembles;
  k->columns = labels.columns;
  tt_err e = TT_ALLOC(k->column, k->columns);
  for (int64_t c = 0; !e && c < k->columns; c++)
    e = ensembles > 1 ? tt_text_format(&k->column[c], "%s %s", labels.ensemble[c], labels.label[c])
                      : tt_text_set(&k->column[c], labels.label[c]);
  tt_axis_labels_free(&labels);
  return e;
}

/* All rounds of a history must have the same columns. */
static tt_err check_columns_local(const tt_campaign *k)
{
  char path[TT_PATH_MAX];
  tt_history_metadata previous;
  if (k->h->rounds == 0) return TT_OK;
  tt_path_join(k->directory, "campaign.h5", path);
  TT_TRY(tt_history_read_metadata_local(path, &previous));
  int same = previous.columns == k->columns;
  for (int64_t i = 0; same && i < k->columns; i++) same = !strcmp(previous.column[i], k->column[i]);
  tt_history_metadata_free(&previous);
  if (same) return TT_OK;
  return TT_FAIL(DATA,
                 "%s has other predicted columns than the present ensembles: members may be added "
                 "to a campaign, but ensembles and targets may not change (a label that was told "
                 "and is a new class changes them: tutti tell --replace); restore them, or choose "
                 "another campaign.directory",
                 path);
}

/* Read the trained model, and append a round with its metrics to the history. */
static tt_err load_model(tt_campaign *k, double seconds)
{
  char path[TT_PATH_MAX];
  tt_round *round = NULL;
  tt_round_file_path(k, "model.h5", path);
  tt_err e = tt_model_read(k->c, path, &k->model);
  if (e) return e;
  e = name_columns_local(k);
  if (!e && tt_comm_is_root(k->c)) e = check_columns_local(k);
  if (!e) e = tt_history_add_round(k->h, k->columns, &round);
  e = tt_agree(k->c, e);
  if (!e) e = tt_round_set_metrics(k, round);
  if (!e) round->seconds[TT_STAGE_train] = seconds;
  for (int64_t i = 0; !e && i < k->model.count; i++)
    round->model =
        tt_hash_bytes(round->model, k->model.at[i]->w,
                      (size_t)tt_trained_ensemble_parameters(k->model.at[i]) * sizeof(float));
  return e;
}

tt_err tt_run_train_stage(tt_campaign *k)
{
  double seconds;
  tt_stage_io w = {hash_train_inputs(k), {"model.h5", "results.h5"}};
  tt_err e = tt_run_stage(k, TT_STAGE_train, &w, do_train, &seconds);
  return e ? e : load_model(k, seconds);
}
