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
                         .slots = TT_FIELD(s, slots) + i * s->slots * s->params};
}

/* Row numbers of slots [first, first + count) of this epoch. Computes the order of up to `steps`
 * batches at once, as many as the window holds. */
static const int32_t *batch_rows(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                                 int64_t first, int64_t count, int64_t steps)
{
  int64_t epoch = TT_FIELD(e->state, epoch)[ctx->i];
  if (e->replay) {
    int64_t epochs = e->cohort->max_epochs;
    return e->replay + (ctx->i * epochs + epoch) * ctx->rows + first;
  }
  if (first < b->window_first || first + count > b->window_first + b->window_count) {
    tt_sampler order =
        tt_member_sampler(e->cohort, ctx->member, TT_FIELD(e->state, attempt)[ctx->i],
                          ctx->lists->count[TT_TRAIN], epoch);
    int64_t batches = min_int64(b->window_size / e->cohort->batch_size, steps);
    b->window_first = first;
    b->window_count = min_int64(batches * e->cohort->batch_size, ctx->rows - first);
    e->kernels->order(&order, ctx->lists->row[TT_TRAIN], first, b->window_count, b->window);
  }
  return b->window + (first - b->window_first);
}

const float *tt_cpu_load_rows(const tt_engine *e, tt_cpu_buffers *b, const tt_ensemble *ensemble,
                              const int32_t *row, int64_t rows)
{
  const tt_dataset *d = e->data;
  int64_t n = (rows + TT_LANES - 1) / TT_LANES * TT_LANES;
  e->kernels->gather(d->inputs, d->inputs, NULL, d->x, row, rows, n, b->x, b->ld);
  e->kernels->gather(ensemble->targets, d->targets, ensemble->column, d->y, row, rows, n, b->y,
                     b->ld);
  if (!d->weight) return NULL;
  for (int64_t r = 0; r < rows; r++) b->weight[r] = d->weight[row[r]];
  return b->weight;
}

/* Add the label noise of the member. */
static void add_noise(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                      const int32_t *row, int64_t rows)
{
  const tt_ensemble *ensemble = ctx->ensemble;
  for (int64_t k = 0; k < ensemble->targets; k++)
    for (int64_t r = 0; r < rows; r++) {
      float noise = tt_label_noise(e->cohort->seed, ctx->member->stream,
                                   (uint32_t)ensemble->column[k], (uint32_t)row[r]);
      b->y[k * b->ld + r] = tt_fma(ctx->member->hyper.label_noise, noise, b->y[k * b->ld + r]);
    }
}

/* A batch: rows, sample weights and dropout. */
typedef struct batch_data {
  int64_t count;
  const int32_t *row;
  const float *weight;
  tt_dropout dropout;
  const tt_dropout *drop; /* &dropout or NULL */
} batch_data;

static void next_batch(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                       int64_t steps, batch_data *out)
{
  const tt_cohort *c = e->cohort;
  const tt_state *s = e->state;
  const tt_hyper *h = &ctx->member->hyper;
  int64_t first = TT_FIELD(s, batch)[ctx->i] * c->batch_size;
  out->count = min_int64(c->batch_size, ctx->rows - first);
  out->row = batch_rows(e, b, ctx, first, out->count, steps);
  out->weight = tt_cpu_load_rows(e, b, ctx->ensemble, out->row, out->count);
  if (h->label_noise > 0.0f) add_noise(e, b, ctx, out->row, out->count);
  out->dropout =
      (tt_dropout){.seed = tt_attempt_seed(c->seed, c->retry_reseed, TT_FIELD(s, attempt)[ctx->i]),
                   .stream = ctx->member->stream,
                   .step = TT_FIELD(s, step)[ctx->i],
                   .batch_size = (uint32_t)c->batch_size,
                   .p = h->dropout};
  out->drop = h->dropout > 0.0f ? &out->dropout : NULL;
}

/* Loss of the batch with the inputs in the buffers; writes dL/d(output) to d[0]. */
static double batch_loss(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                         const batch_data *batch)
{
  const tt_cohort *c = e->cohort;
  tt_cpu_forward(e->kernels, &c->model, ctx->w, b, batch->count, batch->drop, 1);
  return e->kernels->loss(c->loss, tt_cohort_loss_args(c), &c->model, batch->count,
                          b->z[c->model.layers - 1], b->y, batch->weight,
                          1.0f / (float)batch->count, b->d[0], b->ld);
}

/* x + step * range * sign(dL/dx): Goodfellow, Shlens & Szegedy 2015. */
static void perturb_inputs(const tt_engine *e, tt_cpu_buffers *b, float step, const float *dx,
                           int64_t rows)
{
  for (int64_t f = 0; f < e->cohort->model.inputs; f++) {
    float distance = step * e->range[f];
    for (int64_t r = 0; r < rows; r++) {
      float d = dx[f * b->ld + r], sign = d > 0.0f ? 1.0f : d < 0.0f ? -1.0f : 0.0f;
      b->x[f * b->ld + r] = tt_fma(sign, distance, b->x[f * b->ld + r]);
    }
  }
}

/* Add the gradient at the adversarial inputs. Returns 0 if the loss there is not finite. */
static int add_adversarial(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                           const batch_data *batch, const float *dx)
{
  const tt_model *m = &e->cohort->model;
  perturb_inputs(e, b, ctx->member->hyper.adversarial_epsilon, dx, batch->count);
  if (!isfinite(batch_loss(e, b, ctx, batch))) return 0;
  tt_cpu_backward(e->kernels, m, ctx->w, b, batch->count, b->adversarial_gradient, 0);
  for (int64_t p = 0; p < m->params; p++) b->gradient[p] += b->adversarial_gradient[p];
  return 1;
}

/* Set the gradient of weights of inputs that the member does not use to 0. */
static void mask_input_gradient(const tt_engine *e, tt_cpu_buffers *b)
{
  const tt_layer *first = &e->cohort->model.layer[0];
  for (int64_t o = 0; o < first->out; o++)
    for (int64_t i = 0; i < first->in; i++)
      if (!b->input_mask[i]) b->gradient[first->weight + o * first->in + i] = 0.0f;
}

static void clip_gradient(const tt_engine *e, float *gradient, float limit)
{
  int64_t params = e->cohort->model.params;
  float scale = tt_clip_factor(e->kernels->square_sum(params, gradient), limit);
  for (int64_t p = 0; scale < 1.0f && p < params; p++) gradient[p] *= scale;
}

/* Penalty on the distance from the initial weights: Pearce, Leibfried & Brintrup 2020. */
static void add_anchor_gradient(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx)
{
  int64_t params = e->cohort->model.params;
  const float *start = e->anchor + ctx->i * params;
  for (int64_t p = 0; p < params; p++)
    b->gradient[p] = tt_fma(ctx->member->hyper.anchor, ctx->w[p] - start[p], b->gradient[p]);
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

/* Update the weights with the gradient in the buffers. */
static void optimizer_update(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx)
{
  const tt_cohort *c = e->cohort;
  tt_state *s = e->state;
  const tt_hyper *h = &ctx->member->hyper;
  int64_t i = ctx->i, step = TT_FIELD(s, step)[i]++;
  float learning_rate =
      tt_member_learning_rate(h, c->schedule, &c->schedule_options, TT_FIELD(s, lr_factor)[i],
                              TT_FIELD(s, epoch)[i], step, ctx->batches);
  tt_optimizer_args args = tt_member_optimizer_args(h, c->nesterov, learning_rate);
  tt_optimizer_bias_correction(&args, step + 1);
  if (h->feature_fraction < 1.0f) mask_input_gradient(e, b);
  if (h->clip_norm > 0.0f) clip_gradient(e, b->gradient, h->clip_norm);
  if (h->anchor > 0.0f) add_anchor_gradient(e, b, ctx);
  e->kernels->step(c->optimizer, c->model.params, ctx->w, b->gradient, ctx->slots, args);
  average(e, ctx);
}

int tt_cpu_step(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx, int64_t steps)
{
  batch_data batch;
  tt_state *s = e->state;
  int adversarial = ctx->member->hyper.adversarial_epsilon > 0.0f;
  next_batch(e, b, ctx, steps, &batch);
  double loss = batch_loss(e, b, ctx, &batch);
  if (!isfinite(loss)) return 0;
  const float *dx = tt_cpu_backward(e->kernels, &e->cohort->model, ctx->w, b, batch.count,
                                    b->gradient, adversarial);
  if (adversarial && !add_adversarial(e, b, ctx, &batch, dx)) return 0;
  TT_FIELD(s, loss_sum)[ctx->i] += loss;
  TT_FIELD(s, batch)[ctx->i]++;
  optimizer_update(e, b, ctx);
  return 1;
}

const int32_t *tt_cpu_split_forward(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                                    int64_t *count)
{
  batch_data batch;
  next_batch(e, b, ctx, 1, &batch);
  tt_cpu_forward(e->kernels, &e->cohort->model, ctx->w, b, batch.count, batch.drop, 1);
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
  tt_cpu_backward(e->kernels, &e->cohort->model, ctx->w, b, rows, b->gradient, 0);
  TT_FIELD(e->state, loss_sum)[ctx->i] += loss;
  TT_FIELD(e->state, batch)[ctx->i]++;
  optimizer_update(e, b, ctx);
  return 1;
}
