/* row_split.c — see row_split.h. */
#include "core/model/row_split.h"

#include "core/base/mem.h"
#include "core/base/rng.h"
#include "core/base/sort.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

/* The parts, and what the fractions leave. */
enum { PARTS = TT_SPLITS + 1, MAX_CLASSES = 50, QUANTILES = 10 };

typedef struct keyed_row {
  uint64_t key;
  uint32_t order; /* decides between equal keys */
  int64_t row;
} keyed_row;

static int compare_rows(const void *a, const void *b)
{
  const keyed_row *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  if (x->order != y->order) return x->order < y->order ? -1 : 1;
  return (x->row > y->row) - (x->row < y->row);
}

static tt_err check_count(int64_t rows)
{
  if (rows < UINT32_MAX) return TT_OK;
  return TT_FAIL(DATA, "data.split: %" PRId64 " rows, but at most %" PRIu32 " are possible", rows,
                 UINT32_MAX - 1);
}

static tt_err check(int64_t rows, const double fraction[TT_SPLITS], double part[PARTS])
{
  double sum = fraction[0] + fraction[1] + fraction[2];
  TT_TRY(check_count(rows));
  for (int k = 0; k < TT_SPLITS; k++) part[k] = fraction[k];
  part[TT_SPLITS] = sum < 1.0 - 1e-9 ? 1.0 - sum : 0.0;
  return TT_OK;
}

/* Every part of a fraction above 0 has rows. */
static tt_err check_parts(int64_t rows, const int8_t *split, const double fraction[TT_SPLITS],
                          const char *what)
{
  static const char *const name[] = {"train", "validation", "test"};
  int64_t count[TT_SPLITS] = {0};
  for (int64_t i = 0; i < rows; i++)
    if (split[i] >= 0) count[split[i]]++;
  for (int k = 0; k < TT_SPLITS; k++)
    if (fraction[k] > 0.0 && !count[k])
      return TT_FAIL(DATA,
                     "data.split.%s: no rows are left for data.split.%s: %g of %" PRId64
                     " rows; give more rows or other fractions",
                     what, name[k], fraction[k], rows);
  return TT_OK;
}

/* The part that lacks most of its rows after `done` rows. */
static int neediest_part(const double part[PARTS], const int64_t count[PARTS], double done)
{
  int best = 0;
  double most = -INFINITY;
  for (int k = 0; k < PARTS; k++) {
    double lacks = part[k] * done - (double)count[k];
    if (part[k] <= 0.0 || lacks <= most) continue;
    most = lacks;
    best = k;
  }
  return best;
}

static int8_t split_of_part(int part) { return part < TT_SPLITS ? (int8_t)part : TT_UNUSED_ROW; }

/* Groups */

/* Rows of one group: sorted[first .. first + count). */
typedef struct row_group {
  int64_t first, count;
  uint32_t order; /* of the group among all groups, random */
} row_group;

static int compare_groups(const void *a, const void *b)
{
  const row_group *x = a, *y = b;
  if (x->order != y->order) return x->order < y->order ? -1 : 1;
  return (x->first > y->first) - (x->first < y->first);
}

/* Groups in their random order; returns their number. */
static int64_t find_groups(int64_t rows, const keyed_row *sorted, uint64_t seed, row_group *group)
{
  int64_t groups = 0;
  for (int64_t i = 0; i < rows; i++) {
    if (i == 0 || sorted[i].key != sorted[i - 1].key) group[groups++] = (row_group){.first = i};
    group[groups - 1].count++;
  }
  tt_shuffle order = tt_shuffle_make((uint32_t)groups, seed, 0, TT_PURPOSE_SPLIT, 1);
  for (int64_t i = 0; i < groups; i++) group[i].order = tt_shuffle_at(&order, (uint32_t)i);
  qsort(group, (size_t)groups, sizeof *group, compare_groups);
  return groups;
}

/* The part that lacks the largest share of its rows, among those where the group fits; if it fits
 * nowhere, the part that lacks most rows. */
static int part_for_group(const double part[PARTS], const int64_t count[PARTS], double rows,
                          int64_t size)
{
  int best = -1;
  double most = 0.0;
  for (int k = 0; k < PARTS; k++) {
    double wanted = part[k] * rows, lacks = wanted - (double)count[k];
    if (wanted <= 0.0 || lacks < (double)size || lacks / wanted <= most) continue;
    most = lacks / wanted;
    best = k;
  }
  return best < 0 ? neediest_part(part, count, rows) : best;
}

static void deal_groups(int64_t rows, int64_t groups, const row_group *group,
                        const keyed_row *sorted, const double part[PARTS], int8_t *split)
{
  int64_t count[PARTS] = {0};
  for (int64_t g = 0; g < groups; g++) {
    int chosen = part_for_group(part, count, (double)rows, group[g].count);
    count[chosen] += group[g].count;
    for (int64_t i = 0; i < group[g].count; i++)
      split[sorted[group[g].first + i].row] = split_of_part(chosen);
  }
}

tt_err tt_split_groups(int64_t rows, const uint64_t *group, const double fraction[TT_SPLITS],
                       uint64_t seed, int8_t *split)
{
  double part[PARTS];
  keyed_row *sorted = NULL;
  row_group *all = NULL;
  TT_TRY(check(rows, fraction, part));
  tt_err e = TT_ALLOC(sorted, rows);
  if (!e) e = TT_ALLOC(all, rows);
  if (!e) {
    for (int64_t i = 0; i < rows; i++) sorted[i] = (keyed_row){group[i], 0, i};
    qsort(sorted, (size_t)rows, sizeof *sorted, compare_rows);
    deal_groups(rows, find_groups(rows, sorted, seed, all), all, sorted, part, split);
    e = check_parts(rows, split, fraction, "group");
  }
  tt_free_all(&sorted, &all);
  return e;
}

/* Strata */

uint64_t tt_split_order_key(double v)
{
  union {
    double real;
    uint64_t bits;
  } u = {.real = v + 0.0};
  if (isnan(v)) return UINT64_MAX;
  return u.bits >> 63 ? ~u.bits : u.bits | (uint64_t)1 << 63;
}

/* Replace the sorted keys by the numbers of the strata; rows of one order are in one stratum. */
static void number_strata(int64_t rows, keyed_row *sorted)
{
  int64_t different = 0, known = 0;
  for (int64_t i = 0; i < rows; i++) {
    known += sorted[i].key != UINT64_MAX;
    different += sorted[i].key != UINT64_MAX && (i == 0 || sorted[i].key != sorted[i - 1].key);
  }
  uint64_t before = 0, class = 0;
  for (int64_t i = 0; i < known; i++) {
    uint64_t key = sorted[i].key;
    class += i > 0 && key != before;
    before = key;
    sorted[i].key = different <= MAX_CLASSES ? class : (uint64_t)(i * QUANTILES / known);
    if (i > 0 && sorted[i].order == sorted[i - 1].order) sorted[i].key = sorted[i - 1].key;
  }
}

tt_err tt_split_strata(int64_t rows, const double *value, const uint64_t *unit,
                       const double fraction[TT_SPLITS], uint64_t seed, int8_t *split)
{
  double part[PARTS];
  keyed_row *sorted = NULL;
  int64_t count[PARTS] = {0};
  TT_TRY(check(rows, fraction, part));
  TT_TRY(TT_ALLOC(sorted, rows));
  tt_shuffle order = tt_shuffle_make((uint32_t)rows, seed, 0, TT_PURPOSE_SPLIT, 2);
  for (int64_t i = 0; i < rows; i++) {
    uint64_t first = unit ? unit[i] : (uint64_t)i;
    sorted[i] =
        (keyed_row){tt_split_order_key(value[first]), tt_shuffle_at(&order, (uint32_t)first), i};
  }
  qsort(sorted, (size_t)rows, sizeof *sorted, compare_rows);
  number_strata(rows, sorted);
  qsort(sorted, (size_t)rows, sizeof *sorted, compare_rows);
  for (int64_t i = 0, chosen = 0; i < rows; i++) {
    if (i == 0 || sorted[i].order != sorted[i - 1].order) /* the first row of a unit */
      chosen = neediest_part(part, count, (double)(i + 1));
    count[chosen]++;
    split[sorted[i].row] = split_of_part((int)chosen);
  }
  tt_free(sorted);
  return check_parts(rows, split, fraction, "stratify");
}

/* Order */

tt_err tt_split_order(int64_t rows, const double *value, const double fraction[TT_SPLITS],
                      int8_t *split)
{
  double part[PARTS];
  keyed_row *sorted = NULL;
  TT_TRY(check(rows, fraction, part));
  for (int64_t i = 0; i < rows; i++)
    if (!isfinite(value[i]))
      return TT_FAIL(DATA, "data.split.order: row %" PRId64 ": %g; every row needs a finite number",
                     i, value[i]);
  TT_TRY(TT_ALLOC(sorted, rows));
  for (int64_t i = 0; i < rows; i++) sorted[i] = (keyed_row){tt_split_order_key(value[i]), 0, i};
  qsort(sorted, (size_t)rows, sizeof *sorted, compare_rows);
  int current = 0, last = part[TT_SPLITS] > 0.0       ? TT_SPLITS
                          : part[TT_TEST] > 0.0       ? TT_TEST
                          : part[TT_VALIDATION] > 0.0 ? TT_VALIDATION
                                                      : TT_TRAIN;
  double end = (double)llround(part[0] * (double)rows);
  for (int64_t i = 0; i < rows; i++) {
    int is_new = i == 0 || sorted[i].key != sorted[i - 1].key;
    while (is_new && current < last && (double)i >= end - 0.5)
      end += (double)llround(part[++current] * (double)rows);
    split[sorted[i].row] = split_of_part(current);
  }
  tt_free(sorted);
  return check_parts(rows, split, fraction, "order");
}

/* Equal rows */

/* The first row with the key of row i. slot[slots] has numbers of rows + 1, 0 = empty; slots is a
 * power of two, and at least half of them are empty. */
static uint64_t find_first(const tt_row_key *key, uint32_t i, uint64_t slots, uint32_t *slot)
{
  uint64_t offset = key[i].low & (slots - 1);
  for (; slot[offset]; offset = (offset + 1) & (slots - 1)) {
    const tt_row_key *k = &key[slot[offset] - 1];
    if (k->low == key[i].low && k->high == key[i].high) return slot[offset] - 1;
  }
  slot[offset] = i + 1;
  return i;
}

tt_err tt_split_first_rows(int64_t rows, const tt_row_key *key, uint64_t *first, int64_t *repeated)
{
  int64_t slots = 1;
  uint32_t *slot = NULL;
  TT_TRY(check_count(rows));
  while (slots < 2 * rows) slots *= 2;
  TT_TRY(TT_ALLOC(slot, slots));
  *repeated = 0;
  for (int64_t i = 0; i < rows; i++) {
    first[i] = find_first(key, (uint32_t)i, (uint64_t)slots, slot);
    *repeated += first[i] != (uint64_t)i;
  }
  tt_free(slot);
  return TT_OK;
}

/* The first row of a unit; shortens the chain to it. */
static uint64_t root_of(uint64_t *unit, uint64_t row)
{
  for (; unit[row] != row; row = unit[row]) unit[row] = unit[unit[row]];
  return row;
}

tt_err tt_split_join_groups(int64_t rows, const uint64_t *group, uint64_t *unit)
{
  tt_row_key *key = NULL;
  uint64_t *first = NULL;
  int64_t repeated;
  tt_err e = TT_ALLOC(key, rows);
  if (!e) e = TT_ALLOC(first, rows);
  for (int64_t i = 0; !e && i < rows; i++)
    key[i] = (tt_row_key){XXH3_64bits(&group[i], sizeof *group), group[i]};
  if (!e) e = tt_split_first_rows(rows, key, first, &repeated);
  for (int64_t i = 0; !e && i < rows; i++) {
    uint64_t a = root_of(unit, (uint64_t)i), b = root_of(unit, first[i]);
    unit[a > b ? a : b] = a < b ? a : b;
  }
  for (int64_t i = 0; !e && i < rows; i++) unit[i] = root_of(unit, (uint64_t)i);
  tt_free_all(&key, &first);
  return e;
}

const char *tt_repeated_rows_text(int64_t repeated, int64_t seen, const char *between, char *text)
{
  char cure[TT_REPEATED_TEXT / 2] =
      "equal inputs are in one part; data.split.group joins other rows";
  if (seen)
    snprintf(cure, sizeof cure,
             "%" PRId64 " validation or test row%s training inputs: optimistic scores", seen,
             seen == 1 ? " repeats" : "s repeat");
  snprintf(text, TT_REPEATED_TEXT, "%" PRId64 " row%s the inputs of an earlier row%s%s", repeated,
           repeated == 1 ? " has" : "s have", between, cure);
  return text;
}

/* Folds */

static int largest_first(const void *a, const void *b)
{
  const row_group *x = a, *y = b;
  if (x->count != y->count) return x->count > y->count ? -1 : 1;
  return compare_groups(a, b);
}

static int16_t smallest_fold(int64_t folds, const int64_t *rows)
{
  int64_t best = 0;
  for (int64_t k = 1; k < folds; k++) best = rows[k] < rows[best] ? k : best;
  return (int16_t)best;
}

/* rows [folds] of each fold, 0 at first. */
static void deal_folds(int64_t groups, const row_group *group, const keyed_row *sorted, int ordered,
                       int64_t count, int64_t folds, int64_t *rows, int16_t *fold)
{
  for (int64_t g = 0; g < groups; g++) {
    int64_t middle = 2 * group[g].first + group[g].count;
    int16_t chosen = smallest_fold(folds, rows);
    if (ordered) chosen = (int16_t)((middle - 1) * folds / (2 * count));
    rows[chosen] += group[g].count;
    for (int64_t i = 0; i < group[g].count; i++) fold[sorted[group[g].first + i].row] = chosen;
  }
}

tt_err tt_split_folds(int64_t count, const int32_t *row, const uint64_t *unit, int ordered,
                      int64_t folds, uint64_t seed, int16_t *fold)
{
  keyed_row *sorted = NULL;
  row_group *group = NULL;
  int64_t *rows = NULL;
  tt_err e = TT_ALLOC(sorted, count);
  if (!e) e = TT_ALLOC(group, count);
  if (!e) e = TT_ALLOC(rows, folds);
  if (!e && count > 0) {
    for (int64_t i = 0; i < count; i++) sorted[i] = (keyed_row){unit[row[i]], 0, i};
    qsort(sorted, (size_t)count, sizeof *sorted, compare_rows);
    int64_t groups = find_groups(count, sorted, seed, group);
    if (!ordered) qsort(group, (size_t)groups, sizeof *group, largest_first);
    if (ordered) qsort(group, (size_t)groups, sizeof *group, tt_compare_i64);
    deal_folds(groups, group, sorted, ordered, count, folds, rows, fold);
  }
  tt_free_all(&sorted, &group, &rows);
  return e;
}
