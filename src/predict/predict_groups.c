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

/* Log how many rows are of small groups, and how many of unknown ones. */
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

/* An array [parts][rows][width] of a block; NULL: the block does not have it. */
typedef struct block_array {
  double *value;
  int64_t parts, width;
} block_array;
enum { ARRAYS = 11 };

static void list_arrays(const tt_prediction_block *b, block_array out[ARRAYS])
{
  const int64_t C = b->columns;
  const block_array all[ARRAYS] = {{b->mean, 1, C},
                                   {b->total, 1, C},
                                   {b->aleatoric, 1, C},
                                   {b->epistemic, 1, C},
                                   {b->quantile, b->quantiles, C},
                                   {b->lower, b->levels, C},
                                   {b->upper, b->levels, C},
                                   {b->entropy, 1, C},
                                   {b->mutual_information, 1, C},
                                   {b->leverage, 1, C},
                                   {b->extrapolation, 1, 1}};
  memcpy(out, all, sizeof all);
}

/* Copy src [parts][n][width] into dst [parts][rows][width]: row i becomes row place[i]. */
static void scatter(const double *src, double *dst, int64_t parts, int64_t n, int64_t rows,
                    int64_t width, const int64_t *place)
{
  for (int64_t k = 0; dst && k < parts; k++)
    for (int64_t i = 0; i < n; i++)
      memcpy(dst + (k * rows + place[i]) * width, src + (k * n + i) * width,
             (size_t)width * sizeof *dst);
}

static void scatter_block(const tt_prediction_block *src, const int64_t *place,
                          const tt_prediction_block *dst)
{
  block_array from[ARRAYS], to[ARRAYS];
  list_arrays(src, from);
  list_arrays(dst, to);
  for (int k = 0; k < ARRAYS; k++)
    scatter(from[k].value, to[k].value, to[k].parts, src->rows, dst->rows, to[k].width, place);
}

static void fill_nan(const tt_prediction_block *b)
{
  block_array array[ARRAYS];
  list_arrays(b, array);
  for (int k = 0; k < ARRAYS; k++)
    for (int64_t i = 0; array[k].value && i < array[k].parts * b->rows * array[k].width; i++)
      array[k].value[i] = NAN;
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

tt_err tt_group_rows_predict_local(const tt_group_rows *g, int64_t first, int64_t count,
                                   const double *raw, tt_extrapolation *far, tt_prediction_block *b)
{
  int64_t *begin = NULL, *order = NULL, *number = NULL;
  int32_t *ensemble = NULL;
  tt_err e = TT_ALLOC(ensemble, count);
  if (!e) e = TT_ALLOC(number, count);
  b->rows = count;
  if (!e) fill_nan(b);
  for (int64_t i = 0; !e && i < count; i++) ensemble[i] = g->ensemble[g->by.number[first + i]];
  if (!e) e = tt_by_sort_rows(count, ensemble, g->all->ensembles, &begin, &order);
  for (int64_t k = 0; !e && k < g->all->ensembles; k++) {
    int64_t rows = begin[k + 1] - begin[k];
    tt_trained_ensemble *one = NULL;
    tt_trained_ensembles all = {.count = 1, .at = &one};
    if (!rows) continue;
    e = tt_by_groups_extract(g->all, k, &one);
    const one_group o = {g, one, first, raw, order + begin[k]};
    if (!e) e = predict_group(&o, &all, rows, number, far, b);
    tt_trained_ensemble_destroy(&one);
  }
  tt_free_all(&ensemble, &number, &begin, &order);
  return e;
}
