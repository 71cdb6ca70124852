/* write_outputs.c — see write_outputs.h. */
#include "src/train/write_outputs.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/groups/by_groups.h"
#include "io/files/memory.h"
#include "io/model/model_file.h"
#include "io/results/group_scores.h"
#include "io/results/results.h"
#include "src/host/resources.h"
#include "src/host/watchdog.h"
#include "src/job/data_advice.h"
#include "src/predict/postprocess.h"
#include "src/score/advice.h"
#include "src/score/out_of_bag.h"
#include "src/score/row_source.h"
#include "src/score/score.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Outputs of one trained ensemble: of some ensembles of one cohort, or of one ensemble of several
 * networks. */
typedef struct ensemble_output {
  int64_t first, parts; /* [first, first + parts) of the job */
  int32_t *attempt;     /* [G] retries of its members */
  tt_scores *scores;    /* on the test rows; NULL if there are none */
  tt_oob *left;         /* rows out of bag; NULL without resampling */
  tt_scores *oob;       /* on these training rows; NULL without resampling */
} ensemble_output;

typedef struct output_writer {
  tt_comm *c;
  const tt_job *job;
  const tt_engine_ops *ops; /* that predict */
  const tt_provenance *from;
  tt_trained_ensembles all;
  int64_t parts;
  tt_cohort_part *part;       /* [parts] in the order of the job file */
  tt_result_shard *result;    /* [parts] */
  tt_model_shard *model;      /* [parts] this rank's members */
  float **w;                  /* [parts][members of this rank][P] those of `model` */
  ensemble_output *output;    /* [all.count] */
  tt_test_predictions *table; /* [all.count] */
  tt_by_groups *groups;       /* of `by`, borrowed from the data; or NULL */
  tt_scores **score, **oob;   /* [groups] */
  tt_test_predictions tests;  /* of all groups: the test rows of one group after the other */
  tt_trials *trials;
  int no_scores;
} output_writer;

/* Status and member weight (1 or 0) of all members of a part, on all ranks. */
static void gather_members(tt_comm *c, const tt_result_shard *src, tt_trained_ensemble *all)
{
  tt_allgatherv(c, TT_FIELD(src->mine, status) + tt_result_shard_first(src), src->own.count,
                all->status, NULL);
  for (int64_t i = 0; i < all->members; i++)
    all->weight[i] = all->status[i] == TT_STATUS_diverged ? 0.0 : 1.0;
}

static void gather_all(output_writer *k)
{
  tt_ensemble own;
  for (int64_t i = 0; i < k->all.count; i++)
    for (int64_t n = 0; n < k->output[i].parts; n++) {
      int64_t number = k->output[i].first + n;
      tt_trained_ensemble part = tt_trained_ensemble_part(k->all.at[i], n, &own);
      gather_members(k->c, &k->result[number], &part);
    }
}

static tt_err copy_weights_local(const tt_result_shard *src, float **w)
{
  const tt_state *mine = src->mine;
  TT_TRY(TT_ALLOC(*w, src->own.count * mine->params));
  for (int64_t i = 0; i < src->own.count; i++)
    memcpy(*w + i * mine->params, tt_state_prediction_weights(mine, tt_result_shard_first(src) + i),
           (size_t)mine->params * sizeof **w);
  return TT_OK;
}

static tt_err create_parts(output_writer *k, const tt_shards *shards)
{
  TT_TRY(tt_cohorts_parts(&k->job->cohorts, &k->parts, &k->part));
  TT_TRY(TT_ALLOC(k->result, k->parts));
  TT_TRY(TT_ALLOC(k->model, k->parts));
  TT_TRY(TT_ALLOC(k->w, k->parts));
  for (int64_t i = 0; i < k->parts; i++) {
    const tt_state *mine = shards->at[k->part[i].number].state;
    const tt_slice members = k->part[i].members;
    const tt_slice own =
        tt_slice_intersect((tt_slice){mine->first, mine->count}, members.first, members.count);
    k->result[i] = (tt_result_shard){k->part[i].cohort, mine, members, own};
    TT_TRY(copy_weights_local(&k->result[i], &k->w[i]));
    k->model[i] = (tt_model_shard){own, k->w[i]};
  }
  return TT_OK;
}

/* Parts from `first` on that belong to one trained ensemble. */
static int64_t joined_parts(const output_writer *k, int64_t first)
{
  int64_t end = first + 1;
  while (end < k->parts && k->part[end].joined) end++;
  return end - first;
}

static tt_err create_local(output_writer *k, const tt_shards *shards)
{
  int64_t count = 0, first = 0;
  TT_TRY(create_parts(k, shards));
  for (int64_t i = 0; i < k->parts; i += joined_parts(k, i)) count++;
  TT_TRY(tt_trained_ensembles_create(count, &k->all));
  TT_TRY(TT_ALLOC(k->output, count));
  TT_TRY(TT_ALLOC(k->table, count));
  for (int64_t i = 0; i < count; i++) {
    ensemble_output *dst = &k->output[i];
    dst->first = first;
    dst->parts = joined_parts(k, first);
    first += dst->parts;
    TT_TRY(tt_trained_ensemble_from_parts(dst->parts, k->part + dst->first, k->job->data,
                                          &k->all.at[i]));
    TT_TRY(TT_ALLOC(dst->attempt, k->all.at[i]->members));
  }
  return TT_OK;
}

static void destroy_local(output_writer *k)
{
  for (int64_t i = 0; k->w && i < k->parts; i++) tt_free(k->w[i]);
  for (int64_t i = 0; k->output && i < k->all.count; i++) {
    tt_free(k->output[i].attempt);
    tt_oob_destroy(&k->output[i].left);
    tt_scores_destroy(&k->output[i].scores);
    tt_scores_destroy(&k->output[i].oob);
  }
  for (int64_t i = 0; k->table && i < k->all.count; i++) tt_test_predictions_free(&k->table[i]);
  for (int64_t g = 0; k->groups && g < k->groups->count; g++) {
    if (k->score) tt_scores_destroy(&k->score[g]);
    if (k->oob) tt_scores_destroy(&k->oob[g]);
  }
  if (k->groups && k->all.at && k->all.at[0]) k->all.at[0]->groups = NULL;
  tt_free_all(&k->output, &k->table, &k->part, &k->result, &k->model, &k->w, &k->score, &k->oob);
  tt_trained_ensembles_destroy(&k->all);
}

static void gather_attempts(output_writer *k, ensemble_output *dst)
{
  int32_t *attempt = dst->attempt;
  for (int64_t n = dst->first; n < dst->first + dst->parts; n++) {
    const tt_result_shard *src = &k->result[n];
    tt_allgatherv(k->c, TT_FIELD(src->mine, attempt) + tt_result_shard_first(src),
                  src->own.count * (int64_t)sizeof *attempt, attempt, NULL);
    attempt += src->members.count;
  }
}

static tt_err list_out_of_bag(output_writer *k, int64_t i)
{
  ensemble_output *dst = &k->output[i];
  gather_attempts(k, dst);
  const tt_oob_members members = {dst->parts, k->part + dst->first, dst->attempt};
  return tt_agree(k->c, tt_oob_create(&members, k->job->data, k->all.at[i]->members, &dst->left));
}

/* Member weights and calibration from rows that the members were not trained on. */
static tt_err postprocess(output_writer *k)
{
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < k->all.count; i++) {
    e = list_out_of_bag(k, i);
    if (e) break;
    tt_postprocess_context v = {.cfg = k->job->cfg,
                                .cohort = k->part[k->output[i].first].cohort,
                                .data = k->job->data,
                                .unseen = k->output[i].left ? tt_oob_has : NULL,
                                .unseen_by = k->output[i].left,
                                .shard = k->model + k->output[i].first,
                                .ops = k->ops,
                                .use = &k->job->use};
    e = tt_combine_members(k->c, &v, k->all.at[i]);
    if (!e) e = tt_calibrate(k->c, &v, k->all.at[i]);
    if (!e) e = tt_measure_epistemic(k->c, &v, k->all.at[i]);
  }
  return e;
}

/* The shares of the trials in the predictions of their ensembles. */
static void weigh_trials(const output_writer *k)
{
  for (int64_t i = 0; i < k->all.count; i++) {
    const tt_trained_ensemble *all = k->all.at[i];
    double sum = 0.0;
    for (int64_t m = 0; m < all->members; m++) sum += all->weight[m];
    for (int64_t t = 0; t < k->trials->count; t++) {
      tt_trial *x = &k->trials->at[t];
      for (int64_t m = 0; m < all->members && x->number == all->ensemble->number; m++)
        if (all->index[m] >= x->first && all->index[m] < x->first + x->members)
          x->weight += all->weight[m] / sum;
    }
  }
}

/* The best trials of each ensemble. */
static tt_err print_trials(const output_writer *k)
{
  enum { SHOWN = 5 };
  const tt_trials *t = k->trials;
  int64_t *order = NULL, shown = 0;
  TT_TRY(TT_ALLOC(order, t->count));
  tt_trials_rank(t, order);
  for (int64_t i = 0; i < t->count; i++) {
    const tt_trial *x = &t->at[order[i]];
    if (i == 0 || x->number != t->at[order[i - 1]].number) {
      shown = 0;
      tt_log_root(TT_LOG_INFO, "ensemble %s, the best trials: rung, validation loss, weight",
                  x->ensemble);
    }
    if (shown++ < SHOWN && x->rung >= 0)
      tt_log_root(TT_LOG_INFO, "  %-8s %d %10.5g %4.0f %%  %s", x->label, x->rung + 1,
                  tt_trial_last_score(x), 100.0 * x->weight, x->text);
  }
  tt_free(order);
  return TT_OK;
}

static tt_err write_model(output_writer *k)
{
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/model.h5", k->job->cfg->run_directory);
  return tt_model_write(k->c, path, &k->all, k->model, k->from);
}

int tt_run_has_baselines(const tt_config *cfg)
{
  return cfg->run_baselines && !cfg->campaign && !cfg->top_by.count &&
         !tt_memory_is_path(cfg->run_directory);
}

static tt_err score_all(output_writer *k, tt_split_rows *rows)
{
  tt_row_source source = {.rows = rows->count,
                          .read_local = tt_split_rows_read_local,
                          .from = rows,
                          .read_variance_local = tt_split_rows_variance(rows)};
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < k->all.count; i++)
    e = tt_score(k->c, k->all.at[i], k->model + k->output[i].first, k->ops, &k->job->use, &source,
                 &k->output[i].scores, &k->table[i]);
  int compares = tt_run_has_baselines(k->job->cfg);
  for (int64_t i = 0; !e && compares && i < k->all.count; i++)
    e = tt_score_baselines(k->c, k->job->data, k->all.at[i], k->output[i].scores);
  return e;
}

static tt_err score_out_of_bag(output_writer *k)
{
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < k->all.count; i++) {
    ensemble_output *dst = &k->output[i];
    e = tt_out_of_bag(k->c, dst->left, k->model + dst->first, k->all.at[i], k->ops, &k->job->use,
                      &dst->oob);
  }
  return e;
}

/* Collective. Score the test rows, and rows out of bag.
 *   rows  becomes the test rows; the caller frees rows->row */
static tt_err score_rows(output_writer *k, tt_split_rows *rows)
{
  tt_err e = tt_agree(k->c, tt_split_rows_list(k->job->data, TT_TEST, rows));
  if (!e && rows->count > 0) e = score_all(k, rows);
  return e ? e : score_out_of_bag(k);
}

/* After the training, each group of `by` is treated as a job that has only its rows. */
typedef struct group_job {
  tt_job job;
  tt_dataset data;
  tt_cohort cohort, *cohorts;
  tt_state state;
  tt_shard shard;
} group_job;

static tt_err open_group(const output_writer *k, const tt_shards *shards, int64_t group,
                         group_job *g)
{
  g->job = *k->job;
  g->data = tt_by_groups_data(k->job->data, group);
  TT_TRY(tt_by_groups_cohort(shards->at[0].cohort, group, &g->cohort));
  g->state = *shards->at[0].state;
  g->state.first -= shards->at[0].cohort->ensemble[group].first;
  g->shard = shards->at[0];
  g->shard.cohort = g->cohorts = &g->cohort;
  g->shard.state = &g->state;
  g->job.data = &g->data;
  g->job.training = g->data;
  if (g->data.rows < TT_BY_FEW_ROWS) g->job.use.threads = 1;
  g->job.cohorts = (tt_cohorts){1, &g->cohorts};
  return TT_OK;
}

/* Append the predictions of the test rows of a group, on rank 0. */
static void append_tests(const tt_split_rows *rows, int64_t group, int64_t columns,
                         const tt_test_predictions *one, tt_test_predictions *all)
{
  if (!one->y) return;
  for (int64_t i = 0; i < one->rows; i++) {
    all->row[all->rows + i] = rows->d->origin[rows->row[i]];
    all->group[all->rows + i] = (int32_t)group;
  }
#define X(field, ...)                                                                              \
  memcpy(all->field + all->rows * columns, one->field,                                             \
         (size_t)(one->rows * columns) * sizeof *one->field);
  TT_TEST_VARIABLES(X)
#undef X
  all->rows += one->rows;
}

static tt_err finish_group(output_writer *k, const tt_shards *shards, int64_t group)
{
  group_job g = {.cohorts = NULL};
  output_writer one = {.c = k->c, .job = &g.job, .ops = k->ops, .trials = k->trials};
  tt_split_rows rows = {0};
  tt_err e = open_group(k, shards, group, &g);
  if (!e) e = create_local(&one, &(tt_shards){1, &g.shard});
  e = tt_agree(k->c, e);
  if (!e) gather_all(&one);
  if (!e) e = postprocess(&one);
  if (!e) e = score_rows(&one, &rows);
  if (!e) e = tt_by_groups_insert(one.all.at[0], group, k->all.at[0]);
  if (!e && group >= k->groups->pooled) /* the group of all rows would repeat rows */
    append_tests(&rows, group, tt_trained_ensemble_columns(one.all.at[0]), &one.table[0],
                 &k->tests);
  e = tt_agree(k->c, e);
  if (!e) k->score[group] = one.output[0].scores, one.output[0].scores = NULL;
  if (!e) k->oob[group] = one.output[0].oob, one.output[0].oob = NULL;
  destroy_local(&one);
  tt_free_all(&rows.row, &g.cohort.ensemble, &g.cohort.member);
  return e;
}

static tt_err create_tests(output_writer *k)
{
  const tt_dataset *d = k->job->data;
  int64_t rows = 0, columns = tt_trained_ensemble_width(k->all.at[0]);
  TT_TRY(TT_ALLOC(k->score, k->groups->count));
  TT_TRY(TT_ALLOC(k->oob, k->groups->count));
  if (!tt_comm_is_root(k->c)) return TT_OK;
  for (int64_t r = 0; r < d->rows; r++) rows += d->split[r] == TT_TEST;
  TT_TRY(TT_ALLOC(k->tests.row, rows));
  TT_TRY(TT_ALLOC(k->tests.group, rows));
#define X(field, ...) TT_TRY(TT_ALLOC(k->tests.field, rows *columns));
  TT_TEST_VARIABLES(X)
#undef X
  return TT_OK;
}

/* Collective. Warnings are not logged: they would come once for each group. */
static tt_err finish_groups(output_writer *k, const tt_shards *shards)
{
  tt_log_level level = tt_log_get_settings().level;
  tt_err e = tt_agree(k->c, create_tests(k));
  k->all.at[0]->groups = k->groups;
  if (level < TT_LOG_DEBUG) tt_log_set_level(TT_LOG_ERROR);
  for (int64_t g = 0; !e && g < k->groups->count; g++) {
    tt_watchdog_heartbeat_local("scoring groups");
    e = finish_group(k, shards, g);
  }
  tt_log_set_level(level);
  tt_bcast(k->c, &k->tests.rows, sizeof k->tests.rows);
  return e;
}

/* Join the scores of all trained ensembles, or groups; *out stays NULL if none has scores. */
static tt_err join_scores_local(const output_writer *k, int oob, tt_scores **out)
{
  const tt_scores **scores = NULL;
  tt_trained_ensemble one = *k->all.at[0], **same = NULL;
  tt_trained_ensembles all = k->all;
  int any = 0;
  if (k->groups) {
    all.count = one.ensembles;
    one.ensembles = 1;
    one.members = one.ensemble[0].members;
    TT_TRY(TT_ALLOC(same, all.count));
    all.at = same;
  }
  tt_err e = TT_ALLOC(scores, all.count);
  for (int64_t i = 0; !e && i < all.count; i++) {
    if (k->groups) same[i] = &one;
    scores[i] = k->groups ? (oob ? k->oob : k->score)[i]
                : oob     ? k->output[i].oob
                          : k->output[i].scores;
    any |= scores[i] != NULL;
  }
  if (!e && any) e = tt_scores_concat(&all, scores, out);
  if (!e && any && k->groups) (*out)->groups = all.count;
  tt_free_all(&scores, &same);
  return e;
}

static void print_groups_local(const char *results)
{
  char *text = NULL;
  if (!tt_group_scores_text(results, &text)) fputs(text, stdout);
  free(text);
}

static void print_local(const output_writer *k, int tested)
{
  for (int64_t i = 0; tested && i < k->all.count; i++)
    tt_score_print_local(k->c, k->all.at[i], k->output[i].scores, 0);
  for (int64_t i = 0; i < k->all.count; i++)
    if (k->output[i].oob) tt_score_print_local(k->c, k->all.at[i], k->output[i].oob, 1);
}

static tt_err write_results(output_writer *k)
{
  char path[PATH_MAX];
  tt_split_rows rows = {0};
  tt_scores *scores = NULL, *oob = NULL;
  tt_test_predictions table = {0}, *tests = &k->tests;
  snprintf(path, sizeof path, "%s/results.h5", k->job->cfg->run_directory);
  tt_err e = k->groups ? TT_OK : score_rows(k, &rows);
  int tested = !e && (k->groups ? k->tests.rows : rows.count) > 0;
  if (!k->groups) {
    tests = &table;
    table.row = rows.row; /* freed with the table */
    for (int64_t i = 0; k->job->data->origin && i < rows.count; i++)
      rows.row[i] = k->job->data->origin[rows.row[i]];
  }
  tests->ids = &k->job->data->ids;
  if (!e) e = join_scores_local(k, 0, &scores);
  if (!e) e = join_scores_local(k, 1, &oob);
  if (!e && tested && !k->groups) e = tt_test_predictions_concat(&k->all, k->table, &table);
  e = tt_agree(k->c, e);
  if (!e)
    e = tt_results_write(k->c, path, k->result, &k->all, scores, oob, tested ? tests : NULL,
                         k->trials, k->from);
  if (!e && !k->no_scores && !k->groups) print_local(k, tested);
  if (!e && !k->no_scores && k->groups && tt_comm_is_root(k->c) && !tt_memory_is_path(path))
    print_groups_local(path);
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

tt_err tt_write_outputs(tt_comm *c, const tt_job *job, const tt_shards *shards, tt_trials *trials,
                        const tt_provenance *provenance, int quiet, int no_scores)
{
  output_writer k = {
      .c = c, .job = job, .from = provenance, .trials = trials, .no_scores = quiet || no_scores};
  tt_err e = tt_agree(c, create_local(&k, shards));
  if (!e) gather_all(&k);
  if (!e) k.ops = tt_resources_predict_engine(job->ops, &k.all);
  k.groups = e ? NULL : job->data->groups;
  if (!e) e = k.groups ? finish_groups(&k, shards) : postprocess(&k);
  if (!e) weigh_trials(&k);
  if (!e && !quiet) e = tt_agree(c, print_trials(&k));
  if (!e) e = write_model(&k);
  if (!e) e = write_results(&k);
  if (!e)
    tt_log_root(quiet || tt_memory_is_path(job->cfg->run_directory) ? TT_LOG_DEBUG : TT_LOG_INFO,
                "wrote %s/model.h5 and results.h5", job->cfg->run_directory);
  if (!e && !quiet && tt_comm_is_root(c) && !k.groups)
    log_advice_local(job, job->cfg->run_directory);
  tt_test_predictions_free(&k.tests);
  destroy_local(&k);
  return e;
}
