/* stage.c — a stage of a member: some layers, for some parts of a batch; see engine.h. The threads
 * of the engine share the rows of a part, then the outputs of the layers, as in shared_step.c. */
#include "src/cpu/cpu_internal.h"

#include "core/base/mem.h"
#include "core/formulas/layer_norm.h"

#include <math.h>
#include <string.h>

struct tt_cpu_stage {
  tt_pipeline_stage layers;
  int64_t window, slots; /* slots: that are allocated */
  tt_cpu_buffers *slot;  /* [window] of the parts between their forward and backward pass */
  /* of the present step */
  tt_cpu_member ctx;
  tt_cpu_batch batch;
  tt_part_sums sums;
  double loss[TT_MAX_PART_SUMS];
};

/* A pass of one part. */
typedef struct stage_pass {
  const tt_engine *e;
  const struct tt_cpu_stage *st;
  tt_cpu_buffers *b;
  tt_slice rows; /* of the batch */
  int64_t n;     /* padded rows */
  const float *in;
  float *out;
  float *gradient;
} stage_pass;

static const tt_model *model_of(const stage_pass *p) { return &p->e->cohort->model; }

/* First layer after the stage. */
static int end_of(const tt_pipeline_stage *s) { return s->first + s->count; }

static int is_last(const stage_pass *p)
{
  return end_of(&p->st->layers) == tt_pipeline_layers(model_of(p));
}

/* Copy rows between an array of the buffers, [values][ld] from a row on, and a packed one; the
 * values are those between layer - 1 and layer. */
static void unpack(const stage_pass *p, int layer, tt_slice rows, int64_t ld, float *dst)
{
  int64_t values = tt_pipeline_values(model_of(p), layer);
  for (int64_t i = 0; i < values; i++)
    memcpy(dst + i * ld, p->in + i * p->n + rows.first,
           (size_t)tt_lanes_up(rows.count) * sizeof *dst);
}

static void pack(const stage_pass *p, int layer, tt_slice rows, int64_t ld, const float *src)
{
  int64_t values = tt_pipeline_values(model_of(p), layer);
  for (int64_t i = 0; i < values; i++)
    memcpy(p->out + i * p->n + rows.first, src + i * ld,
           (size_t)tt_lanes_up(rows.count) * sizeof *src);
}

static void forward_share(void *context, int thread, int threads)
{
  const stage_pass *p = context;
  const tt_model *m = model_of(p);
  const tt_pipeline_stage *s = &p->st->layers;
  const tt_cpu_member *ctx = &p->st->ctx;
  tt_slice own = tt_cpu_share_of_rows(p->rows.count, thread, threads);
  if (own.count < 1) return;
  tt_cpu_buffers b = tt_cpu_buffers_from_row(m, p->b, own.first);
  tt_cpu_batch batch = p->st->batch;
  tt_slice rows = {p->rows.first + own.first, own.count};
  const float *weight = NULL;
  batch.dropout.first = (uint32_t)rows.first;
  if (s->first == 0 || is_last(p)) weight = tt_cpu_load_batch(p->e, &b, ctx, &batch, rows);
  if (s->first > 0) unpack(p, s->first, own, b.ld, tt_cpu_layer_input(m, &b, s->first));
  const tt_cpu_pass pass = {p->e->kernels, m, ctx->w, &b, own.count};
  tt_cpu_forward_layers(&pass, s->first, end_of(s), &batch.dropout, 1);
  if (is_last(p))
    tt_cpu_output_loss(p->e, &b, &batch, own.count, weight);
  else
    pack(p, end_of(s), own, b.ld, tt_cpu_layer_input(m, &b, end_of(s)));
}

/* dL/dz of the dense layers of the stage, and dL/d(input of the first one), if it is needed: in the
 * front, if that layer follows layers of the front in this stage, else in `out`. */
static void dense_deltas(const stage_pass *p, const tt_cpu_pass *pass, tt_slice own)
{
  const tt_model *m = pass->m;
  int front = m->front.layers, begin = p->st->layers.first, last = end_of(&p->st->layers) - 1;
  int first = begin > front ? begin - front : 0;
  if (!is_last(p)) {
    unpack(p, last + 1, own, pass->b->ld, pass->b->scratch);
    tt_cpu_output_backward(pass, last - front);
  }
  for (int l = last - front - 1; l >= first; l--) tt_cpu_backward_layer(pass, l);
  if (!tt_pipeline_has_gradient(m, begin < front ? front : begin)) return;
  if (begin < front)
    tt_cpu_features_gradient(pass);
  else
    pack(p, begin, own, pass->b->ld, tt_cpu_dense_input_gradient(pass, first));
}

/* The same for layers of the front. */
static void front_deltas(const stage_pass *p, const tt_cpu_pass *rows, tt_slice own)
{
  const tt_model *m = rows->m;
  tt_cpu_buffers *b = rows->b;
  int front = m->front.layers, first = p->st->layers.first, end = end_of(&p->st->layers);
  tt_cpu_front_pass pass = tt_cpu_front_pass_of(rows);
  if (end <= front) unpack(p, end, own, b->ld, tt_cpu_front_delta(b->front, end - 1, b->front_row));
  tt_cpu_front_backward(&pass, first, end < front ? end : front);
  if (!tt_pipeline_has_gradient(m, first)) return;
  tt_cpu_front_input_gradient(&pass, first, b->scratch);
  pack(p, first, own, b->ld, b->scratch);
}

static void delta_share(void *context, int thread, int threads)
{
  const stage_pass *p = context;
  const tt_model *m = model_of(p);
  int front = m->front.layers, end = end_of(&p->st->layers);
  tt_slice own = tt_cpu_share_of_rows(p->rows.count, thread, threads);
  if (own.count < 1 || !tt_pipeline_has_gradient(m, end)) return;
  tt_cpu_buffers b = tt_cpu_buffers_from_row(m, p->b, own.first);
  const tt_cpu_pass pass = {p->e->kernels, m, p->st->ctx.w, &b, own.count};
  if (end > front) dense_deltas(p, &pass, own);
  if (p->st->layers.first < front && tt_pipeline_has_gradient(m, front))
    front_deltas(p, &pass, own);
}

static void gradient_share(void *context, int thread, int threads)
{
  const stage_pass *p = context;
  tt_cpu_share_gradient(&(tt_cpu_gradient_share){.e = p->e,
                                                 .b = p->b,
                                                 .first = p->st->layers.first,
                                                 .end = end_of(&p->st->layers),
                                                 .rows = p->rows.count,
                                                 .gradient = p->gradient},
                        thread, threads);
}

void tt_cpu_stage_destroy(tt_engine *e)
{
  struct tt_cpu_stage *st = e->stage;
  if (!st) return;
  for (int64_t i = 1; i < st->slots; i++)
    tt_cpu_slot_free(&e->cohort->model, st->layers.first, end_of(&st->layers), &st->slot[i]);
  tt_free_all(&st->slot, &e->stage);
}

/* Slot 0 is the buffers of the first thread. */
static tt_err allocate_slots(const tt_engine *e, struct tt_cpu_stage *st)
{
  TT_TRY(TT_ALLOC(st->slot, st->window));
  for (; st->slots < st->window; st->slots++) {
    tt_cpu_buffers *b = &st->slot[st->slots];
    *b = *e->buffers[0];
    if (st->slots == 0) continue;
    tt_err err = tt_cpu_slot_allocate(&e->cohort->model, st->layers.first, end_of(&st->layers), b);
    if (err) tt_cpu_slot_free(&e->cohort->model, st->layers.first, end_of(&st->layers), b);
    if (err) return err;
  }
  return TT_OK;
}

tt_err tt_cpu_stage_reserve(tt_engine *e, const tt_engine_share *share)
{
  int most;
  const struct tt_cpu_stage *there = e->stage;
  (void)tt_part_sums_of(e->cohort->parts, share->parts, &most);
  for (int i = 0; i < most; i++)
    if (!e->buffers[0]->gradient[i])
      TT_TRY(TT_ALLOC_VALUES(e->buffers[0]->gradient[i], e->cohort->model.params));
  if (there && there->layers.first == share->stage->first &&
      there->layers.count == share->stage->count && there->window == share->window)
    return TT_OK;
  tt_cpu_stage_destroy(e);
  TT_TRY(TT_ALLOC(e->stage, 1));
  e->stage->layers = *share->stage;
  e->stage->window = share->window;
  tt_err err = allocate_slots(e, e->stage);
  if (err) tt_cpu_stage_destroy(e);
  return err;
}

tt_err tt_cpu_stage_begin(tt_engine *e, int64_t m, const tt_pipeline_stage *layers, tt_slice parts,
                          int64_t window, tt_pipeline_step *out)
{
  int64_t i = m - e->slice.first;
  *out = (tt_pipeline_step){0};
  if (TT_FIELD(e->state, status)[i] != TT_STATUS_training) return TT_OK;
  TT_TRY(tt_cpu_stage_reserve(e, &(tt_engine_share){parts, layers, window}));
  struct tt_cpu_stage *st = e->stage;
  st->ctx = tt_cpu_member_begin(e, e->buffers[0], i);
  tt_cpu_next_batch(e, e->buffers[0], &st->ctx, 1, &st->batch);
  st->sums = (tt_part_sums){.parts = e->cohort->parts};
  st->loss[0] = 0.0;
  *out = (tt_pipeline_step){.training = 1,
                            .ends_epoch = TT_FIELD(e->state, batch)[i] + 1 >= st->ctx.batches,
                            .rows = st->batch.count,
                            .loss = st->loss};
  memcpy(out->sum, e->buffers[0]->gradient, sizeof out->sum);
  return TT_OK;
}

/* Threads that share the rows of a part: a batch_norm needs all of them at once. */
static int row_threads(const tt_engine *e)
{
  return tt_front_all_running(&e->cohort->model.front) ? 1 : e->threads;
}

static stage_pass begin_pass(const tt_engine *e, int64_t part, const float *in, float *out)
{
  const struct tt_cpu_stage *st = e->stage;
  int64_t parts = e->cohort->parts;
  tt_slice rows = tt_part_rows(st->batch.count, parts, part);
  st->slot[part % st->window].running_share =
      tt_batch_norm_share(part, tt_min_i64(parts, st->batch.count));
  return (stage_pass){.e = e,
                      .st = st,
                      .b = &st->slot[part % st->window],
                      .rows = rows,
                      .n = tt_lanes_up(rows.count),
                      .in = in,
                      .out = out};
}

tt_err tt_cpu_stage_forward(tt_engine *e, int64_t part, const float *in, float *out)
{
  stage_pass p = begin_pass(e, part, in, out);
  if (p.rows.count > 0) tt_cpu_fork(row_threads(e), forward_share, &p);
  return TT_OK;
}

static void add(int64_t count, const float *src, float *dst)
{
  for (int64_t i = 0; i < count; i++) dst[i] += src[i];
}

/* Loss of the part, whose terms are in the buffers since its forward pass. */
static double loss_of(const stage_pass *p)
{
  if (p->rows.count == 0 || !is_last(p)) return 0.0;
  double loss = tt_kernels_add_losses(p->e->cohort->loss, p->rows.count, p->b->term);
  return isfinite(loss) ? loss : (double)NAN;
}

tt_err tt_cpu_stage_backward(tt_engine *e, int64_t part, const float *in, float *out)
{
  stage_pass p = begin_pass(e, part, in, out);
  if (p.rows.count > 0) tt_cpu_fork(row_threads(e), delta_share, &p);
  return TT_OK;
}

tt_err tt_cpu_stage_gradient(tt_engine *e, int64_t part)
{
  struct tt_cpu_stage *st = e->stage;
  float *const *gradient = e->buffers[0]->gradient;
  tt_slice own = st->layers.params;
  stage_pass p = begin_pass(e, part, NULL, NULL);
  int top = st->sums.count;
  p.gradient = gradient[top];
  st->loss[top] = loss_of(&p);
  if (p.rows.count > 0)
    tt_cpu_fork(e->threads, gradient_share, &p);
  else
    memset(p.gradient + own.first, 0, (size_t)own.count * sizeof *p.gradient);
  tt_part_sums_push(&st->sums, part, 0);
  for (; tt_part_sums_merge(&st->sums); top--) {
    add(own.count, gradient[top] + own.first, gradient[top - 1] + own.first);
    st->loss[top - 1] += st->loss[top];
  }
  return TT_OK;
}
