/* team_training.c — see team_training.h. Start reading at train_step. */
#include "src/train/shard/team_training.h"

#include "core/base/mem.h"
#include "src/train/shard/team_internal.h"

#include <math.h>
#include <string.h>

/* The ranks of a stage; a rank without layers is alone. */
static tt_slice group_of(tt_pipeline_grid g, int rank)
{
  int stage = rank / g.columns;
  return stage < g.stages ? (tt_slice){stage * g.columns, g.columns} : (tt_slice){rank, 1};
}

static tt_part_sums sums_of(const tt_cohort *c, tt_pipeline_grid g, int rank)
{
  tt_slice none = {c->parts, 0};
  int has_layers = rank < g.stages * g.columns;
  return tt_part_sums_of(
      c->parts, has_layers ? tt_part_slice(c->parts, g.columns, rank % g.columns) : none, NULL);
}

/* Number of sums that the other ranks send to a rank. */
static int64_t incoming_sums(const tt_cohort *c, tt_pipeline_grid g, int rank)
{
  tt_slice group = group_of(g, rank);
  int64_t n = 0;
  for (int64_t r = group.first; r < group.first + group.count; r++)
    if (r != rank) n += sums_of(c, g, (int)r).count;
  return n;
}

/* Floats from one incoming sum to the next: whole float4, the first of which may begin before the
 * segment. */
static int64_t stride_of(tt_slice segment)
{
  return (segment.first % 4 + segment.count + 3) / 4 * 4;
}

/* Values of `w`, `incoming` and `lane`. */
typedef struct exchanged {
  int64_t w, incoming, lane;
} exchanged;

static exchanged exchanged_values(const tt_cohort *c, int stages, int on_device, tt_pipeline_grid g,
                                  int rank)
{
  const tt_pipeline_place place = tt_pipeline_place_of(&c->model, g, c->parts, rank);
  int has_scratch = (stages || place.parts.count > 0) && !on_device;
  return (exchanged){has_scratch ? 0 : c->model.params,
                     incoming_sums(c, g, rank) * stride_of(place.segment),
                     g.stages > 1 ? 8 * tt_team_lane_values(c) : 0};
}

/* Sizes of the arrays of the buffers, in the order of the struct. */
enum { BUFFERS = 11 };
static void buffer_sizes(const tt_cohort *c, int stages, int on_device, int ranks, int rank,
                         int64_t size[BUFFERS])
{
  const int64_t value = (int64_t)sizeof(float), slices = ranks * (int64_t)sizeof(tt_slice);
  const tt_pipeline_grid g = tt_pipeline_grid_of(&c->model, stages, ranks);
  const exchanged n = exchanged_values(c, stages, on_device, g, rank);
  const int64_t bytes[BUFFERS] = {ranks * (int64_t)sizeof(tt_part_sums),
                                  ranks * (int64_t)sizeof(tt_team_word),
                                  slices,
                                  slices,
                                  slices,
                                  ranks * TT_MAX_PART_SUMS * (int64_t)sizeof(tt_team_message),
                                  ranks * TT_MAX_PART_SUMS * (int64_t)sizeof(tt_team_message),
                                  tt_norm_blocks(c->model.params) * (int64_t)sizeof(double),
                                  on_device ? 0 : n.w * value,
                                  on_device ? 0 : n.incoming * value,
                                  on_device ? 0 : n.lane * value};
  for (int i = 0; i < BUFFERS; i++) size[i] = (bytes[i] + 63) / 64 * 64;
}

int64_t tt_team_buffer_bytes_local(const tt_cohort *c, int stages, int on_device, int ranks,
                                   int rank)
{
  int64_t size[BUFFERS], sum = 64 + (int64_t)sizeof(tt_team_buffers);
  buffer_sizes(c, stages, on_device, ranks, rank, size);
  for (int i = 0; i < BUFFERS; i++) sum += size[i];
  return sum;
}

int64_t tt_team_device_bytes_local(const tt_cohort *c, int stages, int ranks, int rank)
{
  const exchanged n =
      exchanged_values(c, stages, 1, tt_pipeline_grid_of(&c->model, stages, ranks), rank);
  return (n.incoming + n.lane + n.w) * (int64_t)sizeof(float);
}

/* Who has which layers, parts and parameters. */
static void divide_work(const tt_shard *shard, int ranks, int rank)
{
  const tt_cohort *c = shard->cohort;
  tt_team_buffers *b = shard->team.buffers;
  b->grid = tt_pipeline_grid_of(&c->model, shard->team.stages, ranks);
  b->place = tt_pipeline_place_of(&c->model, b->grid, c->parts, rank);
  b->group = group_of(b->grid, rank);
  b->last = group_of(b->grid, (b->grid.stages - 1) * b->grid.columns);
  for (int r = 0; r < ranks; r++) {
    b->sums[r] = sums_of(c, b->grid, r);
    b->segment[r] = tt_pipeline_place_of(&c->model, b->grid, c->parts, r).segment;
    b->blocks[r] = tt_norm_blocks_of(b->segment[r]);
  }
  b->stride = stride_of(b->segment[rank]);
}

/* `incoming`, `lane` and `w` on the device. */
static tt_err reserve_device(const tt_shard *shard)
{
  const tt_shard_team *t = &shard->team;
  tt_team_buffers *b = t->buffers;
  if (!t->on_device) return TT_OK;
  const exchanged n =
      exchanged_values(shard->cohort, t->stages, 1, b->grid, tt_team_rank(t->ranks));
  TT_TRY(shard->ops->team->device_scratch(t->engine, n.incoming + n.lane + n.w, &b->incoming));
  b->lane = b->incoming + n.incoming;
  b->w = b->lane + n.lane;
  b->incoming += b->segment[tt_team_rank(t->ranks)].first % 4;
  return TT_OK;
}

static tt_err reserve_buffers(tt_shard *shard)
{
  tt_shard_team *t = &shard->team;
  int ranks = tt_team_ranks(t->ranks), rank = tt_team_rank(t->ranks);
  int64_t size[BUFFERS];
  char *block = NULL;
  if (t->buffers) return TT_OK;
  TT_TRY(TT_ALLOC(block,
                  tt_team_buffer_bytes_local(shard->cohort, t->stages, t->on_device, ranks, rank)));
  tt_team_buffers *b = t->buffers = (void *)block;
  void *array[BUFFERS];
  block += (sizeof *b + 63) / 64 * 64;
  buffer_sizes(shard->cohort, t->stages, t->on_device, ranks, rank, size);
  for (int i = 0; i < BUFFERS; i++) {
    array[i] = block;
    block += size[i];
  }
  *b = (tt_team_buffers){.sums = array[0],
                         .word = array[1],
                         .segment = array[2],
                         .blocks = array[3],
                         .shares = array[4],
                         .send = array[5],
                         .receive = array[6],
                         .block = array[7],
                         .w = array[8],
                         .incoming = array[9],
                         .lane = array[10]};
  divide_work(shard, ranks, rank);
  tt_err e = reserve_device(shard);
  if (e) tt_free(t->buffers);
  return e;
}

/* From the sums of this rank's parts to new weights of all segments, in tt_team_scratch. After an
 * error the rank takes part in all exchanges of the step. Returns the weights. */
static const float *update_weights(tt_team_member *x)
{
  const tt_team_buffers *b = x->team->buffers;
  float *gradient = tt_team_reduce(x), *w = tt_team_scratch(x);
  double squares = tt_team_squares(x, x->segment, gradient);
  if (!x->error)
    x->error = x->shard->ops->team->advance(x->team->engine, x->m, x->segment, gradient, squares,
                                            w + x->segment.first);
  tt_team_exchange_slices(x, b->group, b->segment, w);
  return w;
}

/* One step in parts. Returns as tt_team_exchange_words. */
static int train_step(tt_team_member *x, int *epoch_ended, int *stop)
{
  const tt_engine_ops *ops = x->shard->ops;
  tt_slice all = {0, x->shard->cohort->model.params}, parts = x->team->buffers->place.parts;
  tt_team_word mine = {0};
  const float *w = NULL;
  int training = 0;
  if (!x->error)
    x->error = ops->team->partial(x->team->engine, x->m, parts, &training, x->sum, mine.loss);
  mine.training = training;
  int taken = tt_team_exchange_words(x, &mine, stop);
  if (taken <= 0) return taken;
  double loss = tt_team_add_losses(x);
  if (isfinite(loss)) w = update_weights(x);
  const tt_epoch_sharing share = tt_team_share(x);
  tt_err e = ops->team->accept(x->team->engine, x->m, all, w, loss, &share, epoch_ended);
  if (!x->error) x->error = e;
  return isfinite(loss);
}

/* Up to `steps` steps of one member. Adds the steps that were taken to *taken. Returns 0 to end the
 * call. An error after the last word of a step is in the next word: that of the next step or, where
 * a rank takes no more steps, that after the last one. */
static int train_member(tt_team_member *x, int64_t steps, int64_t *taken)
{
  int stop = 0, epoch_ended = 0, result = 1;
  tt_team_word last = {0};
  for (int64_t i = 0; i < steps && result > 0 && !stop; i++) {
    result = x->team->stages ? tt_team_stage_step(x, &epoch_ended, &stop)
                             : train_step(x, &epoch_ended, &stop);
    *taken += result > 0;
  }
  if (result >= 0) result = tt_team_exchange_words(x, &last, &stop);
  return result >= 0 && !stop;
}

/* Move the segments of one array between rank 0 and the others.
 *   array  rank 0: [P]; the others: their segment */
static void move_segments(const tt_shard_team *t, float *array, int to_root)
{
  int ranks = tt_team_ranks(t->ranks), rank = tt_team_rank(t->ranks), sends = to_root == (rank > 0);
  tt_team_message *list = t->buffers->send;
  int64_t n = 0;
  for (int r = 1; r < ranks; r++) {
    tt_slice segment = t->buffers->segment[r];
    int64_t bytes = segment.count * (int64_t)sizeof(float);
    if (rank == 0) list[n++] = (tt_team_message){r, bytes, array + segment.first};
    if (rank == r) list[n++] = (tt_team_message){0, bytes, array};
  }
  tt_team_exchange(t->ranks, sends ? n : 0, list, sends ? 0 : n, list);
}

/* The vectors of a field of which each rank has its segment, of member i of the state. */
static void move_field(const tt_shard_team *t, int64_t i, int field, int to_root)
{
  const tt_state *s = t->state;
  int64_t vectors = tt_state_own_vectors(s, field), own = TT_OWN_PARAMS(s);
  float *first = tt_state_get(s, field).data;
  for (int64_t k = i * vectors; k < (i + 1) * vectors; k++)
    move_segments(t, first + k * own, to_root);
}

/* Copy a member of rank 0 to the other ranks. */
static tt_err distribute_member(tt_shard *shard, int64_t m)
{
  const tt_shard_team *t = &shard->team;
  int64_t i;
  const tt_state *s = tt_team_state(shard, m, &i);
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) {
    tt_state_field field = tt_state_get(s, f);
    int64_t bytes = field.length * field.bytes;
    if (tt_state_own_vectors(s, f))
      move_field(t, i, f, 0);
    else
      tt_team_bcast(t->ranks, (char *)field.data + i * bytes, bytes);
  }
  return shard->engine ? TT_OK : shard->ops->load(t->engine, (tt_slice){m, 1}, s);
}

/* Copy the state of rank 0, which it has loaded into its engine, to the other ranks. */
static tt_err distribute(tt_shard *shard)
{
  tt_shard_team *t = &shard->team;
  tt_err e = TT_OK;
  tt_ckpt_wait_local(shard->reader);
  for (int64_t m = t->slice.first; m < t->slice.first + t->slice.count; m++) {
    tt_err one = distribute_member(shard, m);
    if (!e) e = one;
  }
  t->outdated = 0;
  return e;
}

/* All ranks train the members one after the other. *taken: steps of all of them. */
static tt_err train_members(tt_shard *shard, int64_t steps, tt_err before, int64_t *taken)
{
  const tt_shard_team *t = &shard->team;
  tt_team_member x = {.shard = shard,
                      .team = &shard->team,
                      .ranks = tt_team_ranks(t->ranks),
                      .rank = tt_team_rank(t->ranks),
                      .error = before};
  int more = 1;
  x.segment = t->buffers->segment[x.rank];
  for (int64_t i = 0; more && i < t->slice.count; i++) {
    x.m = t->slice.first + i;
    more = train_member(&x, steps, taken);
  }
  return x.error;
}

static int has_team(const tt_shard *shard)
{
  return shard->team.ranks && shard->team.slice.count > 0;
}

/* What rank 0 decides for a call: the others pass 0, so that the maximum is its value. */
enum { FAILED, STEPS, OUTDATED, DIVERGED, INCOMPLETE, DECISIONS };
static void decide(tt_shard *shard, tt_err before, int64_t steps, int64_t decision[DECISIONS])
{
  const tt_shard_team *t = &shard->team;
  int root = tt_team_rank(t->ranks) == 0;
  decision[FAILED] = before != TT_OK;
  decision[STEPS] = root ? steps : 0;
  decision[OUTDATED] = root && t->outdated;
  decision[DIVERGED] = root ? shard->known_diverged : 0;
  decision[INCOMPLETE] = root && t->incomplete;
  tt_team_max(t->ranks, decision, DECISIONS);
}

/* tt_team_collect, if a rank says so: retries need the whole state. */
static tt_err collect_if(tt_shard *shard, tt_err before, int64_t wanted)
{
  tt_team_max(shard->team.ranks, &wanted, 1);
  return wanted ? tt_team_collect(shard, before) : before;
}

tt_err tt_team_train(tt_shard *shard, tt_err before, int64_t steps)
{
  tt_shard_team *t = &shard->team;
  int64_t decision[DECISIONS], taken = 0;
  tt_progress all = {0};
  if (!has_team(shard)) return before ? before : tt_shard_train_local(shard, steps);
  tt_err e = before ? before : reserve_buffers(shard);
  decide(shard, e, steps, decision);
  if (decision[FAILED]) return e;
  if (decision[OUTDATED]) e = distribute(shard);
  e = train_members(shard, decision[STEPS], e, &taken);
  t->incomplete |= shard->engine && taken > 0;
  if (!e) e = shard->ops->train(t->engine, 0, &all); /* the same on all ranks */
  if (!e) e = tt_shard_train_local(shard, 0);
  if (shard->engine) shard->local_progress.member_steps = taken;
  return shard->cohort->retries > 0 ? collect_if(shard, e, all.diverged > decision[DIVERGED]) : e;
}

/* Give rank 0 the arrays of a member that each rank has for its segment only. */
static tt_err collect_member(tt_shard *shard, int64_t m)
{
  const tt_shard_team *t = &shard->team;
  int64_t i;
  tt_state *s = tt_team_state(shard, m, &i);
  tt_err e = shard->ops->save(t->engine, (tt_slice){m, 1}, s);
  int64_t offset = i * s->params + (shard->engine ? 0 : s->own_first);
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) move_field(t, i, f, 1);
  if (t->stages) move_segments(t, TT_FIELD(s, weights) + offset, 1);
  return e;
}

tt_err tt_team_collect(tt_shard *shard, tt_err before)
{
  tt_shard_team *t = &shard->team;
  int64_t decision[DECISIONS];
  if (!has_team(shard)) return before;
  decide(shard, before, 0, decision);
  if (!decision[INCOMPLETE]) return before;
  tt_ckpt_wait_local(shard->reader);
  tt_err e = TT_OK;
  for (int64_t m = t->slice.first; m < t->slice.first + t->slice.count; m++) {
    tt_err one = collect_member(shard, m);
    if (!e) e = one;
  }
  if (!e && shard->engine) e = shard->ops->load(t->engine, t->slice, t->state);
  t->incomplete = 0;
  return before ? before : e;
}
