/* given_rows.c — steps on rows of the caller; see engine.h: set_batch, forward, backward, update,
 * take_gradient. */
#include "src/cpu/cpu_internal.h"

#include "core/base/mem.h"

#include <math.h>
#include <string.h>

/* What the engine keeps of the batches of the caller. */
typedef struct tt_cpu_given {
  tt_batch batch;
  tt_dataset data; /* its arrays; nothing else is set */
  float *gradient; /* [M][P] of the next update; NULL until the first call of backward */
  int is_summed;   /* 1: it holds that of a call of backward */
} tt_cpu_given;

void tt_cpu_given_destroy(tt_engine *e)
{
  if (e->given) tt_free(e->given->gradient);
  tt_free(e->given);
}

tt_err tt_cpu_set_batch(tt_engine *e, const tt_batch *batch)
{
  const tt_model *m = &e->cohort->model;
  if (!e->given) TT_TRY(TT_ALLOC(e->given, 1));
  tt_cpu_given *g = e->given;
  g->batch = *batch;
  g->data = (tt_dataset){.rows = batch->rows,
                         .inputs = m->inputs,
                         .targets = batch->columns,
                         .x = (float *)(uintptr_t)batch->x,
                         .y = (float *)(uintptr_t)batch->y,
                         .weight = (float *)(uintptr_t)batch->weight};
  e->batch = &g->batch;
  e->data = &g->data;
  e->most_sharing = tt_cpu_most_sharing(e, batch->count);
  return TT_OK;
}

/* Arguments of the functions below; those that a function does not use are NULL. */
typedef struct rows_args {
  float *output;
  const float *delta;
  float *input_gradient;
} rows_args;

/* Outputs of a row, those of all heads. */
static int64_t outputs_of(const tt_model *m) { return m->layer[m->layers - 1].out; }

/* The weights for predictions replace those of training. */
static int prepare_forward(const tt_engine *e, tt_cpu_member *ctx)
{
  int8_t status = TT_FIELD(e->state, status)[ctx->i];
  if (!e->batch->predicts) return status == TT_STATUS_training;
  ctx->w = (float *)(uintptr_t)tt_state_prediction_weights(e->state, ctx->i);
  return status != TT_STATUS_diverged;
}

/* Outputs of one member on the batch: output [rows][O]; NaN if it has none. */
static void forward_member(tt_engine *e, tt_cpu_buffers *b, tt_cpu_team *team, int64_t i,
                           void *context)
{
  const rows_args *args = context;
  const tt_model *m = &e->cohort->model;
  int64_t rows = 0, batch = e->batch->count, outputs = outputs_of(m);
  float *output = args->output + i * batch * outputs;
  tt_cpu_member ctx = tt_cpu_member_begin(e, b, i);
  ctx.team = team;
  if (prepare_forward(e, &ctx)) rows = tt_cpu_shared_forward(e, b, &ctx, e->batch->predicts);
  const float *z = b->z[m->layers - 1];
  for (int64_t r = 0; r < batch; r++)
    for (int64_t o = 0; o < outputs; o++)
      output[r * outputs + o] = r < rows ? z[o * b->ld + r] : NAN;
}

static void backward_member(tt_engine *e, tt_cpu_buffers *b, tt_cpu_team *team, int64_t i,
                            void *context)
{
  const rows_args *args = context;
  const tt_model *m = &e->cohort->model;
  int64_t rows = e->batch->count;
  float *input_gradient = args->input_gradient ? args->input_gradient + i * rows * m->inputs : NULL;
  float *sum = e->given->gradient + i * m->params;
  if (TT_FIELD(e->state, status)[i] != TT_STATUS_training) {
    if (input_gradient) memset(input_gradient, 0, (size_t)(rows * m->inputs) * sizeof(float));
    return;
  }
  tt_cpu_member ctx = tt_cpu_member_begin(e, b, i);
  ctx.team = team;
  tt_cpu_shared_backward(e, b, &ctx, args->delta + i * rows * outputs_of(m), input_gradient);
  if (!e->given->is_summed) memcpy(sum, b->gradient[0], (size_t)m->params * sizeof *sum);
  for (int64_t p = 0; e->given->is_summed && p < m->params; p++) sum[p] += b->gradient[0][p];
}

static void update_member(tt_engine *e, tt_cpu_buffers *b, tt_cpu_team *team, int64_t i,
                          void *context)
{
  int64_t params = e->cohort->model.params;
  float *gradient = e->given->gradient + i * params;
  int8_t *status = &TT_FIELD(e->state, status)[i];
  (void)team, (void)context;
  if (*status != TT_STATUS_training) return;
  if (!tt_cpu_are_finite(gradient, params)) {
    *status = TT_STATUS_diverged;
    return;
  }
  tt_cpu_member ctx = tt_cpu_member_begin(e, b, i);
  ctx.threads = 1; /* each thread has its own member */
  tt_cpu_update u;
  tt_cpu_update_begin(e, &ctx, &u);
  u.gradient = gradient;
  (void)tt_cpu_finish_step(e, &ctx, &u, 0.0);
  tt_cpu_end_epoch_if_due(e, b, &ctx);
}

tt_err tt_cpu_forward_rows(tt_engine *e, float *output)
{
  tt_cpu_each_member(e, 1, forward_member, &(rows_args){.output = output});
  return TT_OK;
}

tt_err tt_cpu_backward_rows(tt_engine *e, const float *delta, float *input_gradient)
{
  tt_cpu_given *g = e->given;
  if (!g->gradient) TT_TRY(TT_ALLOC_VALUES(g->gradient, e->slice.count * e->cohort->model.params));
  tt_cpu_each_member(e, 1, backward_member,
                     &(rows_args){.delta = delta, .input_gradient = input_gradient});
  g->is_summed = 1;
  return TT_OK;
}

tt_err tt_cpu_update_members(tt_engine *e)
{
  tt_cpu_each_member(e, 1, update_member, NULL);
  e->given->is_summed = 0;
  return TT_OK;
}

tt_err tt_cpu_take_gradient(tt_engine *e, float *gradient)
{
  tt_cpu_given *g = e->given;
  size_t bytes = (size_t)e->cohort->model.params * sizeof *gradient;
  for (int64_t i = 0; i < e->slice.count; i++) {
    float *dst = gradient + i * e->cohort->model.params;
    if (TT_FIELD(e->state, status)[i] == TT_STATUS_training)
      memcpy(dst, g->gradient + i * e->cohort->model.params, bytes);
    else
      memset(dst, 0, bytes);
  }
  g->is_summed = 0;
  return TT_OK;
}
