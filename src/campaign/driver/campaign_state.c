/* campaign_state.c — see driver_internal.h: the state of a campaign on disk and in memory. */
#include "core/base/clock.h"
#include "src/campaign/driver/driver_internal.h"

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

/* *found: a file with the hash `inputs`, with another one, or none. */
typedef enum mark { MARK_none, MARK_same, MARK_other } mark;
static tt_err check_mark(const char *path, const char *inputs, mark *found)
{
  char current[32] = "";
  int exists = 0;
  *found = MARK_none;
  TT_TRY(tt_file_exists(path, &exists));
  if (!exists) return TT_OK;
  TT_TRY(tt_file_read_text(path, current, sizeof current));
  *found = strcmp(current, inputs) ? MARK_other : MARK_same;
  return TT_OK;
}

static tt_err rename_if_free_local(const char *src, const char *dst)
{
  int has_from = 0, has_to = 0;
  TT_TRY(tt_file_exists(src, &has_from));
  TT_TRY(tt_file_exists(dst, &has_to));
  if (!has_from || has_to || !rename(src, dst)) return TT_OK;
  return TT_FAIL(IO, "%s: cannot be renamed to %s: %s", src, dst, strerror(errno));
}

/* With label.mode slurm the labels move too: the jobs have the path of the directory. */
tt_err tt_campaign_prepare_directory_local(const tt_campaign *k, int labels, uint64_t inputs)
{
  char path[TT_PATH_MAX], file[TT_PATH_MAX], label[TT_PATH_MAX], aside[TT_PATH_MAX + 8], text[32];
  int slurm = k->cfg->label_mode == TT_LABEL_slurm;
  mark found;
  tt_round_file_path(k, labels ? "label" : "", path);
  tt_round_file_path(k, labels ? "label/queries" : "inputs", file);
  tt_round_file_path(k, "label", label);
  snprintf(aside, sizeof aside, "%s.label", path);
  snprintf(text, sizeof text, "%016" PRIx64 "\n", inputs);
  TT_TRY(check_mark(file, text, &found));
  if (found == MARK_same) return TT_OK;
  TT_TRY(tt_owner_check_local(path));
  if (found == MARK_other) {
    const tt_label_request q = tt_campaign_label_request(k, label);
    TT_TRY(tt_oracle_record_labels_local(&q, label));
    if (!labels && !slurm) TT_TRY(rename_if_free_local(label, aside));
    if (!labels || slurm) TT_TRY(tt_backup(path, ""));
  }
  TT_TRY(tt_directory_create(path));
  if (!labels) TT_TRY(rename_if_free_local(aside, label));
  return tt_file_write_atomic_local(file, text);
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
  tt_history_names names = {&k->data->input, &k->label, (const char *const *)k->column,
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

static int64_t failed_queries(const tt_campaign *k)
{
  int64_t failed = 0;
  for (int64_t i = 0; i < k->h->queries; i++)
    failed += k->h->query[i].label_status != TT_LABEL_STATUS_labeled;
  return failed;
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
                            .points = k->points,
                            .workers = k->workers,
                            .answered = k->h->queries,
                            .answered_failed = failed_queries(k),
                            .trained = k->h->rounds ? tt_current_round(k)->labels : 0,
                            .pool = k->pool,
                            .input = &k->data->input,
                            .target = &k->label,
                            .net = &k->data->scaler.net,
                            .deadline = tt_time_limit_deadline_local(&k->time_limit)};
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
