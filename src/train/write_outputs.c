/* write_outputs.c — see write_outputs.h. */
#include "src/train/write_outputs.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/model/model_file.h"
#include "io/results/results.h"
#include "src/host/resources.h"
#include "src/job/data_advice.h"
#include "src/predict/postprocess.h"
#include "src/score/advice.h"
#include "src/score/out_of_bag.h"
#include "src/score/row_source.h"
#include "src/score/score.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Outputs of one cohort. */
typedef struct cohort_output {
  tt_slice slice;    /* this rank's members */
  float *w;          /* [slice.count][P] weights to predict with */
  tt_scores *scores; /* on the test rows; NULL if there are none */
  tt_scores *oob;    /* out of bag, on the training rows; NULL without resampling */
  int32_t *attempt;  /* [G] retries of its members */
} cohort_output;

typedef struct output_writer {
  tt_comm *c;
  const tt_job *job;
  const tt_engine_ops *ops; /* that predict */
  const tt_provenance *from;
  tt_trained_ensembles all;
  tt_result_shard *result;      /* [all.count] */
  cohort_output *cohort_output; /* [all.count] */
  tt_test_predictions *table;   /* [all.count] */
  int quiet;
} output_writer;

/* Status, weights and member weight (1 or 0) of all members, on all ranks. */
static void gather_members(tt_comm *c, const tt_state *mine, const float *w,
                           tt_trained_ensemble *all)
{
  tt_allgatherv(c, TT_FIELD(mine, status), mine->count, all->status, NULL);
  tt_allgatherv(c, w, mine->count * mine->params * (int64_t)sizeof *w, all->w, NULL);
  for (int64_t i = 0; i < all->members; i++)
    all->weight[i] = all->status[i] == TT_STATUS_diverged ? 0.0 : 1.0;
}

static tt_err copy_weights_local(const tt_state *mine, float **w)
{
  TT_TRY(TT_ALLOC(*w, mine->count * mine->params));
  for (int64_t i = 0; i < mine->count; i++)
    memcpy(*w + i * mine->params, tt_state_prediction_weights(mine, i),
           (size_t)mine->params * sizeof **w);
  return TT_OK;
}

static tt_err create_local(output_writer *k, const tt_shards *shards)
{
  int64_t n = shards->count;
  TT_TRY(tt_trained_ensembles_create(n, &k->all));
  TT_TRY(TT_ALLOC(k->result, n));
  TT_TRY(TT_ALLOC(k->cohort_output, n));
  TT_TRY(TT_ALLOC(k->table, n));
  for (int64_t i = 0; i < n; i++) {
    const tt_shard *w = &shards->at[i];
    k->result[i] = (tt_result_shard){w->cohort, w->state};
    k->cohort_output[i].slice = (tt_slice){w->state->first, w->state->count};
    TT_TRY(tt_trained_ensemble_from_cohort(w->cohort, k->job->data, &k->all.at[i]));
    TT_TRY(copy_weights_local(w->state, &k->cohort_output[i].w));
    TT_TRY(TT_ALLOC(k->cohort_output[i].attempt, w->cohort->members));
  }
  return TT_OK;
}

static void destroy_local(output_writer *k)
{
  for (int64_t i = 0; k->cohort_output && i < k->all.count; i++) {
    tt_free(k->cohort_output[i].w);
    tt_scores_destroy(&k->cohort_output[i].scores);
    tt_scores_destroy(&k->cohort_output[i].oob);
    tt_free(k->cohort_output[i].attempt);
  }
  for (int64_t i = 0; k->table && i < k->all.count; i++) tt_test_predictions_free(&k->table[i]);
  tt_free(k->cohort_output);
  tt_free(k->table);
  tt_free(k->result);
  tt_trained_ensembles_destroy(&k->all);
}

/* Member weights and calibration from the validation rows. */
static tt_err postprocess(output_writer *k)
{
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < k->all.count; i++) {
    tt_postprocess_context v = {.cfg = k->job->cfg,
                                .cohort = k->result[i].cohort,
                                .data = k->job->data,
                                .ops = k->ops,
                                .use = &k->job->use};
    e = tt_combine_members(k->c, &v, k->all.at[i]);
    if (!e) e = tt_calibrate(k->c, &v, k->all.at[i]);
    if (!e) e = tt_measure_epistemic(k->c, &v, k->all.at[i]);
  }
  return e;
}

static tt_err write_model(output_writer *k)
{
  char path[PATH_MAX];
  tt_model_shard *of = NULL;
  snprintf(path, sizeof path, "%s/model.h5", k->job->cfg->run_directory);
  tt_err e = tt_agree(k->c, TT_ALLOC(of, k->all.count));
  for (int64_t i = 0; !e && i < k->all.count; i++)
    of[i] = (tt_model_shard){k->cohort_output[i].slice, k->cohort_output[i].w};
  if (!e) e = tt_model_write(k->c, path, &k->all, of, k->from);
  tt_free(of);
  return e;
}

static tt_err score_all(output_writer *k, tt_split_rows *rows)
{
  tt_row_source source = {.rows = rows->count,
                          .read_local = tt_split_rows_read_local,
                          .from = rows,
                          .read_variance_local = tt_split_rows_variance(rows)};
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < k->all.count; i++)
    e = tt_score(k->c, k->all.at[i], k->ops, &k->job->use, &source, &k->cohort_output[i].scores,
                 &k->table[i]);
  return e;
}

static tt_err score_out_of_bag(output_writer *k)
{
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < k->all.count; i++) {
    const tt_state *mine = k->result[i].mine;
    tt_allgatherv(k->c, TT_FIELD(mine, attempt),
                  mine->count * (int64_t)sizeof *TT_FIELD(mine, attempt),
                  k->cohort_output[i].attempt, NULL);
    e = tt_out_of_bag(k->c, k->result[i].cohort, k->job->data, k->cohort_output[i].attempt,
                      k->all.at[i], k->ops, &k->job->use, &k->cohort_output[i].oob);
  }
  return e;
}

/* Scores of all trained ensembles in one; *out stays NULL if none has scores. */
static tt_err join_scores_local(const output_writer *k, int oob, tt_scores **out)
{
  const tt_scores **of = NULL;
  int any = 0;
  TT_TRY(TT_ALLOC(of, k->all.count));
  for (int64_t i = 0; i < k->all.count; i++) {
    of[i] = oob ? k->cohort_output[i].oob : k->cohort_output[i].scores;
    any |= of[i] != NULL;
  }
  tt_err e = any ? tt_scores_concat(&k->all, of, out) : TT_OK;
  tt_free(of);
  return e;
}

static void print_local(const output_writer *k, int tested)
{
  for (int64_t i = 0; tested && i < k->all.count; i++)
    tt_score_print_local(k->c, k->all.at[i], k->cohort_output[i].scores);
  for (int64_t i = 0; i < k->all.count; i++)
    if (k->cohort_output[i].oob)
      tt_score_print_oob_local(k->c, k->all.at[i], k->cohort_output[i].oob);
}

static tt_err write_results(output_writer *k)
{
  char path[PATH_MAX];
  tt_split_rows rows = {0};
  tt_scores *scores = NULL, *oob = NULL;
  tt_test_predictions table = {0};
  snprintf(path, sizeof path, "%s/results.h5", k->job->cfg->run_directory);
  tt_err e = tt_agree(k->c, tt_split_rows_list(k->job->data, TT_TEST, &rows));
  int tested = !e && rows.count > 0;
  table.row = rows.row; /* freed with the table */
  if (tested) e = score_all(k, &rows);
  if (!e) e = score_out_of_bag(k);
  if (!e) e = join_scores_local(k, 0, &scores);
  if (!e) e = join_scores_local(k, 1, &oob);
  if (!e && tested) e = tt_test_predictions_concat(&k->all, k->table, &table);
  e = tt_agree(k->c, e);
  if (!e)
    e = tt_results_write(k->c, path, k->result, &k->all, scores, oob, tested ? &table : NULL,
                         k->from);
  if (!e && !k->quiet) print_local(k, tested);
  tt_scores_destroy(&scores);
  tt_scores_destroy(&oob);
  tt_test_predictions_free(&table);
  return e;
}

/* The run has succeeded: if the advice cannot be read, the program still ends as it would. */
static void log_advice_local(const tt_job *job, const char *directory)
{
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/results.h5", directory);
  tt_err e = tt_data_advice_log_local(job->data, &job->cohorts);
  if (!e) e = tt_advice_log_local(path);
  if (e) tt_log_root(TT_LOG_DEBUG, "no advice: %s", tt_err_last());
}

tt_err tt_write_outputs(tt_comm *c, const tt_job *job, const tt_shards *shards,
                        const tt_provenance *from, int quiet)
{
  output_writer k = {.c = c, .job = job, .from = from, .quiet = quiet};
  tt_err e = tt_agree(c, create_local(&k, shards));
  for (int64_t i = 0; !e && i < k.all.count; i++)
    gather_members(c, k.result[i].mine, k.cohort_output[i].w, k.all.at[i]);
  if (!e) k.ops = tt_resources_predict_engine(job->ops, &k.all);
  if (!e) e = postprocess(&k);
  if (!e) e = write_model(&k);
  if (!e) e = write_results(&k);
  if (!e)
    tt_log_root(quiet ? TT_LOG_DEBUG : TT_LOG_INFO, "wrote %s/model.h5 and results.h5",
                job->cfg->run_directory);
  if (!e && !quiet && tt_comm_is_root(c)) log_advice_local(job, job->cfg->run_directory);
  destroy_local(&k);
  return e;
}
