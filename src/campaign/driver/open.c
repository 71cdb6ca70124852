/* open.c — see driver_internal.h: open a campaign from its file and directory: new, continued or
 * set back to an earlier stage (--from). */
#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/data/raw_data.h"
#include "io/files/owner.h"
#include "src/campaign/driver/driver_internal.h"
#include "src/campaign/pool/candidates.h"
#include "src/campaign/pool/score_pool.h"
#include "src/host/resources.h"
#include "src/host/stop_request.h"
#include "src/host/watchdog.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static tt_err open_job(tt_campaign *k)
{
  tt_err e = tt_job_open(k->c, &k->o->job, &k->job);
  if (e) return e;
  k->cfg = k->job->cfg;
  k->directory = k->cfg->campaign_directory;
  if (!k->cfg->campaign)
    e = TT_FAIL(CONFIG,
                "%s is a job, not a campaign: it has no section pool; train it with `tutti train`, "
                "or see docs/active-learning.md for the sections of a campaign",
                k->o->job.file);
  return tt_agree(k->c, e);
}

static tt_history_identity identity(const tt_campaign *k)
{
  return (tt_history_identity){.data = k->data->hash,
                               .pool = k->pool ? tt_pool_hash(k->pool)
                                               : tt_config_section_hash(k->cfg, "pool"),
                               .seed = (uint64_t)k->cfg->run_seed};
}

/* How the pool differs from that of round 1, as far as the history tells. */
static void describe_pool(const tt_campaign *k, char *text, size_t size)
{
  const char *file = k->cfg->pool_file;
  int64_t now = k->pool ? tt_pool_rows(k->pool) : 0;
  int64_t then = k->h->rounds > 0 ? k->h->round[0].pool_rows : now;
  if (!k->pool)
    snprintf(text, size, "; the options of section pool have changed");
  else if (now != then)
    snprintf(text, size, "; pool.file: %s has %" PRId64 " rows, but had %" PRId64, file, now, then);
  else
    snprintf(text, size, "; pool.file: %s has other values or columns", file);
}

static tt_err check_identity(const tt_campaign *k, const char *path)
{
  const tt_history_identity now = identity(k), then = k->h->identity;
  char data[2 * TT_PATH_MAX] = "", pool[2 * TT_PATH_MAX] = "", seed[128] = "";
  if (!memcmp(&now, &then, sizeof now)) return TT_OK;
  if (now.data != then.data)
    snprintf(data, sizeof data, "; %s or its split has changed", k->cfg->data_file);
  if (now.pool != then.pool) describe_pool(k, pool, sizeof pool);
  if (now.seed != then.seed)
    snprintf(seed, sizeof seed, "; run.seed is %" PRIu64 ", but was %" PRIu64, now.seed, then.seed);
  return TT_FAIL(DATA,
                 "%s belongs to another campaign%s%s%s; restore it, or choose another "
                 "campaign.directory",
                 path, data, pool, seed);
}

/* pool.file stays open for the whole campaign; generated candidates come with each round. */
static tt_err open_pool(tt_campaign *k)
{
  const tt_round_pool_settings o = {.cfg = k->cfg,
                                    .input = &k->data->input,
                                    .target = &k->data->target,
                                    .net = &k->data->scaler.net};
  return *k->cfg->pool_file ? tt_round_pool_open(k->c, &o, &k->pool) : TT_OK;
}

static tt_err check_columns(const char *path, const tt_columns *then, const tt_columns *now)
{
  char before[2048], after[2048];
  tt_columns_fit fit;
  int64_t *src = NULL;
  TT_TRY(TT_ALLOC(src, then->count));
  tt_err e = tt_columns_compare(then, now, src, &fit);
  tt_free(src);
  if (e || fit == TT_COLUMNS_FIT_same || fit == TT_COLUMNS_FIT_unnamed) return e;
  return TT_FAIL(DATA,
                 "%s has the columns %s, but data.file now names them %s: labels of earlier rounds "
                 "would not match; restore the names, or choose another campaign.directory",
                 path, tt_columns_list(then, before, sizeof before),
                 tt_columns_list(now, after, sizeof after));
}

/* The names of data.file must be those of the labels in campaign.h5. */
static tt_err check_names_local(const tt_campaign *k, const char *path)
{
  tt_history_metadata texts = {0};
  TT_TRY(tt_history_read_metadata_local(path, &texts));
  tt_err e = check_columns(path, &texts.input, &k->data->input);
  if (!e) e = check_columns(path, &texts.target, &k->label);
  tt_history_metadata_free(&texts);
  return e;
}

/* Read campaign.h5, or create an empty history. */
static tt_err read_history(tt_campaign *k)
{
  char path[TT_PATH_MAX];
  tt_history_destroy(&k->h);
  tt_path_join(k->directory, "campaign.h5", path);
  int there = 0;
  tt_err e = tt_agree(k->c, tt_comm_is_root(k->c) ? tt_file_exists(path, &there) : TT_OK);
  if (e) return e;
  tt_bcast(k->c, &there, sizeof there);
  e = there ? tt_history_read(k->c, path, &k->h)
            : tt_agree(k->c, tt_history_create(k->data->input.count, k->label.count, &k->h));
  if (!e && !there) k->h->identity = identity(k);
  if (!e && there && tt_comm_is_root(k->c)) e = check_names_local(k, path);
  if (!e) e = check_identity(k, path);
  return tt_agree(k->c, e);
}

/* "12:select" or "12". Errors: USAGE. */
static tt_err parse_from(const tt_campaign *k, int64_t *round, tt_stage *stage)
{
  char *end = NULL;
  const char *text = k->o->from;
  *round = strtoll(text, &end, 10);
  *stage = TT_STAGE_train;
  if (end == text || *round < 1 || *round > k->h->rounds + 1)
    return TT_FAIL(USAGE, "--from %s: give a round from 1 to %" PRId64 " and a stage, as 3:select",
                   text, k->h->rounds + 1);
  if (!*end) return TT_OK;
  for (int s = 0; *end == ':' && s < TT_STAGE_COUNT; s++)
    if (!strcmp(end + 1, tt_stage_name[s])) {
      *stage = (tt_stage)s;
      return TT_OK;
    }
  return TT_FAIL(
      USAGE, "--from %s: after the round write :train, :score, :select, :label or :merge", text);
}

/* Keep a backup of the history before rounds are removed. */
static tt_err backup_history_local(const tt_campaign *k)
{
  char path[TT_PATH_MAX], backup[TT_PATH_MAX];
  tt_path_join(k->directory, "campaign.h5", path);
  TT_TRY(tt_backup_name(path, "", backup));
  TT_TRY(tt_owner_check_local(path));
  if (link(path, backup))
    return TT_FAIL(IO, "%s: cannot create the backup %s: %s", path, backup, strerror(errno));
  tt_log_root(TT_LOG_INFO, "the history so far is kept as %s", backup);
  return TT_OK;
}

/* Rename the directories of later rounds, and of labels of other queries, to backups. */
static tt_err backup_later_rounds_local(const tt_campaign *k, int64_t round, tt_stage stage,
                                        int64_t rounds)
{
  char path[TT_PATH_MAX];
  for (int64_t r = round + 1; r <= rounds + 1; r++) {
    tt_round_path(k->directory, r, "", path);
    TT_TRY(tt_owner_check_local(path));
    TT_TRY(tt_backup(path, ""));
  }
  if (stage > TT_STAGE_label) return TT_OK;
  tt_round_path(k->directory, round, "label", path);
  TT_TRY(tt_owner_check_local(path));
  return tt_backup(path, "");
}

/* Check that all files needed to run from this stage exist, before the history is changed. */
static tt_err check_files_local(const tt_campaign *k, int64_t round, tt_stage stage)
{
  char path[TT_PATH_MAX];
  int exists = 0;
  tt_round_path(k->directory, round, "", path);
  if (stage != TT_STAGE_train) TT_TRY(tt_file_exists(path, &exists));
  if (stage != TT_STAGE_train && !exists)
    return TT_FAIL(USAGE,
                   "--from %s: %s is gone (campaign.keep: %" PRId64 "); begin at %" PRId64 ":train",
                   k->o->from, path, k->cfg->campaign_keep, round);
  if (k->cfg->campaign_warm_start == TT_WARM_START_none || round == 1) return TT_OK;
  tt_round_path(k->directory, round - 1, "model.h5", path);
  TT_TRY(tt_file_exists(path, &exists));
  if (exists) return TT_OK;
  return TT_FAIL(USAGE,
                 "--from %s: the members start from the weights in %s, which is gone "
                 "(campaign.keep: %" PRId64 "); begin at 1:train, or use campaign.warm_start: none",
                 k->o->from, path, k->cfg->campaign_keep);
}

/* Remove the rounds from `round` on from campaign.h5. keep: 1 = make a backup of the file. */
static tt_err cut_history(tt_campaign *k, int64_t round, int keep)
{
  char path[TT_PATH_MAX];
  tt_history_metadata texts = {0};
  tt_path_join(k->directory, "campaign.h5", path);
  tt_err e = keep && tt_comm_is_root(k->c) ? backup_history_local(k) : TT_OK;
  if (!e) e = tt_history_read_metadata_local(path, &texts);
  k->columns = texts.columns; /* for the commit below */
  k->column = texts.column;
  texts.column = NULL;
  texts.columns = 0;
  tt_history_metadata_free(&texts);
  e = tt_agree(k->c, e);
  if (e) return e;
  tt_history_truncate(k->h, round);
  e = tt_campaign_commit(k);
  tt_round_free(k);
  return e;
}

/* Labels of rounds that are repeated are used again, unless the stage label itself is repeated: the
 * oracle was corrected. Then only the labels of the rounds before stay. */
static tt_err keep_labels_local(const tt_campaign *k, int64_t round, tt_stage stage)
{
  char label[TT_PATH_MAX];
  tt_round_path(k->directory, k->h->rounds + 1, "label", label);
  const tt_label_request q = tt_campaign_label_request(k, label);
  if (stage != TT_STAGE_label) return tt_oracle_record_labels_local(&q, label);
  int64_t kept = 0;
  while (kept < k->h->queries && k->h->query[kept].round < round) kept++;
  return tt_campaign_drop_labels_local(k, kept);
}

/* --from: run all stages from this one on again. The process may be killed after each step; the
 * directory is a valid campaign after each. */
static tt_err redo_from(tt_campaign *k)
{
  int64_t round = 0, rounds = k->h->rounds;
  tt_stage stage = TT_STAGE_train;
  int root = tt_comm_is_root(k->c);
  tt_err e = parse_from(k, &round, &stage);
  if (!e) e = check_files_local(k, round, stage);
  if (!e && root) e = keep_labels_local(k, round, stage);
  if (!e && root) e = tt_journal_append_redo_local(k->journal, round, stage);
  e = tt_agree(k->c, e);
  if (!e && round <= rounds) e = cut_history(k, round, 1);
  return e ? e : tt_agree(k->c, root ? backup_later_rounds_local(k, round, stage, rounds) : TT_OK);
}

/* If a campaign has ended but the present rules allow more rounds, continue it: remove its last
 * round, which has no queries, and run that round again. */
static tt_err reopen_if_allowed(tt_campaign *k)
{
  tt_history *h = k->h;
  char reason[256];
  if (h->ended < 0 || h->ended == TT_STOP_RULE_candidates || h->rounds == 0) return TT_OK;
  if (tt_history_should_stop(h, k->cfg, 1, reason, sizeof reason) >= 0) return TT_OK;
  tt_log_root(TT_LOG_INFO, "the stop rules now allow more: continuing after round %" PRId64,
              h->rounds - 1);
  return cut_history(k, h->rounds, 0);
}

/* campaign.h5 of the last round was written before its merge had ended: take the time from the
 * journal. */
static void restore_merge_seconds(tt_campaign *k)
{
  const tt_journal_entry *e = NULL;
  if (k->h->rounds < 1) return;
  if (tt_comm_is_root(k->c)) e = tt_journal_find(k->journal, k->h->rounds, TT_STAGE_merge);
  double *seconds = &k->h->round[k->h->rounds - 1].seconds[TT_STAGE_merge];
  if (e) *seconds = e->seconds;
  tt_bcast(k->c, seconds, sizeof *seconds);
}

static tt_err open_journal_local(tt_campaign *k, const char *incarnation)
{
  char path[TT_PATH_MAX];
  if (!tt_comm_is_root(k->c)) return TT_OK;
  tt_path_join(k->directory, "journal.jsonl", path);
  return tt_journal_open_local(path, incarnation, &k->journal);
}

/* An earlier start may be in the newest round: remove its temporary files there too, so that it
 * cannot publish them any more. */
static tt_err remove_temporaries_local(const tt_campaign *k)
{
  char path[TT_PATH_MAX], group[TT_PATH_MAX];
  int64_t *number = NULL, count = 0;
  if (!tt_comm_is_root(k->c)) return TT_OK;
  TT_TRY(tt_directory_list_numbers(k->directory, "round-", 4, "", &number, &count));
  int64_t newest = count > 0 ? number[count - 1] : 1;
  tt_free(number);
  tt_round_path(k->directory, newest, "", path);
  TT_TRY(tt_ckpt_remove_temporaries_local(path));
  tt_round_path(k->directory, newest, "label", path);
  TT_TRY(tt_ckpt_remove_temporaries_local(path));
  tt_err e = tt_label_groups_list_local(path, &number, &count);
  for (int64_t i = 0; !e && i < count; i++) {
    tt_label_group_directory(path, number[i], group);
    e = tt_ckpt_remove_temporaries_local(group);
  }
  tt_free(number);
  return e;
}

/* Hash of the options that a second start of this campaign must share to take it over while it
 * runs. */
static uint64_t hash_options(const tt_config *cfg)
{
  static const char *const section[] = {"combine", "calibration", "campaign", "pool",
                                        "score",   "select",      "label",    "stop"};
  uint64_t h = tt_config_result_hash(cfg);
  for (size_t i = 0; i < sizeof section / sizeof *section; i++)
    h = tt_hash_u64(h, tt_config_section_hash(cfg, section[i]));
  return h;
}

static tt_err claim_directory(tt_campaign *k)
{
  k->run_id.result_hash = hash_options(k->cfg);
  k->run_id.data = tt_hash_u64(k->h->identity.data, k->h->identity.pool);
  tt_err e = tt_ckpt_claim(k->c, k->directory, 0, k->o->from != NULL, &k->run_id);
  k->claimed = !e;
  if (!e)
    e = tt_agree(k->c, tt_watchdog_start_local(k->directory, k->run_id.incarnation,
                                               tt_comm_rank(k->c), k->cfg->run_watchdog));
  if (!e) e = tt_agree(k->c, remove_temporaries_local(k));
  if (!e) e = tt_agree(k->c, open_journal_local(k, k->run_id.incarnation));
  return e;
}

static tt_err start_clocks(tt_campaign *k)
{
  double time_limit = k->o->max_time > 0.0 ? k->o->max_time : k->cfg->run_max_time;
  tt_err e =
      tt_agree(k->c, tt_watchdog_start_local(NULL, NULL, tt_comm_rank(k->c), k->cfg->run_watchdog));
  tt_watchdog_heartbeat_local("opening the campaign");
  tt_time_limit_begin(k->c, time_limit, k->cfg->run_stop_margin, k->started, &k->time_limit);
  return e;
}

/* The files of the campaign, before the directory is claimed: nothing is changed. */
static tt_err check_directory(tt_campaign *k)
{
  int64_t round;
  tt_stage stage;
  tt_err e = read_history(k);
  if (e) return e;
  if (k->o->from) e = parse_from(k, &round, &stage);
  if (!e && k->o->from) e = check_files_local(k, round, stage);
  if (!e) e = tt_campaign_check_replay_local(k);
  if (!e) e = open_journal_local(k, NULL);
  tt_journal_close_local(&k->journal);
  return tt_agree(k->c, e);
}

tt_err tt_campaign_open(tt_campaign *k)
{
  tt_err e = open_job(k);
  if (!e) e = tt_agree(k->c, tt_comm_is_root(k->c) ? tt_job_check_commands_local(k->cfg) : TT_OK);
  if (!e) e = start_clocks(k);
  if (!e) e = tt_resources_for_job(k->c, k->cfg, &k->job->ops, &k->job->use);
  if (!e) e = tt_data_read_raw(k->c, k->cfg, &k->data, &k->x, &k->y, &k->sigma);
  if (!e)
    e = tt_agree(
        k->c, (k->sigma ? tt_columns_with_errors : tt_columns_copy)(&k->data->target, &k->label));
  if (!e) e = tt_agree(k->c, tt_score_pool_check_local(k->cfg, k->data->targets));
  if (!e) e = tt_agree(k->c, TT_ALLOC(k->best, k->data->targets));
  if (!e) e = open_pool(k);
  if (!e) e = check_directory(k);
  if (!e) e = claim_directory(k);
  if (!e) e = read_history(k); /* the owner before may have added a round meanwhile */
  if (!e) e = tt_agree(k->c, tt_campaign_open_record_local(k));
  if (!e && k->o->from) e = redo_from(k);
  if (!e) e = reopen_if_allowed(k);
  if (e) return e;
  restore_merge_seconds(k);
  k->round_number = k->h->rounds; /* the last process may have ended before pruning */
  e = tt_agree(k->c, tt_campaign_prune_local(k));
  if (e) return e;
  if (k->h->rounds > 0)
    tt_log_root(TT_LOG_INFO, "%s: rounds done: %" PRId64 ", labels: %" PRId64, k->directory,
                k->h->rounds, tt_campaign_count_labels(k));
  return TT_OK;
}
