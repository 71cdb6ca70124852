/* steps.cu — optimiser steps of the layered path; see layered_internal.cuh.
 *
 * Steps run as graphs of 1 to 32 of them, up to the next end of an epoch of any member: all
 * counters are on the device, so that the same graphs serve every batch, and the host asks at ends
 * of epochs alone. */
#include "cuda/layered/row_stream.cuh"
#include "cuda/layered/step_kernels.cuh"

#include <string.h>

/* ---- one step ---- */

static tt_train_args args_of(tt_engine *e)
{
  const tt_layered *own = tt_layered_of(e);
  tt_train_args a = {};
  a.v = e->view;
  a.rows = (int32_t)own->rows;
  a.clips = own->scale != NULL;
  a.x = own->x;
  a.y = own->y;
  a.weight = own->weight;
  a.output = own->h[e->cohort->model.layers - 1];
  a.delta = own->delta[0];
  a.gradient = own->gradient;
  a.scale = own->scale;
  a.order = own->order;
  a.step = own->step;
  a.skip = e->view.status; /* 0 = training */
  a.inputs = own->inputs;
  a.more = own->more;
  a.calm = own->calm;
  a.row = own->row;
  a.told = own->mean;
  return a;
}

/* `items` of every member, `each` a block. */
static tt_err spread(tt_engine *e, void (*kernel)(tt_train_args), tt_train_args a, int64_t items,
                     int each)
{
  a.parts = (int32_t)tt_blocks(items, each);
  return tt_launch(kernel, (unsigned)e->slice.count * (unsigned)a.parts, TT_LAYERED_THREADS,
                   TT_SUMS_BYTES, e->dev.stream, a);
}

/* One thread for every member. */
static tt_err each_member(tt_engine *e, void (*kernel)(tt_train_args))
{
  return tt_launch(kernel, tt_blocks(e->slice.count, TT_LAYERED_THREADS), TT_LAYERED_THREADS, 0,
                   e->dev.stream, args_of(e));
}

tt_err tt_layered_begin(tt_engine *e) { return each_member(e, make_orders); }

tt_err tt_layered_resume(tt_engine *e) { return each_member(e, resume_members); }

/* The way of the training rows. */
static tt_pass pass_of(const tt_engine *e, const tt_layered *own)
{
  tt_pass pass = {};
  pass.members = (int32_t)e->slice.count;
  pass.rows = (int32_t)own->rows;
  pass.x_step = own->rows * e->view.inputs;
  pass.w = e->view.weights;
  pass.w_step = e->view.params;
  pass.skip = e->view.status; /* 0 = training */
  pass.keep = 1;
  pass.gradient = own->gradient;
  pass.inputs = own->inputs;
  return pass;
}

tt_err tt_layered_outputs(tt_engine *e)
{
  const tt_layered *own = tt_layered_of(e);
  tt_pass pass = pass_of(e, own);
  if (!own->lots) TT_TRY(spread(e, gather_batch, args_of(e), own->rows, TT_GATHER_ROWS));
  if (own->noisy && !own->lots)
    TT_TRY(spread(e, add_noise, args_of(e), own->rows * e->view.targets, TT_STEP_PARAMS));
  return tt_layered_forward(e, &pass);
}

tt_err tt_layered_loss(tt_engine *e)
{
  tt_train_args a = args_of(e);
  a.of = a.inputs ? TT_LOSS_FIRST : TT_LOSS_ALONE;
  return spread(e, batch_loss, a, 1, 1);
}

tt_err tt_layered_settle(tt_engine *e, int clears)
{
  if (clears) TT_TRY(spread(e, clear_missing, args_of(e), 1, 1));
  return each_member(e, settle_members);
}

/* The gradient at inputs that are moved against the member, for those with adversarial training. */
static tt_err add_moved(tt_engine *e, tt_train_args a)
{
  tt_pass pass = pass_of(e, tt_layered_of(e));
  pass.skip = a.skip = a.calm;
  pass.gradient = tt_layered_of(e)->more;
  pass.inputs = NULL;
  a.of = TT_LOSS_MOVED;
  TT_TRY(spread(e, move_inputs, a, (int64_t)a.rows * e->view.inputs, TT_STEP_PARAMS));
  TT_TRY(tt_layered_forward(e, &pass));
  TT_TRY(spread(e, batch_loss, a, 1, 1));
  TT_TRY(tt_layered_backward(e, &pass));
  TT_TRY(spread(e, add_more, a, e->view.params, TT_STEP_PARAMS));
  return tt_layered_settle(e, 0);
}

tt_err tt_layered_update(tt_engine *e)
{
  tt_train_args a = args_of(e);
  tt_pass pass = pass_of(e, tt_layered_of(e));
  const tt_layer *first = &e->cohort->model.layer[0];
  TT_TRY(tt_layered_backward(e, &pass));
  if (a.inputs) TT_TRY(add_moved(e, a));
  if (a.v.seen) TT_TRY(spread(e, hide_inputs, a, first->in * first->out, TT_STEP_PARAMS));
  if (a.clips) TT_TRY(spread(e, clip_scale, a, 1, 1));
  return spread(e, step_all, a, e->view.params, TT_STEP_PARAMS);
}

static tt_err one_step(tt_engine *e)
{
  TT_TRY(tt_layered_outputs(e));
  TT_TRY(tt_layered_loss(e));
  return tt_layered_update(e);
}

/* ---- graphs of steps ---- */

static tt_err record_steps(tt_engine *e, int steps, cudaGraphExec_t *out)
{
  TT_TRY(tt_graph_begin(e->dev.stream));
  tt_err err = TT_OK;
  for (int k = 0; k < steps && !err; k++) err = one_step(e);
  tt_err end = tt_graph_end(e->dev.stream, out);
  if (err) tt_graph_destroy(out); /* part of the steps */
  return err ? err : end;
}

/* With rows from the host there is nothing to record: each step has buffers of its own. */
static tt_err stream_steps(tt_engine *e, int64_t steps)
{
  const tt_layered *own = tt_layered_of(e);
  tt_stream_at at = {own->status, own->epoch, own->batch, own->attempt};
  for (int64_t k = 0; k < steps; k++) {
    TT_TRY(tt_lots_batches(e, &at, k));
    TT_TRY(one_step(e));
    TT_TRY(tt_lots_used(e));
  }
  return TT_OK;
}

/* The very first step is run as it is: what CUDA and cuBLAS load at the first use of a kernel is
 * not for a recording. */
tt_err tt_layered_steps(tt_engine *e, int64_t steps)
{
  tt_layered *own = tt_layered_of(e);
  if (own->lots) return stream_steps(e, steps);
  if (!own->warm && steps > 0) {
    TT_TRY(one_step(e));
    own->warm = 1;
    steps--;
  }
  for (int k = TT_LAYERED_GRAPHS - 1; k >= 0; k--)
    for (; steps >= (int64_t)1 << k; steps -= (int64_t)1 << k) {
      if (!own->graph[k]) TT_TRY(record_steps(e, 1 << k, &own->graph[k]));
      TT_TRY(tt_graph_launch(own->graph[k], e->dev.stream));
    }
  return TT_OK;
}

tt_err tt_layered_ask(tt_engine *e)
{
  tt_layered *own = tt_layered_of(e);
  TT_TRY(tt_dev_download(own->status, e->view.status, e->slice.count, e->dev.stream));
  TT_TRY(tt_dev_download(own->epoch, e->view.epoch, e->slice.count, e->dev.stream));
  TT_TRY(tt_dev_download(own->attempt, e->view.attempt, e->slice.count, e->dev.stream));
  return tt_dev_download_now(own->batch, e->view.batch, e->slice.count, e->dev.stream);
}

/* Steps of member i to the end of its epoch. */
static int64_t left_of(const tt_engine *e, const tt_layered *own, int64_t i)
{
  int64_t size = e->cohort->batch_size;
  return (e->host_epoch_rows[i] + size - 1) / size - own->batch[i];
}

void tt_layered_due(const tt_engine *e, int64_t steps, int8_t *due)
{
  const tt_cohort *c = e->cohort;
  const tt_layered *own = static_cast<const tt_layered *>(e->own);
  memset(due, 0, (size_t)tt_cohort_views(c));
  for (int64_t i = 0; i < e->slice.count; i++)
    if (own->status[i] == TT_STATUS_training && left_of(e, own, i) == steps)
      due[tt_cohort_view_of(c, &c->member[e->slice.first + i])] = 1;
}

/* Steps to the first end of an epoch of a member that was training when the device was asked; 0 if
 * none was. */
int64_t tt_layered_next_end(const tt_engine *e)
{
  const tt_layered *own = static_cast<const tt_layered *>(e->own);
  int64_t next = 0;
  for (int64_t i = 0; i < e->slice.count; i++) {
    if (own->status[i] != TT_STATUS_training) continue;
    int64_t left = left_of(e, own, i);
    if (!next || left < next) next = left;
  }
  return next;
}
