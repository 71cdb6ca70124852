/* shared_step.c — a step in phases: for threads that share a member, and for losses over several
 * members (engine.h: forward, apply).
 *
 * In the first phase the threads share the rows of the batch: forward pass, losses, dL/dz of all
 * layers. In the second they share the outputs of the layers: gradient and update of the parameters
 * of an output. So one thread makes each sum, in the order of a step on one thread. */
#include "src/cpu/cpu_internal.h"

#include <math.h>

typedef struct shared_step {
  const tt_engine *e;
  tt_cpu_buffers *b;
  const tt_cpu_member *ctx;
  const tt_cpu_batch *batch;
  int outputs_only;            /* 1: phase 1 ends with the outputs */
  int predicts;                /* 1: these are predictions */
  const float *delta;          /* [rows][O] of all heads; NULL: that of the loss */
  float *input_gradient;       /* [rows][D] dL/d(input); NULL: not wanted */
  const tt_cpu_update *update; /* of the weights; NULL: only the gradient is computed */
} shared_step;

/* Copy what the caller gave as dL/d(output), for some rows of the batch. */
static void load_delta(const shared_step *s, tt_cpu_buffers *b, tt_slice rows)
{
  const tt_model *m = &s->e->cohort->model;
  float *dst = tt_cpu_delta(m, b, m->layers - 1);
  int64_t outputs = m->layer[m->layers - 1].out;
  for (int64_t o = 0; o < outputs; o++) {
    for (int64_t r = 0; r < rows.count; r++)
      dst[o * b->ld + r] = s->delta[(rows.first + r) * outputs + o];
    for (int64_t r = rows.count; r % TT_LANES; r++) dst[o * b->ld + r] = 0.0f;
  }
}

/* dL/d(input) of some rows, from the deltas. */
static void give_input_gradient(const tt_cpu_pass *p, float *dst)
{
  int64_t inputs = p->m->inputs;
  const float *src = tt_cpu_dense_input_gradient(p, 0);
  for (int64_t r = 0; r < p->rows; r++)
    for (int64_t i = 0; i < inputs; i++) dst[r * inputs + i] = src[i * p->b->ld + r];
}

/* Phase 1. */
static void share_rows(void *context, int thread, int threads)
{
  const shared_step *s = context;
  const tt_model *m = &s->e->cohort->model;
  tt_slice rows = tt_cpu_share_of_rows(s->batch->count, thread, threads);
  if (rows.count < 1) return;
  tt_cpu_buffers b = tt_cpu_buffers_from_row(m, s->b, rows.first);
  const tt_cpu_pass p = {s->e->kernels, m, s->ctx->w, &b, rows.count};
  if (s->predicts) {
    (void)tt_cpu_load_rows(s->e, &b, s->ctx->ensemble, s->batch->row + rows.first, rows.count);
    tt_cpu_forward(&p, NULL, 0);
    return;
  }
  const float *weight = tt_cpu_forward_batch(s->e, &b, s->ctx, s->batch, rows);
  if (s->outputs_only) return;
  if (s->delta)
    load_delta(s, &b, rows);
  else
    tt_cpu_output_loss(s->e, &b, s->batch, rows.count, weight);
  for (int l = m->layers - 2; l >= 0; l--) tt_cpu_backward_layer(&p, l);
  tt_cpu_backward_front(&p);
  if (s->input_gradient) give_input_gradient(&p, s->input_gradient + rows.first * m->inputs);
}

/* The gradient of a segment of the parameters is complete. */
static void update(const void *context, tt_slice segment)
{
  const shared_step *s = context;
  float *gradient = s->b->gradient[0] + segment.first;
  if (!s->update) return;
  tt_cpu_update_weights(s->update, segment, gradient);
  tt_cpu_average_weights(s->e, s->ctx, segment);
}

/* Phase 2. */
static void share_outputs(void *context, int thread, int threads)
{
  const shared_step *s = context;
  tt_cpu_share_gradient(&(tt_cpu_gradient_share){.e = s->e,
                                                 .b = s->b,
                                                 .end = tt_pipeline_layers(&s->e->cohort->model),
                                                 .rows = s->batch->count,
                                                 .gradient = s->b->gradient[0],
                                                 .use = update,
                                                 .with = s},
                        thread, threads);
}

/* From a loss and the deltas of all layers. If the gradient is clipped, its norm is known after
 * phase 2, and the threads share the parameters in a third phase. */
static void take_step(shared_step *s, double loss)
{
  const tt_engine *e = s->e;
  int clipped = s->ctx->member->hyper.clip_norm > 0.0f;
  tt_cpu_update u;
  tt_cpu_update_begin(e, s->ctx, &u);
  if (!clipped) s->update = &u;
  tt_cpu_team_run(s->ctx->team, share_outputs, s);
  if (clipped) {
    float *gradient = s->b->gradient[0];
    tt_cpu_clip_update(&u, tt_cpu_square_sum(e, (tt_slice){0, e->cohort->model.params}, gradient));
    u.gradient = gradient;
    tt_cpu_team_run(s->ctx->team, tt_cpu_share_update, &u);
  }
  tt_cpu_end_step(e, s->ctx, loss);
}

int tt_cpu_shared_step(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                       int64_t steps)
{
  tt_cpu_batch batch;
  tt_cpu_next_batch(e, b, ctx, steps, &batch);
  shared_step s = {.e = e, .b = b, .ctx = ctx, .batch = &batch};
  tt_cpu_team_run(ctx->team, share_rows, &s);
  double loss = tt_kernels_add_losses(e->cohort->loss, batch.count, b->term);
  if (!isfinite(loss)) return 0;
  take_step(&s, loss);
  return 1;
}

int64_t tt_cpu_shared_forward(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                              int predicts)
{
  tt_cpu_batch batch;
  tt_cpu_next_batch(e, b, ctx, 1, &batch);
  shared_step s = {
      .e = e, .b = b, .ctx = ctx, .batch = &batch, .outputs_only = 1, .predicts = predicts};
  tt_cpu_team_run(ctx->team, share_rows, &s);
  return batch.count;
}

void tt_cpu_shared_backward(const tt_engine *e, tt_cpu_buffers *b, const tt_cpu_member *ctx,
                            const float *delta, float *input_gradient)
{
  tt_cpu_batch batch;
  tt_cpu_next_batch(e, b, ctx, 1, &batch);
  shared_step s = {.e = e,
                   .b = b,
                   .ctx = ctx,
                   .batch = &batch,
                   .delta = delta,
                   .input_gradient = input_gradient};
  tt_cpu_team_run(ctx->team, share_rows, &s);
  tt_cpu_team_run(ctx->team, share_outputs, &s);
}
