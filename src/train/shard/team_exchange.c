/* team_exchange.c — what the ranks of a team tell each other in a step; see team_internal.h. */
#include "src/host/stop_request.h"
#include "src/train/shard/team_internal.h"

int64_t tt_team_lane_values(const tt_cohort *c)
{
  int64_t rows = tt_part_max_rows(c->batch_size, c->parts), widest = 0;
  rows = tt_round_up(rows, TT_PART_LANES);
  for (int l = 1; l < tt_pipeline_layers(&c->model); l++)
    if (tt_pipeline_values(&c->model, l) > widest) widest = tt_pipeline_values(&c->model, l);
  return widest * rows;
}

double tt_team_add_losses(const tt_team_member *x)
{
  const tt_team_buffers *b = x->team->buffers;
  tt_part_sums s = {.parts = x->shard->cohort->parts};
  double value[TT_MAX_PART_SUMS] = {0.0};
  for (int64_t r = b->last.first; r < b->last.first + b->last.count; r++)
    for (int k = 0; k < b->sums[r].count; k++) {
      value[s.count] = b->word[r].loss[k];
      tt_part_sums_push(&s, b->sums[r].node[k].index, b->sums[r].node[k].level);
      while (tt_part_sums_merge(&s)) value[s.count - 1] += value[s.count];
    }
  return value[0];
}

void tt_team_exchange_values(tt_team_member *x, int64_t sends, int64_t receives)
{
  const tt_team_buffers *b = x->team->buffers;
  tt_err e = TT_OK;
  if (x->team->on_device)
    e = tt_team_move(x->team->ranks, sends, b->send, receives, b->receive);
  else
    tt_team_exchange(x->team->ranks, sends, b->send, receives, b->receive);
  if (!x->error) x->error = e;
}

/* Send each rank this rank's sums of its segment; receive theirs for the segment of this rank. */
static void exchange_gradients(tt_team_member *x)
{
  const tt_team_buffers *b = x->team->buffers;
  int64_t sends = 0, receives = 0, bytes = x->segment.count * (int64_t)sizeof(float);
  for (int64_t i = 0; i < b->group.count; i++) {
    int r = (int)(b->group.first + i);
    tt_slice slice = b->segment[r];
    if (r == x->rank) continue;
    for (int k = 0; k < b->sums[x->rank].count; k++)
      b->send[sends++] =
          (tt_team_message){r, slice.count * (int64_t)sizeof(float), x->sum[k] + slice.first};
    for (int k = 0; k < b->sums[r].count; k++, receives++)
      b->receive[receives] = (tt_team_message){r, bytes, b->incoming + receives * b->stride};
  }
  tt_team_exchange_values(x, sends, receives);
}

float *tt_team_scratch(const tt_team_member *x)
{
  return x->team->on_device || !x->sum[0] ? x->team->buffers->w : x->sum[0];
}

static void add_sum(tt_team_member *x, float *dst, const float *src)
{
  if (!x->team->on_device)
    for (int64_t p = 0; p < x->segment.count; p++) dst[p] += src[p];
  else if (!x->error)
    x->error = x->shard->ops->team->device_add(x->team->engine, x->m, dst, src, x->segment.count);
}

float *tt_team_reduce(tt_team_member *x)
{
  const tt_team_buffers *b = x->team->buffers;
  tt_part_sums s = {.parts = x->shard->cohort->parts};
  float *value[TT_MAX_PART_SUMS] = {NULL}, *next = b->incoming;
  exchange_gradients(x);
  for (int64_t r = b->group.first; r < b->group.first + b->group.count; r++)
    for (int k = 0; k < b->sums[r].count; k++) {
      int own = r == x->rank;
      value[s.count] = own ? x->sum[k] + x->segment.first : next;
      if (!own) next += b->stride;
      tt_part_sums_push(&s, b->sums[r].node[k].index, b->sums[r].node[k].level);
      while (tt_part_sums_merge(&s)) add_sum(x, value[s.count - 1], value[s.count]);
    }
  return value[0];
}

tt_state *tt_team_state(const tt_shard *shard, int64_t m, int64_t *i)
{
  const tt_shard_team *t = &shard->team;
  *i = shard->engine ? m - t->slice.first : 0;
  if (!shard->engine) t->state->first = m;
  return t->state;
}

/* Messages by which each of some ranks gets the slices of the others; `size` of an element. Returns
 * their number, to send and to receive. */
static int64_t list_slices(const tt_team_member *x, tt_slice ranks, const tt_slice *slice,
                           void *array, int64_t size)
{
  const tt_team_buffers *b = x->team->buffers;
  tt_slice own = slice[x->rank];
  int64_t n = 0;
  for (int64_t i = 0; i < ranks.count; i++) {
    int r = (int)(ranks.first + i);
    if (r == x->rank) continue;
    b->send[n] = (tt_team_message){r, own.count * size, (char *)array + own.first * size};
    b->receive[n++] =
        (tt_team_message){r, slice[r].count * size, (char *)array + slice[r].first * size};
  }
  return n;
}

void tt_team_exchange_slices(tt_team_member *x, tt_slice ranks, const tt_slice *slice, float *array)
{
  int64_t n = list_slices(x, ranks, slice, array, (int64_t)sizeof *array);
  tt_team_exchange_values(x, n, n);
}

/* The same for numbers in memory of the host, of all ranks. */
static void exchange_terms(const tt_team_member *x, const tt_slice *slice, double *term)
{
  const tt_team_buffers *b = x->team->buffers;
  int64_t n = list_slices(x, (tt_slice){0, x->ranks}, slice, term, (int64_t)sizeof *term);
  tt_team_exchange(x->team->ranks, n, b->send, n, b->receive);
}

int tt_team_is_clipped(const tt_team_member *x)
{
  return x->shard->cohort->member[x->m].hyper.clip_norm > 0.0f;
}

double tt_team_squares(tt_team_member *x, tt_slice blocks, float *gradient)
{
  const tt_team_buffers *b = x->team->buffers;
  double *own = b->block + b->blocks[x->rank].first, sum = 0.0;
  if (!x->error)
    x->error = x->shard->ops->team->squares(x->team->engine, x->m, blocks, gradient, own);
  if (!tt_team_is_clipped(x)) return 0.0;
  exchange_terms(x, b->blocks, b->block);
  for (int64_t i = 0; i < tt_norm_blocks(x->shard->cohort->model.params); i++) sum += b->block[i];
  return sum;
}

int tt_team_exchange_words(tt_team_member *x, tt_team_word *mine, int *stop)
{
  const tt_team_buffers *b = x->team->buffers;
  int failed = 0;
  mine->failed = x->error != TT_OK;
  mine->stop = tt_stop_signaled_local();
  tt_team_allgather(x->team->ranks, mine, (int64_t)sizeof *mine, b->word);
  for (int r = 0; r < x->ranks; r++) {
    failed |= b->word[r].failed != 0;
    *stop |= b->word[r].stop != 0;
  }
  return failed ? -1 : mine->training != 0;
}

/* tt_epoch_sharing.gather for a tt_team_member. */
static void gather_terms(void *context, int64_t terms, double *term)
{
  const tt_team_member *x = context;
  tt_slice *share = x->team->buffers->shares;
  for (int r = 0; r < x->ranks; r++) share[r] = tt_part_slice(terms, x->ranks, r);
  exchange_terms(x, share, term);
}

/* tt_epoch_sharing.gather_segments for a tt_team_member. */
static void gather_segments(void *context, float *vector)
{
  tt_team_member *x = context;
  tt_team_exchange_slices(x, (tt_slice){0, x->ranks}, x->team->buffers->segment, vector);
}

tt_epoch_sharing tt_team_share(tt_team_member *x)
{
  return (tt_epoch_sharing){.engines = x->ranks,
                            .engine = x->rank,
                            .gather = gather_terms,
                            .gather_segments = gather_segments,
                            .scratch = tt_team_scratch(x),
                            .with = x};
}
