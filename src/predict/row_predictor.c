/* row_predictor.c — see row_predictor.h. */
#include "src/predict/row_predictor.h"

#include "core/base/int.h"
#include "core/base/mem.h"
#include "core/engine/mixed_predict.h"
#include "mpi/team.h"
#include "src/host/watchdog.h"

#include <math.h>
#include <string.h>

enum { BATCH_ROWS = 4096 }; /* rows of other ranks that are predicted together, at most */
enum { MAX_ROWS = 65536 };
static const double max_bytes = 2.56e8, max_flops = 4e11; /* of a chunk */

/* Rows of another rank in a batch: [first, first + count) of the batch. */
typedef struct destination {
  int rank;
  int64_t first, count;
} destination;

struct tt_row_predictor {
  tt_row_options o;
  int ranks, rank;
  int64_t most, round; /* rows of a chunk, at most; number of the next chunk */
  tt_row_chunk chunk;
  tt_ensemble_prediction *of; /* [all->count] with room for `most` rows */
  float *x;                   /* [rows of a batch, at least `most`][F] */
  /* Only with a shard. */
  int64_t networks, each;       /* each: 2 K q, predictions of a member for a row */
  int64_t *own_of, *members_of; /* [networks] members of this rank; [ranks][networks] of all */
  int64_t own, largest;         /* of this rank in all networks, and in the largest one */
  float *batch;                 /* [largest][2][K q][rows of a batch] */
  float *send;                  /* [rows of other ranks in a round][own][2][K q] */
  destination *to;              /* [ranks] of a batch */
  tt_team *team;                /* all ranks; NULL: there is one */
  tt_team_message *message[2];  /* [ranks * networks] sent; received */
  int64_t messages[2];
};

tt_slice tt_row_predictor_slice(int64_t rows, int64_t block, int ranks, int rank)
{
  tt_slice blocks = {0, 0};
  (void)tt_partition_even(tt_ceil_div(rows, block), ranks, rank, &blocks);
  tt_slice whole = {blocks.first * block, blocks.count * block};
  return (tt_slice){tt_min_i64(whole.first, rows), tt_slice_intersect(whole, 0, rows).count};
}

/* Rows of a rank in a round; count 0 after its last one. */
static tt_slice chunk_of(const tt_row_predictor *w, int rank, int64_t round)
{
  const tt_slice all = tt_row_predictor_slice(w->o.rows, w->o.block, w->ranks, rank);
  int64_t done = tt_min_i64(round * w->most, all.count);
  return (tt_slice){all.first + done, tt_min_i64(all.count - done, w->most)};
}

/* Rows of the other ranks in the first round, which has the most. */
static int64_t rows_of_others(int64_t rows, int64_t block, int ranks, int rank)
{
  int64_t sum = 0;
  for (int r = 0; r < ranks; r++) {
    int64_t count = tt_row_predictor_slice(rows, block, ranks, r).count;
    if (r != rank) sum += tt_min_i64(count, TT_PREDICTOR_ROWS);
  }
  return sum;
}

static void beat(const tt_row_predictor *w)
{
  if (w->o.phase) tt_watchdog_heartbeat_local(w->o.phase);
}

static int needs_members(const tt_row_options *o, const tt_trained_ensemble *m)
{
  return !o->needs_members || o->needs_members(o->with, m);
}

static int64_t chunk_rows(const tt_row_options *o)
{
  double bytes = o->row_bytes + 4.0 * (double)o->all->at[0]->model.inputs, flops = 0.0;
  double most = o->most_rows > 0 ? fmin((double)o->most_rows, MAX_ROWS) : MAX_ROWS;
  for (int64_t i = 0; i < o->all->count; i++) {
    const tt_trained_ensemble *m = o->all->at[i];
    double numbers = (double)(m->members * tt_trained_ensemble_width(m));
    bytes += 24.0 * (double)tt_trained_ensemble_columns(m);
    if (needs_members(o, m)) bytes += 8.0 * numbers;
    flops += 2.0 * (double)tt_trained_ensemble_parameters(m);
  }
  if (o->shard) most = TT_PREDICTOR_ROWS;
  int64_t fit = (int64_t)fmin(fmin(max_bytes / bytes, max_flops / flops), most);
  return tt_max_i64(fit / TT_PREDICTOR_ROWS, 1) * TT_PREDICTOR_ROWS;
}

static tt_err allocate_predictions(tt_row_predictor *w)
{
  int64_t member = 0, column = 0;
  TT_TRY(TT_ALLOC(w->of, w->o.all->count));
  for (int64_t i = 0; w->o.ops && i < w->o.all->count; i++) {
    const tt_trained_ensemble *m = w->o.all->at[i];
    tt_ensemble_prediction *prediction = &w->of[i];
    *prediction =
        (tt_ensemble_prediction){m, tt_trained_ensemble_width(m), member, column, NULL, NULL};
    member += m->members;
    column += tt_trained_ensemble_columns(m);
    TT_TRY(tt_moments_create(w->most, tt_trained_ensemble_columns(m), &prediction->moments));
    if (needs_members(&w->o, m))
      TT_TRY(TT_ALLOC(prediction->members, m->members * 2 * prediction->width * w->most));
  }
  return TT_OK;
}

static tt_err allocate_local(tt_row_predictor *w)
{
  int64_t others = rows_of_others(w->o.rows, w->o.block, w->ranks, w->rank);
  int64_t batch = w->o.shard ? tt_min_i64(others, BATCH_ROWS) : 0;
  int64_t inputs = tt_max_i64(batch, w->most) * w->o.all->at[0]->model.inputs;
  w->chunk.of = w->of;
  TT_TRY(TT_ALLOC(w->x, inputs));
  w->chunk.x = w->x;
  if (!w->o.shard) return TT_OK;
  w->networks = tt_trained_ensemble_networks(w->o.all->at[0]);
  w->each = 2 * w->of->width;
  TT_TRY(TT_ALLOC(w->own_of, w->networks));
  for (int64_t n = 0; n < w->networks; n++) {
    int64_t count = w->own_of[n] = w->o.shard[n].slice.count;
    w->own += count;
    w->largest = tt_max_i64(w->largest, count);
  }
  TT_TRY(TT_ALLOC(w->members_of, w->ranks * w->networks));
  TT_TRY(TT_ALLOC(w->batch, w->largest * w->each * batch));
  TT_TRY(TT_ALLOC(w->send, w->own * w->each * others));
  TT_TRY(TT_ALLOC(w->to, w->ranks));
  for (int i = 0; i < 2; i++) TT_TRY(TT_ALLOC(w->message[i], w->ranks * w->networks));
  return TT_OK;
}

/* Predict `rows` rows w->x with the members of this rank in a network.
 *   dst  [members][2][K q][rows] */
static tt_err predict_network(tt_row_predictor *w, int64_t network, int64_t rows, float *dst)
{
  const tt_model_shard *own = &w->o.shard[network];
  tt_ensemble ensemble;
  tt_trained_ensemble part = tt_trained_ensemble_part(w->o.all->at[0], network, &ensemble);
  if (own->slice.count == 0) return TT_OK;
  if (part.ensemble != &ensemble) ensemble = *part.ensemble;
  ensemble.first = 0;
  ensemble.members = part.members = own->slice.count;
  part.ensembles = 1;
  part.ensemble = &ensemble;
  part.w = (float *)own->w;
  part.weight += own->slice.first;
  part.status += own->slice.first;
  beat(w);
  return w->o.ops->predict(&part, w->o.use, rows, w->x, NULL, dst);
}

/* Add a message of the predictions of `members` members for `count` rows, if there are any. */
static void add_message(tt_row_predictor *w, int kind, int rank, int64_t members, int64_t count,
                        float *data)
{
  int64_t bytes = members * w->each * count * (int64_t)sizeof *data;
  if (bytes > 0) w->message[kind][w->messages[kind]++] = (tt_team_message){rank, bytes, data};
}

/* Predict the rows of a batch, and add the messages to their ranks.
 *   send  [rows of the batch][own][2][K q] */
static tt_err predict_batch(tt_row_predictor *w, int64_t destinations, int64_t rows, float *send)
{
  int64_t before = 0; /* own members of the networks before */
  for (int64_t n = 0; n < w->networks; n++) {
    int64_t members = w->own_of[n];
    TT_TRY(predict_network(w, n, rows, w->batch));
    for (int64_t d = 0; d < destinations; d++) {
      const destination *dst = &w->to[d];
      float *out = send + (dst->first * w->own + before * dst->count) * w->each;
      for (int64_t i = 0; i < members * w->each; i++)
        memcpy(out + i * dst->count, w->batch + i * rows + dst->first,
               (size_t)dst->count * sizeof *out);
      add_message(w, 0, dst->rank, members, dst->count, out);
    }
    before += members;
  }
  return TT_OK;
}

/* Predict the rows of all other ranks in a round, in batches. */
static tt_err predict_for_others(tt_row_predictor *w, int64_t round)
{
  int64_t rows = 0, destinations = 0, inputs = w->o.all->at[0]->model.inputs;
  float *send = w->send;
  for (int r = 0; r <= w->ranks; r++) {
    tt_slice chunk = r < w->ranks && r != w->rank ? chunk_of(w, r, round) : (tt_slice){0, 0};
    if (rows > 0 && (r == w->ranks || rows + chunk.count > BATCH_ROWS)) {
      TT_TRY(predict_batch(w, destinations, rows, send));
      send += rows * w->own * w->each;
      rows = destinations = 0;
    }
    if (chunk.count == 0) continue;
    TT_TRY(w->o.read_local(w->o.with, chunk.first, chunk.count, w->x + rows * inputs));
    w->to[destinations++] = (destination){r, rows, chunk.count};
    rows += chunk.count;
  }
  return TT_OK;
}

/* Predict the chunk of this rank with its own members, at their place in w->members, and list the
 * messages with those of other ranks. */
static tt_err predict_own(tt_row_predictor *w, tt_slice chunk)
{
  for (int64_t n = 0; n < w->networks; n++) {
    float *place =
        w->of->members + tt_prediction_place(w->of->width, chunk.count,
                                             tt_trained_ensemble_first(w->of->m, n), 0, 0);
    for (int r = 0; r < w->ranks; r++) {
      int64_t members = w->members_of[r * w->networks + n];
      if (r == w->rank)
        TT_TRY(predict_network(w, n, chunk.count, place));
      else
        add_message(w, 1, r, members, chunk.count, place);
      place += members * w->each * chunk.count;
    }
  }
  return TT_OK;
}

static tt_err predict_round(tt_row_predictor *w, tt_slice chunk)
{
  const tt_row_options *o = &w->o;
  w->messages[0] = w->messages[1] = 0;
  if (w->own > 0) TT_TRY(predict_for_others(w, w->round));
  if (chunk.count == 0) return TT_OK;
  TT_TRY(o->read_local(o->with, chunk.first, chunk.count, w->x));
  if (o->shard) return predict_own(w, chunk);
  for (int64_t i = 0; o->ops && i < o->all->count; i++) {
    beat(w);
    w->of[i].moments->rows = chunk.count;
    TT_TRY(
        o->ops->predict(w->of[i].m, o->use, chunk.count, w->x, w->of[i].moments, w->of[i].members));
  }
  return TT_OK;
}

static tt_err vote(const tt_row_predictor *w, tt_err e) { return w->o.c ? tt_agree(w->o.c, e) : e; }

/* Rank 0 has the most rows. */
tt_err tt_row_predictor_next(tt_row_predictor *w, tt_err e, const tt_row_chunk **chunk)
{
  int more = chunk_of(w, 0, w->round).count > 0;
  tt_slice rows = chunk_of(w, w->rank, w->round);
  *chunk = NULL;
  if (!e && more) e = predict_round(w, rows);
  e = vote(w, e);
  if (e || !more) return e;
  if (w->team)
    tt_team_exchange(w->team, w->messages[0], w->message[0], w->messages[1], w->message[1]);
  if (w->o.shard) {
    w->of->moments->rows = rows.count;
    tt_moments_mix(w->of->moments, w->of->m, w->of->members);
  }
  w->round++;
  w->chunk.first = rows.first;
  w->chunk.rows = rows.count;
  *chunk = &w->chunk;
  return TT_OK;
}

int64_t tt_row_predictor_rows(const tt_row_predictor *w) { return w->most; }

static tt_err begin(tt_row_predictor *w)
{
  tt_err e = allocate_predictions(w);
  if (!e) e = allocate_local(w);
  e = vote(w, e);
  if (e || !w->o.shard) return e;
  tt_allgatherv(w->o.c, w->own_of, w->networks * (int64_t)sizeof *w->own_of, w->members_of, NULL);
  return w->ranks > 1 ? tt_team_create(w->o.c, 0, &w->team) : TT_OK;
}

tt_err tt_row_predictor_open(const tt_row_options *o, tt_row_predictor **out)
{
  tt_row_predictor *w = NULL;
  tt_err e = TT_ALLOC(w, 1);
  if (o->c) e = tt_agree(o->c, e);
  if (e) {
    tt_free(w);
    return e;
  }
  *w = (tt_row_predictor){.o = *o, .ranks = 1};
  if (o->c) w->ranks = tt_comm_ranks(o->c), w->rank = tt_comm_rank(o->c);
  w->most = tt_min_i64(chunk_rows(o), tt_row_predictor_slice(o->rows, o->block, w->ranks, 0).count);
  e = begin(w);
  if (e)
    tt_row_predictor_close(&w);
  else
    *out = w;
  return e;
}

void tt_row_predictor_close(tt_row_predictor **p)
{
  tt_row_predictor *w = *p;
  if (!w) return;
  for (int64_t i = 0; w->of && i < w->o.all->count; i++) {
    tt_moments_destroy(&w->of[i].moments);
    tt_free(w->of[i].members);
  }
  tt_free_all(&w->of, &w->x, &w->own_of, &w->members_of, &w->batch, &w->send, &w->to,
              &w->message[0], &w->message[1]);
  tt_team_destroy(&w->team);
  tt_free(*p);
}

double tt_row_predictor_bytes(int64_t members, int64_t width, int64_t columns, int64_t inputs,
                              int64_t rows, int64_t block, int ranks)
{
  int64_t others = rows_of_others(rows, block, ranks, ranks - 1), own = (members - 1) / ranks + 1;
  int64_t batch = tt_min_i64(others, BATCH_ROWS), x = tt_max_i64(batch, TT_PREDICTOR_ROWS);
  double predictions = (double)(members * TT_PREDICTOR_ROWS + own * (others + batch));
  return 8.0 * ((double)width * predictions + (double)(x * inputs) +
                3.0 * (double)(TT_PREDICTOR_ROWS * columns));
}
