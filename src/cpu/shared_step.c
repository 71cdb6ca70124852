/* shared_step.c — a step in phases: for threads that share a member, and for losses over several
 * members (engine.h: forward, apply).
 *
 * In the first phase the threads share the rows of the batch: forward pass, losses, dL/dz of all
 * layers. In the second they share the outputs of the layers: gradient and update of the parameters
 * of an output. So one thread makes each sum, in the order of a step on one thread. */
#include "src/cpu/cpu_internal.h"

#include <math.h>

/* Threads share the outputs of a layer in multiples of this number, because the kernels compute so
 * many at a time. */
enum { OUTPUT_TILE = 4 };

typedef struct shared_step {
  const tt_engine *e;
  tt_cpu_buffers *b;
  const tt_cpu_member *ctx;
  const tt_cpu_batch *batch;
  const float *delta;          /* [rows][O] dL/d(output); NULL: that of the loss */
  atomic_int infinite;         /* 1: a loss is not finite */
  const tt_cpu_update *update; /* of the weights; NULL: only the gradient is computed */
} shared_step;

/* The first output of layer l that a thread updates: it has an equal share of all weights. */
static int64_t first_output(const tt_model *m, int l, int thread, int threads)
{
  const tt_layer *layer = &m->layer[l];
  int64_t all = 0, before = 0;
  for (int k = 0; k < m->layers; k++) {
    int64_t cost = m->layer[k].out * (m->layer[k].in + 1);
    all += cost;
    before += k < l ? cost : 0;
  }
  int64_t output = (all * thread / threads - before) / (layer->in + 1);
  if (output >= layer->out) return layer->out;
  if (output <= 0) return 0;
  output = (output + OUTPUT_TILE / 2) / OUTPUT_TILE * OUTPUT_TILE;
  return output < layer->out ? output : layer->out;
}

static tt_slice share_of_outputs(const tt_model *m, int l, int thread, int threads)
{
  int64_t first = first_output(m, l, thread, threads);
  return (tt_slice){first, first_output(m, l, thread + 1, threads) - first};
}

/* Copy what the caller gave as dL/d(output), for some rows of the batch. */
static void load_delta(const shared_step *s, tt_cpu_buffers *b, tt_slice rows)
{
  const tt_model *m = &s->e->cohort->model;
  float *to = tt_cpu_delta(m, b, m->layers - 1);
  for (int64_t o = 0; o < m->outputs; o++) {
    for (int64_t r = 0; r < rows.count; r++)
      to[o * b->ld + r] = s->delta[(rows.first + r) * m->outputs + o];
    for (int64_t r = rows.count; r % TT_LANES; r++) to[o * b->ld + r] = 0.0f;
  }
}

static void forward_rows(const shared_step *s, tt_cpu_buffers *b, tt_slice rows)
{
  tt_cpu_batch batch = *s->batch;
  (void)tt_cpu_load_batch(s->e, b, s->ctx, &batch, rows);
  tt_cpu_forward(s->e->kernels, &s->e->cohort->model, s->ctx->w, b, rows.count,
                 batch.dropout.p > 0.0f ? &batch.dropout : NULL, 1);
}

/* Phase 1. */
static void share_rows(void *with, int thread, int threads)
{
  shared_step *s = with;
  const tt_model *m = &s->e->cohort->model;
  tt_slice rows = tt_cpu_share_of_rows(s->batch->count, thread, threads);
  if (rows.count < 1) return;
  tt_cpu_buffers b = tt_cpu_buffers_from_row(m, s->b, rows.first);
  tt_cpu_batch batch = *s->batch;
  if (s->delta) {
    forward_rows(s, &b, rows);
    load_delta(s, &b, rows);
  } else {
    const float *weight = tt_cpu_load_batch(s->e, &b, s->ctx, &batch, rows);
    if (!isfinite(tt_cpu_rows_loss(s->e, &b, s->ctx, &batch, rows.count, weight)))
      atomic_store_explicit(&s->infinite, 1, memory_order_relaxed);
  }
  for (int l = m->layers - 2; l >= 0; l--)
    tt_cpu_backward_layer(s->e->kernels, m, s->ctx->w, &b, l, rows.count);
  tt_cpu_backward_front(s->e->kernels, m, s->ctx->w, &b, rows.count);
}

/* The gradient of a segment of the parameters is complete. */
static void update(const shared_step *s, tt_slice segment)
{
  float *gradient = s->b->gradient[0] + segment.first;
  tt_cpu_mask_gradient(s->e, s->b, s->ctx, segment, gradient);
  if (!s->update) return;
  tt_cpu_update_weights(s->e, s->ctx, s->update, segment, gradient);
  tt_cpu_average_weights(s->e, s->ctx, segment);
}

/* The share of a thread in the front: channels of its layers. */
static void share_channels(const shared_step *s, int thread, int threads, float *gradient)
{
  const tt_model *m = &s->e->cohort->model;
  for (int l = 0; l < m->front.layers; l++) {
    const tt_front_layer *layer = &m->front.layer[l];
    tt_slice own = tt_part_slice(layer->channels, threads, thread);
    if (layer->weight < 0 || own.count < 1) continue;
    int64_t each = tt_front_weights(layer) / layer->channels;
    tt_cpu_channel_gradient(s->e->kernels, m, s->b, l, own, s->batch->count, gradient);
    update(s, (tt_slice){layer->weight + own.first * each, own.count * each});
    update(s, (tt_slice){layer->bias + own.first, own.count});
  }
}

/* Phase 2. */
static void share_outputs(void *with, int thread, int threads)
{
  const shared_step *s = with;
  const tt_model *m = &s->e->cohort->model;
  float *gradient = s->b->gradient[0];
  for (int l = m->layers - 1; l >= 0; l--) {
    const tt_layer *layer = &m->layer[l];
    tt_slice own = share_of_outputs(m, l, thread, threads);
    if (own.count < 1) continue;
    tt_cpu_layer_gradient(s->e->kernels, m, s->b, l, own, s->batch->count,
                          tt_cpu_cut(m, s->batch->count), gradient);
    update(s, (tt_slice){layer->weight + own.first * layer->in, own.count * layer->in});
    update(s, (tt_slice){layer->bias + own.first, own.count});
    if (layer->norm < 0) continue;
    update(s, (tt_slice){layer->norm + own.first, own.count});
    update(s, (tt_slice){layer->norm + layer->out + own.first, own.count});
  }
  share_channels(s, thread, threads, gradient);
}

/* Phase 3, if the gradient is clipped: its norm is known after phase 2. */
static void share_parameters(void *with, int thread, int threads)
{
  const shared_step *s = with;
  tt_slice own = tt_part_segment(s->e->cohort->model.params, threads, thread);
  tt_cpu_update_weights(s->e, s->ctx, s->update, own, s->b->gradient[0] + own.first);
  tt_cpu_average_weights(s->e, s->ctx, own);
}

/* From a loss and the deltas of all layers. */
static void take_step(shared_step *s, double loss)
{
  tt_cpu_update u;
  int clipped = s->ctx->member->hyper.clip_norm > 0.0f;
  if (!clipped) {
    u = tt_cpu_update_begin(s->e, s->ctx, 0.0);
    s->update = &u;
  }
  tt_cpu_team_run(s->ctx->team, share_outputs, s);
  if (clipped) {
    int64_t params = s->e->cohort->model.params;
    u = tt_cpu_update_begin(s->e, s->ctx, s->e->kernels->square_sum(params, s->b->gradient[0]));
    s->update = &u;
    tt_cpu_team_run(s->ctx->team, share_parameters, s);
  }
  tt_cpu_end_step(s->e, s->ctx, loss);
}

int tt_cpu_shared_step(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                       int64_t steps)
{
  tt_cpu_batch batch;
  tt_cpu_next_batch(e, b, ctx, steps, &batch);
  shared_step s = {.e = e, .b = b, .ctx = ctx, .batch = &batch};
  tt_cpu_team_run(ctx->team, share_rows, &s);
  if (atomic_load(&s.infinite)) return 0;
  double loss = tt_kernels_add_losses(e->cohort->loss, batch.count, b->term);
  if (!isfinite(loss)) return 0;
  take_step(&s, loss);
  return 1;
}

/* Forward pass alone. */
static void share_forward(void *with, int thread, int threads)
{
  const shared_step *s = with;
  tt_slice rows = tt_cpu_share_of_rows(s->batch->count, thread, threads);
  if (rows.count < 1) return;
  tt_cpu_buffers b = tt_cpu_buffers_from_row(&s->e->cohort->model, s->b, rows.first);
  forward_rows(s, &b, rows);
}

const int32_t *tt_cpu_shared_forward(const tt_engine *e, tt_cpu_buffers *b,
                                     const tt_cpu_member *ctx, int64_t *count)
{
  tt_cpu_batch batch;
  tt_cpu_next_batch(e, b, ctx, 1, &batch);
  shared_step s = {.e = e, .b = b, .ctx = ctx, .batch = &batch};
  tt_cpu_team_run(ctx->team, share_forward, &s);
  *count = batch.count;
  return batch.row;
}

int tt_cpu_shared_apply(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                        const float *delta, double loss)
{
  tt_cpu_batch batch;
  if (!isfinite(loss)) return 0;
  tt_cpu_next_batch(e, b, ctx, 1, &batch);
  shared_step s = {.e = e, .b = b, .ctx = ctx, .batch = &batch, .delta = delta};
  tt_cpu_team_run(ctx->team, share_rows, &s);
  take_step(&s, loss);
  return 1;
}
