/* score_pool.c — see score_pool.h.
 *
 * The pool is cut into blocks whose length follows from its rows alone; ranks own whole blocks, and
 * sums are added up unit by unit in a block, then block by block. */
#include "src/campaign/pool/score_pool.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "src/campaign/pool/pool_scorer.h"
#include "io/campaign/pool_scores.h"
#include "src/predict/normalization.h"
#include "src/host/stop_request.h"
#include "src/host/watchdog.h"
#include "core/model/partition.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { LONG = 10 };                         /* seconds that are worth a line */
enum { BLOCKS = 1024, MOST_BLOCK = 65536 }; /* about so many blocks; rows of the longest */

typedef struct scoring {
  tt_comm *c;
  const tt_pool_scoring *s;
  tt_jury *jury;
  int64_t block;     /* rows of a block: a multiple of the unit */
  tt_slice mine;     /* blocks of this rank */
  int64_t row, rows; /* its rows [row, row + rows), counted from the first of the pool */
  int64_t each;      /* sums of a unit or block: C + 1 */
  double *raw;       /* [piece][D] */
  float *x;          /* [piece][D] */
  int8_t *skip;      /* [piece] */
  float *score;      /* [L][piece] */
  tt_running *unit;  /* [units of a piece][each] */
  tt_running *sum;   /* [mine.count][each] */
  int64_t candidates;
  double most;
} scoring;

/* ---- Before anything is predicted ---- */

tt_err tt_score_check_local(const tt_config *cfg, int64_t targets)
{
  int64_t given = cfg->score_target_weights.count;
  for (int64_t k = 0; cfg->score_targets == TT_OVER_weighted && k < cfg->ensembles; k++) {
    const tt_ensemble_config *own = &cfg->ensemble[k];
    int64_t learnt = *own->target ? 1 : own->targets.count ? own->targets.count : targets;
    if (learnt != given)
      return TT_FAIL(CONFIG,
                     "score.target_weights has %" PRId64 " numbers, but ensemble '%s' learns "
                     "%" PRId64 " targets",
                     given, own->name, learnt);
  }
  return TT_OK;
}

static int64_t block_rows(int64_t rows)
{
  int64_t units = (rows + (int64_t)BLOCKS * TT_JURY_UNIT - 1) / ((int64_t)BLOCKS * TT_JURY_UNIT);
  int64_t block = (units < 1 ? 1 : units) * TT_JURY_UNIT;
  return block < MOST_BLOCK ? block : MOST_BLOCK;
}

static tt_err plan_local(scoring *w)
{
  int64_t all = tt_pool_rows(w->s->pool);
  w->block = block_rows(all);
  int64_t blocks = (all + w->block - 1) / w->block;
  TT_TRY(tt_plan_slice(blocks, tt_comm_ranks(w->c), tt_comm_rank(w->c), &w->mine));
  int64_t end = (w->mine.first + w->mine.count) * w->block;
  w->row = w->mine.first * w->block < all ? w->mine.first * w->block : all;
  w->rows = (end < all ? end : all) - w->row;
  return TT_OK;
}

static tt_err begin_local(scoring *w)
{
  const tt_committees *model = w->s->model;
  int64_t inputs = model->at[0]->model.inputs;
  TT_TRY(tt_score_check_local(w->s->cfg, model->at[0]->scaler.targets));
  TT_TRY(tt_jury_create_local(w->s, &w->jury));
  TT_TRY(plan_local(w));
  int64_t piece = tt_jury_rows(w->jury);
  w->each = tt_jury_columns(w->jury) + 1;
  TT_TRY(TT_ALLOC(w->raw, piece * inputs));
  TT_TRY(TT_ALLOC(w->x, piece * inputs));
  TT_TRY(TT_ALLOC(w->skip, piece));
  TT_TRY(TT_ALLOC(w->score, piece * tt_jury_lists(w->jury)));
  TT_TRY(TT_ALLOC(w->unit, piece / TT_JURY_UNIT * w->each));
  return TT_ALLOC(w->sum, w->mine.count * w->each);
}

/* ---- Piece by piece ---- */

/* The candidates among [first, first + rows): all but those taken or excluded. */
static void choose_local(scoring *w, int64_t first, int64_t rows)
{
  const tt_taken *taken = w->s->taken;
  int64_t next = tt_taken_below(taken, first);
  for (int64_t r = 0; r < rows; r++) {
    int mine = next < taken->count && taken->row[next] == first + r;
    next += mine;
    w->skip[r] = (int8_t)(mine || tt_pool_is_excluded(w->s->pool, first + r));
    w->candidates += !w->skip[r];
  }
}

/* The units of a piece into the sums of their blocks; `row` of the first, of the pool. */
static void add_units_local(scoring *w, int64_t row, int64_t rows)
{
  int64_t units = (rows + TT_JURY_UNIT - 1) / TT_JURY_UNIT;
  for (int64_t u = 0; u < units; u++) {
    int64_t block = (row + u * TT_JURY_UNIT) / w->block - w->mine.first;
    for (int64_t i = 0; i < w->each; i++) {
      w->sum[block * w->each + i].sum += w->unit[u * w->each + i].sum;
      w->sum[block * w->each + i].count += w->unit[u * w->each + i].count;
    }
  }
}

static tt_err piece_local(scoring *w, int64_t row, int64_t rows)
{
  int64_t first = tt_pool_first(w->s->pool) + row;
  if (rows == 0) return TT_OK;
  TT_TRY(tt_pool_read_local(w->s->pool, first, rows, w->raw));
  tt_normal_scale_local(w->s->model->at[0], rows, w->raw, w->x);
  choose_local(w, first, rows);
  TT_TRY(tt_jury_score_local(w->jury, first, rows, w->x, w->skip, w->score, w->unit, &w->most));
  add_units_local(w, row, rows);
  return TT_OK;
}

static tt_err stopped(const scoring *w)
{
  tt_stop why = tt_stop_agreed(w->c, w->s->deadline, w->s->directory);
  if (why == TT_STOP_no) return TT_OK;
  return TT_FAIL(STOPPED, "stopped by %s while the pool was scored; run again to go on",
                 tt_stop_text(why));
}

/* As many pieces on every rank as the one with most rows needs. */
static tt_err stream(scoring *w, tt_scores_file *f)
{
  int64_t piece = tt_jury_rows(w->jury), pieces = (w->rows + piece - 1) / piece;
  int64_t first = tt_pool_first(w->s->pool);
  tt_err e = TT_OK;
  tt_max_i64(w->c, &pieces, 1);
  for (int64_t i = 0; !e && i < pieces; i++) {
    int64_t done = i * piece < w->rows ? i * piece : w->rows;
    int64_t rows = w->rows - done < piece ? w->rows - done : piece;
    tt_watchdog_alive_local("scoring the pool");
    e = stopped(w);
    if (!e) e = tt_agree(w->c, piece_local(w, w->row + done, rows));
    if (!e) e = tt_scores_file_write(f, first + w->row + done, rows, w->score);
  }
  return e;
}

/* ---- Sums of all ranks ---- */

static double mean_of(const tt_running *t) { return t->count ? t->sum / (double)t->count : NAN; }

/* Collective. all [blocks][each] of all ranks, in order. */
static tt_err gather(scoring *w, tt_running **all, int64_t *blocks)
{
  *blocks = w->mine.count;
  tt_sum_i64(w->c, blocks, 1);
  tt_err e = tt_agree(w->c, TT_ALLOC(*all, *blocks * w->each));
  if (!e) tt_allgather(w->c, w->sum, w->mine.count * w->each * (int64_t)sizeof **all, *all, NULL);
  return e;
}

static tt_err summarise(scoring *w, tt_round *round)
{
  tt_running *all = NULL;
  int64_t blocks = 0, columns = w->each - 1;
  tt_err e = gather(w, &all, &blocks);
  if (e) {
    tt_free(all);
    return e;
  }
  for (int64_t b = 1; b < blocks; b++)
    for (int64_t i = 0; i < w->each; i++) {
      all[i].sum += all[b * w->each + i].sum;
      all[i].count += all[b * w->each + i].count;
    }
  tt_sum_i64(w->c, &w->candidates, 1);
  tt_max_f64(w->c, &w->most, 1);
  for (int64_t i = 0; i < columns; i++)
    round->spread[i] = mean_of(&all[i]);
  round->pool = w->candidates;
  round->score_mean = mean_of(&all[columns]);
  round->score_max = all[columns].count ? w->most : NAN;
  int64_t lost = w->candidates - all[columns].count;
  if (lost)
    tt_log_once(TT_LOG_WARN,
                "%" PRId64 " of %" PRId64 " candidates have no finite score: the model's "
                "predictions overflow there; they are asked for last",
                lost, w->candidates);
  tt_free(all);
  return TT_OK;
}

static void cleanup(scoring *w)
{
  tt_jury_destroy_local(&w->jury);
  tt_free(w->raw);
  tt_free(w->x);
  tt_free(w->skip);
  tt_free(w->score);
  tt_free(w->unit);
  tt_free(w->sum);
}

tt_err tt_score_pool(tt_comm *c, const tt_pool_scoring *s, tt_round *round)
{
  scoring w = {.c = c, .s = s, .most = -INFINITY};
  tt_scores_file *f = NULL;
  double start = tt_clock_local();
  tt_err e = tt_agree(c, begin_local(&w));
  if (!e)
    e = tt_scores_file_create(c, s->file, tt_jury_lists(w.jury), tt_pool_first(s->pool),
                              tt_pool_rows(s->pool), &f);
  if (!e) e = stream(&w, f);
  if (!e) e = summarise(&w, round);
  if (!e)
    e = tt_scores_file_close(&f);
  else
    tt_scores_file_destroy(&f);
  double seconds = tt_clock_local() - start;
  if (!e)
    tt_log_once(seconds < LONG ? TT_LOG_DEBUG : TT_LOG_INFO,
                "scored %" PRId64 " candidates by %s in %.3g s (%.3g rows/s)", round->pool,
                tt_choice_score[s->cfg->score_by], seconds,
                (double)tt_pool_rows(s->pool) / (seconds > 1e-9 ? seconds : 1e-9));
  cleanup(&w);
  return e;
}
