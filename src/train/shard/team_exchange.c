/* team_exchange.c — what the ranks of a team tell each other in a step; see team_internal.h. */
#include "src/host/stop_request.h"
#include "src/train/shard/team_internal.h"

int64_t tt_team_lane_values(const tt_cohort *c, int ranks)
{
  int64_t rows = tt_part_max_rows(c->batch_size, c->parts), widest = 0;
  rows = (rows + TT_PART_LANES - 1) / TT_PART_LANES * TT_PART_LANES;
  for (int l = 1; ranks > 1 && l < tt_pipeline_layers(&c->model); l++)
    if (tt_pipeline_values(&c->model, l) > widest) widest = tt_pipeline_values(&c->model, l);
  return widest * rows;
}

void tt_team_exchange_slices(const tt_team_member *x, const tt_slice *of, void *array, int64_t size)
{
  const tt_team_buffers *b = x->team->buffers;
  tt_slice own = of[x->rank];
  int64_t n = 0;
  for (int r = 0; r < x->ranks; r++) {
    if (r == x->rank) continue;
    b->send[n] = (tt_team_message){r, own.count * size, (char *)array + own.first * size};
    b->receive[n++] = (tt_team_message){r, of[r].count * size, (char *)array + of[r].first * size};
  }
  tt_team_exchange(x->team->ranks, n, b->send, n, b->receive);
}

int tt_team_is_clipped(const tt_team_member *x)
{
  return x->shard->cohort->member[x->m].hyper.clip_norm > 0.0f;
}

double tt_team_squares(tt_team_member *x, tt_slice segment, float *gradient)
{
  const tt_team_buffers *b = x->team->buffers;
  double *own = b->block + b->blocks[x->rank].first, sum = 0.0;
  if (!x->error) x->error = x->shard->ops->squares(x->team->engine, x->m, segment, gradient, own);
  if (!tt_team_is_clipped(x)) return 0.0;
  tt_team_exchange_slices(x, b->blocks, b->block, (int64_t)sizeof *b->block);
  for (int64_t i = 0; i < tt_norm_blocks(x->shard->cohort->model.params); i++) sum += b->block[i];
  return sum;
}

int tt_team_exchange_words(tt_team_member *x, tt_team_word *mine, int *stop)
{
  const tt_team_buffers *b = x->team->buffers;
  int failed = 0;
  mine->failed = x->error != TT_OK;
  mine->stop = tt_stop_signalled_local();
  tt_team_allgather(x->team->ranks, mine, (int64_t)sizeof *mine, b->word);
  for (int r = 0; r < x->ranks; r++) {
    failed |= b->word[r].failed != 0;
    *stop |= b->word[r].stop != 0;
  }
  return failed ? -1 : mine->training != 0;
}

/* tt_shared_sum.gather for a tt_team_member. */
static void gather_terms(void *with, int64_t terms, double *term)
{
  const tt_team_member *x = with;
  tt_slice *share = x->team->buffers->shares;
  for (int r = 0; r < x->ranks; r++) share[r] = tt_part_slice(terms, x->ranks, r);
  tt_team_exchange_slices(x, share, term, (int64_t)sizeof *term);
}

tt_shared_sum tt_team_share(tt_team_member *x)
{
  return (tt_shared_sum){x->ranks, x->rank, gather_terms, x};
}
