/* score_pool.c — see score_pool.h.
 *
 * The pool is divided into blocks whose length depends on the number of rows alone. Each rank
 * scores whole blocks. Sums are added per unit (TT_POOL_SCORER_SUM_ROWS rows), then per block, then
 * over the blocks: always in the same order. */
#include "src/campaign/pool/score_pool.h"

#include "core/base/clock.h"
#include "core/base/int.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "io/campaign/pool_scores.h"
#include "src/campaign/pool/pool_scorer.h"
#include "src/host/stop_request.h"
#include "src/predict/normalization.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <xxhash.h>

enum { LOG_SECONDS = 10 };                      /* log scoring at level info if it takes longer */
enum { BLOCKS = 1024, MAX_BLOCK_ROWS = 65536 }; /* approximate number of blocks; limit of rows */

typedef struct scoring {
  tt_comm *c;
  const tt_score_pool_args *s;
  int hash_only; /* 1 = read and hash the rows, score none */
  tt_pool_scorer *scorer;
  tt_row_predictor *predictor;
  int64_t block;                /* rows of a block: a multiple of the unit */
  tt_slice mine;                /* rows of this rank, first row of the pool 0: whole blocks */
  int64_t blocks;               /* of this rank */
  int64_t sums_per_block;       /* sums of a unit or block: C + 1 */
  double *raw;                  /* [rows of a chunk][D] */
  int8_t *skip;                 /* [rows of a chunk] */
  float *score;                 /* [L][rows of a chunk] */
  tt_partial_sum *partial_sums; /* [units of a chunk][sums_per_block] */
  tt_partial_sum *sum;          /* [blocks][sums_per_block] */
  uint64_t *hash;               /* [blocks] of the inputs as read */
  int64_t candidates, duplicates;
  double score_largest;
} scoring;

/* Preparation */

tt_err tt_score_pool_check_local(const tt_config *cfg, int64_t targets)
{
  int64_t given = cfg->score_target_weights.count;
  for (int64_t k = 0;
       cfg->score_target_reduction == TT_TARGET_REDUCTION_weighted && k < cfg->ensembles; k++) {
    const tt_ensemble_config *own = &cfg->ensemble[k];
    int64_t learned = *own->target ? 1 : own->targets.count ? own->targets.count : targets;
    if (learned != given)
      return TT_FAIL(CONFIG,
                     "score.target_weights has %" PRId64 " number%s, but ensemble '%s' learns "
                     "%" PRId64 " target%s",
                     given, given == 1 ? "" : "s", own->name, learned, learned == 1 ? "" : "s");
  }
  return TT_OK;
}

static int64_t block_rows(int64_t rows)
{
  int64_t units = tt_ceil_div(rows, (int64_t)BLOCKS * TT_POOL_SCORER_SUM_ROWS);
  return tt_min_i64(tt_max_i64(units, 1) * TT_POOL_SCORER_SUM_ROWS, MAX_BLOCK_ROWS);
}

static tt_err allocate_local(scoring *w)
{
  int64_t rows = tt_row_predictor_rows(w->predictor);
  int64_t units = tt_ceil_div(rows, TT_POOL_SCORER_SUM_ROWS);
  w->sums_per_block = tt_pool_scorer_columns(w->scorer) + 1;
  TT_TRY(TT_ALLOC(w->raw, rows * w->s->model->at[0]->scaler.inputs));
  TT_TRY(TT_ALLOC(w->skip, rows));
  TT_TRY(TT_ALLOC(w->score, rows * tt_pool_scorer_lists(w->scorer)));
  TT_TRY(TT_ALLOC(w->partial_sums, units * w->sums_per_block));
  TT_TRY(TT_ALLOC(w->hash, w->blocks));
  return TT_ALLOC(w->sum, w->blocks * w->sums_per_block);
}

/* Chunks */

/* Set skip for the rows [first, first + rows) that were queried before, are excluded, or have the
 * inputs of a labeled or queried row. */
static void mark_candidates(scoring *w, int64_t first, int64_t rows)
{
  const tt_used_rows *used_rows = w->s->used_rows;
  int64_t next = tt_used_rows_below(used_rows, first);
  for (int64_t r = 0; r < rows; r++) {
    int used = next < used_rows->count && used_rows->row[next] == first + r;
    next += used;
    w->skip[r] = (int8_t)(used || tt_pool_is_excluded(w->s->pool, first + r));
    const double *x = w->raw + r * w->s->model->at[0]->scaler.inputs;
    int known = !w->skip[r] && w->s->known && tt_known_inputs_find(w->s->known, first + r, x) >= 0;
    w->skip[r] |= (int8_t)known;
    w->duplicates += known;
    w->candidates += !w->skip[r];
  }
}

/* Add the sums of the units of a chunk to those of their blocks. */
static void add_units(scoring *w, const tt_row_chunk *chunk)
{
  for (int64_t r = 0; r < chunk->rows; r += TT_POOL_SCORER_SUM_ROWS) {
    const tt_partial_sum *unit = w->partial_sums + r / TT_POOL_SCORER_SUM_ROWS * w->sums_per_block;
    int64_t block = (chunk->first + r - w->mine.first) / w->block;
    for (int64_t i = 0; i < w->sums_per_block; i++) {
      w->sum[block * w->sums_per_block + i].sum += unit[i].sum;
      w->sum[block * w->sums_per_block + i].count += unit[i].count;
    }
  }
}

/* Hash the rows of a chunk, unit by unit, so that the hash of a block does not depend on chunks. */
static void hash_units(scoring *w, int64_t row, int64_t rows)
{
  int64_t inputs = w->s->model->at[0]->scaler.inputs;
  for (int64_t r = 0; r < rows; r += TT_POOL_SCORER_SUM_ROWS) {
    int64_t n = tt_min_i64(rows - r, TT_POOL_SCORER_SUM_ROWS);
    uint64_t *hash = &w->hash[(row + r - w->mine.first) / w->block];
    *hash = XXH3_64bits_withSeed(w->raw + r * inputs, (size_t)(n * inputs) * sizeof *w->raw, *hash);
  }
}

static tt_err read_rows_local(void *context, int64_t row, int64_t rows, float *x)
{
  scoring *w = context;
  int64_t first = tt_pool_first(w->s->pool) + row;
  TT_TRY(tt_pool_read_local(w->s->pool, first, rows, w->raw));
  hash_units(w, row, rows);
  if (w->hash_only) return TT_OK;
  TT_TRY(tt_normalize_checked_local(w->s->model->at[0], "the pool", w->s->cfg->pool_inputs, first,
                                    rows, w->raw, x));
  mark_candidates(w, first, rows);
  return TT_OK;
}

static int needs_members(const void *context, const tt_trained_ensemble *m)
{
  return tt_pool_scorer_needs_members(((const scoring *)context)->scorer, m);
}

static tt_err prepare(scoring *w)
{
  const tt_score_pool_args *s = w->s;
  int64_t rows = tt_pool_rows(s->pool);
  tt_err e = tt_score_pool_check_local(s->cfg, s->model->at[0]->scaler.targets);
  if (!e) e = tt_pool_scorer_create_local(s, &w->scorer);
  e = tt_agree(w->c, e);
  if (e) return e;
  w->block = block_rows(rows);
  w->mine = tt_row_predictor_slice(rows, w->block, tt_comm_ranks(w->c), tt_comm_rank(w->c));
  w->blocks = tt_ceil_div(w->mine.count, w->block);
  double inputs = (double)s->model->at[0]->scaler.inputs;
  const tt_row_options options = {.c = w->c,
                                  .all = s->model,
                                  .ops = w->hash_only ? NULL : s->ops,
                                  .use = s->use,
                                  .rows = rows,
                                  .block = w->block,
                                  .most_rows = s->max_piece_rows,
                                  .row_bytes =
                                      8.0 * inputs + 4.0 * (double)tt_pool_scorer_lists(w->scorer),
                                  .needs_members = needs_members,
                                  .read_local = read_rows_local,
                                  .with = w,
                                  .phase = "scoring the pool"};
  e = tt_row_predictor_open(&options, &w->predictor);
  return e ? e : tt_agree(w->c, allocate_local(w));
}

static tt_err check_stop(const scoring *w)
{
  tt_stop_reason why = tt_stop_agreed(w->c, w->s->deadline, w->s->directory);
  if (why == TT_STOP_none) return TT_OK;
  return TT_FAIL(STOPPED, "stopped by %s while the pool was scored; run again to continue",
                 tt_stop_text(why));
}

/* Collective.
 *   f  NULL with hash_only */
static tt_err score_rows(scoring *w, tt_pool_scores_writer *f)
{
  const tt_row_chunk *chunk;
  tt_err e = TT_OK;
  while (!(e = tt_row_predictor_next(w->predictor, e, &chunk)) && chunk && !(e = check_stop(w))) {
    int64_t first = tt_pool_first(w->s->pool) + chunk->first;
    if (!f) continue;
    tt_pool_scorer_score(w->scorer, first, chunk, w->skip, w->score, w->partial_sums,
                         &w->score_largest);
    add_units(w, chunk);
    e = tt_pool_scores_write(f, first, chunk->rows, w->score);
  }
  return e;
}

/* Sums of all ranks */

static double mean_of_sum(const tt_partial_sum *t)
{
  return t->count ? t->sum / (double)t->count : NAN;
}

/* Collective. *all: [blocks][sums_per_block] of all ranks, in order; owner: the caller. */
static tt_err gather(scoring *w, tt_partial_sum **all, int64_t *blocks)
{
  *blocks = w->blocks;
  tt_allreduce_sum_i64(w->c, blocks, 1);
  tt_err e = tt_agree(w->c, TT_ALLOC(*all, *blocks * w->sums_per_block));
  if (!e)
    tt_allgatherv(w->c, w->sum, w->blocks * w->sums_per_block * (int64_t)sizeof **all, *all, NULL);
  return e;
}

static tt_err combine_hashes(scoring *w, uint64_t *out)
{
  uint64_t *all = NULL;
  int64_t blocks = w->blocks;
  tt_allreduce_sum_i64(w->c, &blocks, 1);
  tt_err e = tt_agree(w->c, TT_ALLOC(all, blocks));
  if (!e) tt_allgatherv(w->c, w->hash, w->blocks * (int64_t)sizeof *all, all, NULL);
  if (!e) *out = XXH3_64bits(all, (size_t)blocks * sizeof *all);
  tt_free(all);
  return e;
}

static tt_err reduce_sums(scoring *w, tt_round *round)
{
  tt_partial_sum *all = NULL;
  int64_t blocks = 0, columns = w->sums_per_block - 1;
  tt_err e = gather(w, &all, &blocks);
  if (e) {
    tt_free(all);
    return e;
  }
  for (int64_t b = 1; b < blocks; b++)
    for (int64_t i = 0; i < w->sums_per_block; i++) {
      all[i].sum += all[b * w->sums_per_block + i].sum;
      all[i].count += all[b * w->sums_per_block + i].count;
    }
  tt_allreduce_sum_i64(w->c, &w->candidates, 1);
  tt_allreduce_sum_i64(w->c, &w->duplicates, 1);
  tt_allreduce_max_f64(w->c, &w->score_largest, 1);
  for (int64_t i = 0; i < columns; i++) round->spread[i] = mean_of_sum(&all[i]);
  round->pool = w->candidates;
  round->duplicate = w->duplicates;
  round->score_mean = mean_of_sum(&all[columns]);
  round->score_max = all[columns].count ? w->score_largest : NAN;
  if (w->duplicates)
    tt_log_root(TT_LOG_INFO,
                "%" PRId64 " row%s of the pool with the inputs of a labeled or queried row: not "
                "queried",
                w->duplicates, tt_plural(w->duplicates));
  int64_t lost = w->candidates - all[columns].count;
  if (lost)
    tt_log_root(TT_LOG_WARN,
                "%" PRId64 " of %" PRId64 " candidates have no finite score: the model's "
                "predictions overflow there; they are selected last",
                lost, w->candidates);
  tt_free(all);
  return TT_OK;
}

static void cleanup(scoring *w)
{
  tt_row_predictor_close(&w->predictor);
  tt_pool_scorer_destroy_local(&w->scorer);
  tt_free_all(&w->raw, &w->skip, &w->score, &w->partial_sums, &w->sum, &w->hash);
}

tt_err tt_score_pool(tt_comm *c, const tt_score_pool_args *s, tt_round *round)
{
  scoring w = {.c = c, .s = s, .score_largest = -INFINITY};
  tt_pool_scores_writer *f = NULL;
  double start = tt_monotonic_seconds();
  tt_err e = prepare(&w);
  if (!e)
    e = tt_pool_scores_create(c, s->file, tt_pool_scorer_lists(w.scorer),
                              tt_pool_scorer_names(w.scorer), tt_pool_first(s->pool),
                              tt_pool_rows(s->pool), s->from, &f);
  if (!e) e = score_rows(&w, f);
  if (!e) e = reduce_sums(&w, round);
  if (!e) e = combine_hashes(&w, &round->pool_hash);
  if (!e)
    e = tt_pool_scores_commit(&f);
  else
    tt_pool_scores_discard(&f);
  double seconds = tt_monotonic_seconds() - start;
  if (!e)
    tt_log_root(seconds < LOG_SECONDS ? TT_LOG_DEBUG : TT_LOG_INFO,
                "scored %" PRId64 " candidates by %s in %.3g s (%.3g rows/s)", round->pool,
                tt_choice_acquisition[s->cfg->score_acquisition], seconds,
                (double)tt_pool_rows(s->pool) / (seconds > 1e-9 ? seconds : 1e-9));
  cleanup(&w);
  return e;
}

tt_err tt_score_pool_hash(tt_comm *c, const tt_score_pool_args *s, uint64_t *hash)
{
  scoring w = {.c = c, .s = s, .hash_only = 1};
  tt_err e = prepare(&w);
  if (!e) e = score_rows(&w, NULL);
  if (!e) e = combine_hashes(&w, hash);
  cleanup(&w);
  return e;
}
