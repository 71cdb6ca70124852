/* select_stage.c — see driver_internal.h: score and select. */
#include "core/base/log.h"
#include "core/base/mem.h"
#include "src/campaign/driver/driver_internal.h"
#include "src/campaign/pool/candidates.h"
#include "src/campaign/pool/score_pool.h"
#include "src/campaign/select/select.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Write the numbers of the current round to a file of the stage: a history of this round alone. */
static tt_err write_round_stats(tt_campaign *k, const char *name)
{
  char path[TT_PATH_MAX];
  tt_history one = *k->h;
  one.round = tt_current_round(k);
  one.rounds = 1;
  one.queries = 0;
  tt_round_file_path(k, name, path);
  return tt_campaign_write_history(k, path, &one);
}

/* Read the numbers written by write_round_stats into the current round; keep its times, rmse and
 * nll. */
static tt_err read_round_stats(tt_campaign *k, const char *name)
{
  char path[TT_PATH_MAX];
  tt_history *one = NULL;
  tt_round_file_path(k, name, path);
  tt_err e = tt_history_read(k->c, path, &one);
  if (e) return e;
  if (one->rounds != 1 || one->columns != k->columns)
    e = TT_FAIL(DATA, "%s is not of this round; run the round again with --from %" PRId64, path,
                k->round_number);
  if (!e) {
    tt_round *round = tt_current_round(k), kept = *round;
    size_t bytes = (size_t)k->columns * sizeof(double);
    *round = one->round[0];
    round->rmse = kept.rmse, round->nll = kept.nll, round->spread = kept.spread;
    memcpy(round->seconds, kept.seconds, sizeof kept.seconds);
    memcpy(round->spread, one->round[0].spread, bytes);
    k->h->ended = one->ended;
  }
  tt_history_destroy(&one);
  return tt_agree(k->c, e);
}

static int64_t first_candidate(const tt_campaign *k)
{
  int64_t first = 0;
  for (int64_t r = 0; r + 1 < k->h->rounds; r++) first += k->h->round[r].pool_rows;
  return first;
}

static tt_err exclude_initial_data(const tt_campaign *k, tt_used_rows *t)
{
  int64_t *row = NULL, count = 0, next = 0;
  TT_TRY(TT_ALLOC(row, t->count + k->data->rows));
  for (int64_t r = 0; r < k->data->rows; r++) {
    int used = next < t->count && t->row[next] == r;
    next += used;
    if (used || k->data->split[r] != TT_UNUSED_ROW) row[count++] = r;
  }
  tt_free(t->row);
  *t = (tt_used_rows){count, row};
  return TT_OK;
}

/* The inputs of all queries, and of the initial rows with a label that training uses. */
static tt_err find_known_inputs(tt_campaign *k)
{
  const tt_dataset *b = k->data;
  int64_t inputs = b->input.count;
  TT_TRY(tt_known_inputs_create(inputs, b->rows + k->h->queries, &b->scaler.net, &k->known));
  for (int64_t r = 0; r < b->rows; r++) {
    int labeled = tt_labeled_rows(k->y + r * b->targets, 1, b->targets) > 0;
    if (labeled && tt_is_labeled_row(k, r))
      tt_known_inputs_add(k->known, r, -1 - r, k->x + r * inputs);
  }
  for (int64_t i = 0; i < k->h->queries; i++)
    tt_known_inputs_add(k->known, b->rows + i, k->h->query[i].row, k->h->x + i * inputs);
  return TT_OK;
}

static tt_err find_used_rows(tt_campaign *k)
{
  int same = 0;
  tt_err e = tt_agree(k->c, tt_comm_is_root(k->c) ? tt_config_pool_is_data(k->cfg, &same) : TT_OK);
  if (e) return e;
  tt_bcast(k->c, &same, sizeof same);
  tt_point_list in_work = {0};
  int64_t queries = k->h->queries;
  if (tt_campaign_is_asynchronous(k))
    e = tt_campaign_list_points(k, TT_POINTS_in_work, 0, &in_work);
  if (!e && in_work.count) e = tt_campaign_add_points(k, &in_work);
  k->in_work = in_work.count;
  tt_point_list_free(&in_work);
  if (e) return e;
  e = tt_history_used_rows(k->h, &k->used_rows);
  if (!e && same) e = exclude_initial_data(k, &k->used_rows);
  if (!e) e = find_known_inputs(k);
  k->h->queries = queries; /* those in work were queries for these lists only */
  return tt_agree(k->c, e);
}

/* Open the pool of this round, unless pool.file is the pool of all rounds. */
static tt_err open_round_pool(tt_campaign *k)
{
  tt_round_pool_settings o = {.cfg = k->cfg,
                              .round = k->round_number,
                              .first = first_candidate(k),
                              .input = &k->data->input,
                              .target = &k->data->target,
                              .net = &k->data->scaler.net,
                              .deadline = tt_time_limit_deadline_local(&k->time_limit)};
  tt_err e = *k->cfg->pool_file ? TT_OK : tt_round_pool_open(k->c, &o, &k->pool);
  if (!e) e = find_used_rows(k);
  if (!e) tt_current_round(k)->pool_rows = tt_pool_rows(k->pool);
  return e;
}

static tt_score_pool_args scoring_args(tt_campaign *k, const char *file,
                                       const tt_provenance *provenance)
{
  tt_campaign_best_labels(k, k->best);
  return (tt_score_pool_args){.cfg = k->cfg,
                              .model = &k->model,
                              .ops = k->job->ops,
                              .use = &k->job->use,
                              .pool = k->pool,
                              .used_rows = &k->used_rows,
                              .known = k->known,
                              .best = k->best,
                              .round = k->round_number,
                              .file = file,
                              .from = provenance,
                              .directory = k->directory,
                              .deadline = tt_time_limit_deadline_local(&k->time_limit)};
}

/* A pool.file must have the rows of round 1: queries and labels refer to them by number. */
static tt_err check_pool_unchanged(const tt_campaign *k, uint64_t pool_hash)
{
  if (!*k->cfg->pool_file || pool_hash == k->h->round[0].pool_hash) return TT_OK;
  return TT_FAIL(DATA,
                 "pool.file: %s has other inputs than in round 1 of the campaign; restore the "
                 "file, or choose another campaign.directory",
                 k->cfg->pool_file);
}

static tt_err do_score(tt_campaign *k, const tt_stage_io *w)
{
  char path[TT_PATH_MAX], model[TT_PATH_MAX];
  const tt_provenance provenance = tt_campaign_provenance(k, model);
  tt_round_file_path(k, w->file[0], path);
  const tt_score_pool_args s = scoring_args(k, path, &provenance);
  tt_err e = tt_score_pool(k->c, &s, tt_current_round(k));
  if (!e) e = check_pool_unchanged(k, tt_current_round(k)->pool_hash);
  return e ? e : write_round_stats(k, w->file[1]);
}

/* An earlier start has scored the pool: hash its rows again, because the queries will be read from
 * the file as it is now. */
static tt_err check_scored_pool(tt_campaign *k)
{
  uint64_t hash = 0;
  const tt_score_pool_args s = scoring_args(k, NULL, NULL);
  tt_err e = tt_score_pool_hash(k->c, &s, &hash);
  return e ? e : check_pool_unchanged(k, hash);
}

/* Whether a rule of section stop ends the campaign with this round: sets k->h->ended. */
static int is_last(tt_campaign *k, int scored)
{
  char reason[256];
  k->h->ended = tt_history_should_stop(k->h, k->cfg, scored, reason, sizeof reason);
  if (k->h->ended == TT_STOP_RULE_candidates && k->in_work) k->h->ended = -1;
  if (k->h->ended < 0) return 0;
  tt_log_root(TT_LOG_INFO, "round %" PRId64 " is the last: %s", k->round_number, reason);
  return 1;
}

tt_err tt_run_score_stage(tt_campaign *k)
{
  double seconds;
  k->stage = TT_STAGE_score;
  /* pool.command need not run if the campaign ends whatever the candidates are */
  if (!*k->cfg->pool_file && is_last(k, 0)) return TT_OK;
  tt_err e = open_round_pool(k);
  if (e) return e;
  uint64_t h = tt_hash_u64(tt_current_round(k)->model, tt_pool_hash(k->pool));
  h = tt_hash_u64(h, tt_config_section_hash(k->cfg, "score"));
  h = tt_hash_u64(h, tt_campaign_hash_labels(k));
  h = tt_hash_u64(h, (uint64_t)k->cfg->run_seed);
  if (tt_campaign_is_asynchronous(k))
    h = tt_hash_bytes(h, k->used_rows.row, (size_t)k->used_rows.count * sizeof *k->used_rows.row);
  tt_stage_io w = {h, {"pool_scores.h5", "round_after_score.h5"}};
  tt_current_round(k)->pool_hash = 0;
  e = tt_run_stage(k, TT_STAGE_score, &w, do_score, &seconds);
  int scored_before = !tt_current_round(k)->pool_hash;
  if (!e) e = read_round_stats(k, w.file[1]);
  if (!e && scored_before && *k->cfg->pool_file) e = check_scored_pool(k);
  if (!e) tt_current_round(k)->seconds[TT_STAGE_score] = seconds;
  return e;
}

/* Inputs that are labeled or whose query failed: [*count][D] in the user's units, first the
 * initial data, then the queries. */
static tt_err labeled_inputs_local(const tt_campaign *k, double **x, int64_t *count)
{
  int64_t d = k->data->input.count, n = 0;
  TT_TRY(TT_ALLOC(*x, (k->data->rows + k->h->queries) * d));
  for (int64_t r = 0; r < k->data->rows; r++)
    if (tt_is_labeled_row(k, r)) memcpy(*x + n++ * d, k->x + r * d, (size_t)d * sizeof **x);
  for (int64_t i = 0; i < k->h->queries; i++)
    memcpy(*x + n++ * d, k->h->x + i * d, (size_t)d * sizeof **x);
  *count = n;
  return TT_OK;
}

/* Number of rows to query, or the labels that stop.labels still allows: select.batch; with
 * campaign.mode asynchronous, what is labeled until the next training begins, and a queue for its
 * duration. */
static int64_t max_batch(const tt_campaign *k)
{
  const tt_config *c = k->cfg;
  int64_t most = c->select_batch, left = c->stop_labels - tt_current_round(k)->labels - k->in_work;
  if (tt_campaign_is_asynchronous(k))
    most = tt_labels_until_training(c) +
           c->label_concurrency * c->label_rows_per_call * c->label_ahead;
  if (c->stop_labels < 0 || left > most) return most;
  return left > 0 ? left : 0;
}

int64_t tt_campaign_rows_to_draw(const tt_campaign *k)
{
  for (int64_t i = 0; i < k->h->queries; i++)
    if (k->h->query[i].split == TT_TEST) return 0;
  return k->cfg->stop_error > 0.0 ? k->cfg->stop_error_rows : 0;
}

/* Apply the trust window, check the stop rules, and only then select the queries. */
static tt_err run_selection(tt_campaign *k, tt_select_args *s)
{
  tt_err e = tt_select_window_only(k->c, s, tt_current_round(k));
  if (e) return e;
  if (is_last(k, 1)) {
    s->max_queries = s->drawn = 0;
    return tt_agree(k->c, tt_queries_create(0, k->data->input.count, &k->queries));
  }
  e = tt_select_queries(k->c, s, tt_current_round(k), &k->queries);
  if (!e && k->queries->count + k->in_work == 0) k->h->ended = TT_STOP_RULE_candidates;
  return e;
}

static tt_err do_select(tt_campaign *k, const tt_stage_io *w)
{
  char scores[TT_PATH_MAX], queries[TT_PATH_MAX], model[TT_PATH_MAX];
  const tt_provenance provenance = tt_campaign_provenance(k, model);
  double *labeled = NULL;
  tt_row_ids ids = {0};
  tt_round_file_path(k, "pool_scores.h5", scores);
  tt_round_file_path(k, w->file[0], queries);
  tt_select_args s = {.cfg = k->cfg,
                      .scores = scores,
                      .pool = k->pool,
                      .used_rows = &k->used_rows,
                      .round = k->round_number,
                      .max_queries = max_batch(k),
                      .drawn = tt_campaign_rows_to_draw(k),
                      .scaler = &k->model.at[0]->scaler,
                      .directory = k->directory,
                      .deadline = tt_time_limit_deadline_local(&k->time_limit)};
  tt_err e = tt_agree(k->c, labeled_inputs_local(k, &labeled, &s.labeled_count));
  s.labeled = labeled;
  if (!e) e = run_selection(k, &s);
  tt_free(labeled);
  if (!e && tt_comm_is_root(k->c))
    e = tt_pool_read_ids_local(k->pool, k->queries->row, k->queries->count, &ids);
  e = tt_agree(k->c, e);
  if (!e)
    e = tt_queries_write(k->c, queries, k->queries, &k->data->input, &k->data->scaler.net, &ids,
                         &provenance);
  tt_row_ids_free(&ids);
  tt_queries_destroy(&k->queries);
  return e ? e : write_round_stats(k, w->file[1]);
}

tt_err tt_run_select_stage(tt_campaign *k)
{
  char path[TT_PATH_MAX];
  uint64_t scores = 0;
  double seconds;
  if (k->h->ended >= 0) /* the pool of the last round was not made */
    return tt_agree(k->c, tt_queries_create(0, k->data->input.count, &k->queries));
  tt_round_file_path(k, "pool_scores.h5", path);
  tt_err e = tt_agree(k->c, tt_comm_is_root(k->c) ? tt_file_hash_local(path, &scores) : TT_OK);
  if (e) return e;
  tt_bcast(k->c, &scores, sizeof scores);
  uint64_t h = tt_hash_u64(scores, tt_config_section_hash(k->cfg, "select"));
  h = tt_hash_u64(h, tt_config_section_hash(k->cfg, "stop"));
  h = tt_hash_u64(h, tt_config_section_hash(k->cfg, "score"));
  tt_stage_io w = {h, {"queries.h5", "round_after_select.h5"}};
  e = tt_run_stage(k, TT_STAGE_select, &w, do_select, &seconds);
  if (!e) e = read_round_stats(k, w.file[1]);
  tt_round_file_path(k, "queries.h5", path);
  if (!e) e = tt_queries_read(k->c, path, &k->queries);
  if (!e) tt_current_round(k)->seconds[TT_STAGE_select] = seconds;
  if (!e) tt_current_round(k)->queried = k->queries->count;
  return e;
}
