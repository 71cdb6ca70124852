/* step.c — one optimizer step of one member; see cpu_internal.h. */
#include "src/cpu/cpu_internal.h"

#include <math.h>
#include <string.h>

tt_cpu_member tt_cpu_member_begin(const tt_engine *e, tt_cpu_buffers *b, int64_t i)
{
  const tt_cohort *c = e->cohort;
  const tt_state *s = e->state;
  const tt_member *m = &c->member[e->slice.first + i];
  const tt_cpu_row_lists *lists = &e->lists[tt_member_row_set(c, m)];
  int64_t rows = e->batch ? e->batch->epoch_rows : tt_cohort_epoch_rows(c, lists->count[TT_TRAIN]);
  b->window_count = 0;
  return (tt_cpu_member){.member = m,
                         .ensemble = &c->ensemble[m->ensemble],
                         .lists = lists,
                         .i = i,
                         .rows = rows,
                         .batches = rows ? tt_ceil_div(rows, c->batch_size) : INT64_MAX,
                         .w = TT_FIELD(s, weights) + i * s->params,
                         .slots = TT_FIELD(s, slots) + i * s->slots * e->own.count,
                         .threads = tt_cpu_threads_per_member(c, e->slice, e->threads)};
}

double tt_cpu_square_sum(const tt_engine *e, tt_slice segment, const float *gradient)
{
  double sum = 0.0;
  int running;
  int64_t end = segment.first + segment.count;
  for (int64_t p = segment.first; p < end;) {
    tt_slice same = tt_model_same_use(&e->cohort->model, p, end, &running);
    if (!running) sum += e->kernels->square_sum(same.count, gradient + (p - segment.first));
    p += same.count;
  }
  return sum;
}

/* Sum of squares of the gradient of the whole batch; of a batch of several parts, as the engines
 * add it that share them. */
static double square_sum(const tt_engine *e, const float *gradient)
{
  int64_t params = e->cohort->model.params;
  int64_t each = e->cohort->parts > 1 ? TT_NORM_BLOCK : params;
  double sum = 0.0;
  for (int64_t p = 0; p < params; p += each)
    sum += tt_cpu_square_sum(e, (tt_slice){p, tt_min_i64(each, params - p)}, gradient + p);
  return sum;
}

/* 1 if the average of the weights takes them after this step (ema). */
static int is_averaged(const tt_engine *e, const tt_cpu_member *ctx)
{
  return e->cohort->average == TT_AVERAGE_ema &&
         TT_FIELD(e->state, epoch)[ctx->i] >= ctx->member->hyper.average_start;
}

void tt_cpu_average_weights(const tt_engine *e, const tt_cpu_member *ctx, tt_slice segment)
{
  tt_state *s = e->state;
  if (!is_averaged(e, ctx)) return;
  int64_t averaged = TT_FIELD(s, averaged)[ctx->i];
  float decay = ctx->member->hyper.average_decay;
  const float *w = ctx->w + segment.first;
  float *mean = TT_FIELD(s, average) + ctx->i * e->own.count + (segment.first - e->own.first);
  for (int64_t p = 0; p < segment.count; p++)
    mean[p] = tt_ema_update(mean[p], w[p], decay, averaged);
}

void tt_cpu_update_begin(const tt_engine *e, const tt_cpu_member *ctx, tt_cpu_update *out)
{
  const tt_cohort *c = e->cohort;
  const tt_state *s = e->state;
  const tt_hyper *h = &ctx->member->hyper;
  int64_t i = ctx->i, step = TT_FIELD(s, step)[i];
  float rate =
      tt_member_learning_rate(h, c->schedule, &c->schedule_options, TT_FIELD(s, lr_factor)[i],
                              TT_FIELD(s, epoch)[i], step, ctx->batches);
  out->e = e;
  out->ctx = ctx;
  out->scale = 1.0f;
  out->args = tt_member_optimizer_args(h, c->nesterov, rate);
  tt_optimizer_bias_correction(&out->args, step + 1);
}

void tt_cpu_clip_update(tt_cpu_update *u, double squares)
{
  u->scale = tt_clip_factor(squares, u->ctx->member->hyper.clip_norm);
}

/* Parameters of one factor on the learning rate. */
static void update_weights(const tt_cpu_update *u, tt_slice segment, float rate, float *gradient)
{
  const tt_engine *e = u->e;
  const tt_cpu_member *ctx = u->ctx;
  for (int64_t p = 0; u->scale < 1.0f && p < segment.count; p++) gradient[p] *= u->scale;
  e->kernels->step(e->cohort->optimizer, segment.count, ctx->w + segment.first, gradient,
                   ctx->slots + (segment.first - e->own.first), e->own.count,
                   tt_layer_optimizer_args(u->args, rate));
}

void tt_cpu_update_weights(const tt_cpu_update *u, tt_slice segment, float *gradient)
{
  int64_t end = segment.first + segment.count;
  for (int64_t p = segment.first; p < end;) {
    float rate;
    tt_slice same = tt_model_same_rate(&u->e->cohort->model, p, end, &rate);
    if (rate > 0.0f) update_weights(u, same, rate, gradient + (p - segment.first));
    for (int64_t k = p; rate < 0.0f && k < p + same.count; k++)
      u->ctx->w[k] += gradient[k - segment.first];
    p += same.count;
  }
}

static void update_segment(const tt_cpu_update *u, tt_slice segment)
{
  tt_cpu_update_weights(u, segment, u->gradient + segment.first);
  tt_cpu_average_weights(u->e, u->ctx, segment);
}

void tt_cpu_share_update(void *update, int thread, int threads)
{
  const tt_cpu_update *u = update;
  update_segment(u, tt_part_segment(u->e->cohort->model.params, threads, thread));
}

void tt_cpu_end_step(const tt_engine *e, const tt_cpu_member *ctx, double loss)
{
  tt_state *s = e->state;
  TT_FIELD(s, loss_sum)[ctx->i] += loss;
  if (ctx->rows) TT_FIELD(s, batch)[ctx->i]++;
  if (e->batch) e->batch->loss[ctx->i] = loss;
  TT_FIELD(s, step)[ctx->i]++;
  if (is_averaged(e, ctx)) TT_FIELD(s, averaged)[ctx->i]++;
}

int tt_cpu_finish_step(const tt_engine *e, const tt_cpu_member *ctx, tt_cpu_update *u, double loss)
{
  if (!isfinite(loss)) return 0;
  if (ctx->member->hyper.clip_norm > 0.0f) tt_cpu_clip_update(u, square_sum(e, u->gradient));
  if (ctx->threads > 1)
    tt_cpu_fork(ctx->threads, tt_cpu_share_update, u);
  else
    update_segment(u, (tt_slice){0, e->cohort->model.params});
  tt_cpu_end_step(e, ctx, loss);
  return 1;
}

int tt_cpu_step(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx, int64_t steps)
{
  tt_cpu_batch batch;
  float *sum[TT_MAX_PART_SUMS];
  double loss[TT_MAX_PART_SUMS];
  tt_cpu_update u;
  tt_cpu_next_batch(e, b, ctx, steps, &batch);
  tt_cpu_update_begin(e, ctx, &u); /* before the gradient: the processor computes both at a time */
  (void)tt_cpu_gradient(e, b, ctx, &batch, (tt_slice){0, e->cohort->parts}, ctx->threads, sum,
                        loss);
  u.gradient = sum[0];
  return tt_cpu_finish_step(e, ctx, &u, loss[0]);
}
