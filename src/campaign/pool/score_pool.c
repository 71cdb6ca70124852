/* score_pool.c — see score_pool.h.
 *
 * The pool is divided into blocks whose length depends on the number of rows alone. Each rank
 * scores whole blocks. Sums are added per unit (TT_POOL_SCORER_SUM_ROWS rows), then per block, then
 * over the blocks: always in the same order. */
#include "src/campaign/pool/score_pool.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/model/partition.h"
#include "io/campaign/pool_scores.h"
#include "src/campaign/pool/pool_scorer.h"
#include "src/host/stop_request.h"
#include "src/host/watchdog.h"
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
  int64_t block;                /* rows of a block: a multiple of the unit */
  tt_slice my_blocks;           /* blocks of this rank */
  int64_t row, rows;            /* rows of this rank: [row, row + rows), first row of the pool 0 */
  int64_t sums_per_block;       /* sums of a unit or block: C + 1 */
  double *raw;                  /* [piece][D] */
  float *x;                     /* [piece][D] */
  int8_t *skip;                 /* [piece] */
  float *score;                 /* [L][piece] */
  tt_partial_sum *partial_sums; /* [units of a piece][sums_per_block] */
  tt_partial_sum *sum;          /* [my_blocks.count][sums_per_block] */
  uint64_t *hash;               /* [my_blocks.count] of the inputs as read */
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
  int64_t units = (rows + (int64_t)BLOCKS * TT_POOL_SCORER_SUM_ROWS - 1) /
                  ((int64_t)BLOCKS * TT_POOL_SCORER_SUM_ROWS);
  int64_t block = (units < 1 ? 1 : units) * TT_POOL_SCORER_SUM_ROWS;
  return block < MAX_BLOCK_ROWS ? block : MAX_BLOCK_ROWS;
}

static tt_err partition_local(scoring *w)
{
  int64_t all = tt_pool_rows(w->s->pool);
  w->block = block_rows(all);
  int64_t blocks = (all + w->block - 1) / w->block;
  TT_TRY(tt_partition_even(blocks, tt_comm_ranks(w->c), tt_comm_rank(w->c), &w->my_blocks));
  int64_t end = (w->my_blocks.first + w->my_blocks.count) * w->block;
  w->row = w->my_blocks.first * w->block < all ? w->my_blocks.first * w->block : all;
  w->rows = (end < all ? end : all) - w->row;
  return TT_OK;
}

static tt_err prepare_local(scoring *w)
{
  const tt_trained_ensembles *model = w->s->model;
  const tt_scaler *scaler = &model->at[0]->scaler;
  TT_TRY(tt_score_pool_check_local(w->s->cfg, model->at[0]->scaler.targets));
  TT_TRY(tt_pool_scorer_create_local(w->s, &w->scorer));
  TT_TRY(partition_local(w));
  int64_t piece = tt_pool_scorer_rows(w->scorer);
  w->sums_per_block = tt_pool_scorer_columns(w->scorer) + 1;
  TT_TRY(TT_ALLOC(w->raw, piece * scaler->inputs));
  TT_TRY(TT_ALLOC(w->x, piece * scaler->net.count));
  TT_TRY(TT_ALLOC(w->skip, piece));
  TT_TRY(TT_ALLOC(w->score, piece * tt_pool_scorer_lists(w->scorer)));
  TT_TRY(TT_ALLOC(w->partial_sums, piece / TT_POOL_SCORER_SUM_ROWS * w->sums_per_block));
  TT_TRY(TT_ALLOC(w->hash, w->my_blocks.count));
  return TT_ALLOC(w->sum, w->my_blocks.count * w->sums_per_block);
}

/* Pieces */

/* Set skip for the rows [first, first + rows) that were queried before, are excluded, or have the
 * inputs of a labelled or queried row. */
static void mark_candidates_local(scoring *w, int64_t first, int64_t rows)
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

/* Add the sums of the units of a piece to those of their blocks.
 *   row  of the piece's first candidate, counted from the first row of the pool */
static void add_units_local(scoring *w, int64_t row, int64_t rows)
{
  int64_t units = (rows + TT_POOL_SCORER_SUM_ROWS - 1) / TT_POOL_SCORER_SUM_ROWS;
  for (int64_t u = 0; u < units; u++) {
    int64_t block = (row + u * TT_POOL_SCORER_SUM_ROWS) / w->block - w->my_blocks.first;
    for (int64_t i = 0; i < w->sums_per_block; i++) {
      w->sum[block * w->sums_per_block + i].sum += w->partial_sums[u * w->sums_per_block + i].sum;
      w->sum[block * w->sums_per_block + i].count +=
          w->partial_sums[u * w->sums_per_block + i].count;
    }
  }
}

/* Hash the rows of a piece, unit by unit, so that the hash of a block does not depend on pieces. */
static void hash_units_local(scoring *w, int64_t row, int64_t rows)
{
  int64_t inputs = w->s->model->at[0]->scaler.inputs;
  for (int64_t r = 0; r < rows; r += TT_POOL_SCORER_SUM_ROWS) {
    int64_t n = rows - r < TT_POOL_SCORER_SUM_ROWS ? rows - r : TT_POOL_SCORER_SUM_ROWS;
    uint64_t *hash = &w->hash[(row + r) / w->block - w->my_blocks.first];
    *hash = XXH3_64bits_withSeed(w->raw + r * inputs, (size_t)(n * inputs) * sizeof *w->raw, *hash);
  }
}

static tt_err score_piece_local(scoring *w, int64_t row, int64_t rows)
{
  int64_t first = tt_pool_first(w->s->pool) + row;
  if (rows == 0) return TT_OK;
  TT_TRY(tt_pool_read_local(w->s->pool, first, rows, w->raw));
  hash_units_local(w, row, rows);
  if (w->hash_only) return TT_OK;
  const char *inputs = w->s->cfg->pool_inputs;
  TT_TRY(tt_normalize_checked_local(w->s->model->at[0], "the pool", inputs, first, rows, w->raw,
                                    w->x));
  mark_candidates_local(w, first, rows);
  TT_TRY(tt_pool_scorer_score_local(w->scorer, first, rows, w->x, w->skip, w->score,
                                    w->partial_sums, &w->score_largest));
  add_units_local(w, row, rows);
  return TT_OK;
}

static tt_err check_stop(const scoring *w)
{
  tt_stop_reason why = tt_stop_agreed(w->c, w->s->deadline, w->s->directory);
  if (why == TT_STOP_none) return TT_OK;
  return TT_FAIL(STOPPED, "stopped by %s while the pool was scored; run again to continue",
                 tt_stop_text(why));
}

/* Collective. Every rank makes as many calls as the rank with the most rows, some with 0 rows.
 *   f  NULL with hash_only */
static tt_err score_my_blocks(scoring *w, tt_pool_scores_writer *f)
{
  int64_t piece = tt_pool_scorer_rows(w->scorer), pieces = (w->rows + piece - 1) / piece;
  int64_t first = tt_pool_first(w->s->pool);
  tt_err e = TT_OK;
  tt_allreduce_max_i64(w->c, &pieces, 1);
  for (int64_t i = 0; !e && i < pieces; i++) {
    int64_t done = i * piece < w->rows ? i * piece : w->rows;
    int64_t rows = w->rows - done < piece ? w->rows - done : piece;
    tt_watchdog_heartbeat_local("scoring the pool");
    e = check_stop(w);
    if (!e) e = tt_agree(w->c, score_piece_local(w, w->row + done, rows));
    if (!e && f) e = tt_pool_scores_write(f, first + w->row + done, rows, w->score);
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
  *blocks = w->my_blocks.count;
  tt_allreduce_sum_i64(w->c, blocks, 1);
  tt_err e = tt_agree(w->c, TT_ALLOC(*all, *blocks * w->sums_per_block));
  if (!e)
    tt_allgatherv(w->c, w->sum, w->my_blocks.count * w->sums_per_block * (int64_t)sizeof **all,
                  *all, NULL);
  return e;
}

static tt_err combine_hashes(scoring *w, uint64_t *out)
{
  uint64_t *all = NULL;
  int64_t blocks = w->my_blocks.count;
  tt_allreduce_sum_i64(w->c, &blocks, 1);
  tt_err e = tt_agree(w->c, TT_ALLOC(all, blocks));
  if (!e) tt_allgatherv(w->c, w->hash, w->my_blocks.count * (int64_t)sizeof *all, all, NULL);
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
                "%" PRId64 " row%s of the pool with the inputs of a labelled or queried row: not "
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
  tt_pool_scorer_destroy_local(&w->scorer);
  tt_free(w->raw);
  tt_free(w->x);
  tt_free(w->skip);
  tt_free(w->score);
  tt_free(w->partial_sums);
  tt_free(w->sum);
  tt_free(w->hash);
}

tt_err tt_score_pool(tt_comm *c, const tt_score_pool_args *s, tt_round *round)
{
  scoring w = {.c = c, .s = s, .score_largest = -INFINITY};
  tt_pool_scores_writer *f = NULL;
  double start = tt_monotonic_seconds();
  tt_err e = tt_agree(c, prepare_local(&w));
  if (!e)
    e = tt_pool_scores_create(c, s->file, tt_pool_scorer_lists(w.scorer),
                              tt_pool_scorer_names(w.scorer), tt_pool_first(s->pool),
                              tt_pool_rows(s->pool), &f);
  if (!e) e = score_my_blocks(&w, f);
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
  tt_err e = tt_agree(c, prepare_local(&w));
  if (!e) e = score_my_blocks(&w, NULL);
  if (!e) e = combine_hashes(&w, hash);
  cleanup(&w);
  return e;
}
