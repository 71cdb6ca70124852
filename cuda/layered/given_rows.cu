/* given_rows.cu — steps on rows of the caller; see engine.h: set_batch, train, forward, backward,
 * update.
 *
 * Operations of a call of a network with L layers. The host gathers the rows in page-locked memory;
 * a call is one launch of a graph, from the third call with the same kind of batch on, and the host
 * waits at most once:
 *
 *            copies to the GPU  kernels                 copies from it  waits for the GPU
 *   train    1: x, y, weights   a step but for its rows 2: loss, status yes
 *   forward  1: x               L                       2: outputs,     yes
 *                                                       status
 *   backward 1: dL/d(output)    2 L - 1, 1 more for a   0, or 2: dL/dx, only for dL/dx
 *                               further gradient        status
 *   update   0                  2 to 5                  0               no
 *
 * Networks with few weights in a layer (size.small) need fewer kernels. So the GPU computes backward
 * and update while the caller goes on. Without dL/dx, a step of the caller's own loss waits once, in
 * its forward. An end of an epoch waits too. */
#include "cuda/common/engine_functions.cuh"
#include "cuda/layered/layered_internal.cuh"
#include "cuda/plan/host_batches.h"
#include "cuda/plan/host_copy.h"

#include "core/base/mem.h"

#include <math.h>
#include <string.h>

enum { FEW_FLOATS = 1 << 16 }; /* the host gathers so many with one thread */

enum given_call { STEP, FORWARD, PREDICT, BACKWARD, UPDATE, CALLS };

/* The graph of a kind of call, for batches of one shape. */
typedef struct call_graph {
  cudaGraphExec_t graph;
  int64_t shape, last; /* of the graph; of the last call */
} call_graph;

/* Where the rows of a batch are in the buffers, in floats: [parts][M or 1][rows][D], and so on. */
typedef struct given_layout {
  int64_t x, y, weight;         /* of a part */
  int64_t first_y, first_weight;
  int64_t inputs, all;          /* floats to copy without and with labels */
} given_layout;

typedef struct tt_given_rows {
  tt_batch batch;
  tt_dataset data; /* its arrays; nothing else is set */
  tt_host_batches from;
  given_layout at;
  float *rows, *host_rows; /* of a batch: on the device, page-locked */
  float *delta, *result;   /* page-locked: dL/d(output); outputs or dL/d(input) */
  double *loss;            /* [M] page-locked */
  int64_t row_floats, delta_floats, result_floats;
  call_graph call[CALLS];
  int is_summed;       /* 1: sum[0] has the gradient of a call of backward */
  int has_forward;     /* 1: the layers have the outputs of a forward pass of this batch */
  int gives_inputs;    /* 1: backward computes dL/d(input) */
  int is_busy;         /* 1: the GPU may still read `delta` */
  int is_current;      /* 1: batch and epoch of the members on the host are those of the device */
  int has_new_hyper;
} tt_given_rows;

static int64_t outputs_of(const tt_engine *e)
{
  const tt_model *m = &e->cohort->model;
  return m->layer[m->layers - 1].out;
}

/* memory */

static void forget_graphs(tt_given_rows *g)
{
  for (int k = 0; k < CALLS; k++) {
    tt_graph_destroy(&g->call[k].graph);
    g->call[k].shape = g->call[k].last = 0;
  }
}

void tt_cuda_given_destroy(tt_engine *e)
{
  tt_given_rows *g = e->given;
  if (!g) return;
  forget_graphs(g);
  tt_dev_free(g->rows);
  tt_pinned_free(g->host_rows);
  tt_pinned_free(g->delta);
  tt_pinned_free(g->result);
  tt_pinned_free(g->loss);
  tt_free(e->given);
}

/* Page-locked memory for `floats` floats; graphs have the address of what was there before. */
static tt_err reserve(tt_engine *e, float **block, int64_t *has, int64_t floats)
{
  if (*block && *has >= floats) return TT_OK;
  TT_TRY(tt_stream_synchronize(e->dev.stream));
  forget_graphs(e->given);
  tt_pinned_free(*block);
  TT_TRY(tt_pinned_alloc(block, floats, "rows of the caller"));
  *has = floats;
  return TT_OK;
}

static int64_t whole_vectors(int64_t floats) { return (floats + 3) / 4 * 4; }

/* The layout of batches of `rows` rows, or of parts of so many. */
static given_layout lay_out(const tt_engine *e, const tt_batch *batch, int64_t rows)
{
  const tt_model *m = &e->cohort->model;
  int64_t members = e->slice.count, parts = e->cohort->parts;
  given_layout at = {};
  at.x = whole_vectors((batch->stride ? members : 1) * rows * m->inputs);
  at.y = whole_vectors(members * rows * m->targets);
  at.weight = batch->weight ? whole_vectors(members * rows) : 0;
  at.inputs = at.first_y = parts * at.x;
  at.first_weight = at.first_y + parts * at.y;
  at.all = at.first_weight + parts * at.weight;
  return at;
}

static tt_err reserve_rows(tt_engine *e, const tt_batch *batch)
{
  tt_given_rows *g = e->given;
  int64_t rows = tt_part_max_rows(e->cohort->batch_size, e->cohort->parts), before = g->row_floats;
  TT_TRY(reserve(e, &g->host_rows, &g->row_floats, lay_out(e, batch, rows).all));
  if (g->rows && g->row_floats == before) return TT_OK;
  tt_dev_free(g->rows);
  return tt_dev_alloc(&g->rows, g->row_floats, "rows of the caller");
}

/* What a path expects of set_data, for members without rows of a data set. */
static tt_err prepare(tt_engine *e)
{
  e->rows = e->cohort->batch_size;
  e->view.lists = e->lists;
  e->view.view_of_member = e->view_of_member;
  e->view.column = e->column;
  e->view.epoch_rows = e->epoch_rows;
  e->view.inputs = (int32_t)e->cohort->model.inputs;
  e->view.weighted = 1;
  e->path->release(e);
  e->path = e->host_rows_path;
  TT_TRY(TT_ALLOC(e->given, 1));
  e->given->from.cohort = e->cohort;
  e->given->from.slice = e->slice;
  e->given->has_new_hyper = 1; /* since the engine was created */
  TT_TRY(TT_ALLOC(e->host_lists, tt_cohort_row_sets(e->cohort)));
  TT_TRY(TT_ALLOC(e->host_epoch_rows, e->slice.count));
  TT_TRY(tt_pinned_alloc(&e->given->loss, e->slice.count, "losses of the members"));
  return e->path->prepare(e);
}

/* the batch */

static tt_err set_epochs(tt_engine *e, int64_t rows)
{
  int64_t members = e->slice.count;
  if (!members || e->host_epoch_rows[0] == rows) return TT_OK;
  for (int64_t i = 0; i < members; i++) e->host_epoch_rows[i] = (int32_t)rows;
  return tt_dev_upload_sync(e->epoch_rows, e->host_epoch_rows, members, e->dev.stream);
}

tt_err tt_cuda_set_batch(tt_engine *e, const tt_batch *batch)
{
  TT_TRY(tt_dev_use(&e->dev));
  if (!e->given) TT_TRY(prepare(e));
  tt_given_rows *g = e->given;
  tt_layered *own = tt_layered_of(e);
  if (!own) return TT_OK; /* no members */
  TT_TRY(set_epochs(e, batch->epoch_rows));
  TT_TRY(reserve_rows(e, batch));
  tt_layered_set_batch(e->cohort, batch->count, &own->size);
  own->shares_x = !batch->stride;
  e->view.given_rows = (int32_t)batch->count;
  e->view.weighted = batch->weight != NULL;
  g->batch = *batch;
  g->data.rows = batch->rows;
  g->data.inputs = e->cohort->model.inputs;
  g->data.targets = batch->columns;
  g->data.x = const_cast<float *>(batch->x);
  g->data.y = const_cast<float *>(batch->y);
  g->data.weight = const_cast<float *>(batch->weight);
  g->from.data = &g->data;
  g->at = lay_out(e, batch, own->size.rows);
  g->has_forward = 0;
  return TT_OK;
}

/* Gather the rows for the next copy to the device. */
static void gather(tt_engine *e, int with_labels)
{
  tt_given_rows *g = e->given;
  const given_layout *at = &g->at;
  g->from.threads = (with_labels ? at->all : at->inputs) < FEW_FLOATS ? 1 : e->threads;
  for (int64_t k = 0; k < e->cohort->parts; k++) {
    tt_batch_buffers to = {};
    to.x = g->host_rows + k * at->x;
    if (with_labels) to.y = g->host_rows + at->first_y + k * at->y;
    if (with_labels && at->weight) to.weight = g->host_rows + at->first_weight + k * at->weight;
    tt_host_batches_fill_given(&g->from, &g->batch, k, tt_layered_of(e)->size.rows, &to);
  }
}

void tt_layered_use_given_rows(tt_engine *e)
{
  const tt_given_rows *g = e->given;
  tt_layered *own = tt_layered_of(e);
  own->x = g->rows + own->batch_part * g->at.x;
  own->y = g->rows + g->at.first_y + own->batch_part * g->at.y;
  own->weight = g->rows + g->at.first_weight + own->batch_part * g->at.weight;
}

/* what the device does in a call: asynchronous, may be captured */

static tt_err copy_rows(tt_engine *e, int64_t floats)
{
  return tt_dev_upload(e->given->rows, e->given->host_rows, floats, e->dev.stream);
}

static tt_err give_status(tt_engine *e)
{
  return tt_dev_download(tt_layered_of(e)->status, e->view.status, e->slice.count, e->dev.stream);
}

/* `values` floats for each row of each member, and the status. */
static tt_err give_result(tt_engine *e, const float *src, int64_t values)
{
  int64_t rows = e->slice.count * e->given->batch.count;
  TT_TRY(tt_dev_download(e->given->result, src, rows * values, e->dev.stream));
  return give_status(e);
}

static tt_err compute_step(tt_engine *e)
{
  const tt_layered *own = tt_layered_of(e);
  const double *loss = own->sum_loss ? tt_layered_sum_loss(e, 0) : own->mean;
  TT_TRY(copy_rows(e, e->given->at.all));
  TT_TRY(tt_layered_step(e));
  TT_TRY(tt_dev_download(e->given->loss, loss, e->slice.count, e->dev.stream));
  return give_status(e);
}

static tt_err give_outputs(tt_engine *e)
{
  return give_result(e, tt_layered_of(e)->h[e->cohort->model.layers - 1], outputs_of(e));
}

static tt_err compute_forward(tt_engine *e)
{
  TT_TRY(copy_rows(e, e->given->at.inputs));
  tt_layered_use_given_rows(e);
  return tt_layered_forward_batch(e);
}

static tt_err compute_outputs(tt_engine *e)
{
  TT_TRY(compute_forward(e));
  return give_outputs(e);
}

static tt_err compute_predictions(tt_engine *e)
{
  tt_layered_pass pass = tt_layered_training_pass(e);
  TT_TRY(copy_rows(e, e->given->at.inputs));
  tt_layered_use_given_rows(e);
  TT_TRY(tt_layered_prediction_weights(e, &pass.w));
  pass.skip = NULL; /* members that have ended predict too */
  pass.keep = 0;
  TT_TRY(tt_layered_forward(e, &pass));
  return give_outputs(e);
}

static tt_err compute_backward(tt_engine *e)
{
  const tt_given_rows *g = e->given;
  int64_t values = e->slice.count * g->batch.count * outputs_of(e);
  float *input = NULL;
  if (!g->has_forward) TT_TRY(compute_forward(e));
  TT_TRY(tt_dev_upload(tt_layered_of(e)->delta[0], g->delta, values, e->dev.stream));
  TT_TRY(tt_layered_add_gradient(e, !g->is_summed, g->gives_inputs ? &input : NULL));
  return g->gives_inputs ? give_result(e, input, e->cohort->model.inputs) : TT_OK;
}

/* calls */

static tt_err capture(tt_engine *e, tt_err (*compute)(tt_engine *), cudaGraphExec_t *out)
{
  tt_graph_destroy(out);
  TT_TRY(tt_graph_begin(e->dev.stream));
  tt_err err = compute(e), end = tt_graph_end(e->dev.stream, out);
  if (err) tt_graph_destroy(out); /* incomplete */
  return err ? err : end;
}

/* Compute by a graph, if the call before had a batch of the same shape. The first one does not: CUDA
 * loads kernels at their first use, which cannot be captured. A single other batch leaves the graph
 * as it is: the last one of an epoch. */
static tt_err run(tt_engine *e, int call, tt_err (*compute)(tt_engine *))
{
  const tt_given_rows *g = e->given;
  call_graph *c = &e->given->call[call];
  int64_t shape = 32 * g->batch.count + 16 * (g->batch.stride != 0) + 8 * (g->batch.weight != NULL);
  if (call == BACKWARD) shape += 4 * g->has_forward + 2 * g->is_summed + g->gives_inputs;
  int again = c->last == shape;
  c->last = shape;
  if (!tt_layered_fits_graph(e)) return compute(e);
  if (c->shape != shape && !again) return compute(e);
  if (c->shape != shape) {
    c->shape = 0;
    TT_TRY(capture(e, compute, &c->graph));
    c->shape = shape;
  }
  return tt_graph_launch(c->graph, e->dev.stream);
}

static tt_err wait(tt_engine *e)
{
  e->given->is_busy = 0;
  return tt_stream_synchronize(e->dev.stream);
}

void tt_cuda_set_hyper(tt_engine *e)
{
  if (e->given) e->given->has_new_hyper = 1;
}

void tt_cuda_given_changed(tt_engine *e)
{
  if (e->given) e->given->is_current = e->given->has_forward = 0;
}

/* Before a step: the members' hyper-parameters, and their positions if there are epochs. */
static tt_err begin_step(tt_engine *e)
{
  tt_given_rows *g = e->given;
  TT_TRY(tt_dev_use(&e->dev));
  if (g->has_new_hyper)
    TT_TRY(tt_dev_upload_sync(e->member, e->cohort->member + e->slice.first, e->slice.count,
                              e->dev.stream));
  g->has_new_hyper = 0;
  if (g->is_current || !g->batch.epoch_rows) return TT_OK;
  g->is_current = 1;
  return tt_layered_download_progress(e);
}

static tt_err end_step(tt_engine *e)
{
  tt_layered *own = tt_layered_of(e);
  int ended;
  e->given->is_summed = e->given->has_forward = 0;
  if (!e->given->batch.epoch_rows) return TT_OK;
  TT_TRY(tt_layered_end_finished_epochs(e, &ended));
  if (ended) return tt_layered_download_progress(e);
  for (int64_t i = 0; i < e->slice.count; i++)
    own->batch[i] += own->status[i] == TT_STATUS_training;
  return TT_OK;
}

tt_err tt_cuda_train_given(tt_engine *e)
{
  const tt_given_rows *g = e->given;
  if (!e->slice.count) return TT_OK;
  TT_TRY(begin_step(e));
  gather(e, 1);
  TT_TRY(run(e, STEP, compute_step));
  TT_TRY(wait(e));
  for (int64_t i = 0; i < e->slice.count; i++)
    g->batch.loss[i] =
        tt_layered_of(e)->status[i] == TT_STATUS_training ? g->loss[i] : (double)NAN;
  return end_step(e);
}

/* `values` floats of the result for each row; `missing` for members of which the GPU has computed
 * none. */
static void take_result(const tt_engine *e, float *dst, int64_t values, float missing, int predicts)
{
  int64_t each = e->given->batch.count * values;
  const int8_t *status = static_cast<const tt_layered *>(e->own)->status;
  tt_host_copy(dst, e->given->result, e->slice.count * each * (int64_t)sizeof *dst, e->threads);
  for (int64_t i = 0; i < e->slice.count; i++)
    if (predicts ? status[i] == TT_STATUS_diverged : status[i] != TT_STATUS_training)
      for (int64_t k = 0; k < each; k++) dst[i * each + k] = missing;
}

/* Memory for results of so many floats for each row. */
static tt_err reserve_result(tt_engine *e, int64_t values)
{
  int64_t rows = e->slice.count * e->cohort->batch_size;
  return reserve(e, &e->given->result, &e->given->result_floats, rows * values);
}

tt_err tt_cuda_forward_given(tt_engine *e, float *output)
{
  tt_given_rows *g = e->given;
  int predicts = g->batch.predicts;
  if (!e->slice.count) return TT_OK;
  TT_TRY(tt_dev_use(&e->dev));
  TT_TRY(reserve_result(e, outputs_of(e)));
  gather(e, 0);
  TT_TRY(predicts ? run(e, PREDICT, compute_predictions) : run(e, FORWARD, compute_outputs));
  TT_TRY(wait(e));
  g->has_forward = !predicts;
  take_result(e, output, outputs_of(e), NAN, predicts);
  return TT_OK;
}

tt_err tt_cuda_backward(tt_engine *e, const float *delta, float *input_gradient)
{
  tt_given_rows *g = e->given;
  tt_layered *own = tt_layered_of(e);
  int64_t outputs = outputs_of(e), members = e->slice.count;
  int needs_rows = !g->has_forward;
  if (!members) return TT_OK;
  TT_TRY(tt_dev_use(&e->dev));
  if (g->is_busy) TT_TRY(wait(e));
  if (input_gradient) TT_TRY(reserve_result(e, e->cohort->model.inputs));
  TT_TRY(reserve(e, &g->delta, &g->delta_floats, members * e->cohort->batch_size * outputs));
  if (g->is_summed && !own->sum[1]) {
    tt_layered_sizes most = own->size;
    tt_layered_set_batch(e->cohort, e->cohort->batch_size, &most);
    TT_TRY(tt_dev_alloc(&own->sum[1], most.copies * members * most.stride,
                        "gradients of the weights"));
  }
  if (needs_rows) gather(e, 0);
  tt_host_copy(g->delta, delta, members * g->batch.count * outputs * (int64_t)sizeof *delta,
               e->threads);
  g->gives_inputs = input_gradient != NULL;
  TT_TRY(run(e, BACKWARD, compute_backward));
  g->is_busy = g->is_summed = g->has_forward = 1;
  if (needs_rows || input_gradient) TT_TRY(wait(e));
  if (input_gradient) take_result(e, input_gradient, e->cohort->model.inputs, 0.0f, 0);
  return TT_OK;
}

tt_err tt_cuda_update(tt_engine *e)
{
  if (!e->slice.count) return TT_OK;
  TT_TRY(begin_step(e));
  TT_TRY(run(e, UPDATE, tt_layered_update_given));
  return end_step(e);
}
