/* best_rows.c — the best candidates of all ranks, and their inputs: see select_internal.h. */
#include "src/campaign/select/select_internal.h"

#include "core/base/mem.h"
#include "core/base/sort.h"
#include "src/campaign/state/known_inputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct top_k_search {
  const tt_selector *k;
  const tt_ranking *ranking;
  tt_top_k top;
} top_k_search;

static void visit_for_top_k(void *dst, int64_t row, float max_score, float list_score)
{
  top_k_search *o = dst;
  if (!o->ranking->whole_pool &&
      (isnan(list_score) ||
       tt_trust_window_classify(&o->k->window, max_score) != TT_TRUST_CANDIDATE))
    return;
  tt_top_k_item item = {o->ranking->key(o->ranking, row, list_score), row, (double)list_score};
  if (tt_top_k_accepts(&o->top, &item) && !tt_is_row_used(&o->k->selected_rows, row))
    tt_top_k_push(&o->top, item);
}

static tt_err search_local(top_k_search *o, tt_selector *k, int64_t count_max)
{
  TT_TRY(tt_top_k_create(count_max < k->mine.count ? count_max : k->mine.count, &o->top));
  TT_TRY(tt_selector_scan_local(k, o->ranking->list, visit_for_top_k, o));
  tt_top_k_sort(&o->top);
  return TT_OK;
}

/* Collective. How many items of this rank's list are among the best count_max of all ranks. */
static int64_t merge_top_k(tt_comm *c, const tt_top_k *top, int64_t count_max)
{
  int64_t bin[TT_GLOBAL_TOP_K_BINS];
  tt_global_top_k merge = tt_global_top_k_begin(top, count_max);
  do {
    tt_global_top_k_count(top, &merge, bin);
    tt_allreduce_sum_i64(c, bin, TT_GLOBAL_TOP_K_BINS);
  } while (tt_global_top_k_narrow(top, &merge, bin));
  return merge.lo;
}

tt_err tt_select_top_k(tt_selector *k, const tt_ranking *ranking, int64_t max_rows,
                       tt_top_k_item **best, int64_t *count)
{
  top_k_search o = {.k = k, .ranking = ranking};
  *best = NULL;
  *count = 0;
  tt_err e = tt_agree(k->c, search_local(&o, k, max_rows));
  int64_t mine = e ? 0 : merge_top_k(k->c, &o.top, max_rows);
  if (!e) {
    *count = mine;
    tt_allreduce_sum_i64(k->c, count, 1);
    e = tt_agree(k->c, TT_ALLOC(*best, *count));
  }
  if (!e) {
    tt_allgatherv(k->c, o.top.item, mine * (int64_t)sizeof *o.top.item, *best, NULL);
    tt_top_k_items_sort(*best, *count);
  }
  tt_top_k_free(&o.top);
  return e;
}

uint64_t tt_score_key(const tt_ranking *w, int64_t row, float list_score)
{
  (void)w, (void)row;
  return tt_sortable_f32(list_score);
}

void tt_selector_add_local(tt_selector *k, const tt_top_k_item *item, int64_t count)
{
  for (int64_t i = 0; i < count; i++) {
    k->selected[k->count++] = item[i];
    k->selected_rows.row[k->selected_rows.count++] = item[i].row;
  }
  if (k->selected_rows.count > 1)
    qsort(k->selected_rows.row, (size_t)k->selected_rows.count, sizeof *k->selected_rows.row,
          tt_compare_i64);
}

/* Inputs */

static tt_err read_inputs_local(tt_selector *k, const tt_top_k_item *item, int64_t count, double *x)
{
  int64_t *row = NULL;
  TT_TRY(TT_ALLOC(row, count));
  for (int64_t i = 0; i < count; i++) row[i] = item[i].row;
  tt_err e = tt_pool_read_rows_local(k->s->pool, row, count, x, NULL);
  tt_free(row);
  return e;
}

tt_err tt_selector_read_inputs(tt_selector *k, const tt_top_k_item *item, int64_t count, double *x)
{
  if (count == 0) return TT_OK;
  tt_err e = tt_agree(k->c, tt_comm_is_root(k->c) ? read_inputs_local(k, item, count, x) : TT_OK);
  if (!e) tt_bcast(k->c, x, count * k->s->scaler->inputs * (int64_t)sizeof *x);
  return e;
}

/* Different inputs */

/* The rows of `selected` come first in `all` [before + count]. */
static tt_err sort_distinct(const tt_selector *k, int64_t count, const double *x,
                            const tt_top_k_item *all, tt_top_k_item *item, int64_t *distinct)
{
  int64_t before = k->count, width = k->s->scaler->inputs, repeated = 0;
  tt_known_inputs *known = NULL;
  tt_top_k_item *last = NULL;
  *distinct = 0;
  tt_err e = tt_known_inputs_create(width, before + count, &k->s->scaler->net, &known);
  if (!e) e = TT_ALLOC(last, count);
  for (int64_t i = 0; !e && i < before + count; i++) {
    int is_repeated = tt_known_inputs_find(known, all[i].row, x + i * width) >= 0;
    tt_known_inputs_add(known, i, all[i].row, x + i * width);
    if (i >= before && is_repeated) last[repeated++] = all[i];
    if (i >= before && !is_repeated) item[(*distinct)++] = all[i];
  }
  for (int64_t i = 0; !e && i < repeated; i++) item[*distinct + i] = last[i];
  tt_known_inputs_destroy(&known);
  tt_free(last);
  return e;
}

tt_err tt_selector_distinct_first(tt_selector *k, tt_top_k_item *item, int64_t count,
                                  int64_t *distinct)
{
  int64_t before = k->count, width = k->s->scaler->inputs;
  tt_top_k_item *all = NULL;
  double *x = NULL;
  tt_err e = TT_ALLOC(all, before + count);
  if (!e) e = TT_ALLOC(x, (before + count) * width);
  e = tt_agree(k->c, e);
  if (!e && before) memcpy(all, k->selected, (size_t)before * sizeof *all);
  if (!e && count) memcpy(all + before, item, (size_t)count * sizeof *all);
  if (!e) e = tt_selector_read_inputs(k, all, before + count, x);
  if (!e) e = tt_agree(k->c, sort_distinct(k, count, x, all, item, distinct));
  tt_free_all(&all, &x);
  return e;
}
