/* score.c — see score.h. */
#include "run/score.h"

#include "base/mem.h"
#include "spec/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PIECE = 256 };      /* rows predicted at a time */
enum { MOST_BLOCKS = 64 }; /* fixed blocks of rows: the unit of work and of summation */

/* Sums of one block: per member and target, per column. */
enum { OF_MEMBER = 4 }; /* rows, squares, absolutes, nll */
enum { OF_COLUMN = 7 }; /* rows, squares, absolutes, nll, inside 50, 90, 95 % */
static const double inside[3] = {0.67448975019608174, 1.6448536269514727, 1.9599639845400545};

typedef struct scorer {
  const tt_committee *model;
  const tt_engine_ops *ops;
  const tt_resources *use;
  const tt_row_source *source;
  int64_t k, columns; /* targets of a member; columns of the ensembles */
  int64_t sums;       /* doubles of one block */
  float *x;           /* [PIECE][D] */
  double *y;          /* [PIECE][T] */
  float *members;     /* [G][2][K][rows of the piece] */
  tt_moments *moments;
  double *table; /* [5][rows of this rank][columns] y, mean, total, aleatoric, epistemic; or NULL */
  int64_t table_first, table_rows;
} scorer;

static double gaussian_nll(double error, double variance)
{
  return 0.5 * (log(2.0 * 3.14159265358979323846 * variance) + error * error / variance);
}

static void add_member(const scorer *s, const tt_ensemble *e, int64_t i, int64_t rows, double *sum)
{
  const tt_committee *c = s->model;
  for (int64_t k = 0; k < s->k; k++) {
    int32_t t = e->column[k];
    const float *mean = s->members + (i * 2 * s->k + k) * rows, *variance = mean + s->k * rows;
    double scale = c->scaler.y_scale[t], *to = sum + (i * s->k + k) * OF_MEMBER;
    for (int64_t r = 0; r < rows; r++) {
      double y = s->y[r * c->target.count + t];
      if (isnan(y)) continue;
      double error = (double)mean[r] * scale + c->scaler.y_mean[t] - y;
      to[0] += 1.0;
      to[1] += error * error;
      to[2] += fabs(error);
      to[3] += variance[r] > 0.0f ? gaussian_nll(error, (double)variance[r] * scale * scale)
                                  : (double)NAN;
    }
  }
}

static void keep(const scorer *s, int64_t row, int64_t column, double y, const tt_spread *at)
{
  const double value[5] = {y, at->mean, at->total, at->aleatoric, at->epistemic};
  if (!s->table) return;
  for (int v = 0; v < 5; v++)
    s->table[(v * s->table_rows + row - s->table_first) * s->columns + column] = value[v];
}

/* Column `column` of the ensembles is target column t. */
static void add_column(const scorer *s, int64_t column, int32_t t, int64_t first, int64_t rows,
                       double *sum)
{
  const tt_committee *c = s->model;
  double scale = c->scaler.y_scale[t];
  for (int64_t r = 0; r < rows; r++) {
    double y = s->y[r * c->target.count + t];
    tt_spread at = tt_moments_at(s->moments, r, column);
    at.mean = at.mean * scale + c->scaler.y_mean[t];
    at.total *= scale;
    at.aleatoric *= scale;
    at.epistemic *= scale;
    keep(s, first + r, column, y, &at);
    if (isnan(y)) continue;
    double error = at.mean - y;
    sum[0] += 1.0;
    sum[1] += error * error;
    sum[2] += fabs(error);
    sum[3] += at.total > 0.0 ? gaussian_nll(error, at.total * at.total) : (double)NAN;
    for (int q = 0; q < 3; q++)
      sum[4 + q] += fabs(error) <= inside[q] * at.total;
  }
}

static tt_err score_piece(scorer *s, int64_t first, int64_t rows, double *sum)
{
  const tt_committee *c = s->model;
  TT_TRY(s->source->read_local(s->source->from, first, rows, s->x, s->y));
  s->moments->rows = rows;
  TT_TRY(s->ops->predict(c, s->use, rows, s->x, s->moments, s->members));
  int64_t column = 0;
  double *of_columns = sum + c->members * s->k * OF_MEMBER;
  for (int64_t e = 0; e < c->ensembles; e++) {
    const tt_ensemble *from = &c->ensemble[e];
    for (int64_t i = 0; i < from->members; i++)
      add_member(s, from, from->first + i, rows, sum);
    for (int64_t k = 0; k < from->targets; k++, column++)
      add_column(s, column, from->column[k], first, rows, of_columns + column * OF_COLUMN);
  }
  return TT_OK;
}

static tt_err score_block(scorer *s, int64_t first, int64_t rows, double *sum)
{
  for (int64_t r = 0; r < rows; r += PIECE)
    TT_TRY(score_piece(s, first + r, rows - r < PIECE ? rows - r : PIECE, sum));
  return TT_OK;
}

/* Rows of one block: a function of the number of rows alone. */
static int64_t block_rows(int64_t rows)
{
  int64_t most = (rows + MOST_BLOCKS - 1) / MOST_BLOCKS;
  return (most + PIECE - 1) / PIECE * PIECE;
}

static tt_err prepare_local(scorer *s, int table)
{
  const tt_committee *c = s->model;
  TT_TRY(TT_ALLOC(s->x, PIECE * c->model.inputs));
  TT_TRY(TT_ALLOC(s->y, PIECE * c->target.count));
  TT_TRY(TT_ALLOC(s->members, c->members * 2 * s->k * PIECE));
  TT_TRY(tt_moments_create(PIECE, s->columns, &s->moments));
  if (table) TT_TRY(TT_ALLOC(s->table, 5 * s->table_rows * s->columns));
  return TT_OK;
}

static void finish(scorer *s)
{
  tt_free(s->x);
  tt_free(s->y);
  tt_free(s->members);
  tt_free(s->table);
  if (s->moments) s->moments->rows = PIECE;
  tt_moments_destroy(&s->moments);
}

static double mean_of(double sum, double rows) { return rows > 0.0 ? sum / rows : (double)NAN; }

/* Block sums [blocks][sums] added in block order into means. */
static void conclude(const scorer *s, const double *all, int64_t blocks, tt_scores *out)
{
  int64_t g = s->model->members;
  for (int64_t i = 0; i < g * s->k; i++) {
    double sum[OF_MEMBER] = {0};
    for (int64_t b = 0; b < blocks; b++)
      for (int v = 0; v < OF_MEMBER; v++)
        sum[v] += all[b * s->sums + i * OF_MEMBER + v];
    out->member_rmse[i] = sqrt(mean_of(sum[1], sum[0]));
    out->member_mae[i] = mean_of(sum[2], sum[0]);
    out->member_nll[i] = mean_of(sum[3], sum[0]);
  }
  for (int64_t i = 0; i < s->columns; i++) {
    double sum[OF_COLUMN] = {0};
    for (int64_t b = 0; b < blocks; b++)
      for (int v = 0; v < OF_COLUMN; v++)
        sum[v] += all[b * s->sums + g * s->k * OF_MEMBER + i * OF_COLUMN + v];
    out->rows[i] = (int64_t)sum[0];
    out->rmse[i] = sqrt(mean_of(sum[1], sum[0]));
    out->mae[i] = mean_of(sum[2], sum[0]);
    out->nll[i] = mean_of(sum[3], sum[0]);
    out->coverage50[i] = mean_of(sum[4], sum[0]);
    out->coverage90[i] = mean_of(sum[5], sum[0]);
    out->coverage95[i] = mean_of(sum[6], sum[0]);
  }
}

void tt_test_table_free(tt_test_table *t)
{
  tt_free(t->row);
  tt_free(t->y);
  tt_free(t->mean);
  tt_free(t->total);
  tt_free(t->aleatoric);
  tt_free(t->epistemic);
}

/* Rank 0 gets the rows of all ranks, in row order. */
static tt_err gather_table(tt_comm *c, const scorer *s, int64_t rows, tt_test_table *test)
{
  double **to[5] = {&test->y, &test->mean, &test->total, &test->aleatoric, &test->epistemic};
  tt_err e = TT_OK;
  test->rows = rows;
  for (int v = 0; !e && v < 5; v++)
    if (tt_comm_is_root(c)) e = TT_ALLOC(*to[v], rows * s->columns);
  e = tt_agree(c, e);
  for (int v = 0; !e && v < 5; v++)
    tt_gather(c, s->table + v * s->table_rows * s->columns,
              s->table_rows * s->columns * (int64_t)sizeof(double), *to[v], NULL);
  return e;
}

static tt_err run_blocks_local(scorer *s, tt_slice blocks, int64_t each, double *sums)
{
  for (int64_t b = 0; b < blocks.count; b++) {
    int64_t first = (blocks.first + b) * each, left = s->source->rows - first;
    TT_TRY(score_block(s, first, left < each ? left : each, sums + b * s->sums));
  }
  return TT_OK;
}

/* This rank's blocks, then everybody's sums. */
static tt_err score_all(tt_comm *c, scorer *s, tt_slice mine, int64_t blocks, int64_t each,
                        tt_scores *out, tt_test_table *test)
{
  double *sums = NULL, *all = NULL;
  tt_err e = TT_ALLOC(sums, mine.count * s->sums);
  if (!e) e = TT_ALLOC(all, blocks * s->sums);
  if (!e) e = prepare_local(s, test != NULL);
  if (!e) e = run_blocks_local(s, mine, each, sums);
  e = tt_agree(c, e);
  if (!e) {
    tt_allgather(c, sums, mine.count * s->sums * (int64_t)sizeof *sums, all, NULL);
    conclude(s, all, blocks, out);
    if (test) e = gather_table(c, s, s->source->rows, test);
  }
  tt_free(sums);
  tt_free(all);
  return e;
}

tt_err tt_score(tt_comm *c, const tt_committee *committee, const tt_engine_ops *ops,
                const tt_resources *use, const tt_row_source *source, tt_scores **out,
                tt_test_table *test)
{
  scorer s = {.model = committee, .ops = ops, .use = use, .source = source};
  int64_t each = block_rows(source->rows), blocks = each ? (source->rows + each - 1) / each : 0;
  tt_slice mine = {0, 0};
  tt_scores *scores = NULL;
  s.k = committee->model.targets;
  s.columns = tt_committee_columns(committee);
  s.sums = committee->members * s.k * OF_MEMBER + s.columns * OF_COLUMN;
  tt_err e = tt_plan_slice(blocks, tt_comm_ranks(c), tt_comm_rank(c), &mine);
  int64_t end = (mine.first + mine.count) * each;
  s.table_first = mine.first * each;
  s.table_rows = mine.count ? (end < source->rows ? end : source->rows) - s.table_first : 0;
  if (!e) e = tt_scores_create(committee->members, s.k, s.columns, &scores);
  e = tt_agree(c, e);
  if (!e) e = score_all(c, &s, mine, blocks, each, scores, test);
  finish(&s);
  if (e)
    tt_scores_destroy(&scores);
  else
    *out = scores;
  return e;
}

void tt_score_print_local(const tt_comm *c, const tt_committee *committee, const tt_scores *s)
{
  if (!tt_comm_is_root(c)) return;
  printf("%-16s %-20s %7s %6s %11s %11s %9s %7s %7s\n", "ensemble", "target", "members", "rows",
         "RMSE", "MAE", "NLL", "in 90%", "in 95%");
  int64_t column = 0;
  for (int64_t e = 0; e < committee->ensembles; e++) {
    const tt_ensemble *from = &committee->ensemble[e];
    int64_t sound = 0;
    for (int64_t i = 0; i < from->members; i++)
      sound += committee->weight[from->first + i] > 0.0;
    for (int64_t k = 0; k < from->targets; k++, column++) {
      int32_t t = from->column[k];
      printf("%-16s %-20s %7" PRId64 " %6" PRId64 " %11.5g %11.5g %9.4f %6.1f%% %6.1f%%  %s\n",
             from->name, committee->target.name[t], sound, s->rows[column], s->rmse[column],
             s->mae[column], s->nll[column], 100.0 * s->coverage90[column],
             100.0 * s->coverage95[column], committee->target.units[t]);
    }
  }
  fflush(stdout);
}
