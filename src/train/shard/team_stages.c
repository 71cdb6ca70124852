/* team_stages.c — a step of a member whose layers the ranks of a team share (run.stages). Start
 * reading at tt_team_stage_step.
 *
 * The ranks are in the grid of core/engine/pipeline.h. In each column outputs of a stage go to the
 * next one and gradients to the one before, part by part, while both compute: a gradient before the
 * stage computes those of its own parameters. The ranks of a stage then add their gradients, and
 * each takes the step of the optimizer for its segment of the parameters of the stage; they
 * exchange the new weights. Only the last step of an epoch gives all weights to all ranks, which
 * then share the validation rows. After an error a rank takes part in all messages of the step. */
#include "src/train/shard/team_internal.h"

#include <math.h>
#include <string.h>

/* Messages in one direction between two stages: one buffer is filled while the other is in use. */
typedef struct lane {
  int rank; /* of the other stage; -1: none */
  int64_t width;
  float *buffer[2];
  tt_team_pending pending[2];
} lane;

typedef struct pipeline {
  tt_team_member *x;
  int64_t rows;
  lane inputs, outputs;           /* forward: from the stage before, to the next stage */
  lane gradients, input_gradient; /* backward: from the next stage, to the stage before */
} pipeline;

static const tt_cohort *cohort_of(const tt_team_member *x) { return x->shard->cohort; }
static const tt_pipeline_place *own_place(const tt_team_member *x)
{
  return &x->team->buffers->place;
}

/* Parts between their forward and backward pass, at most. */
static int64_t window_of(const tt_team_member *x)
{
  const tt_pipeline_place *place = own_place(x);
  return tt_pipeline_window(x->team->buffers->grid.stages, place->stage, place->parts.count);
}

static int64_t params_of(const tt_team_member *x) { return cohort_of(x)->model.params; }

/* Bytes of part i; 0 without another stage. */
static int64_t part_bytes(const pipeline *p, const lane *l, int64_t i)
{
  int64_t rows = tt_part_rows(p->rows, cohort_of(p->x)->parts, i).count;
  rows = tt_round_up(rows, TT_PART_LANES);
  return l->rank < 0 ? 0 : rows * l->width * (int64_t)sizeof(float);
}

static tt_team_message message_of(const pipeline *p, const lane *l, int64_t i)
{
  tt_slice parts = own_place(p->x)->parts;
  int64_t bytes = i < parts.first + parts.count ? part_bytes(p, l, i) : 0;
  return (tt_team_message){l->rank, bytes, l->buffer[i % 2]};
}

static void begin_receive(const pipeline *p, lane *l, int64_t i)
{
  const tt_team_message m = message_of(p, l, i);
  if (m.bytes) tt_team_receive_local(p->x->team->ranks, &m, &l->pending[i % 2]);
}

/* Part i, which arrives while the buffer of the part after it is filled. */
static const float *receive(const pipeline *p, lane *l, int64_t i)
{
  begin_receive(p, l, i + 1);
  tt_team_wait_local(&l->pending[i % 2]);
  return l->buffer[i % 2];
}

/* A buffer for part i: the message that it held has arrived. */
static float *buffer_for(lane *l, int64_t i)
{
  tt_team_wait_local(&l->pending[i % 2]);
  return l->buffer[i % 2];
}

static void begin_send(const pipeline *p, lane *l, int64_t i)
{
  const tt_team_message m = message_of(p, l, i);
  if (m.bytes) tt_team_send_local(p->x->team->ranks, &m, &l->pending[i % 2]);
}

typedef tt_err stage_function(tt_engine *e, int64_t part, const float *in, float *out);

static void pass_part(pipeline *p, stage_function *compute, lane *src, lane *dst, int64_t i)
{
  tt_team_member *x = p->x;
  const float *in = receive(p, src, i);
  float *out = buffer_for(dst, i);
  if (!x->error) x->error = compute(x->team->engine, i, in, out);
  begin_send(p, dst, i);
}

/* The lane number `index` of the buffers, to or from the rank of another stage in this column. */
static lane lane_of(const tt_team_member *x, int index, int stage, int64_t width, int is_used)
{
  const tt_pipeline_grid grid = x->team->buffers->grid;
  int64_t values = grid.stages > 1 ? tt_team_lane_values(cohort_of(x)) : 0;
  float *place = x->team->buffers->lane + 2 * index * values;
  int exists = is_used && stage >= 0 && stage < grid.stages;
  return (lane){.rank = exists ? stage * grid.columns + own_place(x)->column : -1,
                .width = width,
                .buffer = {place, place + values}};
}

static pipeline create_pipeline(tt_team_member *x, int64_t rows)
{
  const tt_model *m = &cohort_of(x)->model;
  const tt_pipeline_stage *s = &own_place(x)->layers;
  int64_t in = tt_pipeline_values(m, s->first), out = tt_pipeline_values(m, s->first + s->count);
  int before = own_place(x)->stage - 1, next = own_place(x)->stage + 1;
  int back = tt_pipeline_has_gradient(m, s->first);
  int back_here = tt_pipeline_has_gradient(m, s->first + s->count);
  return (pipeline){.x = x,
                    .rows = rows,
                    .inputs = lane_of(x, 0, before, in, 1),
                    .outputs = lane_of(x, 1, next, out, 1),
                    .gradients = lane_of(x, 2, next, out, back_here),
                    .input_gradient = lane_of(x, 3, before, in, back)};
}

/* The parts of this rank through its stage. */
static void run_pipeline(tt_team_member *x, int64_t rows)
{
  const tt_engine_ops *ops = x->shard->ops;
  const tt_slice parts = own_place(x)->parts;
  int64_t forward = 0, backward = 0, window = window_of(x);
  if (own_place(x)->layers.count == 0) return;
  pipeline p = create_pipeline(x, rows);
  begin_receive(&p, &p.inputs, parts.first);
  begin_receive(&p, &p.gradients, parts.first);
  while (backward < parts.count) {
    int64_t i = parts.first + backward;
    if (tt_pipeline_is_forward(parts.count, window, forward, backward)) {
      pass_part(&p, ops->team->stage_forward, &p.inputs, &p.outputs, parts.first + forward++);
      continue;
    }
    pass_part(&p, ops->team->stage_backward, &p.gradients, &p.input_gradient, i);
    if (!x->error) x->error = ops->team->stage_gradient(x->team->engine, i);
    backward++;
  }
  for (int i = 0; i < 2; i++) {
    tt_team_wait_local(&p.outputs.pending[i]);
    tt_team_wait_local(&p.input_gradient.pending[i]);
  }
}

/* A block of the norm that begins in one stage and ends in others: the rank where it begins gets
 * the rest of its gradient, in the array [P]. */
static void gather_blocks(tt_team_member *x, float *gradient)
{
  const tt_team_buffers *b = x->team->buffers;
  tt_slice own = x->segment;
  int64_t sends = 0, receives = 0, last = own.first + own.count - 1;
  for (int r = 0; own.count > 0 && r < x->ranks; r++) {
    tt_slice slice = b->segment[r];
    int64_t begin = slice.first / TT_NORM_BLOCK * TT_NORM_BLOCK;
    int64_t end = slice.first + slice.count;
    if (end > begin + TT_NORM_BLOCK) end = begin + TT_NORM_BLOCK;
    const tt_team_message rest = {r, (end - slice.first) * (int64_t)sizeof(float),
                                  gradient + slice.first};
    if (slice.first == begin || slice.count == 0) continue;
    if (r != x->rank && begin >= own.first && begin <= last) b->receive[receives++] = rest;
    for (int receiver = 0; r == x->rank && receiver < r; receiver++)
      if (begin >= b->segment[receiver].first &&
          begin < b->segment[receiver].first + b->segment[receiver].count) {
        b->send[sends] = rest;
        b->send[sends++].rank = receiver;
      }
  }
  tt_team_exchange_values(x, sends, receives);
}

/* The gradient of the segment of this rank, at its place in the array [P] of the engine. */
static float *reduce(tt_team_member *x)
{
  float *sum = tt_team_reduce(x), *to = x->sum[0] + x->segment.first;
  if (x->segment.count == 0) return x->sum[0];
  if (x->team->on_device && !x->error)
    x->error = x->shard->ops->team->device_copy(x->team->engine, to, sum, x->segment.count);
  else if (!x->team->on_device && sum != to)
    memcpy(to, sum, (size_t)x->segment.count * sizeof *to);
  return x->sum[0];
}

/* The step of the optimizer for the segment of this rank; `w`, unless NULL, gets its weights. */
static void update_weights(tt_team_member *x, float *w)
{
  const tt_engine_ops *ops = x->shard->ops;
  tt_slice blocks = x->team->buffers->blocks[x->rank];
  int64_t first = blocks.first * TT_NORM_BLOCK, end = first + blocks.count * TT_NORM_BLOCK;
  if (end > params_of(x)) end = params_of(x);
  if (first > end) first = end;
  float *gradient = reduce(x);
  if (tt_team_is_clipped(x)) gather_blocks(x, gradient);
  double squares = tt_team_squares(x, (tt_slice){first, end - first}, gradient + first);
  if (!x->error)
    x->error = ops->team->advance(x->team->engine, x->m, x->segment, gradient + x->segment.first,
                                  squares, w);
}

/* The step of the optimizer. Returns the parameters of which w, on return, has new weights that the
 * engine does not have yet: all, if the epoch ends, else those of the stage, if other ranks have
 * updated some of them. */
static tt_slice advance(tt_team_member *x, int ends_epoch, const float **w)
{
  const tt_team_buffers *b = x->team->buffers;
  const tt_slice ranks = ends_epoch ? (tt_slice){0, x->ranks} : b->group;
  tt_slice slice = ends_epoch ? (tt_slice){0, params_of(x)} : own_place(x)->layers.params;
  float *scratch = tt_team_scratch(x);
  int is_shared = ranks.count > 1;
  update_weights(x, is_shared ? scratch + x->segment.first : NULL);
  if (!is_shared) return (tt_slice){0, 0};
  tt_team_exchange_slices(x, ranks, b->segment, scratch);
  *w = scratch + slice.first;
  return slice;
}

/* Before the first message the ranks agree that all of them take this step, and after the last one
 * that no stage has an error. */
int tt_team_stage_step(tt_team_member *x, int *epoch_ended, int *stop)
{
  const tt_engine_ops *ops = x->shard->ops;
  const tt_pipeline_place *place = own_place(x);
  tt_team_word mine = {0};
  tt_pipeline_step step = {0};
  tt_slice updated = {0, 0};
  const float *w = NULL;
  if (!x->error)
    x->error = ops->team->stage_begin(x->team->engine, x->m, &place->layers, place->parts,
                                      window_of(x), &step);
  mine.training = step.training;
  int taken = tt_team_exchange_words(x, &mine, stop);
  if (taken <= 0) return taken;
  memcpy(x->sum, step.sum, sizeof x->sum);
  run_pipeline(x, step.rows);
  for (int k = 0; k < x->team->buffers->sums[x->rank].count; k++) mine.loss[k] = step.loss[k];
  if (tt_team_exchange_words(x, &mine, stop) < 0) return -1;
  double loss = tt_team_add_losses(x);
  if (isfinite(loss)) updated = advance(x, step.ends_epoch, &w);
  const tt_epoch_sharing share = tt_team_share(x);
  tt_err e = ops->team->accept(x->team->engine, x->m, updated, w, loss, &share, epoch_ended);
  if (!x->error) x->error = e;
  return isfinite(loss);
}
