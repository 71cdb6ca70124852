/* layered.cu — the layered path: memory, and the schedule of steps and ends of epochs; see
 * layered_internal.cuh. */
#include "cuda/layered/row_stream.cuh"

#include "core/base/mem.h"
#include "cuda/common/engine_functions.cuh"

#include <inttypes.h>

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
  tt_err wait = tt_stream_synchronize(e->dev.stream);
  tt_free(ending_views);
  return err ? err : wait;
}

/* memory */

static void release(tt_engine *e)
{
  tt_layered *own = tt_layered_of(e);
  if (!own) return;
  for (int k = 0; k < TT_LAYERED_GRAPHS; k++) tt_graph_destroy(&own->graph[k]);
  tt_layered_stage_destroy(own);
  tt_row_stream_close(e);
#define X(name, ...) tt_dev_free(own->name);
  TT_LAYERED_ARRAYS(X)
#undef X
#define X(name, ...) tt_dev_free(own->name[l]);
  for (int l = 0; l < TT_MAX_LAYERS; l++) {
    TT_LAYERED_LAYER_ARRAYS(X)
  }
#undef X
#define X(name, ...) tt_dev_free(own->front[l].name);
  for (int l = 0; own->front && l < own->front_layers; l++) {
    TT_LAYERED_FRONT_ARRAYS(X)
  }
#undef X
  tt_free(own->front);
  for (int k = 0; k < TT_MAX_PART_SUMS; k++) tt_dev_free(own->sum[k]);
  tt_dev_free(own->incoming);
  tt_pinned_free(own->host_sum);
#define X(name, ...) tt_pinned_free(own->name);
  TT_LAYERED_PINNED_ARRAYS(X)
#undef X
  tt_free(own);
  e->own = NULL;
}

/* The arrays of the tables. */
static tt_err allocate_arrays(tt_layered *own, const tt_model *m)
{
  const tt_layered_sizes *s = &own->size;
#define X(name, type, count, what)                                                                 \
  if ((count) > 0) TT_TRY(tt_dev_alloc(&own->name, count, what));
  TT_LAYERED_ARRAYS(X)
#undef X
#define X(name, type, count, what)                                                                 \
  if ((count) > 0) TT_TRY(tt_dev_alloc(&own->name[l], count, what));
  for (int l = 0; l < m->layers; l++) {
    const tt_layer *layer = &m->layer[l];
    TT_LAYERED_LAYER_ARRAYS(X)
  }
#undef X
  own->front_layers = m->front.layers;
  if (own->front_layers) TT_TRY(TT_ALLOC(own->front, own->front_layers));
#define X(name, type, count, what)                                                                 \
  if ((count) > 0) TT_TRY(tt_dev_alloc(&own->front[l].name, count, what));
  for (int l = 0; l < m->front.layers; l++) {
    const tt_front_layer *layer = &m->front.layer[l];
    TT_LAYERED_FRONT_ARRAYS(X)
  }
#undef X
  for (int k = 0; k < s->sums; k++)
    TT_TRY(
        tt_dev_alloc(&own->sum[k], s->copies * s->members * s->stride, "gradients of the weights"));
  return TT_OK;
}

static tt_err allocate_pinned(tt_layered *own)
{
  const tt_layered_sizes *s = &own->size;
#define X(name, type, count, what)                                                                 \
  if ((count) > 0) TT_TRY(tt_pinned_alloc(&own->name, count, what));
  TT_LAYERED_PINNED_ARRAYS(X)
#undef X
  return TT_OK;
}

/* Kernels use 31 bits for the elements of a member and the blocks of a launch; a block has at
 * least 8 rows or 16 weights, in a front one weight. */
static tt_err check_size(const tt_engine *e, const tt_layered *own)
{
  double wide = (double)own->size.widest, weights = (double)e->cohort->model.params;
  if ((double)e->cohort->model.inputs > wide) wide = (double)e->cohort->model.inputs;
  double blocks = (double)own->size.capacity * wide / 8.0;
  double each = e->cohort->model.front.layers ? 1.0 : 16.0;
  blocks += (double)e->slice.count * (weights / each + 1.0);
  double rows =
      (double)(own->size.rows > own->size.split_rows ? own->size.rows : own->size.split_rows);
  if (rows * wide < (double)INT32_MAX && blocks < (double)INT32_MAX) return TT_OK;
  return TT_FAIL(MEM,
                 "%" PRId64 " members with batches of %" PRId64 " rows and layers of width %" PRId64
                 " are too much for one GPU: use more ranks or a smaller train.batch_size",
                 e->slice.count, own->size.rows, own->size.widest);
}

/* The factor of every parameter on the device. */
static tt_err upload_rates(tt_engine *e, const tt_layered *own)
{
  const tt_model *m = &e->cohort->model;
  float *rate = NULL;
  if (!own->rate) return TT_OK;
  TT_TRY(TT_ALLOC(rate, own->size.stride));
  for (int64_t p = 0; p < m->params;) {
    float factor;
    tt_slice same = tt_model_same_rate(m, p, m->params, &factor);
    for (; p < same.first + same.count; p++) rate[p] = factor;
  }
  tt_err err = tt_dev_upload_sync(own->rate, rate, own->size.stride, e->dev.stream);
  tt_free(rate);
  return err;
}

static tt_err allocate(tt_engine *e, tt_layered *own)
{
  own->window = {0, e->slice.count};
  own->size = tt_layered_sizes_of(e->cohort, e->slice, e->rows, e->view.weighted, e->data != NULL);
  if (e->given && own->size.widest < e->cohort->model.inputs) /* for dL/d(input) */
    own->size.widest = e->cohort->model.inputs;
  TT_TRY(check_size(e, own));
  if (e->data) TT_TRY(tt_row_stream_open(e));
  TT_TRY(allocate_arrays(own, &e->cohort->model));
  TT_TRY(upload_rates(e, own));
  return allocate_pinned(own);
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

static constexpr tt_cuda_path make_path()
{
  tt_cuda_path path = {};
  path.name = "layered";
  path.prepare = prepare;
  path.train = train;
  path.release = release;
  path.evaluate = tt_layered_evaluate;
  path.takes_host_rows = 1;
  return path;
}
extern const tt_cuda_path tt_cuda_layered = make_path();

static constexpr tt_team_ops make_team()
{
  tt_team_ops team = {}; /* NULL: not supported */
  team.partial = tt_layered_partial;
  team.squares = tt_layered_squares;
  team.advance = tt_layered_advance;
  team.accept = tt_layered_accept;
  team.device_scratch = tt_layered_device_scratch;
  team.device_add = tt_layered_device_add;
  team.device_copy = tt_layered_device_copy;
  team.link = &tt_cuda_link;
  team.stage_begin = tt_layered_stage_begin;
  team.stage_forward = tt_layered_stage_forward;
  team.stage_backward = tt_layered_stage_backward;
  team.stage_gradient = tt_layered_stage_gradient;
  return team;
}
extern const tt_team_ops tt_layered_team = make_team();
