/* write_outputs.c — see write_outputs.h. */
#include "src/train/write_outputs.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "io/model/model_file.h"
#include "io/results/results.h"
#include "src/predict/out_of_bag.h"
#include "src/predict/score.h"
#include "src/predict/row_source.h"
#include "src/predict/postprocess.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* What one cohort leaves. */
typedef struct part {
  tt_slice slice;    /* this rank's members */
  float *w;          /* [slice.count][P] their results */
  tt_scores *scores; /* on the test rows, if there are any */
  tt_scores *oob;    /* on the training rows, if members leave any out */
  int32_t *attempt;  /* [G] retries of its members */
} part;

typedef struct ending {
  tt_comm *c;
  const tt_job *job;
  const tt_provenance *from;
  tt_committees all;
  tt_result_part *known; /* [all.count] */
  part *part;            /* [all.count] */
  tt_test_table *table;  /* [all.count] */
  int brief;
} ending;

/* Status, share and weights of all members on all ranks. */
static void gather_members(tt_comm *c, const tt_state *mine, const float *w, tt_committee *all)
{
  tt_allgather(c, TT_FIELD(mine, status), mine->count, all->status, NULL);
  tt_allgather(c, w, mine->count * mine->params * (int64_t)sizeof *w, all->w, NULL);
  for (int64_t i = 0; i < all->members; i++)
    all->weight[i] = all->status[i] == TT_STATUS_diverged ? 0.0 : 1.0;
}

static tt_err results_local(const tt_state *mine, float **w)
{
  TT_TRY(TT_ALLOC(*w, mine->count * mine->params));
  for (int64_t i = 0; i < mine->count; i++)
    memcpy(*w + i * mine->params, tt_state_result(mine, i), (size_t)mine->params * sizeof **w);
  return TT_OK;
}

static tt_err begin_local(ending *k, const tt_crews *crews)
{
  int64_t n = crews->count;
  TT_TRY(tt_committees_create(n, &k->all));
  TT_TRY(TT_ALLOC(k->known, n));
  TT_TRY(TT_ALLOC(k->part, n));
  TT_TRY(TT_ALLOC(k->table, n));
  for (int64_t i = 0; i < n; i++) {
    const tt_crew *w = &crews->at[i];
    k->known[i] = (tt_result_part){w->cohort, w->mine};
    k->part[i].slice = (tt_slice){w->mine->first, w->mine->count};
    TT_TRY(tt_committee_from_cohort(w->cohort, k->job->data, &k->all.at[i]));
    TT_TRY(results_local(w->mine, &k->part[i].w));
    TT_TRY(TT_ALLOC(k->part[i].attempt, w->cohort->members));
  }
  return TT_OK;
}

static void end_local(ending *k)
{
  for (int64_t i = 0; k->part && i < k->all.count; i++) {
    tt_free(k->part[i].w);
    tt_scores_destroy(&k->part[i].scores);
    tt_scores_destroy(&k->part[i].oob);
    tt_free(k->part[i].attempt);
  }
  for (int64_t i = 0; k->table && i < k->all.count; i++)
    tt_test_table_free(&k->table[i]);
  tt_free(k->part);
  tt_free(k->table);
  tt_free(k->known);
  tt_committees_destroy(&k->all);
}

/* What the validation rows say about the members, and the intervals that follow. */
static tt_err look_back(ending *k)
{
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < k->all.count; i++) {
    tt_validation_use v = {.cfg = k->job->cfg,
                           .cohort = k->known[i].cohort,
                           .data = k->job->data,
                           .ops = k->job->ops,
                           .use = &k->job->use};
    e = tt_combine_members(k->c, &v, k->all.at[i]);
    if (!e) e = tt_calibrate(k->c, &v, k->all.at[i]);
  }
  return e;
}

static tt_err write_model(ending *k)
{
  char path[PATH_MAX];
  tt_model_part *of = NULL;
  snprintf(path, sizeof path, "%s/model.h5", k->job->cfg->run_directory);
  tt_err e = tt_agree(k->c, TT_ALLOC(of, k->all.count));
  for (int64_t i = 0; !e && i < k->all.count; i++)
    of[i] = (tt_model_part){k->part[i].slice, k->part[i].w};
  if (!e) e = tt_model_write(k->c, path, &k->all, of, k->from);
  tt_free(of);
  return e;
}

static tt_err score_all(ending *k, tt_split_rows *rows)
{
  tt_row_source source = {
      .rows = rows->count, .read_local = tt_split_rows_read_local, .from = rows};
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < k->all.count; i++)
    e = tt_score(k->c, k->all.at[i], k->job->ops, &k->job->use, &source, &k->part[i].scores,
                 &k->table[i]);
  return e;
}

/* The training rows by the members that did not see them, of cohorts that leave rows out. */
static tt_err score_out_of_bag(ending *k)
{
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < k->all.count; i++) {
    const tt_state *mine = k->known[i].mine;
    tt_allgather(k->c, TT_FIELD(mine, attempt),
                 mine->count * (int64_t)sizeof *TT_FIELD(mine, attempt), k->part[i].attempt, NULL);
    e = tt_out_of_bag(k->c, k->known[i].cohort, k->job->data, k->part[i].attempt, k->all.at[i],
                      k->job->ops, &k->job->use, &k->part[i].oob);
  }
  return e;
}

/* Scores of all committees as one; *out stays NULL where none has any. */
static tt_err join_local(const ending *k, int oob, tt_scores **out)
{
  const tt_scores **of = NULL;
  int any = 0;
  TT_TRY(TT_ALLOC(of, k->all.count));
  for (int64_t i = 0; i < k->all.count; i++) {
    of[i] = oob ? k->part[i].oob : k->part[i].scores;
    any |= of[i] != NULL;
  }
  tt_err e = any ? tt_scores_join(&k->all, of, out) : TT_OK;
  tt_free(of);
  return e;
}

static void print_local(const ending *k, int tested)
{
  for (int64_t i = 0; tested && i < k->all.count; i++)
    tt_score_print_local(k->c, k->all.at[i], k->part[i].scores);
  for (int64_t i = 0; i < k->all.count; i++)
    if (k->part[i].oob) tt_score_print_oob_local(k->c, k->all.at[i], k->part[i].oob);
}

static tt_err write_results(ending *k)
{
  char path[PATH_MAX];
  tt_split_rows rows = {0};
  tt_scores *scores = NULL, *oob = NULL;
  tt_test_table table = {0};
  snprintf(path, sizeof path, "%s/results.h5", k->job->cfg->run_directory);
  tt_err e = tt_agree(k->c, tt_split_rows_list(k->job->data, TT_TEST, &rows));
  int tested = !e && rows.count > 0;
  table.row = rows.row; /* freed with the table */
  if (tested) e = score_all(k, &rows);
  if (!e) e = score_out_of_bag(k);
  if (!e) e = join_local(k, 0, &scores);
  if (!e) e = join_local(k, 1, &oob);
  if (!e && tested) e = tt_test_table_join(&k->all, k->table, &table);
  e = tt_agree(k->c, e);
  if (!e)
    e = tt_results_write(k->c, path, k->known, &k->all, scores, oob, tested ? &table : NULL,
                         k->from);
  if (!e && !k->brief) print_local(k, tested);
  tt_scores_destroy(&scores);
  tt_scores_destroy(&oob);
  tt_test_table_free(&table);
  return e;
}

tt_err tt_finish(tt_comm *c, const tt_job *job, const tt_crews *crews, const tt_provenance *from,
                 int brief)
{
  ending k = {.c = c, .job = job, .from = from, .brief = brief};
  tt_err e = tt_agree(c, begin_local(&k, crews));
  for (int64_t i = 0; !e && i < k.all.count; i++)
    gather_members(c, k.known[i].mine, k.part[i].w, k.all.at[i]);
  if (!e) e = look_back(&k);
  if (!e) e = write_model(&k);
  if (!e) e = write_results(&k);
  if (!e)
    tt_log_once(brief ? TT_LOG_DEBUG : TT_LOG_INFO, "wrote %s/model.h5 and results.h5",
                job->cfg->run_directory);
  end_local(&k);
  return e;
}
