/* layered.cu — the layered path: memory, and the schedule of steps and ends of epochs; see
 * layered_internal.cuh. */
#include "cuda/layered/row_stream.cuh"

#include "core/base/mem.h"
#include "cuda/common/device_list.cuh"

#include <inttypes.h>
#include <string.h>

/* the schedule */

static tt_err train_until(tt_engine *e, int64_t steps, int8_t *ending_views)
{
  TT_TRY(tt_layered_download_progress(e));
  TT_TRY(tt_layered_begin_epochs(e));
  for (int64_t next; steps > 0 && (next = tt_layered_steps_to_epoch_end(e)) > 0; steps -= next) {
    if (next > steps) return tt_layered_run_steps(e, steps);
    TT_TRY(tt_layered_run_steps(e, next));
    tt_layered_find_ending_views(e, next, ending_views);
    TT_TRY(tt_layered_end_epochs(e, ending_views, NULL));
    TT_TRY(tt_layered_download_progress(e));
  }
  return TT_OK;
}

static tt_err train(tt_engine *e, int64_t steps)
{
  int8_t *ending_views = NULL;
  if (!e->slice.count) return TT_OK;
  TT_TRY(TT_ALLOC(ending_views, tt_cohort_row_sets(e->cohort)));
  tt_err err = train_until(e, steps, ending_views);
  if (e->view.ensemble_stopping && !err) err = tt_layered_resume_members(e);
  tt_err wait = tt_stream_synchronize(e->dev.stream);
  tt_free(ending_views);
  return err ? err : wait;
}

/* memory */

/* Whether a member of the slice has a value above 0 of a hyper-parameter. */
static int any_member_uses(const tt_engine *e, float tt_hyper::*what)
{
  for (int64_t i = 0; i < e->slice.count; i++)
    if (e->cohort->member[e->slice.first + i].hyper.*what > 0.0f) return 1;
  return 0;
}

static void release(tt_engine *e)
{
  tt_layered *own = tt_layered_of(e);
  if (!own) return;
  for (int k = 0; k < TT_LAYERED_GRAPHS; k++) tt_graph_destroy(&own->graph[k]);
  tt_row_stream_close(e);
  for (int l = 0; l < TT_MAX_LAYERS; l++) {
    tt_dev_free(own->h[l]);
    tt_dev_free(own->slope[l]);
    tt_dev_free(own->xhat[l]);
    tt_dev_free(own->rstd[l]);
  }
  tt_dev_free(own->x);
  tt_dev_free(own->y);
  tt_dev_free(own->weight);
  tt_dev_free(own->delta[0]);
  tt_dev_free(own->delta[1]);
  for (int k = 0; k < TT_MAX_PART_SUMS; k++) tt_dev_free(own->sum[k]);
  tt_dev_free(own->sum_loss);
  tt_dev_free(own->squares);
  tt_dev_free(own->term);
  tt_dev_free(own->eval_weights);
  tt_dev_free(own->scale);
  tt_dev_free(own->parts);
  tt_dev_free(own->order);
  tt_dev_free(own->step);
  tt_dev_free(own->lane);
  tt_dev_free(own->end);
  tt_dev_free(own->mean);
  tt_dev_free(own->residual_delta);
  tt_dev_free(own->inputs);
  tt_dev_free(own->more);
  tt_dev_free(own->skip_adversarial);
  tt_dev_free(own->other_view);
  tt_dev_free(own->row);
  tt_pinned_free(own->host_sum);
  tt_pinned_free(own->host_term);
  tt_pinned_free(own->status);
  tt_pinned_free(own->batch);
  tt_pinned_free(own->epoch);
  tt_pinned_free(own->attempt);
  tt_free(own);
  e->own = NULL;
}

static int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t widest(const tt_model *m)
{
  int64_t width = 0;
  for (int l = 0; l < m->layers; l++)
    if (m->layer[l].out > width) width = m->layer[l].out;
  return width;
}

/* Memory for the parts of layers beyond their products. */
static tt_err allocate_extras(tt_layered *own, const tt_model *m, int64_t members)
{
  int residual = 0;
  for (int l = 0; l < m->layers; l++) {
    const tt_layer *layer = &m->layer[l];
    residual |= layer->residual;
    if (layer->norm < 0) continue;
    TT_TRY(tt_dev_alloc(&own->xhat[l], members * own->rows * layer->out, "layers of a batch"));
    TT_TRY(tt_dev_alloc(&own->rstd[l], members * own->rows, "layers of a batch"));
  }
  if (!residual) return TT_OK;
  return tt_dev_alloc(&own->residual_delta, members * own->rows * own->widest,
                      "gradients of a batch");
}

/* Memory for adversarial training. */
static tt_err allocate_adversarial(const tt_engine *e, tt_layered *own)
{
  const tt_model *m = &e->cohort->model;
  int64_t members = e->slice.count;
  if (!any_member_uses(e, &tt_hyper::adversarial_epsilon)) return TT_OK;
  TT_TRY(tt_dev_alloc(&own->inputs, members * own->rows * m->inputs, "gradients of inputs"));
  TT_TRY(tt_dev_alloc(&own->more, members * e->view.param_stride, "gradients at perturbed inputs"));
  return tt_dev_alloc(&own->skip_adversarial, members, "members");
}

/* Whether the backward pass needs f'(z) of a layer because it does not follow from the output. */
static int stores_slope(const tt_layered *own, const tt_model *m, int l)
{
  const tt_layer *layer = &m->layer[l];
  return l < m->layers - 1 && (tt_act_grad_needs_input(layer->activation) || layer->norm >= 0 ||
                               layer->residual || (own->uses_dropout && layer->dropout));
}

static tt_err allocate_layers(tt_layered *own, const tt_model *m, int64_t members)
{
  int64_t stride = tt_param_stride(m->params);
  int64_t rows = members * own->rows;
  for (int l = 0; l < m->layers; l++) {
    TT_TRY(tt_dev_alloc(&own->h[l], own->capacity * m->layer[l].out, "activations of a batch"));
    if (stores_slope(own, m, l))
      TT_TRY(tt_dev_alloc(&own->slope[l], rows * m->layer[l].out, "derivatives of a batch"));
  }
  for (int k = 0; k < 2; k++)
    TT_TRY(tt_dev_alloc(&own->delta[k], rows * own->widest, "gradients of a batch"));
  for (int k = 0; k < own->sums; k++)
    TT_TRY(tt_dev_alloc(&own->sum[k], members * stride, "gradients of the weights"));
  return tt_dev_alloc(&own->eval_weights, members * stride, "weights to evaluate");
}

/* Memory for members that train in parts. */
static tt_err allocate_parts(const tt_engine *e, tt_layered *own)
{
  int64_t members = e->slice.count;
  if (e->cohort->parts == 1) return TT_OK;
  own->terms = (e->rows + own->split_rows - 1) / own->split_rows;
  TT_TRY(tt_dev_alloc(&own->sum_loss, TT_MAX_PART_SUMS * members, "losses of parts"));
  TT_TRY(tt_dev_alloc(&own->term, members * own->terms, "validation losses"));
  TT_TRY(tt_pinned_alloc(&own->host_term, own->terms, "validation losses"));
  return own->scale ? tt_dev_alloc(&own->squares, members * tt_norm_blocks(e->view.params),
                                   "norms of the gradients")
                    : TT_OK;
}

static tt_err allocate_members(const tt_engine *e, tt_layered *own)
{
  int64_t members = e->slice.count;
  if (any_member_uses(e, &tt_hyper::clip_norm))
    TT_TRY(tt_dev_alloc(&own->scale, members, "norms of the gradients"));
  TT_TRY(tt_dev_alloc(&own->order, members, "orders of the rows"));
  TT_TRY(tt_dev_alloc(&own->step, members, "steps of the members"));
  TT_TRY(tt_dev_alloc(&own->lane, members * TT_LOSS_PARTIALS, "validation losses"));
  TT_TRY(tt_dev_alloc(&own->end, members, "ends of epochs"));
  TT_TRY(tt_dev_alloc(&own->mean, members, "losses of the members"));
  if (e->cohort->resample == TT_RESAMPLE_kfold)
    TT_TRY(tt_dev_alloc(&own->other_view, members, "members of other folds"));
  TT_TRY(tt_dev_alloc(&own->row, members * own->rows, "row numbers of a batch"));
  TT_TRY(tt_pinned_alloc(&own->attempt, members, "attempts of the members"));
  TT_TRY(tt_pinned_alloc(&own->status, members, "status of the members"));
  TT_TRY(tt_pinned_alloc(&own->batch, members, "batches of the members"));
  return tt_pinned_alloc(&own->epoch, members, "epochs of the members");
}

/* Kernels use 31 bits for the elements of a member and the blocks of a launch; a block has at
 * least 8 rows or 16 weights. */
static tt_err check_size(const tt_engine *e, const tt_layered *own)
{
  double wide = (double)own->widest, weights = (double)e->cohort->model.params;
  if ((double)e->cohort->model.inputs > wide) wide = (double)e->cohort->model.inputs;
  double blocks = (double)own->capacity * wide / 8.0;
  blocks += (double)e->slice.count * (weights / 16.0 + 1.0);
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
  int64_t parts = e->cohort->parts;
  own->window = {0, members};
  own->rows = tt_part_max_rows(min_i64(e->cohort->batch_size, e->rows), parts);
  own->split_rows = parts > 1 ? own->rows : min_i64(TT_SPLIT_ROWS, e->rows);
  (void)tt_part_sums_of(parts, {0, parts}, &own->sums);
  own->capacity = min_i64(TT_VALIDATION_ROWS, members * own->split_rows);
  if (own->capacity < members * own->rows) own->capacity = members * own->rows;
  own->split_group = own->capacity / own->split_rows;
  own->widest = widest(m);
  own->uses_dropout = any_member_uses(e, &tt_hyper::dropout);
  own->uses_label_noise = any_member_uses(e, &tt_hyper::label_noise);
  TT_TRY(check_size(e, own));
  TT_TRY(e->data ? tt_row_stream_open(e) : allocate_rows(e, own));
  TT_TRY(allocate_layers(own, m, members));
  TT_TRY(allocate_extras(own, m, members));
  TT_TRY(allocate_adversarial(e, own));
  TT_TRY(allocate_members(e, own));
  TT_TRY(allocate_parts(e, own));
  return tt_layered_open_gemm(e);
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

/* Where cuBLAS is used, the bits depend on its version and the kind of GPU too. */
static void arithmetic(const tt_engine *e, char *text, size_t room)
{
  if (!tt_layered_opens_gemm(e)) return;
  int n = snprintf(text, room, "sm%d x%d ", e->dev.capability, e->dev.multiprocessors);
  tt_cublas_version(text + n, room - (size_t)n);
}

const tt_cuda_path tt_cuda_layered = {"layered",
                                      prepare,
                                      train,
                                      release,
                                      arithmetic,
                                      tt_layered_evaluate,
                                      tt_layered_step_forward,
                                      tt_layered_step_apply,
                                      1,
                                      tt_layered_partial,
                                      tt_layered_squares,
                                      tt_layered_advance,
                                      tt_layered_accept};
