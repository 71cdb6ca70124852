/* finish.c — see finish.h. */
#include "run/finish.h"

#include "base/log.h"
#include "base/mem.h"
#include "io/model_io.h"
#include "io/results_io.h"
#include "run/score.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Status, share and weights of all members on all ranks; results of this rank in w [count][P]. */
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

/* The test rows of a data set in memory. */
typedef struct test_rows {
  const tt_dataset *d;
  int64_t *row;
  int64_t count;
} test_rows;

static tt_err list_test_rows(const tt_dataset *d, test_rows *out)
{
  *out = (test_rows){.d = d};
  TT_TRY(TT_ALLOC(out->row, d->rows));
  for (int64_t r = 0; r < d->rows; r++)
    if (d->split[r] == TT_TEST) out->row[out->count++] = r;
  return TT_OK;
}

static tt_err read_test_rows(void *from, int64_t first, int64_t count, float *x, double *y)
{
  const test_rows *t = from;
  const tt_dataset *d = t->d;
  for (int64_t i = 0; i < count; i++) {
    int64_t r = t->row[first + i];
    memcpy(x + i * d->inputs, d->x + r * d->inputs, (size_t)d->inputs * sizeof *x);
    for (int64_t k = 0; k < d->targets; k++)
      y[i * d->targets + k] =
          (double)d->y[r * d->targets + k] * d->scaler.y_scale[k] + d->scaler.y_mean[k];
  }
  return TT_OK;
}

static tt_err write_model(tt_comm *c, const tt_job *job, tt_slice slice, const float *w,
                          const tt_committee *all, const tt_provenance *from)
{
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/model.h5", job->cfg->run_directory);
  return tt_model_write(c, path, all, slice, w, from);
}

static tt_err write_results(tt_comm *c, const tt_job *job, const tt_state *mine,
                            const tt_committee *all, const tt_provenance *from)
{
  char path[PATH_MAX];
  test_rows rows = {0};
  tt_scores *scores = NULL;
  tt_test_table table = {0};
  snprintf(path, sizeof path, "%s/results.h5", job->cfg->run_directory);
  tt_err e = tt_agree(c, list_test_rows(job->data, &rows));
  int tested = !e && rows.count > 0;
  tt_row_source source = {.rows = rows.count, .read_local = read_test_rows, .from = &rows};
  if (tested) e = tt_score(c, all, job->ops, &job->use, &source, &scores, &table);
  table.row = rows.row; /* freed with the table */
  if (!e)
    e = tt_results_write(c, path, job->cohorts.at[0], all, mine, scores, tested ? &table : NULL, from);
  if (!e && tested) tt_score_print_local(c, all, scores);
  tt_scores_destroy(&scores);
  tt_test_table_free(&table);
  return e;
}

tt_err tt_finish(tt_comm *c, const tt_job *job, const tt_crews *crews, const tt_provenance *from)
{
  const tt_state *mine = crews->at[0].mine;
  tt_slice slice = crews->at[0].slice;
  tt_committee *all = NULL;
  float *w = NULL;
  tt_err e = tt_committee_from_cohort(job->cohorts.at[0], job->data, &all);
  if (!e) e = results_local(mine, &w);
  e = tt_agree(c, e);
  if (!e) {
    gather_members(c, mine, w, all);
    e = write_model(c, job, slice, w, all, from);
  }
  if (!e) e = write_results(c, job, mine, all, from);
  if (!e) tt_log_once(TT_LOG_INFO, "wrote %s/model.h5 and results.h5", job->cfg->run_directory);
  tt_free(w);
  tt_committee_destroy(&all);
  return e;
}
