/* selection.c — see selection.h. */
#include "core/stats/selection.h"

#include "core/base/mem.h"
#include "core/base/rng.h"

#include <math.h>
#include <stdlib.h>

void tt_radix_select_narrow(tt_radix_select *s, const int64_t *bin)
{
  uint32_t digit = 0;
  while (digit < TT_RADIX_BINS - 1 && s->rank >= bin[digit]) s->rank -= bin[digit++];
  s->known |= s->passes ? digit : digit << 16;
  s->passes++;
}

int64_t tt_quantile_rank(double q, int64_t n)
{
  double rank = floor(q * (double)n * (1.0 + 0x1p-50));
  return rank >= (double)n ? n : (int64_t)rank;
}

tt_err tt_top_k_create(int64_t capacity, tt_top_k *out)
{
  *out = (tt_top_k){.capacity = capacity};
  return TT_ALLOC(out->item, capacity);
}

void tt_top_k_free(tt_top_k *t)
{
  tt_free(t->item);
  *t = (tt_top_k){0};
}

static void swap(tt_top_k_item *a, tt_top_k_item *b)
{
  tt_top_k_item kept = *a;
  *a = *b;
  *b = kept;
}

static void sift_up(tt_top_k_item *item, int64_t i)
{
  for (int64_t up = (i - 1) / 2; i > 0 && tt_top_k_item_before(&item[up], &item[i]);
       up = (i - 1) / 2) {
    swap(&item[up], &item[i]);
    i = up;
  }
}

static void sift_down(tt_top_k_item *item, int64_t count, int64_t i)
{
  for (int64_t down = 2 * i + 1; down < count; down = 2 * i + 1) {
    if (down + 1 < count && tt_top_k_item_before(&item[down], &item[down + 1])) down++;
    if (!tt_top_k_item_before(&item[i], &item[down])) return;
    swap(&item[i], &item[down]);
    i = down;
  }
}

void tt_top_k_push(tt_top_k *t, tt_top_k_item item)
{
  if (!tt_top_k_accepts(t, &item)) return;
  if (t->count < t->capacity) {
    t->item[t->count] = item;
    sift_up(t->item, t->count++);
  } else {
    t->item[0] = item;
    sift_down(t->item, t->count, 0);
  }
}

static int compare_items(const void *a, const void *b)
{
  return tt_top_k_item_before(b, a) - tt_top_k_item_before(a, b);
}

void tt_top_k_items_sort(tt_top_k_item *item, int64_t count)
{
  if (count > 1) qsort(item, (size_t)count, sizeof *item, compare_items);
}

void tt_top_k_sort(tt_top_k *t) { tt_top_k_items_sort(t->item, t->count); }

tt_global_top_k tt_global_top_k_begin(const tt_top_k *t, int64_t keep)
{
  return (tt_global_top_k){.hi = t->count, .keep = keep};
}

enum { MERGE_DIGITS = 16 };

/* Digits ascend in a sorted list: first those of the inverted key, then those of the row. */
static int digit_of(const tt_top_k_item *item, int digit)
{
  uint64_t word = digit < 8 ? ~item->key : (uint64_t)item->row;
  return (int)(word >> (56 - 8 * (digit % 8)) & 0xFFu);
}

void tt_global_top_k_count(const tt_top_k *t, const tt_global_top_k *merge,
                           int64_t bin[TT_GLOBAL_TOP_K_BINS])
{
  memset(bin, 0, TT_GLOBAL_TOP_K_BINS * sizeof *bin);
  for (int64_t i = merge->lo; i < merge->hi; i++) bin[digit_of(&t->item[i], merge->digit)]++;
}

int tt_global_top_k_narrow(const tt_top_k *t, tt_global_top_k *merge,
                           const int64_t bin[TT_GLOBAL_TOP_K_BINS])
{
  int bucket = 0;
  while (bucket < TT_GLOBAL_TOP_K_BINS - 1 && merge->keep > bin[bucket])
    merge->keep -= bin[bucket++];
  while (merge->lo < merge->hi && digit_of(&t->item[merge->lo], merge->digit) < bucket) merge->lo++;
  while (merge->lo < merge->hi && digit_of(&t->item[merge->hi - 1], merge->digit) > bucket)
    merge->hi--;
  int whole = merge->keep >= bin[bucket];
  if (whole) merge->lo = merge->hi;
  return !whole && ++merge->digit < MERGE_DIGITS;
}

static tt_random4 random_words(uint64_t seed, uint64_t stream, int64_t row)
{
  return tt_random(seed, stream, TT_PURPOSE_QUERIES, (uint32_t)row,
                   (uint32_t)((uint64_t)row >> 32));
}

uint64_t tt_random_key(uint64_t seed, int64_t round, int64_t row)
{
  tt_random4 r = random_words(seed, (uint64_t)round, row);
  return (uint64_t)r.v[0] << 32 | r.v[1];
}

double tt_gumbel_score(double score, double temperature, uint64_t seed, int64_t round, int64_t list,
                       int64_t row)
{
  tt_random4 r = random_words(seed, (uint64_t)round + ((uint64_t)list << 32), row);
  uint64_t bits = ((uint64_t)r.v[2] << 32 | r.v[1]) >> 12;
  double u = ((double)bits + 0.5) * 0x1p-52;
  return score / temperature - log(-log(u));
}

tt_err tt_apportion(int64_t total, int64_t n, const double *weight, int64_t *part)
{
  double sum = 0.0;
  int64_t left = total;
  tt_top_k remainders = {0};
  TT_TRY(tt_top_k_create(n, &remainders));
  for (int64_t i = 0; i < n; i++) sum += weight ? weight[i] : 1.0;
  for (int64_t i = 0; i < n; i++) {
    double exact = (double)total * (weight ? weight[i] : 1.0) / sum;
    part[i] = (int64_t)exact;
    left -= part[i];
    tt_top_k_push(&remainders, (tt_top_k_item){tt_sortable_f64(exact - (double)part[i]), i, 0.0});
  }
  tt_top_k_sort(&remainders);
  for (int64_t i = 0; i < left; i++) part[remainders.item[i % n].row]++;
  tt_top_k_free(&remainders);
  return TT_OK;
}
