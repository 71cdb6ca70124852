/* predict_groups.c — see predict_groups.h. */
#include "src/predict/predict_groups.h"

#include "core/base/list.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/groups/by_groups.h"
#include "src/predict/normalization.h"
#include "src/predict/prediction_block.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

void tt_extrapolation_measure(tt_extrapolation *e, const tt_trained_ensemble *m, int64_t rows,
                              const int64_t *row, const float *x, double *distance)
{
  for (int64_t r = 0; r < rows; r++) {
    int64_t input = 0;
    double most = tt_trained_ensemble_outside(m, x + r * m->model.inputs, &input);
    if (most > e->farthest) e->farthest = most, e->far_row = row[r], e->far_input = input;
    distance[r] = most;
    e->outside += most > 0.0;
  }
}

/* Rows of small groups, then of unknown ones. */
static void log_pooled(const tt_group_rows *g)
{
  const tt_by_groups *groups = g->all->groups;
  const char *what =
      groups->pooled ? "predicted by the ensemble of all rows" : "not predicted: NaN";
  int64_t rows[2] = {0}, values[2] = {0};
  const char *example[2] = {"", ""};
  for (int64_t r = 0; r < g->by.rows; r++) {
    int32_t v = g->by.number[r];
    if (!g->own[v]) rows[tt_by_groups_find_small(groups, g->by.name[v]) < 0]++;
  }
  for (int64_t v = 0; v < g->by.count; v++) {
    int unknown = tt_by_groups_find_small(groups, g->by.name[v]) < 0;
    if (g->own[v]) continue;
    if (!values[unknown]++) example[unknown] = g->by.name[v];
  }
  for (int k = 0; k < 2; k++)
    if (rows[k])
      tt_log_root(k ? TT_LOG_WARN : TT_LOG_INFO,
                  "by %s: %" PRId64 " row%s of %" PRId64 " %s group%s, for example '%s': %s",
                  groups->columns, rows[k], tt_plural(rows[k]), values[k], k ? "unknown" : "small",
                  tt_plural(values[k]), example[k], what);
}

static tt_err find_local(const tt_table_format *format, int64_t rows, tt_group_rows *g)
{
  const tt_by_groups *groups = g->all->groups;
  tt_list *columns = NULL;
  TT_TRY(tt_list_parse("by", groups->columns, &columns));
  const tt_text_list list = {columns->count, columns->item};
  tt_err e = tt_by_values_read_local(g->file, format, &list, rows, &g->by);
  tt_list_destroy(&columns);
  if (!e) e = TT_ALLOC(g->ensemble, g->by.count);
  if (!e) e = TT_ALLOC(g->own, g->by.count);
  for (int64_t v = 0; !e && v < g->by.count; v++) {
    int64_t found = tt_by_groups_find(groups, g->by.name[v]);
    g->own[v] = found >= 0;
    g->ensemble[v] = (int32_t)(found < 0 && groups->pooled ? 0 : found);
  }
  if (!e) log_pooled(g);
  return e;
}

tt_err tt_group_rows_find(tt_comm *c, const tt_table_format *format, int64_t rows, tt_group_rows *g)
{
  int root = tt_comm_is_root(c);
  tt_err e = tt_agree(c, root ? find_local(format, rows, g) : TT_OK);
  if (e) return e;
  tt_bcast(c, &g->by.count, sizeof g->by.count);
  if (!root) e = TT_ALLOC(g->by.number, rows);
  if (!root && !e) e = TT_ALLOC(g->ensemble, g->by.count);
  e = tt_agree(c, e);
  if (e) return e;
  g->by.rows = rows;
  tt_bcast(c, g->by.number, rows * (int64_t)sizeof *g->by.number);
  tt_bcast(c, g->ensemble, g->by.count * (int64_t)sizeof *g->ensemble);
  return TT_OK;
}

void tt_group_rows_free(tt_group_rows *g)
{
  if (!g->by.name) g->by.count = 0;
  tt_by_values_free(&g->by);
  tt_free_all(&g->ensemble, &g->own);
}

/* The rows of one ensemble. */
typedef struct one_group {
  const tt_group_rows *g;
  const tt_trained_ensemble *m;
  int64_t first;        /* row of the file of row 0 of `raw` */
  const double *raw;    /* [..][D] */
  const int64_t *place; /* [rows] rows of `raw` */
} one_group;

static tt_err read_rows_local(void *context, int64_t first, int64_t count, float *x)
{
  const one_group *o = context;
  int64_t D = o->m->scaler.inputs, F = o->m->model.inputs;
  for (int64_t i = 0; i < count; i++) {
    int64_t r = o->place[first + i];
    TT_TRY(tt_normalize_checked_local(o->m, o->g->file, o->g->inputs, o->first + r, 1,
                                      o->raw + r * D, x + i * F));
  }
  return TT_OK;
}

static int needs_members(const void *context, const tt_trained_ensemble *m)
{
  return tt_prediction_needs_members(m, ((const one_group *)context)->g->shape);
}

/* Copy parts [parts][n][width] of a block to the places of its rows in [parts][rows][width]. */
static void scatter(const double *src, double *dst, int64_t parts, int64_t n, int64_t rows,
                    int64_t width, const int64_t *place)
{
  for (int64_t k = 0; dst && k < parts; k++)
    for (int64_t i = 0; i < n; i++)
      memcpy(dst + (k * rows + place[i]) * width, src + (k * n + i) * width,
             (size_t)width * sizeof *dst);
}

static void scatter_block(const tt_prediction_block *src, const int64_t *place,
                          tt_prediction_block *dst)
{
  const struct {
    const double *from;
    double *to;
    int64_t parts, width;
  } array[] = {{src->mean, dst->mean, 1, dst->columns},
               {src->total, dst->total, 1, dst->columns},
               {src->aleatoric, dst->aleatoric, 1, dst->columns},
               {src->epistemic, dst->epistemic, 1, dst->columns},
               {src->quantile, dst->quantile, dst->quantiles, dst->columns},
               {src->lower, dst->lower, dst->levels, dst->columns},
               {src->upper, dst->upper, dst->levels, dst->columns},
               {src->entropy, dst->entropy, 1, dst->columns},
               {src->mutual_information, dst->mutual_information, 1, dst->columns},
               {src->leverage, dst->leverage, 1, dst->columns},
               {src->extrapolation, dst->extrapolation, 1, 1}};
  for (size_t k = 0; k < sizeof array / sizeof *array; k++)
    scatter(array[k].from, array[k].to, array[k].parts, src->rows, dst->rows, array[k].width,
            place);
}

static void fill_nan(tt_prediction_block *b)
{
  double *const array[] = {b->mean,      b->total,   b->aleatoric,
                           b->epistemic, b->entropy, b->mutual_information,
                           b->leverage};
  for (size_t k = 0; k < sizeof array / sizeof *array; k++)
    for (int64_t i = 0; array[k] && i < b->rows * b->columns; i++) array[k][i] = NAN;
  for (int64_t i = 0; b->quantile && i < b->quantiles * b->rows * b->columns; i++)
    b->quantile[i] = NAN;
  for (int64_t i = 0; b->lower && i < b->levels * b->rows * b->columns; i++)
    b->lower[i] = b->upper[i] = NAN;
  for (int64_t i = 0; b->extrapolation && i < b->rows; i++) b->extrapolation[i] = NAN;
}

static tt_err predict_group(const one_group *o, tt_trained_ensembles *all, int64_t rows,
                            int64_t *number, tt_extrapolation *far, tt_prediction_block *b)
{
  const tt_group_rows *g = o->g;
  tt_resources use = *g->use;
  if (rows < TT_BY_FEW_ROWS) use.threads = 1;
  const tt_row_options options = {.all = all,
                                  .ops = g->ops,
                                  .use = &use,
                                  .rows = rows,
                                  .block = 1,
                                  .row_bytes = 8.0 * (double)(4 * b->columns),
                                  .needs_members = needs_members,
                                  .read_local = read_rows_local,
                                  .with = (void *)o};
  tt_row_predictor *p = NULL;
  const tt_row_chunk *chunk;
  tt_prediction_block part = {0};
  TT_TRY(tt_row_predictor_open(&options, &p));
  tt_err e = tt_prediction_block_create(all, tt_row_predictor_rows(p), g->shape, &part);
  while (!(e = tt_row_predictor_next(p, e, &chunk)) && chunk) {
    e = tt_prediction_block_fill(&part, 1, chunk);
    for (int64_t i = 0; i < chunk->rows; i++) number[i] = o->first + o->place[chunk->first + i];
    if (part.extrapolation)
      tt_extrapolation_measure(far, o->m, chunk->rows, number, chunk->x, part.extrapolation);
    scatter_block(&part, o->place + chunk->first, b);
  }
  tt_prediction_block_free(&part);
  tt_row_predictor_close(&p);
  return e;
}

/* Sort the rows of a chunk by their ensembles: order[count], and behind[E + 1] of each ensemble its
 * first place, or of the next one. */
static void sort_rows(const tt_group_rows *g, int64_t first, int64_t count, int64_t *behind,
                      int64_t *order)
{
  int64_t n = g->all->ensembles;
  const int32_t *value = g->by.number + first;
  for (int64_t i = 0; i < count; i++)
    if (g->ensemble[value[i]] >= 0) behind[g->ensemble[value[i]] + 1]++;
  for (int64_t k = 0; k < n; k++) behind[k + 1] += behind[k];
  for (int64_t i = count; i-- > 0;)
    if (g->ensemble[value[i]] >= 0) order[--behind[g->ensemble[value[i]] + 1]] = i;
}

tt_err tt_group_rows_predict_local(const tt_group_rows *g, int64_t first, int64_t count,
                                   const double *raw, tt_extrapolation *far, tt_prediction_block *b)
{
  int64_t *begin = NULL, *order = NULL, *number = NULL, n = g->all->ensembles, end;
  tt_err e = TT_ALLOC(begin, n + 2);
  if (!e) e = TT_ALLOC(order, count);
  if (!e) e = TT_ALLOC(number, count);
  b->rows = count;
  if (!e) fill_nan(b);
  if (!e) sort_rows(g, first, count, begin, order);
  int64_t all_rows = 0;
  for (int64_t i = 0; !e && i < count; i++) all_rows += g->ensemble[g->by.number[first + i]] >= 0;
  for (int64_t k = 0; !e && k < n; k++) {
    int64_t start = begin[k + 1];
    end = k + 1 < n ? begin[k + 2] : all_rows;
    if (end == start) continue;
    tt_trained_ensemble *one = NULL;
    tt_trained_ensembles all = {.count = 1, .at = &one};
    e = tt_by_groups_extract(g->all, k, &one);
    const one_group o = {g, one, first, raw, order + start};
    if (!e) e = predict_group(&o, &all, end - start, number, far, b);
    tt_trained_ensemble_destroy(&one);
  }
  tt_free_all(&begin, &order, &number);
  return e;
}
