/* diverse_batch.c — select.method kcenter and penalty: queries with distant inputs; see
 * select_internal.h. */
#include "src/campaign/select/select_internal.h"

#include "core/base/mem.h"
#include "core/stats/k_center.h"
#include "src/host/stop_request.h"
#include "src/host/watchdog.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { AUTO_PREFILTER_BATCHES = 100, AUTO_PREFILTER_ROWS = 200000 };
enum { READ_VALUES = 1 << 22 };    /* input values read at a time */
enum { CENTER_BLOCK = 64 };        /* centers added at a time */
enum { STOP_CHECK_INTERVAL = 64 }; /* queries between two checks for a stop request */

typedef struct diverse_batch {
  tt_selector *k;
  int by_penalty;
  tt_top_k_item *item; /* [count] the prefiltered candidates, ascending by row */
  int64_t count;
  int64_t best; /* index in `item` of the highest score */
  tt_k_center my_candidates;
  float *center;  /* [CENTER_BLOCK][F] normalized */
  double *inputs; /* [queries of this round so far][D] in the user's units */
  int has_center; /* 1 = there is at least one center */
} diverse_batch;

static int compare_rows(const void *a, const void *b)
{
  const tt_top_k_item *x = a, *y = b;
  return (x->row > y->row) - (x->row < y->row);
}

static int64_t prefilter_size(const tt_select_args *s, int64_t max_queries)
{
  int64_t m = s->cfg->select_prefilter;
  if (m < 0)
    m = s->max_queries < AUTO_PREFILTER_ROWS / AUTO_PREFILTER_BATCHES
            ? s->max_queries * AUTO_PREFILTER_BATCHES
            : AUTO_PREFILTER_ROWS;
  return m > max_queries ? m : max_queries;
}

/* This rank's part of the list */

static tt_err read_part_local(diverse_batch *f, int64_t rows_at_once, double *chunk, int64_t *row,
                              float *x)
{
  const tt_scaler *scaler = f->k->s->scaler;
  for (int64_t offset = 0, n = 0; offset < f->my_candidates.count; offset += n) {
    n = f->my_candidates.count - offset < rows_at_once ? f->my_candidates.count - offset
                                                       : rows_at_once;
    for (int64_t i = 0; i < n; i++) row[i] = f->item[f->my_candidates.first + offset + i].row;
    TT_TRY(tt_pool_read_rows_local(f->k->s->pool, row, n, chunk, NULL));
    tt_scaler_normalize_inputs(scaler, n, chunk, x);
    tt_k_center_load(&f->my_candidates, offset, n, x);
    tt_watchdog_heartbeat_local("select");
  }
  return TT_OK;
}

static tt_err read_local(diverse_batch *f)
{
  const tt_net_inputs *net = &f->k->s->scaler->net;
  int64_t rows_at_once = READ_VALUES / net->count + 1, *row = NULL;
  double *chunk = NULL;
  float *x = NULL;
  if (rows_at_once > f->my_candidates.count) rows_at_once = f->my_candidates.count;
  tt_err e = TT_ALLOC(row, rows_at_once);
  if (!e) e = TT_ALLOC(chunk, rows_at_once * net->columns);
  if (!e) e = TT_ALLOC(x, rows_at_once * net->count);
  if (!e) e = read_part_local(f, rows_at_once, chunk, row, x);
  tt_free_all(&row, &chunk, &x);
  return e;
}

/* Scores >= 0 for penalty: unchanged, or minus the lowest one if that is negative. Rows without a
 * finite score get 0. */
static void shift_scores(const diverse_batch *f, tt_slice my_candidates, double *score)
{
  double lowest = 0.0;
  for (int64_t i = 0; i < f->count; i++)
    if (f->item[i].score > -(double)FLT_MAX) lowest = fmin(lowest, f->item[i].score);
  for (int64_t i = 0; i < my_candidates.count; i++)
    score[i] = fmax(0.0, fmin(f->item[my_candidates.first + i].score, (double)FLT_MAX) - lowest);
}

static tt_err load_local(diverse_batch *f)
{
  tt_comm *c = f->k->c;
  const tt_net_inputs *net = &f->k->s->scaler->net;
  double *score = NULL;
  tt_slice my_candidates = {0};
  tt_err e = tt_partition_even(f->count, tt_comm_ranks(c), tt_comm_rank(c), &my_candidates);
  if (!e && f->by_penalty) e = TT_ALLOC(score, my_candidates.count);
  if (!e && f->by_penalty) shift_scores(f, my_candidates, score);
  if (!e)
    e = tt_k_center_create(my_candidates.first, my_candidates.count, net->count, score,
                           &f->my_candidates);
  if (!e) e = read_local(f);
  if (!e) e = TT_ALLOC(f->center, CENTER_BLOCK * net->count);
  if (!e) e = TT_ALLOC(f->inputs, f->k->count * net->columns);
  tt_free(score);
  return e;
}

static tt_err check_stop(tt_comm *c, const tt_select_args *s)
{
  tt_stop_reason why = tt_stop_agreed(c, s->deadline, s->directory);
  if (why == TT_STOP_none) return TT_OK;
  return TT_FAIL(STOPPED, "stopped by %s while selecting; nothing is lost: run again to continue",
                 tt_stop_text(why));
}

/* Centers */

static tt_err add_centers(diverse_batch *f, const double *x, int64_t count)
{
  int64_t width = f->k->s->scaler->inputs;
  tt_err e = TT_OK;
  for (int64_t offset = 0, n = 0; offset < count && !e; offset += n) {
    n = count - offset < CENTER_BLOCK ? count - offset : CENTER_BLOCK;
    tt_scaler_normalize_inputs(f->k->s->scaler, n, x + offset * width, f->center);
    tt_k_center_add_centers(&f->my_candidates, f->center, n);
    f->has_center = 1;
    tt_watchdog_heartbeat_local("select");
    e = check_stop(f->k->c, f->k->s);
  }
  return e;
}

/* Initial centers: the queries of this round so far, and with kcenter all labeled inputs. */
static tt_err add_initial_centers(diverse_batch *f)
{
  const tt_select_args *s = f->k->s;
  tt_err e = tt_selector_read_inputs(f->k, f->k->selected, f->k->count, f->inputs);
  if (!e) e = add_centers(f, f->inputs, f->k->count);
  if (!e && !f->by_penalty) e = add_centers(f, s->labeled, s->labeled_count);
  return e;
}

/* Queries */

/* Index in `item` of the next query; -1 = no candidate is left. */
static int64_t next_position(diverse_batch *f)
{
  int64_t key = f->by_penalty
                    ? tt_k_center_penalized(&f->my_candidates, f->k->s->cfg->select_length_scale)
                    : tt_k_center_farthest(&f->my_candidates);
  tt_allreduce_max_i64(f->k->c, &key, 1);
  if (key == TT_K_CENTER_NONE) return -1;
  return f->has_center || f->by_penalty ? tt_k_center_position(key) : f->best;
}

/* Greedy selection: one pass over the candidates for each query. */
static tt_err select_greedily(diverse_batch *f, int64_t max_queries, tt_top_k_item *selected_items,
                              int64_t *count)
{
  tt_err e = TT_OK;
  for (*count = 0; *count < max_queries; ++*count) {
    if (*count % STOP_CHECK_INTERVAL == 0) e = check_stop(f->k->c, f->k->s);
    int64_t position = e ? -1 : next_position(f);
    if (position < 0) break;
    selected_items[*count] = f->item[position];
    tt_k_center_choose(&f->my_candidates, position, f->center);
    tt_bcast_from(f->k->c, tt_partition_owner(f->count, tt_comm_ranks(f->k->c), position),
                  f->center, f->my_candidates.inputs * (int64_t)sizeof *f->center);
    tt_k_center_add_centers(&f->my_candidates, f->center, 1);
    f->has_center = 1;
    tt_watchdog_heartbeat_local("select");
  }
  return e;
}

static void free_batch(diverse_batch *f)
{
  tt_free_all(&f->item, &f->center, &f->inputs);
  tt_k_center_free(&f->my_candidates);
}

/* Select at most max_queries candidates that are far from each other. */
static tt_err select_diverse(tt_selector *k, int64_t list, int64_t max_queries, int by_penalty)
{
  diverse_batch f = {.k = k, .by_penalty = by_penalty};
  tt_ranking ranking = {.list = list, .key = tt_score_key, .s = k->s};
  tt_top_k_item *selected_items = NULL;
  int64_t count = 0;
  tt_err e = tt_select_top_k(k, &ranking, prefilter_size(k->s, max_queries), &f.item, &f.count);
  if (!e && f.count > 0) {
    int64_t row = f.item[0].row;
    qsort(f.item, (size_t)f.count, sizeof *f.item, compare_rows);
    while (f.item[f.best].row != row) f.best++;
    e = tt_agree(k->c, load_local(&f));
    if (!e)
      e = tt_agree(k->c, TT_ALLOC(selected_items, max_queries < f.count ? max_queries : f.count));
    if (!e) e = add_initial_centers(&f);
    if (!e)
      e = select_greedily(&f, max_queries < f.count ? max_queries : f.count, selected_items,
                          &count);
    if (!e) e = tt_selector_distinct_first(k, selected_items, count, &count);
    if (!e) tt_selector_add_local(k, selected_items, count);
  }
  tt_free(selected_items);
  free_batch(&f);
  return e;
}

tt_err tt_select_kcenter(tt_selector *k, int64_t list, int64_t max_queries)
{
  return select_diverse(k, list, max_queries, 0);
}

tt_err tt_select_penalty(tt_selector *k, int64_t list, int64_t max_queries)
{
  return select_diverse(k, list, max_queries, 1);
}
