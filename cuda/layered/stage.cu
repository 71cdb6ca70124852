/* stage.cu — a stage of a member: some layers, for some parts of a batch (engine.h); see
 * layered_internal.cuh. Outputs and gradients are exchanged through host memory, or, with
 * tt_engine.device_exchange, in memory of the device: [rows][values].
 *
 * Between its forward and its backward pass a part keeps its activations in a slot: arrays that
 * take the place of those of the engine while the part passes. Slot 0 has those of the engine. */
#include "cuda/layered/row_stream.cuh"

#include "core/base/mem.h"

#include <string.h>

/* Arrays [rows][...] of one part of one member, as in tt_layered; their sizes are those of the
 * tables (cuda/plan/layered_sizes.h). */
typedef struct stage_slot {
  float *x;
  float *h[TT_MAX_LAYERS], *slope[TT_MAX_LAYERS], *xhat[TT_MAX_LAYERS], *rstd[TT_MAX_LAYERS];
  tt_cuda_front_arrays *front; /* [front_layers] of the engine; or NULL */
} stage_slot;

struct tt_layered_stage {
  tt_pipeline_stage layers;
  int64_t window;   /* slots */
  stage_slot *slot; /* [window] */
  /* of the present step */
  tt_slice parts;
  int64_t member, rows; /* number in the engine; rows of the batch */
  tt_part_sums sums;
  double loss[TT_MAX_PART_SUMS];
};

static int end_of(const tt_pipeline_stage *s) { return s->first + s->count; }

static int is_last(const tt_engine *e, const tt_layered_stage *st)
{
  return end_of(&st->layers) == tt_pipeline_layers(&e->cohort->model);
}

/* Of slot k > 0; the arrays of slot 0 belong to the engine, but for x if its rows come from the
 * host. */
static void free_slot(const tt_layered *own, tt_layered_stage *st, int64_t k)
{
  stage_slot *slot = &st->slot[k];
  if (k > 0 || own->row_stream) tt_dev_free(slot->x);
#define X(name, ...) tt_dev_free(slot->name[l]);
  for (int l = 0; k > 0 && l < TT_MAX_LAYERS; l++) {
    TT_LAYERED_LAYER_ARRAYS(X)
  }
#undef X
#define X(name, ...) tt_dev_free(slot->front[l].name);
  for (int l = 0; k > 0 && slot->front && l < own->front_layers; l++) {
    TT_LAYERED_FRONT_ARRAYS(X)
  }
#undef X
  tt_free(slot->front);
}

void tt_layered_stage_destroy(tt_layered *own)
{
  if (!own->stage) return;
  for (int64_t k = 0; own->stage->slot && k < own->stage->window; k++)
    free_slot(own, own->stage, k);
  tt_free(own->stage->slot);
  tt_free(own->stage);
}

/* Where the array of the outputs of layer n is, of a slot or of the engine; layers are numbered as
 * in pipeline.h. */
template <class ARRAYS> static auto outputs_of(ARRAYS *s, const tt_model *m, int n)
{
  return n < m->front.layers ? &s->front[n].y : &s->h[n - m->front.layers];
}

/* The arrays of slot k > 0. */
static tt_err allocate_slot(const tt_engine *e, const tt_layered *own, const tt_layered_stage *st,
                            stage_slot *slot)
{
  const tt_model *m = &e->cohort->model;
  const tt_layered_sizes one = tt_layered_slot_sizes(&own->size), *s = &one;
  int first = st->layers.first, end = end_of(&st->layers), front = m->front.layers;
  if (first > 0)
    TT_TRY(tt_dev_alloc(outputs_of(slot, m, first - 1), s->rows * tt_pipeline_values(m, first),
                        "activations of a stage"));
#define X(name, type, count, what)                                                                 \
  if ((count) > 0) TT_TRY(tt_dev_alloc(&slot->front[l].name, count, what));
  for (int l = first; l < end && l < front; l++) {
    const tt_front_layer *layer = &m->front.layer[l];
    TT_LAYERED_FRONT_ARRAYS(X)
  }
#undef X
#define X(name, type, count, what)                                                                 \
  if ((count) > 0) TT_TRY(tt_dev_alloc(&slot->name[l], count, what));
  for (int l = first < front ? 0 : first - front; l < end - front; l++) {
    const tt_layer *layer = &m->layer[l];
    TT_LAYERED_LAYER_ARRAYS(X)
  }
#undef X
  return TT_OK;
}

static tt_err allocate_slots(const tt_engine *e, const tt_layered *own, tt_layered_stage *st)
{
  int64_t inputs = own->size.rows * own->size.inputs;
  TT_TRY(TT_ALLOC(st->slot, st->window));
  st->slot[0].x = own->row_stream ? NULL : own->x;
#define X(name, ...) memcpy(st->slot[0].name, own->name, sizeof own->name);
  TT_LAYERED_LAYER_ARRAYS(X)
#undef X
  for (int64_t k = 0; k < st->window; k++) {
    if (own->front_layers) TT_TRY(TT_ALLOC(st->slot[k].front, own->front_layers));
    for (int l = 0; k == 0 && l < own->front_layers; l++) st->slot[0].front[l] = own->front[l];
    if (st->layers.first == 0 && !st->slot[k].x)
      TT_TRY(tt_dev_alloc(&st->slot[k].x, inputs, "activations of a stage"));
    if (k > 0) TT_TRY(allocate_slot(e, own, st, &st->slot[k]));
  }
  return TT_OK;
}

static tt_err reserve_slots(tt_engine *e, const tt_pipeline_stage *layers, int64_t window)
{
  tt_layered *own = tt_layered_of(e);
  tt_layered_stage *st = own->stage;
  if (st && st->layers.first == layers->first && st->layers.count == layers->count &&
      st->window == window)
    return TT_OK;
  tt_layered_stage_destroy(own);
  TT_TRY(TT_ALLOC(own->stage, 1));
  own->stage->layers = *layers;
  own->stage->window = window;
  tt_err err = allocate_slots(e, own, own->stage);
  if (err) tt_layered_stage_destroy(own);
  return err;
}

/* The arrays of a slot take the place of those of the engine. */
static void use_slot(const tt_engine *e, tt_layered *own, int64_t k)
{
  const stage_slot *slot = &own->stage->slot[k];
  if (slot->x && !own->row_stream) own->x = slot->x;
#define X(name, ...)                                                                               \
  if (slot->name[l]) own->name[l] = slot->name[l];
  for (int l = 0; l < e->cohort->model.layers; l++) {
    TT_LAYERED_LAYER_ARRAYS(X)
  }
#undef X
  for (int l = 0; l < e->cohort->model.front.layers; l++)
    if (slot->front[l].y) own->front[l] = slot->front[l];
}

/* Number of rows of the batch of member i, and whether it ends the epoch. */
static int64_t batch_rows(const tt_engine *e, const tt_layered *own, int64_t i, int *ends_epoch)
{
  int64_t size = e->cohort->batch_size, first = own->batch[i] * size;
  int64_t left = e->host_epoch_rows[i] - first;
  *ends_epoch = left <= size;
  return left < size ? left : size;
}

/* Where the caller finds sum k of the member of the window. */
static float *sum_of(tt_engine *e, int k)
{
  return e->device_exchange ? tt_layered_sum(e, k)
                            : tt_layered_of(e)->host_sum + k * (int64_t)e->view.params;
}

tt_err tt_layered_stage_begin(tt_engine *e, int64_t m, const tt_pipeline_stage *layers,
                              tt_slice parts, int64_t window, tt_pipeline_step *out)
{
  const int64_t i = m - e->slice.first;
  tt_layered *own = tt_layered_of(e);
  int most, ends_epoch;
  tt_part_sums sums = tt_part_sums_of(e->cohort->parts, parts, &most);
  *out = {};
  TT_TRY(tt_layered_check_path(e));
  TT_TRY(tt_layered_download_progress(e));
  if (own->status[i] != TT_STATUS_training) return TT_OK;
  TT_TRY(tt_layered_reserve_sums(e, most, sums.count > 1 ? sums.count : 1));
  TT_TRY(reserve_slots(e, layers, window));
  tt_layered_stage *st = own->stage;
  st->parts = parts;
  st->member = i;
  st->rows = batch_rows(e, own, i, &ends_epoch);
  st->sums = {};
  st->sums.parts = e->cohort->parts;
  st->loss[0] = 0.0;
  out->training = 1;
  out->ends_epoch = ends_epoch;
  out->rows = st->rows;
  out->loss = st->loss;
  tt_layered_begin_member(e, i);
  for (int k = 0; k < (sums.count > 1 ? sums.count : 1); k++) out->sum[k] = sum_of(e, k);
  return tt_layered_end_member(e, tt_layered_begin_epochs(e));
}

/* A pass of one part. */
typedef struct layered_part {
  tt_engine *e;
  tt_layered *own;
  tt_layered_stage *st;
  tt_layered_pass layers;
  int64_t rows, exchanged; /* of the part; of its exchanged arrays that the engine has too */
} layered_part;

static layered_part begin_pass(tt_engine *e, int64_t part)
{
  tt_layered *own = tt_layered_of(e);
  tt_layered_stage *st = own->stage;
  layered_part p = {e, own, st, {}, 0, 0};
  p.rows = tt_part_rows(st->rows, e->cohort->parts, part).count;
  p.exchanged = tt_round_up(p.rows, TT_PART_LANES);
  if (p.exchanged > own->size.rows) p.exchanged = own->size.rows;
  tt_layered_begin_member(e, st->member);
  own->batch_part = (int)part;
  own->at_sum = st->sums.count;
  use_slot(e, own, part % st->window);
  p.layers = tt_layered_training_pass(e);
  return p;
}

static tt_err end_pass(layered_part *p, tt_err before)
{
  tt_err err = tt_layered_end_member(p->e, before);
  use_slot(p->e, p->own, 0);
  p->own->batch_part = p->own->at_sum = 0;
  return err;
}

/* Rows from the caller; all rows of the part that it does not have are 0. */
static tt_err take_rows(const layered_part *p, float *dst, const float *src, int64_t values)
{
  TT_TRY(tt_dev_zero(dst, p->own->size.rows * values, p->e->dev.stream));
  return tt_layered_take_values(p->e, dst, src, p->exchanged * values);
}

static tt_err give_rows(const layered_part *p, float *dst, const float *src, int64_t values)
{
  return tt_layered_give_values(p->e, dst, src, p->exchanged * values);
}

/* The rows of the part. Those from the host are in a buffer that other parts use too, so that the
 * first stage keeps a copy of the inputs. */
static tt_err load_rows(const layered_part *p, int64_t part)
{
  float *x = p->st->slot[part % p->st->window].x;
  TT_TRY(tt_layered_load_part(p->e));
  if (!p->own->row_stream || p->st->layers.first > 0) return TT_OK;
  TT_TRY(tt_dev_copy(x, p->own->x, p->own->size.rows * p->own->size.inputs, p->e->dev.stream));
  return TT_OK;
}

static tt_err forward(layered_part *p, int64_t part, const float *in, float *out)
{
  const tt_model *m = &p->e->cohort->model;
  int first = p->st->layers.first, end = end_of(&p->st->layers), last = is_last(p->e, p->st);
  int loads = first == 0 || last;
  if (loads) TT_TRY(load_rows(p, part));
  if (first > 0)
    TT_TRY(take_rows(p, *outputs_of(p->own, m, first - 1), in, tt_pipeline_values(m, first)));
  TT_TRY(tt_layered_forward_layers(p->e, &p->layers, first, end));
  if (last)
    TT_TRY(tt_layered_batch_loss(p->e));
  else
    TT_TRY(give_rows(p, out, *outputs_of(p->own, m, end - 1), tt_pipeline_values(m, end)));
  return loads ? tt_layered_release_part(p->e) : TT_OK;
}

tt_err tt_layered_stage_forward(tt_engine *e, int64_t part, const float *in, float *out)
{
  layered_part p = begin_pass(e, part);
  return end_pass(&p, p.rows > 0 ? forward(&p, part, in, out) : TT_OK);
}

static tt_err backward(layered_part *p, int64_t part, const float *in, float *out)
{
  const tt_model *m = &p->e->cohort->model;
  int first = p->st->layers.first, end = end_of(&p->st->layers);
  int goes_back = tt_pipeline_has_gradient(m, first);
  float *before = NULL;
  if (!tt_pipeline_has_gradient(m, end)) return TT_OK;
  if (p->own->row_stream && first == 0) p->own->x = p->st->slot[part % p->st->window].x;
  if (!is_last(p->e, p->st)) {
    TT_TRY(take_rows(p, p->own->delta[0], in, tt_pipeline_values(m, end)));
    TT_TRY(tt_layered_output_backward(p->e, &p->layers, end - 1));
  }
  TT_TRY(tt_layered_backward_layers(p->e, &p->layers, first, end, goes_back ? &before : NULL));
  return goes_back ? give_rows(p, out, before, tt_pipeline_values(m, first)) : TT_OK;
}

/* A part without rows adds 0. */
static tt_err clear_sum(const layered_part *p)
{
  int k = p->own->at_sum;
  TT_TRY(tt_dev_zero(tt_layered_sum(p->e, k), p->e->view.params, p->e->dev.stream));
  return tt_dev_zero(tt_layered_sum_loss(p->e, k), 1, p->e->dev.stream);
}

/* Add the last sums as far as the tree allows; after the last part give them to the caller. */
static tt_err add_part(const layered_part *p, int64_t part)
{
  tt_layered_stage *st = p->st;
  tt_slice slice = st->layers.params;
  tt_part_sums_push(&st->sums, part, 0);
  while (tt_part_sums_merge(&st->sums)) TT_TRY(tt_layered_add_sums(p->e, st->sums.count - 1));
  if (part + 1 < st->parts.first + st->parts.count) return TT_OK;
  for (int k = 0; k < st->sums.count; k++) {
    if (!p->e->device_exchange)
      TT_TRY(tt_dev_download(sum_of(p->e, k) + slice.first, tt_layered_sum(p->e, k) + slice.first,
                             slice.count, p->e->dev.stream));
    if (is_last(p->e, st))
      TT_TRY(tt_dev_download(&st->loss[k], tt_layered_sum_loss(p->e, k), 1, p->e->dev.stream));
  }
  return TT_OK;
}

tt_err tt_layered_stage_backward(tt_engine *e, int64_t part, const float *in, float *out)
{
  layered_part p = begin_pass(e, part);
  tt_err err = p.rows > 0 ? backward(&p, part, in, out) : clear_sum(&p);
  if (!err) err = add_part(&p, part);
  return end_pass(&p, err);
}

tt_err tt_layered_stage_gradient(tt_engine *e, int64_t part)
{
  (void)e, (void)part;
  return TT_OK;
}
