/* step.c — one optimiser step of one member; see cpu_internal.h. */
#include "src/cpu/cpu_internal.h"

#include <math.h>
#include <string.h>

static int64_t min_int64(int64_t a, int64_t b) { return a < b ? a : b; }

tt_cpu_member tt_cpu_member_begin(const tt_engine *e, tt_cpu_buffers *b, int64_t i)
{
  const tt_cohort *c = e->cohort;
  const tt_state *s = e->state;
  const tt_member *m = &c->member[e->slice.first + i];
  const tt_cpu_row_lists *lists = &e->lists[tt_member_row_set(c, m)];
  int64_t rows = tt_cohort_epoch_rows(c, lists->count[TT_TRAIN]);
  b->window_count = 0;
  if (m->hyper.feature_fraction < 1.0f) tt_member_input_mask(c, m, b->input_mask);
  return (tt_cpu_member){.member = m,
                         .ensemble = &c->ensemble[m->ensemble],
                         .lists = lists,
                         .i = i,
                         .rows = rows,
                         .batches = (rows + c->batch_size - 1) / c->batch_size,
                         .w = TT_FIELD(s, weights) + i * s->params,
                         .slots = TT_FIELD(s, slots) + i * s->slots * s->params,
                         .threads = tt_cpu_threads_per_member(c, e->slice, e->threads)};
}

/* Set the gradient of weights of inputs that the member does not use to 0. */
static void mask_input_gradient(const tt_engine *e, const tt_cpu_buffers *b, tt_slice segment,
                                float *gradient)
{
  const tt_layer *first = &e->cohort->model.layer[0];
  tt_slice weights = tt_slice_intersect(segment, first->weight, first->out * first->in);
  int64_t input = weights.first % first->in, begin = weights.first + first->weight - segment.first;
  for (int64_t p = begin; p < begin + weights.count; p++) {
    if (!b->input_mask[input]) gradient[p] = 0.0f;
    input = input + 1 < first->in ? input + 1 : 0;
  }
}

void tt_cpu_gradient_squares(const tt_engine *e, const tt_cpu_buffers *b, const tt_cpu_member *ctx,
                             tt_slice segment, float *gradient, double *block)
{
  const tt_hyper *h = &ctx->member->hyper;
  if (h->feature_fraction < 1.0f) mask_input_gradient(e, b, segment, gradient);
  for (int64_t p = 0; h->clip_norm > 0.0f && p < segment.count; p += TT_NORM_BLOCK)
    block[p / TT_NORM_BLOCK] =
        e->kernels->square_sum(min_int64(TT_NORM_BLOCK, segment.count - p), gradient + p);
}

/* Sum of squares of the gradient of the whole batch, if it is clipped; masks it. */
static double square_sum(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                         float *gradient)
{
  const tt_hyper *h = &ctx->member->hyper;
  int64_t params = e->cohort->model.params;
  double sum = 0.0;
  if (e->cohort->parts == 1) {
    if (h->feature_fraction < 1.0f) mask_input_gradient(e, b, (tt_slice){0, params}, gradient);
    return h->clip_norm > 0.0f ? e->kernels->square_sum(params, gradient) : 0.0;
  }
  for (int64_t p = 0; p < params; p += TT_NORM_BLOCK) {
    double block = 0.0;
    tt_cpu_gradient_squares(e, b, ctx, (tt_slice){p, min_int64(TT_NORM_BLOCK, params - p)},
                            gradient + p, &block);
    sum += block;
  }
  return sum;
}

static void clip_gradient(int64_t params, float *gradient, double squares, float limit)
{
  float scale = tt_clip_factor(squares, limit);
  for (int64_t p = 0; scale < 1.0f && p < params; p++) gradient[p] *= scale;
}

/* Penalty on the distance from the initial weights: Pearce, Leibfried & Brintrup 2020. */
static void add_anchor_gradient(const tt_engine *e, const tt_cpu_member *ctx, tt_slice segment,
                                float *gradient)
{
  const float *start = e->anchor + ctx->i * e->cohort->model.params + segment.first;
  const float *w = ctx->w + segment.first;
  for (int64_t p = 0; p < segment.count; p++)
    gradient[p] = tt_fma(ctx->member->hyper.anchor, w[p] - start[p], gradient[p]);
}

static void average(const tt_engine *e, const tt_cpu_member *ctx)
{
  tt_state *s = e->state;
  const tt_hyper *h = &ctx->member->hyper;
  int64_t *averaged = &TT_FIELD(s, averaged)[ctx->i];
  if (e->cohort->average != TT_AVERAGE_ema) return;
  if (TT_FIELD(s, epoch)[ctx->i] < h->average_start) return;
  float *mean = TT_FIELD(s, average) + ctx->i * s->params;
  for (int64_t p = 0; p < s->params; p++)
    mean[p] = tt_ema_update(mean[p], ctx->w[p], h->average_decay, *averaged);
  ++*averaged;
}

void tt_cpu_update_weights(const tt_engine *e, const tt_cpu_member *ctx, tt_slice segment,
                           float *gradient, double squares)
{
  const tt_cohort *c = e->cohort;
  const tt_state *s = e->state;
  const tt_hyper *h = &ctx->member->hyper;
  int64_t i = ctx->i, step = TT_FIELD(s, step)[i];
  float learning_rate =
      tt_member_learning_rate(h, c->schedule, &c->schedule_options, TT_FIELD(s, lr_factor)[i],
                              TT_FIELD(s, epoch)[i], step, ctx->batches);
  tt_optimizer_args args = tt_member_optimizer_args(h, c->nesterov, learning_rate);
  tt_optimizer_bias_correction(&args, step + 1);
  if (h->clip_norm > 0.0f) clip_gradient(segment.count, gradient, squares, h->clip_norm);
  if (h->anchor > 0.0f) add_anchor_gradient(e, ctx, segment, gradient);
  e->kernels->step(c->optimizer, segment.count, ctx->w + segment.first, gradient,
                   ctx->slots + segment.first, c->model.params, args);
}

void tt_cpu_end_step(const tt_engine *e, const tt_cpu_member *ctx, double loss)
{
  tt_state *s = e->state;
  TT_FIELD(s, loss_sum)[ctx->i] += loss;
  TT_FIELD(s, batch)[ctx->i]++;
  TT_FIELD(s, step)[ctx->i]++;
  average(e, ctx);
}

/* The optimiser step; each thread takes the step of a segment. */
static void update_shared(const tt_engine *e, const tt_cpu_member *ctx, float *gradient,
                          double squares)
{
  int threads = ctx->threads;
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int t = 0; t < threads; t++) {
    unsigned mode = tt_cpu_flush_denormals();
    tt_slice segment = tt_part_segment(e->cohort->model.params, threads, t);
    tt_cpu_update_weights(e, ctx, segment, gradient + segment.first, squares);
    tt_cpu_restore_denormals(mode);
  }
}

/* The end of a step of the whole batch, from its gradient. Returns 0 if the loss is not finite. */
static int finish_step(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                       float *gradient, double loss)
{
  if (!isfinite(loss)) return 0;
  double squares = square_sum(e, b, ctx, gradient);
  if (ctx->threads > 1)
    update_shared(e, ctx, gradient, squares);
  else
    tt_cpu_update_weights(e, ctx, (tt_slice){0, e->cohort->model.params}, gradient, squares);
  tt_cpu_end_step(e, ctx, loss);
  return 1;
}

int tt_cpu_step(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx, int64_t steps)
{
  tt_cpu_batch batch;
  float *sum[TT_MAX_PART_SUMS];
  double loss[TT_MAX_PART_SUMS];
  tt_cpu_next_batch(e, b, ctx, steps, &batch);
  (void)tt_cpu_gradient(e, b, ctx, &batch, (tt_slice){0, e->cohort->parts}, ctx->threads, sum,
                        loss);
  return finish_step(e, b, ctx, sum[0], loss[0]);
}

const int32_t *tt_cpu_split_forward(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                                    int64_t *count)
{
  tt_cpu_batch batch;
  tt_cpu_next_batch(e, b, ctx, 1, &batch);
  (void)tt_cpu_load_batch(e, b, ctx, &batch, (tt_slice){0, batch.count});
  tt_cpu_forward(e->kernels, &e->cohort->model, ctx->w, b, batch.count,
                 batch.dropout.p > 0.0f ? &batch.dropout : NULL, 1);
  *count = batch.count;
  return batch.row;
}

int tt_cpu_split_apply(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                       const float *delta, double loss)
{
  int64_t rows, outputs = e->cohort->model.outputs;
  if (!isfinite(loss)) return 0;
  tt_cpu_split_forward(e, b, ctx, &rows);
  memset(b->d[0], 0, (size_t)(outputs * b->ld) * sizeof *b->d[0]);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t o = 0; o < outputs; o++) b->d[0][o * b->ld + r] = delta[r * outputs + o];
  tt_cpu_backward(e->kernels, &e->cohort->model, ctx->w, b, rows, b->gradient[0], 0);
  return finish_step(e, b, ctx, b->gradient[0], loss);
}
