/* best_rows.c — the best of all ranks, and rows by their numbers: see select_internal.h. */
#include "src/campaign/select/select_internal.h"

#include "core/base/mem.h"

#include <math.h>
#include <stdlib.h>

typedef struct offer {
  const tt_chooser *k;
  const tt_wish *wish;
  tt_top top;
} offer;

static void see_offer(void *to, int64_t row, float joint, float own)
{
  offer *o = to;
  if (!o->wish->whole_pool && (isnan(own) || tt_window_of(&o->k->window, joint) != TT_CANDIDATE))
    return;
  tt_ranked item = {o->wish->key(o->wish, row, own), row, (double)own};
  if (tt_top_takes(&o->top, &item) && !tt_is_taken(&o->k->got, row)) tt_top_offer(&o->top, item);
}

static tt_err offer_local(offer *o, tt_chooser *k, int64_t most)
{
  TT_TRY(tt_top_create(most < k->mine.count ? most : k->mine.count, &o->top));
  TT_TRY(tt_select_pass_local(k, o->wish->list, see_offer, o));
  tt_top_sort(&o->top);
  return TT_OK;
}

/* How many of this rank's list are among the best `most` of all. */
static int64_t cut(tt_comm *c, const tt_top *top, int64_t most)
{
  int64_t bin[TT_CUT_BINS];
  tt_cut at = tt_cut_begin(top, most);
  do {
    tt_cut_count(top, &at, bin);
    tt_sum_i64(c, bin, TT_CUT_BINS);
  } while (tt_cut_narrow(top, &at, bin));
  return at.lo;
}

tt_err tt_select_best(tt_chooser *k, const tt_wish *wish, int64_t most, tt_ranked **best,
                      int64_t *count)
{
  offer o = {.k = k, .wish = wish};
  *best = NULL;
  *count = 0;
  tt_err e = tt_agree(k->c, offer_local(&o, k, most));
  int64_t mine = e ? 0 : cut(k->c, &o.top, most);
  if (!e) {
    *count = mine;
    tt_sum_i64(k->c, count, 1);
    e = tt_agree(k->c, TT_ALLOC(*best, *count));
  }
  if (!e) {
    tt_allgather(k->c, o.top.item, mine * (int64_t)sizeof *o.top.item, *best, NULL);
    tt_ranked_sort(*best, *count);
  }
  tt_top_free(&o.top);
  return e;
}

uint64_t tt_key_of_score(const tt_wish *w, int64_t row, float own)
{
  (void)w, (void)row;
  return tt_order_f32(own);
}

static int by_number(const void *a, const void *b)
{
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

void tt_choose_add_local(tt_chooser *k, const tt_ranked *item, int64_t count)
{
  for (int64_t i = 0; i < count; i++) {
    k->chosen[k->count++] = item[i];
    k->got.row[k->got.count++] = item[i].row;
  }
  if (k->got.count > 1) qsort(k->got.row, (size_t)k->got.count, sizeof *k->got.row, by_number);
}

/* ---- inputs ---- */

typedef struct place {
  int64_t row, at;
} place; /* by_number compares the row */

static tt_err read_local(tt_chooser *k, place *p, int64_t *row, const tt_ranked *item,
                         int64_t count, double *sorted)
{
  for (int64_t i = 0; i < count; i++)
    p[i] = (place){item[i].row, i};
  if (count > 1) qsort(p, (size_t)count, sizeof *p, by_number);
  for (int64_t i = 0; i < count; i++)
    row[i] = p[i].row;
  return tt_pool_pick_local(k->s->pool, row, count, sorted, NULL);
}

static tt_err inputs_local(tt_chooser *k, const tt_ranked *item, int64_t count, double *x)
{
  int64_t width = k->s->scaler->inputs, *row = NULL;
  place *p = NULL;
  double *sorted = NULL;
  tt_err e = TT_ALLOC(p, count);
  if (!e) e = TT_ALLOC(row, count);
  if (!e) e = TT_ALLOC(sorted, count * width);
  if (!e) e = read_local(k, p, row, item, count, sorted);
  for (int64_t i = 0; i < count && !e; i++)
    for (int64_t d = 0; d < width; d++)
      x[p[i].at * width + d] = sorted[i * width + d];
  tt_free(p);
  tt_free(row);
  tt_free(sorted);
  return e;
}

tt_err tt_select_inputs(tt_chooser *k, const tt_ranked *item, int64_t count, double *x)
{
  if (count == 0) return TT_OK;
  tt_err e = tt_agree(k->c, tt_comm_is_root(k->c) ? inputs_local(k, item, count, x) : TT_OK);
  if (!e) tt_bcast(k->c, x, count * k->s->scaler->inputs * (int64_t)sizeof *x);
  return e;
}
