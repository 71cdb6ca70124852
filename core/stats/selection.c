/* selection.c — see selection.h. */
#include "core/stats/selection.h"

#include "core/base/mem.h"
#include "core/base/rng.h"

#include <math.h>
#include <stdlib.h>

void tt_order_narrow(tt_order_search *s, const int64_t *bin)
{
  uint32_t digit = 0;
  while (digit < TT_ORDER_BINS - 1 && s->rank >= bin[digit])
    s->rank -= bin[digit++];
  s->known |= s->passes ? digit : digit << 16;
  s->passes++;
}

int64_t tt_quantile_rank(double q, int64_t n)
{
  double rank = floor(q * (double)n * (1.0 + 0x1p-50));
  return rank >= (double)n ? n : (int64_t)rank;
}

/* ---- best lists ---- */

tt_err tt_top_create(int64_t room, tt_top *out)
{
  *out = (tt_top){.room = room};
  return TT_ALLOC(out->item, room);
}

void tt_top_free(tt_top *t)
{
  tt_free(t->item);
  *t = (tt_top){0};
}

static void swap(tt_ranked *a, tt_ranked *b)
{
  tt_ranked kept = *a;
  *a = *b;
  *b = kept;
}

static void sift_up(tt_ranked *item, int64_t i)
{
  for (int64_t up = (i - 1) / 2; i > 0 && tt_ranked_before(&item[up], &item[i]); up = (i - 1) / 2) {
    swap(&item[up], &item[i]);
    i = up;
  }
}

static void sift_down(tt_ranked *item, int64_t count, int64_t i)
{
  for (int64_t down = 2 * i + 1; down < count; down = 2 * i + 1) {
    if (down + 1 < count && tt_ranked_before(&item[down], &item[down + 1])) down++;
    if (!tt_ranked_before(&item[i], &item[down])) return;
    swap(&item[i], &item[down]);
    i = down;
  }
}

void tt_top_offer(tt_top *t, tt_ranked item)
{
  if (!tt_top_takes(t, &item)) return;
  if (t->count < t->room) {
    t->item[t->count] = item;
    sift_up(t->item, t->count++);
  } else {
    t->item[0] = item;
    sift_down(t->item, t->count, 0);
  }
}

static int in_order(const void *a, const void *b)
{
  return tt_ranked_before(b, a) - tt_ranked_before(a, b);
}

void tt_ranked_sort(tt_ranked *item, int64_t count)
{
  if (count > 1) qsort(item, (size_t)count, sizeof *item, in_order);
}

void tt_top_sort(tt_top *t) { tt_ranked_sort(t->item, t->count); }

/* ---- the best of all ranks ---- */

tt_cut tt_cut_begin(const tt_top *t, int64_t keep)
{
  return (tt_cut){.hi = t->count, .keep = keep};
}

enum { CUT_DIGITS = 16 };

/* In a sorted list the digits ascend: those of the key inverted, then those of the row. */
static int digit_of(const tt_ranked *item, int digit)
{
  uint64_t word = digit < 8 ? ~item->key : (uint64_t)item->row;
  return (int)(word >> (56 - 8 * (digit % 8)) & 0xFFu);
}

void tt_cut_count(const tt_top *t, const tt_cut *cut, int64_t bin[TT_CUT_BINS])
{
  memset(bin, 0, TT_CUT_BINS * sizeof *bin);
  for (int64_t i = cut->lo; i < cut->hi; i++)
    bin[digit_of(&t->item[i], cut->digit)]++;
}

int tt_cut_narrow(const tt_top *t, tt_cut *cut, const int64_t bin[TT_CUT_BINS])
{
  int at = 0;
  while (at < TT_CUT_BINS - 1 && cut->keep > bin[at])
    cut->keep -= bin[at++];
  while (cut->lo < cut->hi && digit_of(&t->item[cut->lo], cut->digit) < at)
    cut->lo++;
  while (cut->lo < cut->hi && digit_of(&t->item[cut->hi - 1], cut->digit) > at)
    cut->hi--;
  int whole = cut->keep >= bin[at];
  if (whole) cut->lo = cut->hi;
  return !whole && ++cut->digit < CUT_DIGITS;
}

/* ---- random keys ---- */

static tt_random4 words(uint64_t seed, uint64_t stream, int64_t row)
{
  return tt_random(seed, stream, TT_FOR_PICKS, (uint32_t)row, (uint32_t)((uint64_t)row >> 32));
}

uint64_t tt_draw_key(uint64_t seed, int64_t round, int64_t row)
{
  tt_random4 r = words(seed, (uint64_t)round, row);
  return (uint64_t)r.v[0] << 32 | r.v[1];
}

double tt_gumbel_value(double score, double temperature, uint64_t seed, int64_t round, int64_t list,
                       int64_t row)
{
  tt_random4 r = words(seed, (uint64_t)round + ((uint64_t)list << 32), row);
  uint64_t bits = ((uint64_t)r.v[2] << 32 | r.v[1]) >> 12;
  double u = ((double)bits + 0.5) * 0x1p-52;
  return score / temperature - log(-log(u));
}

/* ---- parts ---- */

tt_err tt_parts(int64_t most, int64_t n, const double *weight, int64_t *part)
{
  double sum = 0.0;
  int64_t left = most;
  tt_top rest = {0};
  TT_TRY(tt_top_create(n, &rest));
  for (int64_t i = 0; i < n; i++)
    sum += weight ? weight[i] : 1.0;
  for (int64_t i = 0; i < n; i++) {
    double exact = (double)most * (weight ? weight[i] : 1.0) / sum;
    part[i] = (int64_t)exact;
    left -= part[i];
    tt_top_offer(&rest, (tt_ranked){tt_order_f64(exact - (double)part[i]), i, 0.0});
  }
  tt_top_sort(&rest);
  for (int64_t i = 0; i < left; i++)
    part[rest.item[i % n].row]++;
  tt_top_free(&rest);
  return TT_OK;
}
