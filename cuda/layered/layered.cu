/* layered.cu — the layered path: memory, steps, and the schedule of steps and ends of epochs; see
 * layered_internal.cuh.
 *
 * Steps run as graphs of 1 to 32 of them, up to the next end of an epoch of any member: all
 * counters are on the device, so that the same graphs serve every batch, and the host asks at ends
 * of epochs alone. */
#include "cuda/layered/row_stream.cuh"
#include "cuda/layered/step_kernels.cuh"

#include "core/base/mem.h"
#include "cuda/common/device_list.cuh"

#include <inttypes.h>
#include <string.h>

/* ---- one step ---- */

/* Whether a member of the slice has more than 0 of a hyper-parameter. */
static int wants(const tt_engine *e, float tt_hyper::*what)
{
  for (int64_t i = 0; i < e->slice.count; i++)
    if (e->cohort->member[e->slice.first + i].hyper.*what > 0.0f) return 1;
  return 0;
}

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
static tt_err run_steps(tt_engine *e, int64_t steps)
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

/* ---- the schedule ---- */

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

/* Steps to the first end of an epoch of a member that was training when the device was asked; 0 if
 * none was. */
static int64_t next_end(const tt_engine *e, const tt_layered *own)
{
  int64_t next = 0;
  for (int64_t i = 0; i < e->slice.count; i++) {
    if (own->status[i] != TT_STATUS_training) continue;
    int64_t left = left_of(e, own, i);
    if (!next || left < next) next = left;
  }
  return next;
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

static tt_err advance(tt_engine *e, int64_t steps, int8_t *due)
{
  const tt_layered *own = tt_layered_of(e);
  TT_TRY(tt_layered_ask(e));
  TT_TRY(tt_layered_begin(e));
  for (int64_t next; steps > 0 && (next = next_end(e, own)) > 0; steps -= next) {
    if (next > steps) return run_steps(e, steps);
    TT_TRY(run_steps(e, next));
    tt_layered_due(e, next, due);
    TT_TRY(tt_layered_end(e, due));
    TT_TRY(tt_layered_ask(e));
  }
  return TT_OK;
}

static tt_err train(tt_engine *e, int64_t steps)
{
  int8_t *due = NULL;
  if (!e->slice.count) return TT_OK;
  TT_TRY(TT_ALLOC(due, tt_cohort_views(e->cohort)));
  tt_err err = advance(e, steps, due);
  if (e->view.joint && !err) err = tt_layered_resume(e);
  tt_err wait = tt_dev_wait(e->dev.stream);
  tt_free(due);
  return err ? err : wait;
}

/* ---- memory ---- */

static void release(tt_engine *e)
{
  tt_layered *own = tt_layered_of(e);
  if (!own) return;
  for (int k = 0; k < TT_LAYERED_GRAPHS; k++) tt_graph_destroy(&own->graph[k]);
  tt_lots_close(e);
  for (int l = 0; l < TT_MAX_LAYERS; l++) {
    tt_dev_free(own->h[l]);
    tt_dev_free(own->slope[l]);
    tt_dev_free(own->hat[l]);
    tt_dev_free(own->root[l]);
  }
  tt_dev_free(own->x);
  tt_dev_free(own->y);
  tt_dev_free(own->weight);
  tt_dev_free(own->delta[0]);
  tt_dev_free(own->delta[1]);
  tt_dev_free(own->gradient);
  tt_dev_free(own->picked);
  tt_dev_free(own->scale);
  tt_dev_free(own->parts);
  tt_dev_free(own->order);
  tt_dev_free(own->step);
  tt_dev_free(own->lane);
  tt_dev_free(own->end);
  tt_dev_free(own->mean);
  tt_dev_free(own->carry);
  tt_dev_free(own->inputs);
  tt_dev_free(own->more);
  tt_dev_free(own->calm);
  tt_dev_free(own->apart);
  tt_dev_free(own->row);
  tt_pinned_free(own->status);
  tt_pinned_free(own->batch);
  tt_pinned_free(own->epoch);
  tt_pinned_free(own->attempt);
  tt_free(own);
  e->own = NULL;
}

static int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t widest(const tt_model *m)
{
  int64_t width = 0;
  for (int l = 0; l < m->layers; l++)
    if (m->layer[l].out > width) width = m->layer[l].out;
  return width;
}

/* What layers have beyond their products. */
static tt_err allocate_extras(tt_layered *own, const tt_model *m, int64_t members)
{
  int residual = 0;
  for (int l = 0; l < m->layers; l++) {
    const tt_layer *layer = &m->layer[l];
    residual |= layer->residual;
    if (layer->norm < 0) continue;
    TT_TRY(tt_dev_alloc(&own->hat[l], members * own->rows * layer->out, "layers of a batch"));
    TT_TRY(tt_dev_alloc(&own->root[l], members * own->rows, "layers of a batch"));
  }
  if (!residual) return TT_OK;
  return tt_dev_alloc(&own->carry, members * own->rows * own->widest, "gradients of a batch");
}

/* What adversarial training has beyond a plain step. */
static tt_err allocate_moved(const tt_engine *e, tt_layered *own)
{
  const tt_model *m = &e->cohort->model;
  if (!wants(e, &tt_hyper::adversarial)) return TT_OK;
  TT_TRY(tt_dev_alloc(&own->inputs, own->padded * own->rows * m->inputs, "gradients of inputs"));
  TT_TRY(tt_dev_alloc(&own->more, own->padded * m->params, "gradients at moved inputs"));
  return tt_dev_alloc(&own->calm, e->slice.count, "members");
}

static tt_err allocate_layers(tt_layered *own, const tt_model *m, int64_t members)
{
  int64_t rows = members * own->rows, padded = own->padded * own->rows;
  for (int l = 0; l < m->layers; l++) {
    TT_TRY(tt_dev_alloc(&own->h[l], own->capacity * m->layer[l].out, "activations of a batch"));
    if (l < m->layers - 1)
      TT_TRY(tt_dev_alloc(&own->slope[l], rows * m->layer[l].out, "derivatives of a batch"));
  }
  for (int k = 0; k < 2; k++)
    TT_TRY(tt_dev_alloc(&own->delta[k], padded * own->widest, "gradients of a batch"));
  TT_TRY(tt_dev_alloc(&own->gradient, own->padded * m->params, "gradients of the weights"));
  return tt_dev_alloc(&own->picked, (members + own->group) * tt_picked_step(m),
                      "weights to evaluate");
}

static tt_err allocate_members(const tt_engine *e, tt_layered *own)
{
  int64_t members = e->slice.count;
  if (wants(e, &tt_hyper::clip_norm))
    TT_TRY(tt_dev_alloc(&own->scale, members, "norms of the gradients"));
  TT_TRY(tt_dev_alloc(&own->order, members, "orders of the rows"));
  TT_TRY(tt_dev_alloc(&own->step, members, "steps of the members"));
  TT_TRY(tt_dev_alloc(&own->lane, members * TT_LOSS_LANES, "validation losses"));
  TT_TRY(tt_dev_alloc(&own->end, members, "ends of epochs"));
  TT_TRY(tt_dev_alloc(&own->mean, members, "losses of the members"));
  if (e->cohort->resample == TT_RESAMPLE_kfold)
    TT_TRY(tt_dev_alloc(&own->apart, members, "members of other folds"));
  TT_TRY(tt_dev_alloc(&own->row, members * own->rows, "row numbers of a batch"));
  TT_TRY(tt_pinned_alloc(&own->attempt, members, "attempts of the members"));
  TT_TRY(tt_pinned_alloc(&own->status, members, "status of the members"));
  TT_TRY(tt_pinned_alloc(&own->batch, members, "batches of the members"));
  return tt_pinned_alloc(&own->epoch, members, "epochs of the members");
}

/* Kernels count the elements of a member and the blocks of a launch in 31 bits; a block has 8 rows
 * or 32 weights at least. */
static tt_err check_size(const tt_engine *e, const tt_layered *own)
{
  double wide = (double)own->widest, weights = (double)e->cohort->model.params;
  if ((double)e->cohort->model.inputs > wide) wide = (double)e->cohort->model.inputs;
  double blocks = (double)own->capacity * wide / 8.0;
  blocks += (double)e->slice.count * (weights / 32.0 + 1.0);
  double rows = (double)(own->rows > own->split_rows ? own->rows : own->split_rows);
  if (rows * wide < (double)INT32_MAX && blocks < (double)INT32_MAX) return TT_OK;
  return TT_FAIL(MEM,
                 "%" PRId64 " members with batches of %" PRId64 " rows and layers of width %" PRId64
                 " are too much for one GPU: use more ranks or a smaller train.batch_size",
                 e->slice.count, own->rows, own->widest);
}

static tt_err allocate_rows(const tt_engine *e, tt_layered *own)
{
  const tt_model *m = &e->cohort->model;
  TT_TRY(tt_dev_alloc(&own->x, own->capacity * m->inputs, "inputs of a batch"));
  TT_TRY(tt_dev_alloc(&own->y, own->capacity * m->targets, "targets of a batch"));
  return e->view.weighted ? tt_dev_alloc(&own->weight, own->capacity, "weights of a batch") : TT_OK;
}

static tt_err allocate(tt_engine *e, tt_layered *own)
{
  const tt_model *m = &e->cohort->model;
  int64_t members = e->slice.count;
  own->rows = lesser(e->cohort->batch_size, e->rows);
  own->group = tt_layered_group(e->cohort);
  own->padded = (members + own->group - 1) / own->group * own->group;
  own->split_rows = lesser(TT_LAYERED_ROWS / own->group, e->rows);
  own->capacity = own->padded * own->rows;
  if (own->capacity < own->group * own->split_rows)
    own->capacity = own->group * own->split_rows;
  own->widest = widest(m);
  own->drops = wants(e, &tt_hyper::dropout);
  own->noisy = wants(e, &tt_hyper::label_noise);
  TT_TRY(check_size(e, own));
  TT_TRY(e->data ? tt_lots_open(e) : allocate_rows(e, own));
  TT_TRY(allocate_layers(own, m, members));
  TT_TRY(allocate_extras(own, m, members));
  TT_TRY(allocate_moved(e, own));
  TT_TRY(allocate_members(e, own));
  return tt_layered_open(e);
}

static tt_err prepare(tt_engine *e)
{
  tt_layered *own = NULL;
  release(e);
  if (!e->slice.count) return TT_OK;
  TT_TRY(TT_ALLOC(own, 1));
  e->own = own;
  tt_err err = allocate(e, own);
  if (err) release(e);
  return err;
}

static const char *refuses(const tt_cohort *cohort, tt_precision precision, int64_t shared_bytes)
{
  (void)cohort;
  (void)precision;
  (void)shared_bytes;
  return NULL;
}

/* Where cuBLAS multiplies, bits are those of its version on this kind of GPU. */
static void arithmetic(const tt_engine *e, char *text, size_t room)
{
  if (!tt_layered_multiplies(&e->cohort->model)) return;
  int n = snprintf(text, room, "sm%d x%d ", e->dev.capability, e->dev.multiprocessors);
  tt_cublas_version(text + n, room - (size_t)n);
}

const tt_cuda_path tt_cuda_layered = {
    "layered", refuses,    tt_layered_group,    prepare,               train,
    release,   arithmetic, tt_layered_evaluate, tt_layered_first_half, tt_layered_second_half};
