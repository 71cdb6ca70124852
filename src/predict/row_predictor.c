/* row_predictor.c — see row_predictor.h. */
#include "src/predict/row_predictor.h"

#include "core/base/mem.h"
#include "core/engine/mixed_predict.h"
#include "mpi/team.h"
#include "src/host/watchdog.h"

#include <string.h>

enum { BATCH_ROWS = 4096 }; /* rows of other ranks that are predicted together, at most */

/* Rows of another rank in a batch: [first, first + count) of the batch. */
typedef struct destination {
  int rank;
  int64_t first, count;
} destination;

typedef struct spread_predictor {
  const tt_row_predictor *p;
  tt_comm *c;
  int ranks, rank;
  int64_t networks, each; /* each: 2 K q, predictions of a member for a row */
  /* Only with a shard, down to `messages`. */
  int64_t *own_of, *members_of; /* [networks] members of this rank; [ranks][networks] of all */
  int64_t own, most;            /* of this rank in all networks, and in the largest one */
  float *batch;                 /* [most][2][K q][rows of a batch] */
  float *send;                  /* [rows of other ranks in a round][own][2][K q] */
  destination *to;              /* [ranks] of a batch */
  tt_team *team;                /* all ranks; NULL: there is one */
  tt_team_message *message[2];  /* [ranks * networks] sent; received */
  int64_t messages[2];
  float *x, *own_x; /* [rows of a batch, at least TT_PREDICTOR_ROWS][F] */
  float *members;   /* [G][2][K q][TT_PREDICTOR_ROWS] */
  tt_moments *moments;
} spread_predictor;

tt_slice tt_row_predictor_slice(int64_t rows, int64_t block, int ranks, int rank)
{
  tt_slice blocks = {0, 0};
  (void)tt_partition_even((rows + block - 1) / block, ranks, rank, &blocks);
  tt_slice whole = {blocks.first * block, blocks.count * block};
  return (tt_slice){whole.first, tt_slice_intersect(whole, 0, rows).count};
}

/* Rows of a rank in a round; count 0 after its last one. */
static tt_slice chunk_of(const spread_predictor *w, int rank, int64_t round)
{
  const tt_slice all = tt_row_predictor_slice(w->p->rows, w->p->block, w->ranks, rank);
  int64_t done = round * TT_PREDICTOR_ROWS, left = all.count - done;
  if (left > TT_PREDICTOR_ROWS) left = TT_PREDICTOR_ROWS;
  return (tt_slice){all.first + done, left > 0 ? left : 0};
}

/* Rows of the other ranks in the first round, which has the most. */
static int64_t rows_of_others(int64_t rows, int64_t block, int ranks, int rank)
{
  int64_t sum = 0;
  for (int r = 0; r < ranks; r++) {
    int64_t count = tt_row_predictor_slice(rows, block, ranks, r).count;
    if (r != rank) sum += count < TT_PREDICTOR_ROWS ? count : TT_PREDICTOR_ROWS;
  }
  return sum;
}

static tt_err allocate_local(spread_predictor *w)
{
  const tt_trained_ensemble *m = w->p->model;
  int64_t others = rows_of_others(w->p->rows, w->p->block, w->ranks, w->rank);
  int64_t batch = others < BATCH_ROWS ? others : BATCH_ROWS;
  int64_t rows = batch > TT_PREDICTOR_ROWS ? batch : TT_PREDICTOR_ROWS;
  TT_TRY(TT_ALLOC(w->x, rows * m->model.inputs));
  TT_TRY(TT_ALLOC(w->own_x, rows * m->model.inputs));
  TT_TRY(TT_ALLOC(w->members, m->members * w->each * TT_PREDICTOR_ROWS));
  TT_TRY(tt_moments_create(TT_PREDICTOR_ROWS, tt_trained_ensemble_columns(m), &w->moments));
  if (!w->p->shard) return TT_OK;
  TT_TRY(TT_ALLOC(w->own_of, w->networks));
  for (int64_t n = 0; n < w->networks; n++) {
    int64_t count = w->own_of[n] = w->p->shard[n].slice.count;
    w->own += count;
    if (count > w->most) w->most = count;
  }
  TT_TRY(TT_ALLOC(w->members_of, w->ranks * w->networks));
  TT_TRY(TT_ALLOC(w->batch, w->most * w->each * batch));
  TT_TRY(TT_ALLOC(w->send, w->own * w->each * others));
  TT_TRY(TT_ALLOC(w->to, w->ranks));
  for (int i = 0; i < 2; i++) TT_TRY(TT_ALLOC(w->message[i], w->ranks * w->networks));
  return TT_OK;
}

static void free_all(spread_predictor *w)
{
  if (w->moments) w->moments->rows = TT_PREDICTOR_ROWS;
  tt_moments_destroy(&w->moments);
  tt_free_all(&w->x, &w->own_x, &w->members, &w->own_of, &w->members_of, &w->batch, &w->send,
              &w->to, &w->message[0], &w->message[1]);
  tt_team_destroy(&w->team);
}

static tt_err begin(spread_predictor *w)
{
  tt_err e = tt_agree(w->c, allocate_local(w));
  if (e || !w->p->shard) return e;
  tt_allgatherv(w->c, w->own_of, w->networks * (int64_t)sizeof *w->own_of, w->members_of, NULL);
  return w->ranks > 1 ? tt_team_create(w->c, 0, &w->team) : TT_OK;
}

/* Predict `rows` rows w->x with the members of this rank in a network: to [members][2][K q][rows].
 */
static tt_err predict_network(spread_predictor *w, int64_t network, int64_t rows, float *to)
{
  const tt_model_shard *own = &w->p->shard[network];
  tt_ensemble ensemble;
  tt_trained_ensemble part = tt_trained_ensemble_part(w->p->model, network, &ensemble);
  if (own->slice.count == 0) return TT_OK;
  if (part.ensemble != &ensemble) ensemble = *part.ensemble;
  ensemble.first = 0;
  ensemble.members = part.members = own->slice.count;
  part.ensembles = 1;
  part.ensemble = &ensemble;
  part.w = (float *)own->w;
  part.weight += own->slice.first;
  part.status += own->slice.first;
  tt_watchdog_heartbeat_local(w->p->phase);
  return tt_part_predict(w->p->ops->predict, &part, w->p->use, rows, w->x, w->own_x, to);
}

/* Add a message of the predictions of `members` members for `count` rows, if there are any. */
static void add_message(spread_predictor *w, int kind, int rank, int64_t members, int64_t count,
                        float *data)
{
  int64_t bytes = members * w->each * count * (int64_t)sizeof *data;
  if (bytes > 0) w->message[kind][w->messages[kind]++] = (tt_team_message){rank, bytes, data};
}

/* Predict the rows of a batch, and add the messages to their ranks.
 *   send  [rows of the batch][own][2][K q] */
static tt_err predict_batch(spread_predictor *w, int64_t destinations, int64_t rows, float *send)
{
  int64_t before = 0; /* own members of the networks before */
  for (int64_t n = 0; n < w->networks; n++) {
    int64_t members = w->own_of[n];
    TT_TRY(predict_network(w, n, rows, w->batch));
    for (int64_t d = 0; d < destinations; d++) {
      const destination *to = &w->to[d];
      float *out = send + (to->first * w->own + before * to->count) * w->each;
      for (int64_t i = 0; i < members * w->each; i++)
        memcpy(out + i * to->count, w->batch + i * rows + to->first,
               (size_t)to->count * sizeof *out);
      add_message(w, 0, to->rank, members, to->count, out);
    }
    before += members;
  }
  return TT_OK;
}

/* Predict the rows of all other ranks in a round, in batches. */
static tt_err predict_for_others(spread_predictor *w, int64_t round)
{
  int64_t rows = 0, destinations = 0, inputs = w->p->model->model.inputs;
  float *send = w->send;
  for (int r = 0; r <= w->ranks; r++) {
    tt_slice chunk = r < w->ranks && r != w->rank ? chunk_of(w, r, round) : (tt_slice){0, 0};
    if (rows > 0 && (r == w->ranks || rows + chunk.count > BATCH_ROWS)) {
      TT_TRY(predict_batch(w, destinations, rows, send));
      send += rows * w->own * w->each;
      rows = destinations = 0;
    }
    if (chunk.count == 0) continue;
    TT_TRY(w->p->read_local(w->p->with, chunk.first, chunk.count, w->x + rows * inputs));
    w->to[destinations++] = (destination){r, rows, chunk.count};
    rows += chunk.count;
  }
  return TT_OK;
}

/* Predict the chunk of this rank with its own members, at their place in w->members, and list the
 * messages with those of other ranks. */
static tt_err predict_own(spread_predictor *w, tt_slice chunk)
{
  for (int64_t n = 0; n < w->networks; n++) {
    float *at = w->members + tt_trained_ensemble_first(w->p->model, n) * w->each * chunk.count;
    for (int r = 0; r < w->ranks; r++) {
      int64_t members = w->members_of[r * w->networks + n];
      if (r == w->rank)
        TT_TRY(predict_network(w, n, chunk.count, at));
      else
        add_message(w, 1, r, members, chunk.count, at);
      at += members * w->each * chunk.count;
    }
  }
  return TT_OK;
}

static tt_err predict_round(spread_predictor *w, int64_t round, tt_slice chunk)
{
  const tt_row_predictor *p = w->p;
  w->messages[0] = w->messages[1] = 0;
  if (w->own > 0) TT_TRY(predict_for_others(w, round));
  if (chunk.count == 0) return TT_OK;
  TT_TRY(p->read_local(p->with, chunk.first, chunk.count, w->x));
  if (p->shard) return predict_own(w, chunk);
  tt_watchdog_heartbeat_local(p->phase);
  return p->ops->predict(p->model, p->use, chunk.count, w->x, NULL, w->members);
}

static tt_err use_chunk(spread_predictor *w, tt_slice chunk)
{
  if (chunk.count == 0) return TT_OK;
  w->moments->rows = chunk.count;
  tt_moments_mix(w->moments, w->p->model, w->members);
  return w->p->use_local(w->p->with, chunk.first, w->moments, w->members);
}

/* Rank 0 has the most rows. Without a team no rank needs the others until the end. An error of
 * use_chunk is agreed on in the next round. */
static tt_err run_rounds(spread_predictor *w)
{
  int64_t most = tt_row_predictor_slice(w->p->rows, w->p->block, w->ranks, 0).count;
  tt_err e = TT_OK;
  for (int64_t i = 0; i * TT_PREDICTOR_ROWS < most; i++) {
    tt_slice chunk = chunk_of(w, w->rank, i);
    if (!e) e = predict_round(w, i, chunk);
    if (w->team) e = tt_agree(w->c, e);
    if (e) break;
    if (w->team)
      tt_team_exchange(w->team, w->messages[0], w->message[0], w->messages[1], w->message[1]);
    e = use_chunk(w, chunk);
  }
  return tt_agree(w->c, e);
}

tt_err tt_row_predictor_run(tt_comm *c, const tt_row_predictor *p)
{
  spread_predictor w = {.p = p,
                        .c = c,
                        .ranks = tt_comm_ranks(c),
                        .rank = tt_comm_rank(c),
                        .networks = tt_trained_ensemble_networks(p->model),
                        .each = 2 * tt_trained_ensemble_width(p->model)};
  tt_err e = begin(&w);
  if (!e) e = run_rounds(&w);
  free_all(&w);
  return e;
}

double tt_row_predictor_bytes(int64_t members, int64_t width, int64_t columns, int64_t inputs,
                              int64_t rows, int64_t block, int ranks)
{
  int64_t others = rows_of_others(rows, block, ranks, ranks - 1), own = (members - 1) / ranks + 1;
  int64_t batch = others < BATCH_ROWS ? others : BATCH_ROWS;
  int64_t x = batch > TT_PREDICTOR_ROWS ? batch : TT_PREDICTOR_ROWS;
  double predictions = (double)(members * TT_PREDICTOR_ROWS + own * (others + batch));
  return 8.0 * ((double)width * predictions + (double)(x * inputs) +
                3.0 * (double)(TT_PREDICTOR_ROWS * columns));
}
