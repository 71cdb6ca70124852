/* team_training.c — see team_training.h. Start reading at train_step. */
#include "src/train/shard/team_training.h"

#include "core/base/mem.h"
#include "src/train/shard/team_internal.h"

#include <math.h>
#include <string.h>

static tt_part_sums sums_of(const tt_cohort *c, int ranks, int rank)
{
  return tt_part_sums_of(c->parts, tt_part_slice(c->parts, ranks, rank), NULL);
}

/* Number of sums that the other ranks send to a rank. */
static int64_t incoming_sums(const tt_cohort *c, int ranks, int rank)
{
  int64_t n = 0;
  for (int r = 0; r < ranks; r++)
    if (r != rank) n += sums_of(c, ranks, r).count;
  return n;
}

/* Sizes of the arrays of the buffers, in the order of the struct. */
enum { BUFFERS = 12 };
static void buffer_sizes(const tt_cohort *c, int stages, int ranks, int rank, int64_t size[BUFFERS])
{
  const int64_t value = (int64_t)sizeof(float), slices = ranks * (int64_t)sizeof(tt_slice);
  int64_t params = c->model.params, segment = tt_part_segment(params, ranks, rank).count;
  const int64_t bytes[BUFFERS] = {ranks * (int64_t)sizeof(tt_part_sums),
                                  ranks * (int64_t)sizeof(tt_team_word),
                                  slices,
                                  slices,
                                  slices,
                                  ranks * (int64_t)sizeof(tt_pipeline_stage),
                                  ranks * TT_MAX_PART_SUMS * (int64_t)sizeof(tt_team_message),
                                  ranks * TT_MAX_PART_SUMS * (int64_t)sizeof(tt_team_message),
                                  tt_norm_blocks(params) * (int64_t)sizeof(double),
                                  stages ? 0 : params * value,
                                  stages ? 0 : incoming_sums(c, ranks, rank) * segment * value,
                                  stages ? 8 * tt_team_lane_values(c, ranks) * value : 0};
  for (int i = 0; i < BUFFERS; i++) size[i] = (bytes[i] + 63) / 64 * 64;
}

int64_t tt_team_buffer_bytes_local(const tt_cohort *c, int stages, int ranks, int rank)
{
  int64_t size[BUFFERS], sum = 64 + (int64_t)sizeof(tt_team_buffers);
  buffer_sizes(c, stages, ranks, rank, size);
  for (int i = 0; i < BUFFERS; i++) sum += size[i];
  return sum;
}

/* Who updates which parameters. */
static void divide_parameters(const tt_shard *shard, int ranks)
{
  const tt_cohort *c = shard->cohort;
  const tt_team_buffers *b = shard->team.buffers;
  if (shard->team.stages) tt_pipeline_cut(&c->model, ranks, b->stage);
  for (int r = 0; r < ranks; r++) {
    b->sums[r] = sums_of(c, ranks, r);
    b->segment[r] =
        shard->team.stages ? b->stage[r].params : tt_part_segment(c->model.params, ranks, r);
    b->blocks[r] = tt_norm_blocks_of(b->segment[r]);
  }
}

static tt_err reserve_buffers(tt_shard *shard)
{
  tt_shard_team *t = &shard->team;
  int ranks = tt_team_ranks(t->ranks), rank = tt_team_rank(t->ranks);
  int64_t size[BUFFERS];
  char *at = NULL;
  if (t->buffers) return TT_OK;
  TT_TRY(TT_ALLOC(at, tt_team_buffer_bytes_local(shard->cohort, t->stages, ranks, rank)));
  tt_team_buffers *b = t->buffers = (void *)at;
  void *array[BUFFERS];
  at += (sizeof *b + 63) / 64 * 64;
  buffer_sizes(shard->cohort, t->stages, ranks, rank, size);
  for (int i = 0; i < BUFFERS; i++) {
    array[i] = at;
    at += size[i];
  }
  *b = (tt_team_buffers){array[0], array[1], array[2], array[3], array[4],  array[5],
                         array[6], array[7], array[8], array[9], array[10], array[11]};
  divide_parameters(shard, ranks);
  return TT_OK;
}

/* Losses of all ranks, added in tree order. */
static double add_losses(const tt_team_member *x)
{
  const tt_team_buffers *b = x->team->buffers;
  tt_part_sums s = {.parts = x->shard->cohort->parts};
  double value[TT_MAX_PART_SUMS] = {0.0};
  for (int r = 0; r < x->ranks; r++)
    for (int k = 0; k < b->sums[r].count; k++) {
      value[s.count] = b->word[r].loss[k];
      tt_part_sums_push(&s, b->sums[r].node[k].index, b->sums[r].node[k].level);
      while (tt_part_sums_merge(&s)) value[s.count - 1] += value[s.count];
    }
  return value[0];
}

/* Add the sums of all ranks for this rank's segment in tree order; returns the gradient. */
static float *add_gradients(const tt_team_member *x)
{
  const tt_team_buffers *b = x->team->buffers;
  tt_part_sums s = {.parts = x->shard->cohort->parts};
  float *value[TT_MAX_PART_SUMS], *next = b->incoming;
  for (int r = 0; r < x->ranks; r++)
    for (int k = 0; k < b->sums[r].count; k++) {
      int own = r == x->rank;
      value[s.count] = own ? x->sum[k] + x->segment.first : next;
      if (!own) next += x->segment.count;
      tt_part_sums_push(&s, b->sums[r].node[k].index, b->sums[r].node[k].level);
      while (tt_part_sums_merge(&s)) {
        float *to = value[s.count - 1], *from = value[s.count];
        for (int64_t p = 0; p < x->segment.count; p++) to[p] += from[p];
      }
    }
  return value[0];
}

/* Send each rank this rank's sums of its segment; receive theirs for the segment of this rank. */
static void exchange_gradients(const tt_team_member *x)
{
  const tt_team_buffers *b = x->team->buffers;
  int64_t sends = 0, receives = 0, bytes = x->segment.count * (int64_t)sizeof(float);
  for (int r = 0; r < x->ranks; r++) {
    tt_slice to = b->segment[r];
    if (r == x->rank) continue;
    for (int k = 0; k < b->sums[x->rank].count; k++)
      b->send[sends++] =
          (tt_team_message){r, to.count * (int64_t)sizeof(float), x->sum[k] + to.first};
    for (int k = 0; k < b->sums[r].count; k++, receives++)
      b->receive[receives] = (tt_team_message){r, bytes, b->incoming + receives * x->segment.count};
  }
  tt_team_exchange(x->team->ranks, sends, b->send, receives, b->receive);
}

/* From the sums of this rank's parts to new weights of all segments. After an error the rank takes
 * part in all exchanges of the step. */
static void update_weights(tt_team_member *x)
{
  const tt_team_buffers *b = x->team->buffers;
  exchange_gradients(x);
  float *gradient = add_gradients(x);
  double squares = tt_team_squares(x, x->segment, gradient);
  if (!x->error)
    x->error = x->shard->ops->advance(x->team->engine, x->m, x->segment, gradient, squares,
                                      b->w + x->segment.first);
  tt_team_exchange_slices(x, b->segment, b->w, (int64_t)sizeof *b->w);
}

/* One step in parts. Returns as tt_team_exchange_words. */
static int train_step(tt_team_member *x, int *epoch_ended, int *stop)
{
  const tt_engine_ops *ops = x->shard->ops;
  tt_slice parts = tt_part_slice(x->shard->cohort->parts, x->ranks, x->rank);
  tt_team_word mine = {0};
  int training = 0;
  if (!x->error)
    x->error = ops->partial(x->team->engine, x->m, parts, &training, x->sum, mine.loss);
  mine.training = training;
  int taken = tt_team_exchange_words(x, &mine, stop);
  if (taken <= 0) return taken;
  double loss = add_losses(x);
  if (isfinite(loss)) update_weights(x);
  const tt_shared_sum share = tt_team_share(x);
  tt_err e = ops->accept(x->team->engine, x->m, x->team->buffers->w, loss, &share, epoch_ended);
  if (!x->error) x->error = e;
  return isfinite(loss);
}

/* Up to `steps` steps of one member; adds those that were taken to *taken. Returns 0 to end the
 * call. */
static int train_member(tt_team_member *x, int64_t steps, int64_t *taken)
{
  int stop = 0, epoch_ended = 0, result = 1;
  for (int64_t i = 0; i < steps && result > 0 && !stop; i++) {
    result = x->team->stages ? tt_team_stage_step(x, &epoch_ended, &stop)
                             : train_step(x, &epoch_ended, &stop);
    *taken += result > 0;
    if (epoch_ended && x->shard->cohort->stop == TT_EARLY_STOPPING_ensemble) break;
  }
  return result >= 0 && !stop && !x->error;
}

/* Copy the state of rank 0 to the other ranks. */
static tt_err distribute(tt_shard *shard)
{
  tt_shard_team *t = &shard->team;
  tt_err e = TT_OK;
  tt_ckpt_wait_local(shard->reader);
  if (shard->engine) e = shard->ops->save(t->engine, t->slice, t->state);
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) {
    tt_state_field field = tt_state_get(t->state, f);
    tt_team_bcast(t->ranks, field.data, t->slice.count * field.length * field.bytes);
  }
  t->outdated = 0;
  return !e && !shard->engine ? shard->ops->load(t->engine, t->slice, t->state) : e;
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

/* Rank 0 receives the segments of the other ranks of one array of [P]. */
static void collect_array(const tt_shard_team *t, float *array)
{
  int ranks = tt_team_ranks(t->ranks), rank = tt_team_rank(t->ranks);
  int64_t n = 0;
  for (int r = 1; r < ranks; r++) {
    tt_slice segment = t->buffers->segment[r];
    if (rank == 0 || rank == r)
      t->buffers->send[n++] = (tt_team_message){
          rank ? 0 : r, segment.count * (int64_t)sizeof(float), array + segment.first};
  }
  tt_team_exchange(t->ranks, rank ? n : 0, t->buffers->send, rank ? 0 : n, t->buffers->send);
}

/* The arrays of member i of the team that each rank has for its segment only. */
static void collect_member(const tt_shard_team *t, int64_t i)
{
  const tt_state *s = t->state;
  for (int64_t k = i * s->slots; k < (i + 1) * s->slots; k++)
    collect_array(t, TT_FIELD(s, slots) + k * s->params);
  if (!t->stages) return;
  collect_array(t, TT_FIELD(s, weights) + i * s->params);
  if (s->averages) collect_array(t, TT_FIELD(s, average) + i * s->params);
}

tt_err tt_team_collect(tt_shard *shard, tt_err before)
{
  tt_shard_team *t = &shard->team;
  int64_t decision[DECISIONS];
  if (!has_team(shard)) return before;
  decide(shard, before, 0, decision);
  if (!decision[INCOMPLETE]) return before;
  tt_ckpt_wait_local(shard->reader);
  tt_err e = shard->ops->save(t->engine, t->slice, t->state);
  for (int64_t i = 0; i < t->slice.count; i++) collect_member(t, i);
  if (!e && shard->engine) e = shard->ops->load(t->engine, t->slice, t->state);
  t->incomplete = 0;
  return before ? before : e;
}
