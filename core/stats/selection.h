/* selection.h — functions to select candidates: trust window, order statistics, top k, random keys,
 * apportionment of a batch. Local; no files, no MPI.
 *
 * Candidates are ordered by a key of 64 bits and a row: the larger key comes first, for equal keys
 * the lower row. This order is total, so the result depends neither on the distribution of the
 * candidates over ranks nor on the order in which they are processed. */
#ifndef TT_SELECTION_H
#define TT_SELECTION_H
#include "core/base/err.h"

#include <stdint.h>
#include <string.h>
TT_BEGIN_C

/* Unsigned integers with the order of the floating point numbers; -0 equals 0; not for NaN. */
static inline uint32_t tt_sortable_f32(float v)
{
  uint32_t bits = 0;
  v += 0.0f; /* -0 becomes 0 */
  memcpy(&bits, &v, sizeof bits);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

static inline float tt_f32_of_sortable(uint32_t order)
{
  uint32_t bits = order >> 31 ? order & 0x7FFFFFFFu : ~order;
  float v = 0.0f;
  memcpy(&v, &bits, sizeof v);
  return v;
}

static inline uint64_t tt_sortable_f64(double v)
{
  uint64_t bits = 0;
  v += 0.0;
  memcpy(&bits, &v, sizeof bits);
  return bits >> 63 ? ~bits : bits | 0x8000000000000000u;
}

/* Trust window: accurate < lower <= candidate < upper <= failed. */
typedef enum tt_trust_level {
  TT_TRUST_ACCURATE,
  TT_TRUST_CANDIDATE,
  TT_TRUST_FAILED,
  TT_TRUST_COUNT
} tt_trust_level;
typedef struct tt_trust_window {
  double lower, upper; /* NaN = not given */
} tt_trust_window;

/* A score below lower is accurate even if upper < lower, so that each score has exactly one level.
 */
static inline tt_trust_level tt_trust_window_classify(const tt_trust_window *w, float score)
{
  if ((double)score < w->lower) return TT_TRUST_ACCURATE;
  return (double)score >= w->upper ? TT_TRUST_FAILED : TT_TRUST_CANDIDATE;
}

/* Radix select: the exact k-th smallest of float scores in two passes over the scores, 16 bits of
 * tt_sortable_f32 per pass. Counts may be summed over ranks between tt_radix_select_count and
 * tt_radix_select_narrow. */
enum { TT_RADIX_BINS = 1 << 16, TT_RADIX_PASSES = 2 };
typedef struct tt_radix_select {
  uint32_t known; /* after the first pass the upper 16 bits, after the second all */
  int passes;     /* completed */
  int64_t rank;   /* 0, 1, ... among those that share the known bits */
} tt_radix_select;

static inline void tt_radix_select_count(const tt_radix_select *s, float score, int64_t *bin)
{
  uint32_t order = tt_sortable_f32(score);
  if (!s->passes)
    bin[order >> 16]++;
  else if (order >> 16 == s->known >> 16)
    bin[order & 0xFFFFu]++;
}

/* bin [TT_RADIX_BINS] counts of all scores; their sum is more than s->rank. */
void tt_radix_select_narrow(tt_radix_select *s, const int64_t *bin);

/* Rank, from 0, of the quantile q of n scores in ascending order: floor(q n), the number of scores
 * before it. q0.9 of 100 is the 91st. The result n (for q = 1) means: above all scores. A product
 * just below a whole number because of rounding counts as that number. */
int64_t tt_quantile_rank(double q, int64_t n);

typedef struct tt_top_k_item {
  uint64_t key;
  int64_t row;
  double score;
} tt_top_k_item;

static inline int tt_top_k_item_before(const tt_top_k_item *a, const tt_top_k_item *b)
{
  return a->key != b->key ? a->key > b->key : a->row < b->row;
}

/* The first `capacity` of a stream of items, in the order of tt_top_k_item_before. */
typedef struct tt_top_k {
  int64_t capacity, count;
  tt_top_k_item *item; /* [capacity] a heap with the last in order at its root; owned */
} tt_top_k;

/* capacity >= 0. Errors: MEM. */
tt_err tt_top_k_create(int64_t capacity, tt_top_k *out);
void tt_top_k_free(tt_top_k *t); /* accepts a zeroed one */

static inline int tt_top_k_accepts(const tt_top_k *t, const tt_top_k_item *item)
{
  return t->count < t->capacity || (t->capacity > 0 && tt_top_k_item_before(item, &t->item[0]));
}
/* Insert the item if it is among the first `capacity` so far. */
void tt_top_k_push(tt_top_k *t, tt_top_k_item item);
/* Sort, first in order first. No push after it: the items are no longer a heap. */
void tt_top_k_sort(tt_top_k *t);
void tt_top_k_items_sort(tt_top_k_item *item, int64_t count);

/* How many items of a sorted list are among the first `keep` of the sorted lists of all ranks:
 * radix select by 8 bits of (key, row) per pass. Begin; then count, sum the bins over ranks and
 * narrow, until narrow returns 0; the result is the first `lo` items. All rows are different. */
enum { TT_GLOBAL_TOP_K_BINS = 256 };
typedef struct tt_global_top_k {
  int64_t lo, hi; /* items before lo are selected, items from hi on are not */
  int64_t keep;   /* number to select from [lo, hi) of all ranks */
  int digit;      /* of the next pass */
} tt_global_top_k;
tt_global_top_k tt_global_top_k_begin(const tt_top_k *t, int64_t keep);
void tt_global_top_k_count(const tt_top_k *t, const tt_global_top_k *merge,
                           int64_t bin[TT_GLOBAL_TOP_K_BINS]);
int tt_global_top_k_narrow(const tt_top_k *t, tt_global_top_k *merge,
                           const int64_t bin[TT_GLOBAL_TOP_K_BINS]);

/* Random keys; they depend on their arguments only. */

/* Uniform: the rows with the largest keys are a uniform sample without replacement. Words 0 and 1
 * of tt_random. */
uint64_t tt_random_key(uint64_t seed, int64_t round, int64_t row);

/* score / temperature + Gumbel noise -log(-log u): the rows with the largest values are a sample
 * without replacement with probabilities softmax(score / temperature) (Gumbel top-k: Kool, van Hoof
 * & Welling 2019). u = (first 52 bits of words 2 and 1 of tt_random + 1/2) / 2^52, of stream round
 * + list * 2^32: lists (of ensembles that select in turn) have different noise. Word 3 is for
 * tt_acquisition_random_score. */
double tt_gumbel_score(double score, double temperature, uint64_t seed, int64_t round, int64_t list,
                       int64_t row);

/* Apportion `total` to n parts by weights (NULL: equal) with the largest remainder method, for
 * equal remainders to the first; the sum of part[n] is total. Weights >= 0, at least one > 0.
 * Errors: MEM. */
tt_err tt_apportion(int64_t total, int64_t n, const double *weight, int64_t *part);
TT_END_C
#endif
