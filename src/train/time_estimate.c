/* time_estimate.c — see time_estimate.h. */
#include "src/train/time_estimate.h"

#include "core/base/int.h"
#include "core/model/load_balance.h"

/* The first steps are slow, and are left out. Then it takes some seconds, and, if it can, an epoch
 * with its end. */
static const double begin_seconds = 0.5, least_seconds = 3.0, most_seconds = 10.0;

/* Number of batches in an epoch of member i: the mean of its finished epochs; before the first one
 * ends, by its number of rows. */
static double batches(const tt_shard *shard, int64_t i, double training_part)
{
  const tt_state *s = shard->state;
  const tt_cohort *c = shard->cohort;
  const tt_member *m = &c->member[shard->slice.first + i];
  int64_t epoch = TT_FIELD(s, epoch)[i], rows = c->ensemble[m->ensemble].rows.count;
  if (epoch > 0) return (double)(TT_FIELD(s, step)[i] - TT_FIELD(s, batch)[i]) / (double)epoch;
  int64_t labeled = (int64_t)(training_part * (double)(rows > 0 ? rows : shard->data->rows));
  return (double)tt_ceil_div(tt_cohort_epoch_rows(c, labeled > 0 ? labeled : 1), c->batch_size);
}

static tt_err add_shard(tt_shard *shard, double *done, double *cost)
{
  const tt_dataset *d = shard->data;
  const tt_state *s = shard->state;
  int64_t training = tt_shard_training_rows(d);
  TT_TRY(tt_shard_save_local(shard));
  for (int64_t i = 0; i < shard->slice.count; i++) {
    const tt_member *m = &shard->cohort->member[shard->slice.first + i];
    double each = tt_load_balance_cost(shard->cohort, m, training);
    double part =
        (double)TT_FIELD(s, batch)[i] / batches(shard, i, (double)training / (double)d->rows);
    int trains = TT_FIELD(s, status)[i] == TT_STATUS_training;
    *cost += each;
    *done +=
        trains ? each * ((double)TT_FIELD(s, epoch)[i] + part) / (double)m->hyper.epochs : each;
  }
  return TT_OK;
}

tt_err tt_time_estimate_update(tt_time_estimate *t, tt_shards *all, const tt_progress *progress,
                               double seconds, int *enough)
{
  double done = 0.0, cost = 0.0, end = progress->epoch_min > 0 ? least_seconds : most_seconds;
  *enough = progress->training == 0;
  if (*enough) t->training += seconds;
  if (*enough || seconds < (t->first > 0.0 ? end : begin_seconds)) return TT_OK;
  for (int64_t k = 0; k < all->count; k++) TT_TRY(add_shard(&all->at[k], &done, &cost));
  done /= cost;
  if (t->first == 0.0) {
    t->first = seconds;
    t->done = done;
    return TT_OK;
  }
  *enough = done > t->done;
  if (*enough) t->training += seconds + (1.0 - done) * (seconds - t->first) / (done - t->done);
  return TT_OK;
}
