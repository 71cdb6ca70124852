/* training_cost.c — see training_cost.h. */
#include "src/train/shard/training_cost.h"

#include "core/base/log.h"

#include <inttypes.h>
#include <stdio.h>

static void add_member(const tt_shard *shard, int64_t i, tt_training_cost *e)
{
  const tt_state *s = shard->state;
  int64_t planned = shard->cohort->member[shard->slice.first + i].hyper.epochs;
  int64_t trained = TT_FIELD(s, epoch)[i];
  e->planned += planned;
  e->trained += trained;
  if (TT_FIELD(s, status)[i] == TT_STATUS_early_stopped) e->saved += planned - trained;
  e->steps += TT_FIELD(s, step)[i];
  e->retries += TT_FIELD(s, attempt)[i];
}

tt_training_cost tt_training_cost_sum(tt_comm *c, const tt_shards *all)
{
  tt_training_cost e = {0};
  for (int64_t k = 0; k < all->count; k++)
    for (int64_t i = 0; i < all->at[k].slice.count; i++) add_member(&all->at[k], i, &e);
  int64_t sums[] = {e.planned, e.trained, e.saved, e.steps, e.retries};
  tt_allreduce_sum_i64(c, sums, 5);
  return (tt_training_cost){sums[0], sums[1], sums[2], sums[3], sums[4]};
}

void tt_training_cost_log_local(const tt_training_cost *e, int64_t steps, double seconds)
{
  char time[48] = "";
  double each = e->trained ? (double)e->steps / (double)e->trained : 0.0; /* steps per epoch */
  if (e->retries > 0)
    tt_log_root(TT_LOG_INFO, "restarts of diverged members: %" PRId64, e->retries);
  if (e->saved == 0) return;
  if (steps > 0 && each > 0.0)
    snprintf(time, sizeof time, ", about %.3g s",
             seconds * (double)e->saved * each / (double)steps);
  tt_log_root(TT_LOG_INFO,
              "early stopping saved %.0f %% of the member-epochs: %" PRId64 " of %" PRId64 "%s",
              100.0 * (double)e->saved / (double)e->planned, e->saved, e->planned, time);
}
