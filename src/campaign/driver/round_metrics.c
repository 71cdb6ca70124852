/* round_metrics.c — see driver_internal.h: metrics of a round's model, and statistics of the
 * labels. */
#include "core/base/mem.h"
#include "core/base/rng.h"
#include "io/results/results_read.h"
#include "src/campaign/driver/driver_internal.h"

#include <math.h>
#include <xxhash.h>

uint64_t tt_hash_bytes(uint64_t h, const void *bytes, size_t n)
{
  return XXH3_64bits_withSeed(bytes, n, h);
}

uint64_t tt_hash_u64(uint64_t h, uint64_t x) { return tt_hash_bytes(h, &x, sizeof x); }

int tt_is_labeled_row(const tt_campaign *k, int64_t row)
{
  int8_t split = k->data->split[row];
  return split == TT_TRAIN || split == TT_VALIDATION;
}

int64_t tt_campaign_count_labels(const tt_campaign *k)
{
  int64_t n = 0;
  for (int64_t r = 0; r < k->data->rows; r++) n += tt_is_labeled_row(k, r);
  for (int64_t i = 0; i < k->h->queries; i++)
    n += k->h->query[i].label_status == TT_LABEL_STATUS_labeled;
  return n;
}

static void update_best(double *best, double y, int goal)
{
  if (isnan(y)) return;
  if (isnan(*best) || (goal == TT_GOAL_maximize ? y > *best : y < *best)) *best = y;
}

void tt_campaign_best_labels(const tt_campaign *k, double *best)
{
  int64_t targets = k->data->targets;
  int goal = k->cfg->score_goal;
  for (int64_t t = 0; t < targets; t++) best[t] = NAN;
  for (int64_t r = 0; r < k->data->rows; r++)
    if (tt_is_labeled_row(k, r))
      for (int64_t t = 0; t < targets; t++) update_best(&best[t], k->y[r * targets + t], goal);
  for (int64_t i = 0; i < k->h->queries * targets; i++)
    update_best(&best[i % targets], k->h->y[i / targets * k->h->targets + i % targets], goal);
}

uint64_t tt_campaign_hash_labels(const tt_campaign *k)
{
  const tt_history *h = k->h;
  uint64_t hash = (uint64_t)h->queries;
  for (int64_t i = 0; i < h->queries; i++) {
    hash = tt_hash_u64(hash, (uint64_t)h->query[i].row);
    hash = tt_hash_u64(hash, (uint64_t)h->query[i].split);
  }
  return tt_hash_bytes(hash, h->y, (size_t)(h->queries * h->targets) * sizeof *h->y);
}

double tt_campaign_validation_fraction(const tt_campaign *k)
{
  int64_t count[TT_SPLITS] = {0};
  if (k->cfg->label_validation_fraction >= 0.0) return k->cfg->label_validation_fraction;
  for (int64_t r = 0; r < k->data->rows; r++)
    if (k->data->split[r] >= 0) count[k->data->split[r]]++;
  return (double)count[TT_VALIDATION] / (double)(count[TT_TRAIN] + count[TT_VALIDATION]);
}

int8_t tt_campaign_choose_split(const tt_campaign *k, int64_t row, double fraction)
{
  tt_random4 r = tt_random((uint64_t)k->cfg->run_seed, (uint64_t)row, TT_PURPOSE_SPLIT, 1, 0);
  return (double)tt_uniform(r.v[0]) < fraction ? TT_VALIDATION : TT_TRAIN;
}

/* The target of each predicted column. */
static void column_targets(const tt_campaign *k, int64_t *target)
{
  int64_t column = 0;
  for (int64_t i = 0; i < k->model.count; i++) {
    const tt_trained_ensemble *m = k->model.at[i];
    for (int64_t e = 0; e < m->ensembles; e++)
      for (int64_t j = 0; j < tt_trained_ensemble_width(m); j++)
        target[column++] = m->ensemble[e].column[j / m->model.quantities];
  }
}

/* Change of a prediction of target t, normalized. */
static double scaled_change(const tt_scaler *s, int64_t t, double now, double before)
{
  tt_transform f = tt_normalize_transform((tt_normalize)s->y_normalize[t]);
  return (tt_transform_apply(f, s->y_lambda[t], now) -
          tt_transform_apply(f, s->y_lambda[t], before)) /
         s->y_scale[t];
}

/* Root mean square, over rows and columns, of the scaled change of the predictions.
 *   target  [columns] */
static double prediction_change(const tt_results *current, const tt_results *previous,
                                const tt_scaler *s, const int64_t *target)
{
  double sum = 0.0;
  int64_t n = current->rows * current->columns;
  if (current->rows == 0 || current->rows != previous->rows ||
      current->columns != previous->columns)
    return NAN;
  for (int64_t i = 0; i < n; i++) {
    double d = scaled_change(s, target[i % current->columns], current->test.mean[i],
                             previous->test.mean[i]);
    sum += d * d;
  }
  return sqrt(sum / (double)n);
}

static tt_err set_change_local(tt_campaign *k, const tt_results *current, double *change)
{
  char path[TT_PATH_MAX];
  tt_results *previous = NULL;
  int64_t *target = NULL;
  int exists = 0;
  *change = NAN;
  if (k->round_number == 1) return TT_OK;
  tt_round_path(k->directory, k->round_number - 1, "results.h5", path);
  TT_TRY(tt_file_exists(path, &exists));
  if (!exists) return TT_OK; /* removed by the user: change stays NaN */
  TT_TRY(tt_results_read_local(path, &previous));
  tt_err e = TT_ALLOC(target, k->columns);
  if (!e) {
    column_targets(k, target);
    *change = prediction_change(current, previous, &k->model.at[0]->scaler, target);
  }
  tt_free(target);
  tt_results_destroy(&previous);
  return e;
}

/* The rmse of a column on the rows behind data.file, and its standard error, from the standard
 * deviation of the squared errors. Returns the number of rows. */
static int64_t drawn_error(const tt_results *k, int64_t first, int64_t column, double *rmse,
                           double *se)
{
  double sum = 0.0, squares = 0.0;
  int64_t n = 0;
  for (int64_t i = 0; i < k->rows; i++) {
    int64_t cell = i * k->columns + column;
    double d = k->test.row[i] < first ? NAN : k->test.mean[cell] - k->test.y[cell];
    if (isnan(d)) continue;
    sum += d * d;
    squares += d * d * d * d;
    n++;
  }
  if (n < 2) return n;
  double mean = sum / (double)n, variance = fmax(0.0, squares / (double)n - mean * mean);
  *rmse = sqrt(mean);
  *se = mean > 0.0 ? sqrt(variance / (double)(n - 1)) / (2.0 * *rmse) : 0.0;
  return n;
}

/* Of the column whose error may be the largest; unknown while a target has no two drawn labels. */
static void set_drawn_error(const tt_campaign *k, const tt_results *current, tt_round *round)
{
  round->error = round->error_se = NAN;
  for (int64_t c = 0; c < k->columns; c++) {
    double rmse = NAN, se = NAN;
    int64_t n = drawn_error(current, k->data->rows, c, &rmse, &se);
    if (n < 2) {
      round->error = round->error_se = NAN;
      round->error_rows = 0;
      return;
    }
    if (isnan(current->rmse[c])) continue; /* a quantile that is no estimate of the target */
    if (rmse + se <= round->error + round->error_se) continue;
    round->error = rmse;
    round->error_se = se;
    round->error_rows = n;
  }
}

static tt_err set_errors_local(tt_campaign *k, tt_round *round)
{
  char path[TT_PATH_MAX];
  tt_results *current = NULL;
  tt_round_path(k->directory, k->round_number, "results.h5", path);
  TT_TRY(tt_results_read_local(path, &current));
  tt_err e = TT_OK;
  if (current->columns != k->columns)
    e = TT_FAIL(
        DATA, "%s does not belong to model.h5 in its directory; remove the directory of the round",
        path);
  if (!e) e = set_change_local(k, current, &round->change);
  if (!e) set_drawn_error(k, current, round);
  for (int64_t i = 0; !e && i < k->columns; i++) {
    round->rmse[i] = current->rmse[i];
    round->nll[i] = current->score[TT_METRIC_nll][i];
  }
  tt_results_destroy(&current);
  return e;
}

tt_err tt_round_set_metrics(tt_campaign *k, tt_round *round)
{
  int64_t bytes = k->columns * (int64_t)sizeof(double);
  tt_err e = tt_agree(k->c, tt_comm_is_root(k->c) ? set_errors_local(k, round) : TT_OK);
  if (e) return e;
  tt_bcast(k->c, round->rmse, bytes);
  tt_bcast(k->c, round->nll, bytes);
  tt_bcast(k->c, &round->change, sizeof round->change);
  tt_bcast(k->c, &round->error, sizeof round->error);
  tt_bcast(k->c, &round->error_se, sizeof round->error_se);
  tt_bcast(k->c, &round->error_rows, sizeof round->error_rows);
  round->labels = tt_campaign_count_labels(k);
  for (int64_t i = 0; i < k->model.count; i++)
    for (int64_t m = 0; m < k->model.at[i]->members; m++)
      round->diverged += k->model.at[i]->status[m] == TT_STATUS_diverged;
  return TT_OK;
}
