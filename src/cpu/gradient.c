/* gradient.c — the next batch of one member and its gradient, part by part; see cpu_internal.h. */
#include "src/cpu/cpu_internal.h"

#include "core/formulas/layer_norm.h"

#include <math.h>
#include <string.h>

/* The row order of some slots of an epoch, in the window. */
typedef struct ordering {
  const tt_engine *e;
  tt_cpu_buffers *b;
  const tt_cpu_member *ctx;
  tt_sampler order;
} ordering;

static void order_share(void *context, int thread, int threads)
{
  const ordering *o = context;
  const tt_cpu_buffers *b = o->b;
  tt_slice own = tt_cpu_share_of_rows(b->window_count, thread, threads);
  o->e->kernels->order(&o->order, o->ctx->lists->row[TT_TRAIN], b->window_first + own.first,
                       own.count, b->window + own.first);
}

/* Row numbers of slots [first, first + count) of this epoch. Computes the order of up to `steps`
 * batches at once, as many as the window holds. */
static const int32_t *batch_rows(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                                 int64_t first, int64_t count, int64_t steps)
{
  int64_t epoch = TT_FIELD(e->state, epoch)[ctx->i];
  if (e->batch) return e->batch->row + ctx->i * e->batch->stride;
  if (e->replay) {
    int64_t epochs = e->cohort->max_epochs;
    return e->replay + (ctx->i * epochs + epoch) * ctx->rows + first;
  }
  if (first < b->window_first || first + count > b->window_first + b->window_count) {
    ordering o = {e, b, ctx,
                  tt_member_sampler(e->cohort, ctx->member, TT_FIELD(e->state, attempt)[ctx->i],
                                    ctx->lists->count[TT_TRAIN], epoch)};
    int64_t batches = tt_min_i64(b->window_size / e->cohort->batch_size, steps);
    b->window_first = first;
    b->window_count = tt_min_i64(batches * e->cohort->batch_size, ctx->rows - first);
    tt_cpu_team_run(ctx->team, order_share, &o);
  }
  return b->window + (first - b->window_first);
}

const float *tt_cpu_load_rows(const tt_engine *e, tt_cpu_buffers *b, const tt_ensemble *ensemble,
                              const int32_t *row, int64_t rows)
{
  const tt_dataset *d = e->data;
  int64_t n = tt_lanes_up(rows);
  e->kernels->gather(d->inputs, d->inputs, NULL, d->x, row, rows, n, b->x, b->ld);
  if (!d->y) return NULL;
  e->kernels->gather(ensemble->targets, d->targets, ensemble->column, d->y, row, rows, n, b->y,
                     b->ld);
  if (d->label_variance)
    e->kernels->gather(ensemble->targets, d->targets, ensemble->column, d->label_variance, row,
                       rows, n, b->variance, b->ld);
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
      float noise =
          tt_label_noise(e->cohort->seed, ctx->member->stream, (uint32_t)ensemble->column[k],
                         (uint32_t)(row[r] % e->data->rows));
      b->y[k * b->ld + r] = tt_fma(ctx->member->hyper.label_noise, noise, b->y[k * b->ld + r]);
    }
}

void tt_cpu_next_batch(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                       int64_t steps, tt_cpu_batch *out)
{
  const tt_cohort *c = e->cohort;
  const tt_state *s = e->state;
  int64_t first = TT_FIELD(s, batch)[ctx->i] * c->batch_size;
  out->count = e->batch ? e->batch->count : tt_min_i64(c->batch_size, ctx->rows - first);
  out->row = batch_rows(e, b, ctx, first, out->count, steps);
  out->dropout =
      (tt_dropout){.seed = tt_attempt_seed(c->seed, c->retry_reseed, TT_FIELD(s, attempt)[ctx->i]),
                   .stream = ctx->member->stream,
                   .step = TT_FIELD(s, step)[ctx->i],
                   .batch_size = (uint32_t)c->batch_size,
                   .p = ctx->member->hyper.dropout};
}

const float *tt_cpu_load_batch(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                               tt_cpu_batch *batch, tt_slice rows)
{
  const int32_t *row = batch->row + rows.first;
  const float *weight = tt_cpu_load_rows(e, b, ctx->ensemble, row, rows.count);
  if (ctx->member->hyper.label_noise > 0.0f && e->data->y) add_noise(e, b, ctx, row, rows.count);
  batch->dropout.first = (uint32_t)rows.first;
  return weight;
}

void tt_cpu_output_loss(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_batch *batch,
                        int64_t rows, const float *weight)
{
  const tt_cohort *c = e->cohort;
  const tt_model *m = &c->model;
  e->kernels->loss(c->loss, tt_cohort_loss_args(c), m, rows, b->z[m->layers - 1], b->y,
                   e->data->label_variance ? b->variance : NULL, weight, 1.0f / (float)batch->count,
                   b->term, tt_cpu_delta(m, b, m->layers - 1), b->ld);
}

const float *tt_cpu_forward_batch(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                                  const tt_cpu_batch *batch, tt_slice rows)
{
  tt_cpu_batch current = *batch;
  const float *weight = tt_cpu_load_batch(e, b, ctx, &current, rows);
  const tt_cpu_pass p = {e->kernels, &e->cohort->model, ctx->w, b, rows.count};
  tt_cpu_forward(&p, &current.dropout, 1);
  return weight;
}

/* Loss and dL/dz of all layers of some rows of the batch. */
static void panel_deltas(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                         const tt_cpu_batch *batch, tt_slice rows)
{
  const float *weight = tt_cpu_forward_batch(e, b, ctx, batch, rows);
  tt_cpu_output_loss(e, b, batch, rows.count, weight);
  const tt_cpu_pass p = {e->kernels, &e->cohort->model, ctx->w, b, rows.count};
  for (int l = e->cohort->model.layers - 2; l >= 0; l--) tt_cpu_backward_layer(&p, l);
}

void tt_cpu_panels_gradient(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                            const tt_cpu_batch *batch, tt_slice rows, int64_t cut, float *gradient)
{
  enum { PANEL = 64 };
  const tt_model *m = &e->cohort->model;
  if (rows.count <= PANEL) panel_deltas(e, b, ctx, batch, rows);
  for (int64_t r = 0; rows.count > PANEL && r < rows.count; r += PANEL) {
    tt_cpu_buffers v = tt_cpu_buffers_from_row(m, b, r);
    tt_slice panel = {rows.first + r, tt_min_i64(PANEL, rows.count - r)};
    panel_deltas(e, &v, ctx, batch, panel);
  }
  const tt_cpu_pass p = {e->kernels, m, ctx->w, b, rows.count};
  for (int l = m->layers - 1; l >= 0; l--)
    tt_cpu_layer_gradient(&p, l, (tt_slice){0, m->layer[l].out}, cut, gradient);
}

static void add(int64_t params, const float *src, float *dst)
{
  for (int64_t p = 0; p < params; p++) dst[p] += src[p];
}

/* Gradient of some rows of the batch; returns their loss, NaN if a loss is not finite. */
static double rows_gradient(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                            const tt_cpu_batch *batch, tt_slice slice, float *gradient)
{
  const tt_model *m = &e->cohort->model;
  int panels = tt_cpu_is_in_panels(m);
  /* Each addition waits for the one before. The processor adds one half beside the products of the
   * backward pass, the other one beside the roots and quotients of the optimizer. */
  int64_t early = panels || slice.count > TT_LOSS_CHUNK ? 0 : slice.count / 2;
  double loss = 0.0;
  if (slice.count == 0) {
    memset(gradient, 0, (size_t)e->cohort->model.params * sizeof *gradient);
    return 0.0;
  }
  if (panels)
    tt_cpu_panels_gradient(e, b, ctx, batch, slice, tt_cpu_cut(m, slice.count), gradient);
  else {
    tt_cpu_output_loss(e, b, batch, slice.count, tt_cpu_forward_batch(e, b, ctx, batch, slice));
    loss = tt_kernels_add_terms(0.0, early, b->term);
    tt_cpu_backward(&(tt_cpu_pass){e->kernels, m, ctx->w, b, slice.count}, gradient);
  }
  loss = early ? tt_kernels_add_terms(loss, slice.count - early, b->term + early)
               : tt_kernels_add_losses(e->cohort->loss, slice.count, b->term);
  return isfinite(loss) ? loss : (double)NAN;
}

/* The sums of a slice of the parts, computed by one thread in its own buffers. */
static int slice_gradient(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                          const tt_cpu_batch *batch, tt_slice parts, double *loss)
{
  int64_t all = e->cohort->parts;
  tt_part_sums sums = {.parts = all};
  for (int64_t i = parts.first; i < parts.first + parts.count; i++) {
    tt_slice rows = tt_part_rows(batch->count, all, i);
    int top = sums.count;
    b->running_share = tt_batch_norm_share(i, tt_min_i64(all, batch->count));
    loss[top] = rows_gradient(e, b, ctx, batch, rows, b->gradient[top]);
    tt_part_sums_push(&sums, i, 0);
    for (; tt_part_sums_merge(&sums); top--) {
      add(e->cohort->model.params, b->gradient[top], b->gradient[top - 1]);
      loss[top - 1] += loss[top];
    }
  }
  return sums.count;
}

/* A gradient to be added to another one; each thread adds its segment. */
typedef struct addition {
  int64_t params;
  const float *from;
  float *to;
} addition;

static void add_share(void *context, int thread, int threads)
{
  const addition *a = context;
  tt_slice s = tt_part_segment(a->params, threads, thread);
  add(s.count, a->from + s.first, a->to + s.first);
}

static tt_slice share_of(tt_slice parts, int threads, int thread)
{
  tt_slice own = tt_part_slice(parts.count, threads, thread);
  return (tt_slice){parts.first + own.first, own.count};
}

/* Add the sums of all threads in the order of the tree. */
static int add_threads(const tt_engine *e, tt_slice parts, int threads, float **sum, double *loss)
{
  int64_t all = e->cohort->parts;
  tt_part_sums sums = {.parts = all};
  for (int t = 0; t < threads; t++) {
    tt_part_sums own = tt_part_sums_of(all, share_of(parts, threads, t), NULL);
    for (int k = 0; k < own.count; k++) {
      int top = sums.count;
      sum[top] = e->buffers[t]->gradient[k];
      loss[top] = e->buffers[t]->loss[k];
      tt_part_sums_push(&sums, own.node[k].index, own.node[k].level);
      for (; tt_part_sums_merge(&sums); top--) {
        tt_cpu_fork(threads, add_share,
                    &(addition){e->cohort->model.params, sum[top], sum[top - 1]});
        loss[top - 1] += loss[top];
      }
    }
  }
  return sums.count;
}

/* Parts of a batch, which threads share. */
typedef struct shared_parts {
  const tt_engine *e;
  const tt_cpu_member *ctx;
  const tt_cpu_batch *batch;
  tt_slice parts;
} shared_parts;

static void share_parts(void *context, int thread, int threads)
{
  const shared_parts *s = context;
  tt_cpu_buffers *b = s->e->buffers[thread];
  (void)slice_gradient(s->e, b, s->ctx, s->batch, share_of(s->parts, threads, thread), b->loss);
}

int tt_cpu_gradient(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                    const tt_cpu_batch *batch, tt_slice parts, int threads,
                    float *sum[TT_MAX_PART_SUMS], double loss[TT_MAX_PART_SUMS])
{
  if (e->cohort->parts == 1 && parts.count == 1) {
    sum[0] = b->gradient[0];
    loss[0] = rows_gradient(e, b, ctx, batch, (tt_slice){0, batch->count}, sum[0]);
    return 1;
  }
  if (threads == 1) {
    int sums = slice_gradient(e, b, ctx, batch, parts, loss);
    memcpy(sum, b->gradient, (size_t)sums * sizeof *sum);
    return sums;
  }
  tt_cpu_fork(threads, share_parts, &(shared_parts){e, ctx, batch, parts});
  return add_threads(e, parts, threads, sum, loss);
}

/* The kernels compute four outputs at a time. */
enum { OUTPUT_TILE = 4 };

/* The first output of dense layer l that a thread has: of dense layers [first, end) each thread has
 * an equal share of all weights. */
static int64_t first_output(const tt_model *m, int first, int end, int l, int thread, int threads)
{
  const tt_layer *layer = &m->layer[l];
  int64_t all = 0, before = 0;
  for (int k = first; k < end; k++) {
    int64_t cost = m->layer[k].out * (m->layer[k].in + 1);
    all += cost;
    before += k < l ? cost : 0;
  }
  int64_t output = (all * thread / threads - before) / (layer->in + 1);
  if (output >= layer->out) return layer->out;
  if (output <= 0) return 0;
  return tt_min_i64((output + OUTPUT_TILE / 2) / OUTPUT_TILE * OUTPUT_TILE, layer->out);
}

static void use(const tt_cpu_gradient_share *s, int64_t first, int64_t count)
{
  if (s->use) s->use(s->with, (tt_slice){first, count});
}

static void dense_share(const tt_cpu_gradient_share *s, const tt_cpu_pass *p, int l, tt_slice own)
{
  const tt_layer *layer = &p->m->layer[l];
  tt_cpu_layer_gradient(p, l, own, tt_cpu_cut(p->m, s->rows), s->gradient);
  use(s, layer->weight + own.first * layer->in, own.count * layer->in);
  use(s, layer->bias + own.first, own.count);
  if (layer->norm < 0) return;
  use(s, layer->norm + own.first, own.count);
  use(s, layer->norm + layer->out + own.first, own.count);
}

static void front_share(const tt_cpu_gradient_share *s, const tt_cpu_pass *p, int l, tt_slice own)
{
  const tt_front_layer *layer = &p->m->front.layer[l];
  if (layer->weight < 0) return;
  int64_t each = tt_front_weights(layer) / layer->channels;
  tt_cpu_channel_gradient(p, l, own, s->gradient);
  use(s, layer->weight + own.first * each, own.count * each);
  if (layer->bias >= 0) use(s, layer->bias + own.first, own.count);
  if (layer->running < 0) return;
  use(s, layer->running + own.first, own.count);
  use(s, layer->running + layer->channels + own.first, own.count);
}

void tt_cpu_share_gradient(const tt_cpu_gradient_share *s, int thread, int threads)
{
  const tt_model *m = &s->e->cohort->model;
  int front = m->front.layers, first = s->first > front ? s->first - front : 0;
  int end = s->end - front;
  const tt_cpu_pass p = {s->e->kernels, m, NULL, s->b, s->rows};
  for (int l = end - 1; l >= first; l--) {
    int64_t begin = first_output(m, first, end, l, thread, threads);
    int64_t stop = first_output(m, first, end, l, thread + 1, threads);
    if (stop > begin) dense_share(s, &p, l, (tt_slice){begin, stop - begin});
  }
  for (int l = s->first; l < front && l < s->end; l++) {
    tt_slice own = tt_part_slice(m->front.layer[l].channels, threads, thread);
    if (own.count > 0) front_share(s, &p, l, own);
  }
}
