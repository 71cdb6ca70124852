/* steps.cu — optimizer steps of the layered path; see layered_internal.cuh. */
#include "cuda/layered/fused_layers.cuh"
#include "cuda/layered/row_stream.cuh"

#include <string.h>

/* one step */

static const tt_layered *layered_of(const tt_engine *e)
{
  return static_cast<const tt_layered *>(e->own);
}

float *tt_layered_sum(const tt_engine *e, int k)
{
  const tt_layered *own = layered_of(e);
  return own->sum[k] + (k < own->size.sums ? own->window.first * e->view.param_stride : 0);
}

double *tt_layered_sum_loss(const tt_engine *e, int k)
{
  const tt_layered *own = layered_of(e);
  return own->sum_loss + k * e->slice.count + own->window.first;
}

/* Arrays of a batch begin with the first member of the window, other arrays with that of the
 * engine. */
static tt_step_kernel_args make_step_args(tt_engine *e)
{
  const tt_layered *own = tt_layered_of(e);
  int64_t first = own->window.first;
  tt_step_kernel_args a = {};
  a.v = tt_cuda_view_of(e, own->window);
  a.rows = (int32_t)own->size.rows;
  a.batch_part = own->batch_part;
  a.uses_clipping = own->scale != NULL;
  a.x = own->x;
  a.y = own->y;
  a.weight = own->weight;
  a.output = own->h[e->cohort->model.layers - 1];
  a.delta = own->delta[0];
  a.gradient = tt_layered_sum(e, own->at_sum);
  a.rate = own->rate;
  a.scale = own->scale ? own->scale + first : NULL;
  a.squares_each = (int32_t)tt_norm_blocks(e->view.params);
  a.squares = own->squares ? own->squares + first * a.squares_each : NULL;
  a.order = own->order + first;
  a.step = own->step + first;
  a.row = own->row;
  a.label_variance = e->shared ? e->shared->label_variance : NULL;
  a.copies = (int32_t)own->size.copies;
  a.copy_step = own->size.members * own->size.stride;
  a.pending_loss = own->sum_loss ? tt_layered_sum_loss(e, own->at_sum) : own->mean;
  return a;
}

/* Launch over `items` items of every member, `each` items per block. */
static tt_err launch_over_members(tt_engine *e, void (*kernel)(tt_step_kernel_args),
                                  tt_step_kernel_args a, int64_t items, int each)
{
  a.parts = (int32_t)tt_grid_size(items, each);
  return tt_launch(kernel, (unsigned)a.v.members * (unsigned)a.parts, TT_LAYERED_THREADS,
                   TT_BLOCK_SUM_BYTES, e->dev.stream, a);
}

/* The optimizer step of `items` parameters of every member. */
static tt_err launch_optimizer(tt_engine *e, const tt_step_kernel_args &a, int64_t items)
{
  void (*kernel)(tt_step_kernel_args) = a.rate         ? optimizer_step_by_layer
                                        : a.copies > 1 ? optimizer_step_of_chunks
                                                       : optimizer_step;
  return launch_over_members(e, kernel, a, items, TT_STEP_BLOCK_ELEMENTS);
}

/* Launch with one thread per member. */
static tt_err launch_per_member(tt_engine *e, void (*kernel)(tt_step_kernel_args))
{
  return tt_launch(kernel, tt_grid_size(tt_layered_of(e)->window.count, TT_LAYERED_THREADS),
                   TT_LAYERED_THREADS, 0, e->dev.stream, make_step_args(e));
}

tt_err tt_layered_begin_epochs(tt_engine *e)
{
  return e->given ? TT_OK : launch_per_member(e, make_epoch_orders);
}

tt_layered_pass tt_layered_training_pass(tt_engine *e)
{
  const tt_layered *own = tt_layered_of(e);
  tt_layered_pass pass = {};
  pass.first = (int32_t)own->window.first;
  pass.members = (int32_t)own->window.count;
  pass.rows = (int32_t)own->size.rows;
  pass.x_stride = own->shares_x ? 0 : own->size.rows * e->view.inputs;
  pass.w = e->view.weights;
  pass.w_stride = e->view.param_stride;
  pass.skip = e->view.status; /* 0 = training */
  pass.keep = 1;
  pass.gradient = tt_layered_sum(e, own->at_sum);
  return pass;
}

static tt_err launch_entry(tt_engine *e, const tt_layered_pass *pass)
{
  const tt_layered *own = tt_layered_of(e);
  tt_entry_args a = {};
  a.step = make_step_args(e);
  a.step.parts = (int32_t)tt_grid_size(own->size.rows, TT_GATHER_ROWS);
  a.product = tt_layered_entry_product(e, pass);
  return tt_launch(a.product.vector && a.product.right.vector ? rows_and_first_layer<4>
                                                              : rows_and_first_layer<1>,
                   (unsigned)a.step.v.members * (unsigned)a.step.parts, TT_LAYERED_THREADS,
                   (size_t)tt_layered_entry_floats(&e->cohort->model.layer[0]) * sizeof(float),
                   e->dev.stream, a);
}

/* The rows of a batch, if they do not come from the host. pass: the first layer too; or NULL */
static tt_err gather_rows(tt_engine *e, const tt_layered_pass *pass)
{
  const tt_layered *own = tt_layered_of(e);
  if (own->row_stream || e->given) return TT_OK;
  TT_TRY(pass ? launch_entry(e, pass)
              : launch_over_members(e, gather_batch, make_step_args(e), own->size.rows,
                                    tt_gather_tile(e->view.inputs)));
  if (!own->size.label_noise) return TT_OK;
  return launch_over_members(e, add_label_noise, make_step_args(e),
                             own->size.rows * e->view.targets, TT_STEP_BLOCK_ELEMENTS);
}

tt_err tt_layered_forward_batch(tt_engine *e)
{
  TT_TRY(gather_rows(e, NULL));
  tt_layered_pass pass = tt_layered_training_pass(e);
  return tt_layered_forward(e, &pass);
}

tt_err tt_layered_batch_loss(tt_engine *e)
{
  tt_step_kernel_args a = make_step_args(e);
  return launch_over_members(e, a.label_variance ? batch_loss_with_errors : batch_loss, a, 1, 1);
}

/* Whether the last layer and the loss are one launch. */
static int uses_head(const tt_engine *e)
{
  return layered_of(e)->size.head && !(e->shared && e->shared->label_variance);
}

static tt_err launch_head(tt_engine *e, const tt_layered_pass *pass)
{
  const tt_layered *own = tt_layered_of(e);
  tt_head_args a = {};
  a.step = make_step_args(e);
  a.step.delta = own->output_delta;
  int64_t blocks = own->window.count * tt_grid_size(own->size.rows, TT_HEAD_ROWS);
  a.rows = blocks < 2 * e->dev.multiprocessors ? TT_HEAD_ROWS / 2 : TT_HEAD_ROWS;
  a.step.parts = (int32_t)tt_grid_size(own->size.rows, a.rows);
  a.product = tt_layered_head_product(e, pass);
  a.x = own->h[e->cohort->model.layers - 2];
  a.row_loss = own->row_loss;
  a.arrived = own->arrived;
  return tt_launch(a.product.vector && a.product.right.vector ? last_layer_and_loss<4>
                                                              : last_layer_and_loss<1>,
                   (unsigned)a.step.v.members * (unsigned)a.step.parts, TT_LAYERED_THREADS,
                   tt_head_bytes(a.product.n, a.product.k), e->dev.stream, a);
}

/* From the rows of a batch to its loss and dL/dz. */
static tt_err forward_and_loss(tt_engine *e)
{
  tt_layered_pass pass = tt_layered_training_pass(e);
  pass.entry = layered_of(e)->size.entry && !e->given;
  pass.head = uses_head(e);
  TT_TRY(gather_rows(e, pass.entry ? &pass : NULL));
  TT_TRY(tt_layered_forward(e, &pass));
  return pass.head ? launch_head(e, &pass) : tt_layered_batch_loss(e);
}

tt_err tt_layered_record_losses(tt_engine *e) { return launch_per_member(e, record_losses); }

/* Whether the optimizer step of a layer may follow its gradient at once: nothing else happens to a
 * gradient, and all parameters are weights and biases of dense layers, each with one gradient. */
static int steps_at_once(const tt_engine *e)
{
  const tt_layered *own = layered_of(e);
  const tt_model *m = &e->cohort->model;
  int plain = !m->front.layers && e->cohort->parts == 1;
  for (int l = 0; l < m->layers; l++) plain &= m->layer[l].norm < 0;
  return plain && !own->size.small && !own->scale && !own->rate;
}

/* The gradient of the rows in the buffers. head: 1 if the last layer and the loss were one launch.
 * step: the optimizer step too; or NULL */
static tt_err backward_step(tt_engine *e, int head, const tt_step_kernel_args *step)
{
  tt_layered_pass pass = tt_layered_training_pass(e);
  pass.head = head;
  pass.step = step;
  return tt_layered_backward(e, &pass);
}

static tt_err clip_step(tt_engine *e, tt_step_kernel_args a)
{
  if (a.v.batch_parts == 1) return launch_over_members(e, clip_factor, a, 1, 1);
  TT_TRY(launch_over_members(e, block_squares, a, a.v.params, TT_NORM_BLOCK));
  return launch_per_member(e, clip_by_squares);
}

/* From the gradient of the whole batch to new weights. joined: 1: those of the chunks are one. */
static tt_err update_step(tt_engine *e, int joined)
{
  tt_step_kernel_args a = make_step_args(e);
  if (a.copies > 1 && !joined && (a.uses_clipping || a.rate)) {
    TT_TRY(launch_over_members(e, add_copies, a, a.v.params, TT_STEP_BLOCK_ELEMENTS));
    joined = 1;
  }
  if (joined) a.copies = 1;
  if (a.uses_clipping) TT_TRY(clip_step(e, a));
  return launch_optimizer(e, a, a.v.params);
}

/* From the gradient of the outputs to new weights. */
static tt_err backward_and_update(tt_engine *e, int head)
{
  tt_step_kernel_args step = make_step_args(e);
  if (steps_at_once(e)) return backward_step(e, head, &step);
  TT_TRY(backward_step(e, head, NULL));
  return update_step(e, 0);
}

/* Batches `ahead` steps from the members' positions come from the host, if the data set does. */
static tt_err load_rows(tt_engine *e, int64_t ahead)
{
  const tt_layered *own = tt_layered_of(e);
  tt_member_positions positions = {own->status, own->epoch, own->batch, own->attempt};
  if (e->given) return tt_row_stream_load_given(e);
  return own->row_stream ? tt_row_stream_load_batches(e, &positions, ahead) : TT_OK;
}

tt_err tt_layered_release_part(tt_engine *e)
{
  return tt_layered_of(e)->row_stream ? tt_row_stream_release_buffer(e) : TT_OK;
}

tt_err tt_layered_load_part(tt_engine *e)
{
  TT_TRY(load_rows(e, 0));
  return gather_rows(e, NULL);
}

/* A step of a whole batch. */
static tt_err run_whole_step(tt_engine *e, int64_t ahead)
{
  TT_TRY(load_rows(e, ahead));
  TT_TRY(forward_and_loss(e));
  TT_TRY(backward_and_update(e, uses_head(e)));
  return tt_layered_release_part(e);
}

/* a step in parts */

/* The gradient and loss of part own->batch_part in sum own->at_sum. */
static tt_err compute_part(tt_engine *e, int64_t ahead)
{
  TT_TRY(load_rows(e, ahead));
  TT_TRY(forward_and_loss(e));
  TT_TRY(backward_step(e, uses_head(e), NULL));
  return tt_layered_release_part(e);
}

tt_err tt_layered_add_sums(tt_engine *e, int k)
{
  tt_layered_of(e)->at_sum = k;
  tt_step_kernel_args a = make_step_args(e);
  a.add = tt_layered_sum(e, k + 1);
  a.add_loss = tt_layered_sum_loss(e, k + 1);
  return launch_over_members(e, add_parts, a, a.v.params, TT_STEP_BLOCK_ELEMENTS);
}

static tt_err add_up(tt_engine *e, tt_slice parts, int64_t ahead)
{
  tt_layered *own = tt_layered_of(e);
  tt_part_sums sums = {};
  sums.parts = e->cohort->parts;
  for (int64_t k = parts.first; k < parts.first + parts.count; k++) {
    own->batch_part = (int)k;
    own->at_sum = sums.count;
    TT_TRY(compute_part(e, ahead));
    tt_part_sums_push(&sums, k, 0);
    while (tt_part_sums_merge(&sums)) TT_TRY(tt_layered_add_sums(e, sums.count - 1));
  }
  return TT_OK;
}

static tt_err add_parts_ahead(tt_engine *e, tt_slice parts, int64_t ahead)
{
  tt_err err = add_up(e, parts, ahead);
  tt_layered_of(e)->batch_part = tt_layered_of(e)->at_sum = 0;
  return err;
}

tt_err tt_layered_add_parts(tt_engine *e, tt_slice parts) { return add_parts_ahead(e, parts, 0); }

tt_err tt_layered_run_step(tt_engine *e, int64_t ahead)
{
  tt_slice parts = {0, e->cohort->parts};
  if (parts.count == 1) return run_whole_step(e, ahead);
  TT_TRY(add_parts_ahead(e, parts, ahead));
  TT_TRY(tt_layered_record_losses(e));
  return update_step(e, 0);
}

tt_err tt_layered_add_gradient(tt_engine *e, int is_first, float **input)
{
  float *before = tt_layered_of(e)->eval_weights; /* nobody else uses it now */
  tt_layered_pass pass = tt_layered_training_pass(e);
  tt_step_kernel_args a = make_step_args(e);
  int64_t floats = e->slice.count * e->view.param_stride;
  if (!is_first) TT_TRY(tt_dev_copy(before, a.gradient, floats, e->dev.stream));
  TT_TRY(tt_layered_backward_layers(e, &pass, 0, tt_pipeline_layers(&e->cohort->model), input));
  if (a.copies > 1)
    TT_TRY(launch_over_members(e, add_copies, a, a.v.params, TT_STEP_BLOCK_ELEMENTS));
  return is_first ? TT_OK : tt_layered_add_values(e, a.gradient, before, e->view.params);
}

tt_err tt_layered_update_given(tt_engine *e)
{
  TT_TRY(launch_over_members(e, record_given_step, make_step_args(e), 1, 1));
  return update_step(e, 1);
}

/* The arguments for a segment of the parameters: arrays begin with its first one. */
static tt_step_kernel_args make_segment_args(tt_engine *e, tt_slice segment)
{
  tt_step_kernel_args a = make_step_args(e);
  a.v.params = (int32_t)segment.count;
  a.v.weights += segment.first;
  a.v.slots += segment.first;
  if (a.rate) a.rate += segment.first;
  a.gradient += segment.first;
  a.v.average_kind = TT_AVERAGE_none; /* when all segments have been advanced */
  return a;
}

tt_err tt_layered_segment_squares(tt_engine *e, tt_slice segment)
{
  return launch_over_members(e, block_squares, make_segment_args(e, segment), segment.count,
                             TT_NORM_BLOCK);
}

/* Kernels read whole float4. If the segment of a stage begins inside of one, the parameters before
 * it take part: they are those of another engine, and this one gets their weights before it uses
 * them. */
tt_err tt_layered_segment_advance(tt_engine *e, tt_slice segment)
{
  int64_t before = segment.first % 4;
  segment.first -= before;
  segment.count += before;
  tt_step_kernel_args a = make_segment_args(e, segment);
  a.squares_each = 1;
  TT_TRY(launch_over_members(e, prepare_step, a, 1, TT_LAYERED_THREADS));
  if (a.uses_clipping) TT_TRY(launch_over_members(e, clip_by_squares, a, 1, TT_LAYERED_THREADS));
  return launch_optimizer(e, a, segment.count);
}

/* By add_parts, which adds losses of parts too. These have been read before, so that it may change
 * them. */
tt_err tt_layered_add_values(tt_engine *e, float *dst, const float *src, int64_t count)
{
  tt_step_kernel_args a = make_step_args(e);
  a.v.params = (int32_t)count;
  a.gradient = dst;
  a.add = src;
  a.add_loss = a.pending_loss;
  return launch_over_members(e, add_parts, a, count, TT_STEP_BLOCK_ELEMENTS);
}

tt_err tt_layered_accept_weights(tt_engine *e)
{
  tt_step_kernel_args a = make_step_args(e);
  TT_TRY(tt_layered_record_losses(e));
  return a.v.average_kind == TT_AVERAGE_ema
             ? launch_over_members(e, average_weights, a, a.v.params, TT_STEP_BLOCK_ELEMENTS)
             : TT_OK;
}

/* where the members are */

tt_err tt_layered_download_progress(tt_engine *e)
{
  tt_layered *own = tt_layered_of(e);
  TT_TRY(tt_dev_download(own->status, e->view.status, e->slice.count, e->dev.stream));
  TT_TRY(tt_dev_download(own->epoch, e->view.epoch, e->slice.count, e->dev.stream));
  TT_TRY(tt_dev_download(own->attempt, e->view.attempt, e->slice.count, e->dev.stream));
  return tt_dev_download_sync(own->batch, e->view.batch, e->slice.count, e->dev.stream);
}

/* Number of steps of member i to the end of its epoch. */
static int64_t epoch_steps_left(const tt_engine *e, const tt_layered *own, int64_t i)
{
  int64_t size = e->cohort->batch_size;
  return tt_ceil_div(e->host_epoch_rows[i], size) - own->batch[i];
}

void tt_layered_find_ending_views(const tt_engine *e, int64_t steps, int8_t *ending_views)
{
  const tt_cohort *c = e->cohort;
  const tt_layered *own = static_cast<const tt_layered *>(e->own);
  memset(ending_views, 0, (size_t)tt_cohort_row_sets(c));
  for (int64_t i = 0; i < e->slice.count; i++)
    if (own->status[i] == TT_STATUS_training && epoch_steps_left(e, own, i) == steps)
      ending_views[tt_member_row_set(c, &c->member[e->slice.first + i])] = 1;
}

/* Steps to the first end of an epoch of a member that was training at the last
 * tt_layered_download_progress; 0 if none was. */
int64_t tt_layered_steps_to_epoch_end(const tt_engine *e)
{
  const tt_layered *own = static_cast<const tt_layered *>(e->own);
  int64_t next = 0;
  for (int64_t i = 0; i < e->slice.count; i++) {
    if (own->status[i] != TT_STATUS_training) continue;
    int64_t left = epoch_steps_left(e, own, i);
    if (!next || left < next) next = left;
  }
  return next;
}
