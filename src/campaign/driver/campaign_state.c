/* campaign_state.c — see driver_internal.h: the state of a campaign on disk and in memory. */
#include "core/base/clock.h"
#include "src/campaign/driver/driver_internal.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/files/owner.h"
#include "src/host/status_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void tt_round_file_path(const tt_campaign *k, const char *name, char path[TT_PATH_MAX])
{
  tt_round_path(k->directory, k->round_number, name, path);
}

tt_round *tt_current_round(const tt_campaign *k) { return &k->h->round[k->h->rounds - 1]; }

void tt_campaign_write_status_local(tt_campaign *k, const char *state, const char *reason,
                                    const char *stop, int exit_code)
{
  if (!k->claimed || !tt_comm_is_root(k->c)) return;
  int64_t members = 0;
  for (int64_t i = 0; i < k->model.count; i++) members += k->model.at[i]->members;
  tt_run_status s = {.state = state,
                     .reason = reason,
                     .stop = stop,
                     .incarnation = k->run_id.incarnation,
                     .exit_code = exit_code,
                     .generation = TT_STAGE_COUNT * (k->round_number - 1) + (int64_t)k->stage,
                     .resumed = k->resumed,
                     .members = members,
                     .eta = -1.0,
                     .seconds = tt_monotonic_seconds() - k->started};
  tt_status_file_report_local(k->directory, &s);
}

tt_err tt_mark_check_local(const char *mark, uint64_t inputs, tt_mark *out)
{
  char current[32] = "", wanted[32];
  int exists = 0;
  *out = TT_MARK_none;
  TT_TRY(tt_file_exists(mark, &exists));
  if (!exists) return TT_OK;
  TT_TRY(tt_file_read_text(mark, current, sizeof current));
  snprintf(wanted, sizeof wanted, "%016" PRIx64 "\n", inputs);
  *out = strcmp(current, wanted) ? TT_MARK_other : TT_MARK_same;
  return TT_OK;
}

tt_err tt_mark_write_local(const char *mark, uint64_t inputs)
{
  char text[32];
  snprintf(text, sizeof text, "%016" PRIx64 "\n", inputs);
  return tt_file_write_atomic_local(mark, text);
}

tt_stop_settings tt_campaign_stop_settings(const tt_config *cfg)
{
  return (tt_stop_settings){.rounds = cfg->stop_rounds,
                            .labels = cfg->stop_labels,
                            .wall_time = cfg->stop_wall_time,
                            .accurate = cfg->stop_accurate_fraction,
                            .accurate_rounds = cfg->stop_accurate_rounds,
                            .plateau_rounds = cfg->stop_plateau_rounds,
                            .plateau_delta = cfg->stop_plateau_delta,
                            .change = cfg->stop_change,
                            .change_rounds = cfg->stop_change_rounds};
}

tt_provenance tt_campaign_provenance(const tt_campaign *k, char model[TT_PATH_MAX])
{
  tt_provenance provenance = tt_job_provenance(k->job, k->job->ops->name, NULL, tt_comm_ranks(k->c),
                                               tt_monotonic_seconds() - k->started);
  provenance.data_hash = k->data->hash;
  provenance.model_hash = k->model.hash;
  tt_round_file_path(k, "model.h5", model);
  if (provenance.model_hash) provenance.model = model;
  return provenance;
}

tt_err tt_campaign_write_history(const tt_campaign *k, const char *path, const tt_history *h)
{
  char model[TT_PATH_MAX];
  tt_history_names names = {&k->data->input, &k->data->target, (const char *const *)k->column,
                            &k->data->scaler.net};
  const tt_provenance provenance = tt_campaign_provenance(k, model);
  return tt_history_write(k->c, path, h, &names, &provenance);
}

tt_err tt_campaign_commit(tt_campaign *k)
{
  char path[TT_PATH_MAX];
  tt_path_join(k->directory, "campaign.h5", path);
  return tt_campaign_write_history(k, path, k->h);
}

/* DIR/model.h5 is a link to the model of the last committed round. */
static tt_err link_model_local(const tt_campaign *k)
{
  char path[TT_PATH_MAX], linked[64], temporary[TT_PATH_MAX];
  snprintf(linked, sizeof linked, "round-%04" PRId64 "/model.h5", k->round_number);
  tt_path_join(k->directory, "model.h5", path);
  TT_TRY(tt_file_temporary_name_local(path, temporary));
  tt_err e = symlink(linked, temporary)
                 ? TT_FAIL(IO, "%s: cannot create a link to %s: %s", path, linked, strerror(errno))
                 : tt_file_publish_local(temporary, path);
  if (e) unlink(temporary);
  return e;
}

tt_err tt_campaign_prune_local(const tt_campaign *k)
{
  if (!tt_comm_is_root(k->c) || k->round_number < 1) return TT_OK;
  TT_TRY(link_model_local(k));
  int64_t keep = k->cfg->campaign_keep + (k->h->ended >= 0); /* reopening needs one more round */
  int64_t *round = NULL, count = 0;
  TT_TRY(tt_directory_list_numbers(k->directory, "round-", 4, "", &round, &count));
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < count && round[i] <= k->round_number - keep; i++) {
    e = tt_owner_check_local(k->directory);
    if (!e) e = tt_round_remove_local(k->directory, round[i]);
  }
  tt_free(round);
  return e;
}

tt_label_request tt_campaign_label_request(const tt_campaign *k, const char *directory)
{
  return (tt_label_request){.cfg = k->cfg,
                            .file = k->o->job.file,
                            .set = k->o->job.set,
                            .nset = k->o->job.nset,
                            .campaign = k->directory,
                            .incarnation = k->run_id.incarnation,
                            .directory = directory,
                            .round = k->round_number,
                            .queries = k->queries,
                            .pool = k->pool,
                            .input = &k->data->input,
                            .target = &k->data->target,
                            .net = &k->data->scaler.net,
                            .deadline = tt_time_limit_deadline_local(&k->time_limit)};
}

tt_err tt_campaign_keep_labels_local(const tt_campaign *k, int64_t first, int64_t groups)
{
  char label[TT_PATH_MAX];
  tt_round_path(k->directory, groups, "label", label);
  const tt_label_request q = tt_campaign_label_request(k, label);
  return tt_oracle_keep_labels_local(&q, first ? k->h : NULL, first, label);
}

void tt_round_free(tt_campaign *k)
{
  tt_trained_ensembles_destroy(&k->model);
  for (int64_t i = 0; k->column && i < k->columns; i++) tt_free(k->column[i]);
  tt_free(k->column);
  k->columns = 0;
  tt_used_rows_free(&k->used_rows);
  tt_known_inputs_destroy(&k->known);
  tt_queries_destroy(&k->queries);
  tt_query_labels_destroy(&k->query_labels);
  if (k->cfg && !*k->cfg->pool_file) tt_pool_close_local(&k->pool);
}
