/* round_metrics.c — see driver_internal.h: what a round's model has come to, and what the labels
 * are. */
#include "core/base/mem.h"
#include "src/campaign/driver/driver_internal.h"
#include "io/results/results.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

uint64_t tt_hash_bytes(uint64_t h, const void *bytes, size_t n)
{
  return XXH3_64bits_withSeed(bytes, n, h);
}

uint64_t tt_hash_u64(uint64_t h, uint64_t x) { return tt_hash_bytes(h, &x, sizeof x); }

int64_t tt_campaign_labels(const tt_campaign *k)
{
  int64_t n = 0;
  for (int64_t r = 0; r < k->base->rows; r++)
    n += k->base->split[r] == TT_TRAIN || k->base->split[r] == TT_VALIDATION;
  for (int64_t i = 0; i < k->h->picks; i++)
    n += k->h->pick[i].answer == TT_ANSWER_labelled;
  return n;
}

static void offer(double *best, double y, int goal)
{
  if (isnan(y)) return;
  if (isnan(*best) || (goal == TT_GOAL_maximize ? y > *best : y < *best)) *best = y;
}

void tt_campaign_best(const tt_campaign *k, double *best)
{
  int64_t targets = k->base->targets;
  int goal = k->cfg->score_goal;
  for (int64_t t = 0; t < targets; t++)
    best[t] = NAN;
  for (int64_t r = 0; r < k->base->rows; r++)
    if (k->base->split[r] == TT_TRAIN || k->base->split[r] == TT_VALIDATION)
      for (int64_t t = 0; t < targets; t++)
        offer(&best[t], k->base->y[r * targets + t], goal);
  for (int64_t i = 0; i < k->h->picks * targets; i++)
    offer(&best[i % targets], k->h->y[i], goal);
}

uint64_t tt_campaign_labels_hash(const tt_campaign *k)
{
  const tt_history *h = k->h;
  uint64_t hash = (uint64_t)h->picks;
  for (int64_t i = 0; i < h->picks; i++) {
    hash = tt_hash_u64(hash, (uint64_t)h->pick[i].row);
    hash = tt_hash_u64(hash, (uint64_t)h->pick[i].split);
  }
  return tt_hash_bytes(hash, h->y, (size_t)(h->picks * h->targets) * sizeof *h->y);
}

/* The scale of each predicted column: of its target. */
static void column_scales(const tt_campaign *k, double *scale)
{
  int64_t column = 0;
  for (int64_t i = 0; i < k->model.count; i++) {
    const tt_committee *m = k->model.at[i];
    for (int64_t e = 0; e < m->ensembles; e++)
      for (int64_t j = 0; j < tt_committee_width(m); j++)
        scale[column++] = m->scaler.y_scale[m->ensemble[e].column[j / m->model.quantities]];
  }
}

/* Root mean square, over rows and columns, of how far predictions of the same rows have moved. */
static double moved(const tt_results *now, const tt_results *then, const double *scale)
{
  double sum = 0.0;
  int64_t n = now->rows * now->columns;
  if (now->rows == 0 || now->rows != then->rows || now->columns != then->columns) return NAN;
  for (int64_t i = 0; i < n; i++) {
    double d = (now->test.mean[i] - then->test.mean[i]) / scale[i % now->columns];
    sum += d * d;
  }
  return sqrt(sum / (double)n);
}

static tt_err change_local(tt_campaign *k, const tt_results *now, double *change)
{
  char path[TT_PATH_ROOM];
  tt_results *then = NULL;
  double *scale = NULL;
  *change = NAN;
  if (k->number == 1) return TT_OK;
  tt_round_path(k->cfg->campaign_directory, k->number - 1, "results.h5", path);
  if (tt_results_read_local(path, &then)) return TT_OK; /* removed by hand: not known */
  tt_err e = TT_ALLOC(scale, k->columns);
  if (!e) {
    column_scales(k, scale);
    *change = moved(now, then, scale);
  }
  tt_free(scale);
  tt_results_destroy(&then);
  return e;
}

static tt_err errors_local(tt_campaign *k, tt_round *round)
{
  char path[TT_PATH_ROOM];
  tt_results *now = NULL;
  tt_round_path(k->cfg->campaign_directory, k->number, "results.h5", path);
  TT_TRY(tt_results_read_local(path, &now));
  tt_err e = TT_OK;
  if (now->columns != k->columns)
    e = TT_FAIL(DATA, "%s is not of the model beside it; remove the directory of the round", path);
  if (!e) e = change_local(k, now, &round->change);
  for (int64_t i = 0; !e && i < k->columns; i++) {
    round->rmse[i] = now->rmse[i];
    round->nll[i] = now->nll[i];
  }
  tt_results_destroy(&now);
  return e;
}

tt_err tt_round_learnt(tt_campaign *k, tt_round *round)
{
  int64_t bytes = k->columns * (int64_t)sizeof(double);
  tt_err e = tt_agree(k->c, tt_comm_is_root(k->c) ? errors_local(k, round) : TT_OK);
  if (e) return e;
  tt_bcast(k->c, round->rmse, bytes);
  tt_bcast(k->c, round->nll, bytes);
  tt_bcast(k->c, &round->change, sizeof round->change);
  round->labels = tt_campaign_labels(k);
  for (int64_t i = 0; i < k->model.count; i++)
    for (int64_t m = 0; m < k->model.at[i]->members; m++)
      round->diverged += k->model.at[i]->status[m] == TT_STATUS_diverged;
  return TT_OK;
}
