/* given_rows.cu — steps on rows of the caller; see engine.h: set_batch, train, forward, backward,
 * update, take_gradient.
 *
 * The host gathers the rows in page-locked memory. Operations of a call, for L layers; they are one
 * launch of a graph, from the second call in a row with batches of the same shape on:
 *
 *            copies to the GPU  kernels                   copies to the host      host waits
 *   train    2: x, y            a step without its rows   2: loss, status         once
 *   forward  1: x               L                         2: outputs, status      once
 *   backward 1: dL/d(output)    2 L - 1, or 2 more (*)    0, or 2: dL/dx, status  for dL/dx
 *   update   0                  2 to 4                    0                       no
 *   take_gradient               0 or 1                    1 for each member       once
 *
 * Weights of rows are one copy more; small networks (size.small) need fewer kernels. (*) if it is
 * not the first of a step. So a step with a loss of the caller waits once, in forward, and the GPU
 * computes backward and update while the caller goes on. An end of an epoch waits too. */
#include "cuda/common/engine_functions.cuh"
#include "cuda/layered/row_stream.cuh"
#include "cuda/plan/host_copy.h"

#include "core/base/mem.h"

#include <math.h>
#include <string.h>

enum { FEW_FLOATS = 1 << 16 }; /* the host gathers so many with one thread */

static int64_t outputs_of(const tt_engine *e)
{
  return e->cohort->model.layer[e->cohort->model.layers - 1].out;
}

void tt_cuda_given_destroy(tt_engine *e)
{
  tt_given_rows *g = e->given;
  if (!g) return;
  for (int k = 0; k < TT_GIVEN_CALLS; k++) tt_graph_destroy(&g->call[k].graph);
  tt_pinned_free(g->block);
  tt_pinned_free(g->y);
  tt_pinned_free(g->weight);
  tt_pinned_free(g->delta);
  tt_pinned_free(g->loss);
  tt_free(e->given);
  tt_cuda_free_data(e);
}

static tt_err allocate(tt_engine *e, tt_given_rows *g)
{
  int64_t members = e->slice.count, rows = e->cohort->parts * members * tt_layered_of(e)->size.rows;
  int64_t widest = tt_max_i64(e->view.inputs, outputs_of(e));
  TT_TRY(tt_pinned_alloc(&g->block, rows * widest, "rows of the caller"));
  TT_TRY(tt_pinned_alloc(&g->y, rows * e->view.targets, "rows of the caller"));
  TT_TRY(tt_pinned_alloc(&g->weight, rows, "rows of the caller"));
  TT_TRY(tt_pinned_alloc(&g->delta, rows * outputs_of(e), "derivatives of the caller"));
  return tt_pinned_alloc(&g->loss, members, "losses of the members");
}

/* What a path expects of set_data, for members without a data set. */
static tt_err prepare(tt_engine *e, int64_t epoch_rows)
{
  int64_t members = e->slice.count;
  e->rows = e->cohort->batch_size;
  e->view.lists = e->lists;
  e->view.view_of_member = e->view_of_member;
  e->view.epoch_rows = e->epoch_rows;
  e->view.inputs = (int32_t)e->cohort->model.inputs;
  e->view.weighted = 1;
  e->path->release(e);
  e->path = e->host_rows_path;
  TT_TRY(TT_ALLOC(e->given, 1));
  e->given->from.cohort = e->cohort;
  e->given->from.slice = e->slice;
  e->given->from.data = &e->given->data;
  if (!members) return TT_OK;
  TT_TRY(TT_ALLOC(e->host_lists, tt_cohort_row_sets(e->cohort)));
  TT_TRY(TT_ALLOC(e->host_epoch_rows, members));
  for (int64_t i = 0; i < members; i++) e->host_epoch_rows[i] = (int32_t)epoch_rows;
  TT_TRY(tt_dev_upload_sync(e->epoch_rows, e->host_epoch_rows, members, e->dev.stream));
  TT_TRY(e->path->prepare(e));
  return allocate(e, e->given);
}

/* the batch */

tt_err tt_cuda_set_batch(tt_engine *e, const tt_batch *batch)
{
  TT_TRY(tt_dev_use(&e->dev));
  tt_err err = e->given ? TT_OK : prepare(e, batch->epoch_rows);
  if (err) tt_cuda_given_destroy(e);
  if (err || !e->slice.count) return err;
  tt_given_rows *g = e->given;
  tt_layered *own = tt_layered_of(e);
  if (batch->count != g->batch.count) {
    int64_t allocated = own->size.conv_chunks;
    own->size = tt_layered_sizes_of(e->cohort, e->slice, batch->count, 1, 0);
    own->size.conv_chunks = allocated; /* fewer rows may have more chunks */
  }
  own->shares_x = !batch->stride;
  e->view.given_rows = (int32_t)batch->count;
  e->view.weighted = batch->weight != NULL;
  g->batch = *batch;
  g->data.rows = batch->rows;
  g->data.inputs = e->view.inputs;
  g->data.targets = batch->columns;
  g->data.x = const_cast<float *>(batch->x);
  g->data.y = const_cast<float *>(batch->y);
  g->data.weight = const_cast<float *>(batch->weight);
  g->has_forward = 0;
  return TT_OK;
}

static void gather(tt_engine *e, int with_labels)
{
  tt_given_rows *g = e->given;
  int64_t floats = e->slice.count * g->batch.count * e->view.inputs;
  g->has_labels = with_labels;
  g->from.threads = floats < FEW_FLOATS ? 1 : e->threads;
  for (int64_t k = 0; k < e->cohort->parts; k++) {
    tt_batch_buffers dst = tt_row_stream_given_part(e, k);
    tt_host_batches_fill_given(&g->from, &g->batch, k, tt_layered_of(e)->size.rows, &dst);
  }
}

/* what the device does in a call: asynchronous, may be captured */

/* `values` floats for each row of each member, unless src is NULL, and the status. */
static tt_err return_values(tt_engine *e, const float *src, int64_t values)
{
  int64_t count = src ? e->slice.count * e->given->batch.count * values : 0;
  TT_TRY(tt_dev_download(e->given->block, src, count, e->dev.stream));
  return tt_dev_download(tt_layered_of(e)->status, e->view.status, e->slice.count, e->dev.stream);
}

static tt_err compute_step(tt_engine *e)
{
  const tt_layered *own = tt_layered_of(e);
  const double *loss = own->sum_loss ? tt_layered_sum_loss(e, 0) : own->mean;
  TT_TRY(tt_layered_run_step(e, 0));
  TT_TRY(tt_dev_download(e->given->loss, loss, e->slice.count, e->dev.stream));
  return return_values(e, NULL, 0);
}

static tt_err compute_outputs(tt_engine *e)
{
  tt_layered_pass pass = tt_layered_training_pass(e);
  TT_TRY(tt_row_stream_load_given(e));
  if (e->given->batch.predicts) {
    TT_TRY(tt_layered_prediction_weights(e, &pass.w));
    pass.skip = NULL; /* members that have ended predict too */
    pass.keep = 0;
  }
  TT_TRY(tt_layered_forward(e, &pass));
  return return_values(e, tt_layered_of(e)->h[e->cohort->model.layers - 1], outputs_of(e));
}

static tt_err compute_backward(tt_engine *e)
{
  const tt_given_rows *g = e->given;
  int64_t values = e->slice.count * g->batch.count * outputs_of(e);
  float *input = NULL;
  if (!g->has_forward) {
    TT_TRY(tt_row_stream_load_given(e));
    TT_TRY(tt_layered_forward_batch(e));
  }
  TT_TRY(tt_dev_upload(tt_layered_of(e)->delta[0], g->delta, values, e->dev.stream));
  TT_TRY(tt_layered_add_gradient(e, !g->is_summed, g->gives_inputs ? &input : NULL));
  return input ? return_values(e, input, e->view.inputs) : TT_OK;
}

/* calls */

/* The first call with a shape is no graph: CUDA loads kernels at their first use, which cannot be
 * captured. One call with another shape, as at the end of an epoch, leaves the graph. */
static tt_err run(tt_engine *e, int call, tt_err (*compute)(tt_engine *))
{
  const tt_given_rows *g = e->given;
  tt_call_graph *c = &e->given->call[call];
  int64_t shape = 32 * g->batch.count + 16 * (g->batch.stride != 0) + 8 * e->view.weighted;
  if (call == TT_GIVEN_BACKWARD) shape += 4 * g->has_forward + 2 * g->is_summed + g->gives_inputs;
  int is_new = c->last != shape;
  c->last = shape;
  if (c->shape != shape && (is_new || !tt_layered_fits_graph(e))) return compute(e);
  if (c->shape != shape) {
    c->shape = 0;
    tt_graph_destroy(&c->graph);
    TT_TRY(tt_graph_capture(
        e->dev.stream, [&] { return compute(e); }, &c->graph));
    c->shape = shape;
  }
  return tt_graph_launch(c->graph, e->dev.stream);
}

void tt_cuda_members_changed(tt_engine *e)
{
  if (e->given) e->given->is_current = e->given->has_forward = 0;
}

/* Before a step: the hyper-parameters of the members, and their positions in the epochs. */
static tt_err begin_step(tt_engine *e)
{
  TT_TRY(tt_dev_use(&e->dev));
  if (e->given->is_current) return TT_OK;
  TT_TRY(tt_dev_upload_sync(e->member, e->cohort->member + e->slice.first, e->slice.count,
                            e->dev.stream));
  e->given->is_current = 1;
  return tt_layered_download_progress(e);
}

/* End the epoch of members whose last batch was one after the last tt_layered_download_progress;
 * *ended: whether there were any. Errors: INTERNAL, MEM. */
static tt_err end_finished_epochs(tt_engine *e, int *ended)
{
  int8_t *ending_views = NULL;
  int64_t row_sets = tt_cohort_row_sets(e->cohort);
  *ended = 0;
  TT_TRY(TT_ALLOC(ending_views, row_sets));
  tt_layered_find_ending_views(e, 1, ending_views);
  for (int64_t k = 0; k < row_sets; k++) *ended |= ending_views[k];
  tt_err err = *ended ? tt_layered_end_epochs(e, ending_views, NULL) : TT_OK;
  tt_free(ending_views);
  return err;
}

static tt_err end_step(tt_engine *e)
{
  tt_layered *own = tt_layered_of(e);
  int ended;
  e->given->is_summed = e->given->has_forward = 0;
  if (!e->given->batch.epoch_rows) return TT_OK;
  TT_TRY(end_finished_epochs(e, &ended));
  if (ended) return tt_layered_download_progress(e);
  for (int64_t i = 0; i < e->slice.count; i++) own->batch[i] += own->status[i] == 0;
  return TT_OK;
}

tt_err tt_cuda_train_given(tt_engine *e)
{
  const tt_given_rows *g = e->given;
  if (!e->slice.count) return TT_OK;
  TT_TRY(begin_step(e));
  gather(e, 1);
  TT_TRY(run(e, TT_GIVEN_STEP, compute_step));
  TT_TRY(tt_stream_synchronize(e->dev.stream));
  for (int64_t i = 0; i < e->slice.count; i++)
    g->batch.loss[i] = tt_layered_of(e)->status[i] == TT_STATUS_training ? g->loss[i] : (double)NAN;
  return end_step(e);
}

/* What the call returns: `missing` for members of which the GPU has computed none. */
static void take_values(tt_engine *e, float *dst, int64_t values, float missing)
{
  const tt_batch *b = &e->given->batch;
  int64_t each = b->count * values;
  tt_host_copy(dst, e->given->block, e->slice.count * each * (int64_t)sizeof *dst, e->threads);
  for (int64_t i = 0; i < e->slice.count; i++) {
    int8_t status = tt_layered_of(e)->status[i];
    if (b->predicts ? status != TT_STATUS_diverged : status == TT_STATUS_training) continue;
    for (int64_t k = 0; k < each; k++) dst[i * each + k] = missing;
  }
}

tt_err tt_cuda_forward_given(tt_engine *e, float *output)
{
  tt_given_rows *g = e->given;
  int predicts = g->batch.predicts;
  if (!e->slice.count) return TT_OK;
  TT_TRY(tt_dev_use(&e->dev));
  gather(e, 0);
  TT_TRY(run(e, predicts ? TT_GIVEN_PREDICT : TT_GIVEN_FORWARD, compute_outputs));
  TT_TRY(tt_stream_synchronize(e->dev.stream));
  g->has_forward = !predicts;
  take_values(e, output, outputs_of(e), NAN);
  return TT_OK;
}

tt_err tt_cuda_backward(tt_engine *e, const float *delta, float *input_gradient)
{
  tt_given_rows *g = e->given;
  if (!e->slice.count) return TT_OK;
  TT_TRY(tt_dev_use(&e->dev));
  if (g->is_summed || !g->has_forward) /* the GPU may still read `delta` */
    TT_TRY(tt_stream_synchronize(e->dev.stream));
  int64_t values = e->slice.count * g->batch.count * outputs_of(e);
  int waits = !g->has_forward || input_gradient;
  if (!g->has_forward) gather(e, 0);
  tt_host_copy(g->delta, delta, values * (int64_t)sizeof *delta, e->threads);
  g->gives_inputs = input_gradient != NULL;
  TT_TRY(run(e, TT_GIVEN_BACKWARD, compute_backward));
  g->is_summed = g->has_forward = 1;
  if (waits) TT_TRY(tt_stream_synchronize(e->dev.stream));
  if (input_gradient) take_values(e, input_gradient, e->view.inputs, 0.0f);
  return TT_OK;
}

tt_err tt_cuda_update(tt_engine *e)
{
  if (!e->slice.count) return TT_OK;
  TT_TRY(begin_step(e));
  TT_TRY(run(e, TT_GIVEN_UPDATE, tt_layered_update_given));
  return end_step(e);
}

tt_err tt_cuda_take_gradient(tt_engine *e, float *gradient)
{
  const tt_layered *own = tt_layered_of(e);
  int64_t params = e->view.params;
  if (!e->slice.count) return TT_OK;
  TT_TRY(begin_step(e));
  for (int64_t i = 0; i < e->slice.count; i++)
    TT_TRY(tt_dev_download(gradient + i * params, own->sum[0] + i * e->view.param_stride, params,
                           e->dev.stream));
  TT_TRY(tt_stream_synchronize(e->dev.stream));
  for (int64_t i = 0; i < e->slice.count; i++)
    if (own->status[i] != TT_STATUS_training)
      memset(gradient + i * params, 0, (size_t)params * sizeof *gradient);
  e->given->is_summed = 0;
  return TT_OK;
}
