/* score.c — see score.h. */
#include "src/score/score.h"

#include "core/base/int.h"
#include "core/base/mem.h"
#include "core/model/partition.h"
#include "core/stats/metrics.h"
#include "src/host/watchdog.h"
#include "src/score/score_rows.h"

#include <math.h>

enum { MAX_BLOCKS = 64 }; /* fixed blocks of rows: units of work and of summation */

/* Rows of one block. Depends only on the number of rows, not on the number of ranks. */
static int64_t block_rows(int64_t rows)
{
  int64_t most = rows > 0 ? tt_ceil_div(rows, MAX_BLOCKS) : 1;
  return tt_round_up(most, TT_SCORE_CHUNK_ROWS);
}

/* Add the sums all [blocks][sums] in block order into the first block. */
static void add_blocks(const tt_scorer *s, double *all, int64_t blocks)
{
  for (int64_t b = 1; b < blocks; b++)
    for (int64_t i = 0; i < s->sums; i++) all[i] += all[b * s->sums + i];
}

static double diversity(const tt_scorer *s, double *sums, int64_t e, int64_t k, double *sd)
{
  const tt_ensemble *src = &s->model->ensemble[e];
  if (s->source->uses_member_local) return NAN;
  for (int64_t i = 0; i < src->members; i++)
    sd[i] = sqrt(tt_tally_error_variance(tt_scorer_member_tally(s, sums, src->first + i, k)));
  return tt_error_correlation(src->members, s->model->weight + src->first, sd,
                              tt_tally_error_variance(tt_scorer_error_tally(s, sums, e, k)));
}

/* Every column of target k of ensemble e gets the same score; only pinball differs by level. */
static void finish_target(const tt_scorer *s, double *sums, int64_t e, int64_t k, tt_scores *out)
{
  const tt_model *m = &s->model->model;
  const double *tally = tt_scorer_ensemble_tally(s, sums, e, k);
  double correlation = diversity(s, sums, e, k, s->part);
  for (int32_t j = 0; j < m->quantities; j++) {
    int64_t column = e * s->width + k * m->quantities + j;
    for (int v = 0; v < TT_METRIC_COUNT; v++)
      out->ensemble[v][column] = tt_tally_metric(m, tally, (tt_metric)v);
    out->ensemble[TT_METRIC_pinball][column] = tt_tally_pinball(m, tally, j);
    for (int i = 0; i < TT_INTERVALS; i++)
      out->calibration_curve[i * out->columns + column] = tt_tally_coverage(m, tally, i);
    for (int i = 0; i < TT_COVERAGE_LEVELS; i++)
      out->interval_coverage[i * out->columns + column] =
          tt_tally_coverage(m, tally, tt_coverage_level[i]);
    out->rows[column] = (int64_t)tt_tally_rows(tally);
    out->diversity[column] = correlation;
    for (int64_t l = 0; l < out->levels; l++)
      out->inside[l * out->columns + column] =
          tt_scorer_weight_inside(s, sums, e, k)[l] / tt_tally_weight(tally);
  }
}

static void finish_scores(const tt_scorer *s, double *sums, tt_scores *out)
{
  const tt_trained_ensemble *c = s->model;
  out->forecasts = 1u << tt_output_forecast(c->model.output);
  for (int64_t i = 0; i < c->members; i++)
    for (int64_t k = 0; k < s->targets; k++)
      for (int v = 0; v < TT_METRIC_COUNT; v++)
        out->member[v][i * s->targets + k] =
            tt_tally_metric(&c->model, tt_scorer_member_tally(s, sums, i, k), (tt_metric)v);
  for (int64_t e = 0; e < c->ensembles; e++)
    for (int64_t k = 0; k < s->targets; k++) finish_target(s, sums, e, k, out);
}

/* Rank 0 gets the rows of all ranks, in row order. */
static tt_err gather_table(tt_comm *c, const tt_scorer *s, int64_t rows, tt_test_predictions *test)
{
  double **dst[TT_TEST_VARIABLE_COUNT];
  int64_t columns = tt_trained_ensemble_columns(s->model), mine = s->table_rows * columns;
  tt_err e = TT_OK;
  tt_test_predictions_arrays(test, dst);
  test->rows = rows;
  for (int v = 0; !e && v < TT_TEST_VARIABLE_COUNT; v++)
    if (tt_comm_is_root(c)) e = TT_ALLOC(*dst[v], rows * columns);
  e = tt_agree(c, e);
  for (int v = 0; !e && v < TT_TEST_VARIABLE_COUNT; v++)
    tt_gatherv(c, s->table + v * mine, mine * (int64_t)sizeof(double), *dst[v], NULL);
  return e;
}

/* Collective. Add the rows of this rank to sum [blocks][s->sums].
 *   first  row of this rank */
static tt_err add_rows(const tt_row_options *rows, tt_scorer *s, int64_t first, double *sum)
{
  tt_row_predictor *p = NULL;
  const tt_row_chunk *chunk;
  tt_err e = tt_row_predictor_open(rows, &p);
  if (e) return e;
  while (!(e = tt_row_predictor_next(p, e, &chunk)) && chunk)
    e = tt_scorer_add_chunk(s, chunk, sum + (chunk->first - first) / rows->block * s->sums);
  tt_row_predictor_close(&p);
  return e;
}

/* Score the blocks of this rank, then add the sums of all ranks. */
static tt_err score_all(const tt_row_options *rows, tt_scorer *s, tt_scores *out,
                        tt_test_predictions *test)
{
  tt_comm *c = rows->c;
  int64_t blocks = tt_ceil_div(rows->rows, rows->block);
  int64_t mine = tt_ceil_div(s->table_rows, rows->block);
  double *sum = NULL, *all = NULL;
  tt_err e = tt_scorer_create(s, test != NULL);
  if (!e) e = TT_ALLOC(sum, mine * s->sums);
  if (!e) e = TT_ALLOC(all, (blocks > 0 ? blocks : 1) * s->sums);
  e = tt_agree(c, e);
  if (!e) e = add_rows(rows, s, s->table_first, sum);
  if (!e) {
    tt_allgatherv(c, sum, mine * s->sums * (int64_t)sizeof *all, all, NULL);
    add_blocks(s, all, blocks);
    finish_scores(s, all, out);
    if (test) e = gather_table(c, s, rows->rows, test);
  }
  tt_free_all(&sum, &all);
  return e;
}

tt_err tt_score(tt_comm *c, const tt_trained_ensemble *trained, const tt_model_shard *shard,
                const tt_engine_ops *ops, const tt_resources *use, const tt_row_source *source,
                tt_scores **out, tt_test_predictions *test)
{
  tt_scorer s = {.model = trained, .source = source};
  tt_trained_ensemble *only = (tt_trained_ensemble *)trained; /* it is not changed */
  const tt_trained_ensembles all = {.count = 1, .at = &only};
  const tt_row_options rows = {.c = c,
                               .all = &all,
                               .shard = shard,
                               .ops = ops,
                               .use = use,
                               .rows = source->rows,
                               .block = block_rows(source->rows),
                               .most_rows = TT_SCORE_CHUNK_ROWS,
                               .read_local = tt_scorer_read_local,
                               .with = &s,
                               .phase = "scoring"};
  tt_slice mine = tt_row_predictor_slice(rows.rows, rows.block, tt_comm_ranks(c), tt_comm_rank(c));
  tt_scores *scores = NULL;
  s.table_first = mine.first;
  s.table_rows = mine.count;
  tt_err e = tt_scores_create(trained->members, tt_trained_ensemble_targets(trained),
                              tt_trained_ensemble_columns(trained), &scores);
  if (!e)
    e = tt_scores_add_conformal(scores, trained->calibration.levels, trained->calibration.level);
  e = tt_agree(c, e);
  if (!e) e = score_all(&rows, &s, scores, test);
  tt_scorer_free(&s);
  if (e)
    tt_scores_destroy(&scores);
  else
    *out = scores;
  return e;
}

double tt_score_bytes(const tt_model *m, int64_t members, int64_t ensembles, int64_t width,
                      int64_t rows, int ranks, int table)
{
  int64_t each = block_rows(rows), blocks = tt_ceil_div(rows, each);
  int64_t mine = tt_ceil_div(blocks, ranks), columns = ensembles * width;
  double sums = (double)(members * m->targets * tt_tally_size(m));
  double bytes = 8.0 * sums * (double)(mine + (blocks > 0 ? blocks : 1));
  bytes += tt_row_predictor_bytes(members, width, columns, m->inputs, rows, each, ranks);
  bytes += 56.0 * (double)members;
  bytes += 8.0 * (double)(members * m->targets * TT_METRIC_COUNT);
  if (table) bytes += 8.0 * TT_TEST_VARIABLE_COUNT * (double)((mine * each + 2 * rows) * columns);
  return rows > 0 ? bytes : 0.0;
}
