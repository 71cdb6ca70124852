/* member.c — epochs and early stopping of one member; see cpu_internal.h. */
#include "src/cpu/cpu_internal.h"

#include "core/model/epoch_end.h"

#include <math.h>
#include <string.h>

/* Rows whose losses are computed in the buffers: at most b->rows. */
typedef struct loss_rows {
  const tt_engine *e;
  tt_cpu_buffers *b;
  const tt_ensemble *ensemble;
  const float *w;
  const int32_t *row;
  int64_t rows;
  tt_slice passes; /* of score_passes, each over as many rows as the buffers have */
} loss_rows;

/* The terms of the losses of a share of the rows. */
static void score_share(void *context, int thread, int threads)
{
  const loss_rows *s = context;
  const tt_cohort *c = s->e->cohort;
  const tt_kernels *k = s->e->kernels;
  tt_slice own = tt_cpu_share_of_rows(s->rows, thread, threads);
  if (own.count < 1) return;
  tt_cpu_buffers b = tt_cpu_buffers_from_row(&c->model, s->b, own.first);
  const float *weight = tt_cpu_load_rows(s->e, &b, s->ensemble, s->row + own.first, own.count);
  tt_cpu_forward(&(tt_cpu_pass){k, &c->model, s->w, &b, own.count}, NULL, 0);
  k->loss(c->loss, tt_cohort_loss_args(c), &c->model, own.count, b.z[c->model.layers - 1], b.y,
          s->e->data->label_variance ? b.variance : NULL, weight, 1.0f, b.term, NULL, b.ld);
}

static double rows_loss(tt_cpu_team *team, loss_rows s)
{
  tt_cpu_team_run(team, score_share, &s);
  return tt_kernels_add_losses(s.e->cohort->loss, s.rows, s.b->term);
}

double tt_cpu_mean_loss(const tt_engine *e, tt_cpu_buffers *b, tt_cpu_team *team,
                        const tt_ensemble *ensemble, const float *w, const int32_t *row,
                        int64_t count)
{
  double sum = 0.0;
  for (int64_t first = 0; first < count; first += b->rows)
    sum += rows_loss(
        team, (loss_rows){e, b, ensemble, w, row + first, tt_min_i64(b->rows, count - first), {0}});
  return count ? sum / (double)count : (double)NAN;
}

/* The terms of a share of the passes over rows. */
static void score_passes(void *context, int thread, int threads)
{
  const loss_rows *all = context;
  tt_slice own = tt_part_slice(all->passes.count, threads, thread);
  for (int64_t k = all->passes.first + own.first, end = k + own.count; k < end; k++) {
    loss_rows s = *all;
    s.b = all->e->buffers[thread];
    s.row += k * s.b->rows;
    s.rows = tt_min_i64(s.b->rows, s.rows - k * s.b->rows);
    s.e->term[k] = rows_loss(NULL, s);
  }
}

double tt_cpu_shared_mean_loss(const tt_engine *e, const tt_cpu_member *ctx, const float *w,
                               const int32_t *row, int64_t count)
{
  int64_t terms = tt_ceil_div(count, e->buffers[0]->rows);
  double sum = 0.0;
  loss_rows s = {e, NULL, ctx->ensemble, w, row, count, {0, terms}};
  if (ctx->share) s.passes = tt_part_slice(terms, ctx->share->engines, ctx->share->engine);
  tt_cpu_fork(ctx->threads, score_passes, &s);
  if (ctx->share) ctx->share->gather(ctx->share->with, terms, e->term);
  for (int64_t k = 0; k < terms; k++) sum += e->term[k];
  return sum / (double)count;
}

int tt_cpu_are_finite(const float *w, int64_t count)
{
  float probe[TT_LANES] = {0}, sum = 0.0f; /* stay 0 for finite weights, else become NaN */
  int64_t i = 0;
  for (; i + TT_LANES <= count; i += TT_LANES)
    for (int l = 0; l < TT_LANES; l++) probe[l] += w[i + l] * 0.0f;
  for (; i < count; i++) sum += w[i] * 0.0f;
  for (int l = 0; l < TT_LANES; l++) sum += probe[l];
  return sum == 0.0f;
}

/* Add the weights at the end of the epoch to their mean (swa). */
static void average(const tt_engine *e, const tt_cpu_member *ctx)
{
  tt_state *s = e->state;
  if (e->cohort->average != TT_AVERAGE_swa) return;
  if (TT_FIELD(s, epoch)[ctx->i] < ctx->member->hyper.average_start) return;
  int64_t *averaged = &TT_FIELD(s, averaged)[ctx->i];
  const float *w = ctx->w + e->own.first;
  float *mean = TT_FIELD(s, average) + ctx->i * e->own.count;
  for (int64_t p = 0; p < e->own.count; p++) mean[p] = tt_swa_update(mean[p], w[p], *averaged);
  ++*averaged;
}

/* The current weights for predictions of a member. */
static const float *prediction_weights(const tt_engine *e, const tt_cpu_member *ctx)
{
  const tt_state *s = e->state;
  const tt_epoch_sharing *share = ctx->share;
  if (!s->averages || !TT_FIELD(s, averaged)[ctx->i]) return ctx->w;
  const float *mean = TT_FIELD(s, average) + ctx->i * e->own.count;
  if (!e->is_shared || !share) return mean;
  memcpy(share->scratch + e->own.first, mean, (size_t)e->own.count * sizeof *mean);
  share->gather_segments(share->with, share->scratch);
  return share->scratch;
}

static void update_plateau(const tt_engine *e, const tt_cpu_member *ctx, double loss)
{
  tt_state *s = e->state;
  int64_t i = ctx->i;
  const tt_hyper *h = &ctx->member->hyper;
  if (e->cohort->schedule != TT_SCHEDULE_reduce_on_plateau) return;
  tt_plateau p = {TT_FIELD(s, lr_factor)[i], TT_FIELD(s, plateau_best)[i],
                  TT_FIELD(s, plateau_wait)[i]};
  p = tt_plateau_end_epoch(p, loss, h->schedule_gamma, h->schedule_min, h->schedule_step,
                           h->min_delta);
  TT_FIELD(s, lr_factor)[i] = p.rate;
  TT_FIELD(s, plateau_best)[i] = p.best;
  TT_FIELD(s, plateau_wait)[i] = p.wait;
}

/* After the last batch of an epoch: losses, averages, validation and new status. */
static void end_epoch(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx)
{
  tt_state *s = e->state;
  const tt_hyper *h = &ctx->member->hyper;
  int64_t i = ctx->i, count = ctx->lists->count[TT_VALIDATION];
  int watched = count > 0;
  int32_t epoch = TT_FIELD(s, epoch)[i];
  double loss = TT_FIELD(s, loss_sum)[i] / (double)ctx->rows;
  int finite = tt_cpu_are_finite(ctx->w, s->params);
  TT_FIELD(s, loss_train)[i * s->epochs + epoch] = (float)loss;
  if (finite) average(e, ctx);
  const float *w = finite && count ? prediction_weights(e, ctx) : NULL;
  if (w) {
    const int32_t *row = ctx->lists->row[TT_VALIDATION];
    int shared = ctx->threads > 1 || ctx->share;
    loss = shared ? tt_cpu_shared_mean_loss(e, ctx, w, row, count)
                  : tt_cpu_mean_loss(e, b, ctx->team, ctx->ensemble, w, row, count);
    TT_FIELD(s, loss_validation)[i * s->epochs + epoch] = (float)loss;
  }
  finite = finite && isfinite(loss);
  if (finite && watched && tt_epoch_is_best(h, loss, TT_FIELD(s, best_loss)[i])) {
    TT_FIELD(s, best_loss)[i] = loss;
    TT_FIELD(s, best_epoch)[i] = epoch;
    memcpy(TT_FIELD(s, best_weights) + i * e->own.count, w + e->own.first,
           (size_t)e->own.count * sizeof *w);
  }
  if (finite) update_plateau(e, ctx, loss);
  TT_FIELD(s, loss_sum)[i] = 0.0;
  TT_FIELD(s, batch)[i] = 0;
  TT_FIELD(s, epoch)[i] = epoch + 1;
  TT_FIELD(s, status)
  [i] = (int8_t)tt_epoch_end_status(h, epoch, TT_FIELD(s, best_epoch)[i], watched, finite);
  b->window_count = 0;
}

int tt_cpu_end_epoch_if_due(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx)
{
  if (TT_FIELD(e->state, batch)[ctx->i] < ctx->batches) return 0;
  end_epoch(e, b, ctx);
  return 1;
}

/* The next step of a member, by the threads that its team now has. */
static int take_step(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                     tt_cpu_pair *pair, int64_t steps)
{
  int threads = tt_cpu_team_threads(ctx->team);
  if (threads == 2 && ctx->team->pair_scratch) return tt_cpu_pair_step(pair, steps);
  tt_cpu_pair_end(pair);
  return threads > 1 ? tt_cpu_shared_step(e, b, ctx, steps) : tt_cpu_step(e, b, ctx, steps);
}

int64_t tt_cpu_train_member(tt_engine *e, tt_cpu_buffers *b, tt_cpu_team *team, int64_t i,
                            int64_t steps)
{
  tt_cpu_member ctx = tt_cpu_member_begin(e, b, i);
  int8_t *status = &TT_FIELD(e->state, status)[i];
  int64_t left = tt_cpu_steps_left(e, i, steps);
  tt_cpu_pair pair = {0};
  int64_t done = 0;
  ctx.team = team;
  if (team && team->pair_scratch) tt_cpu_pair_begin(e, b, &ctx, &pair);
  while (done < steps && *status == TT_STATUS_training) {
    if (!take_step(e, b, &ctx, &pair, steps - done)) {
      *status = TT_STATUS_diverged;
      break;
    }
    tt_cpu_team_set_left(team, left - ++done);
    tt_cpu_end_epoch_if_due(e, b, &ctx);
  }
  return done;
}
