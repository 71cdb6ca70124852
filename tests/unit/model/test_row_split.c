/* test_row_split.c — splits by groups, strata and an order, and folds of equal size. */
#include "core/base/mem.h"
#include "core/base/rng.h"
#include "core/model/cohort.h"
#include "core/model/row_split.h"
#include "tests/support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1000 };
static const double fraction[TT_SPLITS] = {0.7, 0.2, 0.1};

static uint32_t word(int64_t i) { return tt_random(11, 0, TT_PURPOSE_SPLIT, 0, (uint32_t)i).v[0]; }

static void count_parts(const int8_t *split, int64_t n, int64_t count[TT_SPLITS + 1])
{
  memset(count, 0, (TT_SPLITS + 1) * sizeof *count);
  for (int64_t i = 0; i < n; i++) count[split[i] < 0 ? TT_SPLITS : split[i]]++;
}

TT_TEST (no_group_is_in_two_parts) {
  uint64_t group[N];
  int8_t split[N], again[N], reversed[N];
  int64_t count[TT_SPLITS + 1], different = 0;
  for (int64_t i = 0; i < N; i++) group[i] = word(i) % 60 * (word(i) % 3); /* sizes 8 to 350 */
  TT_CHECK_OK(tt_split_groups(N, group, fraction, 1, split));
  for (int64_t i = 0; i < N; i++)
    for (int64_t k = 0; k < i; k++)
      if (group[i] == group[k]) TT_CHECK(split[i], ==, split[k]);
  count_parts(split, N, count);
  for (int k = 0; k < TT_SPLITS; k++) TT_CHECK(fabs((double)count[k] - N * fraction[k]), <, 80.0);
  TT_CHECK(count[TT_SPLITS], ==, 0);
  /* the order of the rows does not count, the seed does */
  for (int64_t i = 0; i < N / 2; i++) {
    uint64_t one = group[i];
    group[i] = group[N - 1 - i];
    group[N - 1 - i] = one;
  }
  TT_CHECK_OK(tt_split_groups(N, group, fraction, 1, reversed));
  TT_CHECK_OK(tt_split_groups(N, group, fraction, 2, again));
  for (int64_t i = 0; i < N; i++) {
    TT_CHECK(reversed[N - 1 - i], ==, split[i]);
    different += again[i] != reversed[i];
  }
  TT_CHECK(different, >, 0);
}

TT_TEST (strata_have_the_same_shares_in_all_parts) {
  double value[N];
  int8_t split[N];
  for (int classes = 2; classes <= 1000; classes = classes == 2 ? 7 : 1000) {
    for (int64_t i = 0; i < N; i++)
      value[i] = i % 50 == 3 ? (double)NAN : (double)(word(i) % (uint32_t)classes) - 3.0;
    TT_CHECK_OK(tt_split_strata(N, value, NULL, fraction, 1, split));
    /* of each class; of each quantile: the rows below any threshold */
    for (double limit = -4; limit<classes; limit += classes> 50 ? 25 : 1) {
      double all = 0, part[TT_SPLITS] = {0};
      for (int64_t i = 0; i < N; i++) {
        int in = classes > 50 ? value[i] <= limit : value[i] == limit;
        all += in;
        part[split[i]] += in;
      }
      double most = classes > 50 ? 12.0 : 2.0;
      for (int k = 0; k < TT_SPLITS; k++) TT_CHECK(fabs(part[k] - fraction[k] * all), <=, most);
    }
    double missing[TT_SPLITS] = {0};
    for (int64_t i = 3; i < N; i += 50) missing[split[i]]++;
    TT_CHECK(missing[0], >=, 13.0);
    TT_CHECK(missing[1], >=, 3.0);
    TT_CHECK(missing[2], >=, 1.0);
    if (classes == 1000) break;
  }
}

/* Rows of one key or of one group have one unit, and no unit has rows that no chain of keys and
 * groups joins; the number of a unit is its first row. */
TT_TEST (units_join_equal_rows_and_groups) {
  enum { ROWS = 200 };
  tt_row_key key[ROWS];
  uint64_t group[ROWS], unit[ROWS], wanted[ROWS];
  int64_t repeated, different = 0;
  for (int64_t i = 0; i < ROWS; i++) {
    key[i] = (tt_row_key){word(i) % 4 << 8, word(i) % 140}; /* many keys want the same slot */
    group[i] = word(i + ROWS) % 190;
    wanted[i] = (uint64_t)i;
    for (int64_t k = i - 1; k >= 0; k--)
      if (key[k].low == key[i].low && key[k].high == key[i].high) wanted[i] = (uint64_t)k;
    different += wanted[i] == (uint64_t)i;
  }
  TT_CHECK_OK(tt_split_first_rows(ROWS, key, unit, &repeated));
  assert_memory_equal(unit, wanted, sizeof unit);
  TT_CHECK(repeated, ==, ROWS - different);
  for (int again = 1; again;) { /* the lowest number spreads over all neighbors */
    again = 0;
    for (int64_t i = 0; i < ROWS; i++)
      for (int64_t k = 0; k < ROWS; k++)
        if ((unit[i] == unit[k] || group[i] == group[k]) && wanted[i] > wanted[k])
          wanted[i] = wanted[k], again = 1;
  }
  TT_CHECK_OK(tt_split_join_groups(ROWS, group, unit));
  assert_memory_equal(unit, wanted, sizeof unit);
}

TT_TEST (strata_keep_units_together) {
  double value[N];
  uint64_t unit[N];
  int8_t split[N], alone[N];
  for (int classes = 3; classes <= 900; classes *= 300) {
    for (int64_t i = 0; i < N; i++) value[i] = word(i) % (uint32_t)classes, unit[i] = (uint64_t)i;
    TT_CHECK_OK(tt_split_strata(N, value, NULL, fraction, 1, alone));
    TT_CHECK_OK(tt_split_strata(N, value, unit, fraction, 1, split));
    assert_memory_equal(split, alone, N);
    int64_t count[TT_SPLITS + 1];
    for (int64_t i = 0; i < N; i++) unit[i] = (uint64_t)(i < N / 2 ? i : i % 250);
    TT_CHECK_OK(tt_split_strata(N, value, unit, fraction, 1, split));
    for (int64_t i = 0; i < N; i++) TT_CHECK(split[i], ==, split[unit[i]]);
    count_parts(split, N, count);
    for (int k = 0; k < TT_SPLITS; k++) TT_CHECK(fabs((double)count[k] - N * fraction[k]), <, 20.0);
  }
}

TT_TEST (an_order_has_no_gap_and_keeps_equal_values_together) {
  const double part[TT_SPLITS] = {0.5, 0.2, 0.1};
  double value[N], low[TT_SPLITS + 1], high[TT_SPLITS + 1];
  int8_t split[N];
  int64_t count[TT_SPLITS + 1];
  for (int64_t i = 0; i < N; i++) value[i] = (double)(word(i) % 300) - 150.0;
  TT_CHECK_OK(tt_split_order(N, value, part, split));
  count_parts(split, N, count);
  for (int k = 0; k <= TT_SPLITS; k++) {
    low[k] = INFINITY, high[k] = -INFINITY;
    for (int64_t i = 0; i < N; i++)
      if ((split[i] < 0 ? TT_SPLITS : split[i]) == k)
        low[k] = fmin(low[k], value[i]), high[k] = fmax(high[k], value[i]);
    if (k) TT_CHECK(high[k - 1], <, low[k]);
    TT_CHECK(fabs((double)count[k] - N * (k < TT_SPLITS ? part[k] : 0.2)), <=, 10.0);
  }
  value[5] = NAN;
  TT_CHECK((int)tt_split_order(N, value, part, split), ==, (int)TT_E_DATA);
  TT_CHECK_HAS(tt_err_last(), "row 5: nan");
}

TT_TEST (a_part_without_rows_is_refused) {
  static const uint64_t two[] = {1, 1, 2, 2, 2, 1};
  static const double same[] = {4, 4, 4, 4, 4, 4};
  int8_t split[6];
  TT_CHECK((int)tt_split_groups(6, two, fraction, 1, split), ==, (int)TT_E_DATA);
  TT_CHECK_HAS(tt_err_last(), "data.split.group: no rows are left for data.split.");
  TT_CHECK((int)tt_split_order(6, same, fraction, split), ==, (int)TT_E_DATA);
  TT_CHECK((int)tt_split_strata(1, same, NULL, fraction, 1, split), ==, (int)TT_E_DATA);
}

TT_TEST (sizes_of_folds_differ_by_at_most_one) {
  int32_t column = 0;
  tt_ensemble e = {.members = 5, .targets = 1, .column = &column, .selection = -1};
  for (int64_t folds = 2; folds <= 12; folds += 5)
    for (int64_t rows = folds; rows < 60; rows += 7) {
      tt_cohort c = {
          .resample = TT_RESAMPLE_kfold, .folds = folds, .seed = 9, .ensembles = 1, .ensemble = &e};
      int64_t least = rows, most = 0;
      tt_dataset *d = NULL;
      TT_CHECK_OK(tt_dataset_create(rows, 1, 1, 0, &d));
      for (int64_t k = 0; k < folds; k++) {
        int32_t *row = NULL;
        int64_t n = 0;
        TT_CHECK_OK(tt_cohort_rows(&c, d, k, TT_VALIDATION, &row, &n));
        least = n < least ? n : least;
        most = n > most ? n : most;
        tt_free(row);
      }
      TT_CHECK(least, >=, rows / folds);
      TT_CHECK(most - least, <=, 1);
      tt_dataset_destroy(&d);
    }
}

/* The folds of the rows 1, 3, 5, ... of a data set with these units; count [folds]. */
static void fold_odd_rows(const uint64_t *unit, int ordered, int64_t folds, int16_t *fold,
                          int64_t *count)
{
  int32_t row[N / 2];
  memset(count, 0, (size_t)folds * sizeof *count);
  for (int32_t i = 0; i < N / 2; i++) row[i] = 2 * i + 1;
  TT_CHECK_OK(tt_split_folds(N / 2, row, unit, ordered, folds, 7, fold));
  for (int i = 0; i < N / 2; i++) {
    TT_CHECK((int64_t)fold[i], >=, 0);
    TT_CHECK((int64_t)fold[i], <, folds);
    count[fold[i]]++;
  }
}

static void check_equal_sizes(int64_t folds, const int64_t *count, int64_t tolerance)
{
  for (int64_t k = 0; k < folds; k++)
    for (int64_t j = 0; j < k; j++) TT_CHECK(llabs(count[k] - count[j]), <=, tolerance);
}

/* All rows of a group are in one fold. The folds have equal sizes where there are enough groups of
 * one row, and nearly equal sizes where groups are large. */
TT_TEST (no_group_is_in_two_folds) {
  uint64_t unit[N];
  int16_t fold[N / 2];
  int64_t count[7];
  for (int64_t folds = 2; folds <= 7; folds++) {
    for (int64_t i = 0; i < N; i++) unit[i] = word(i) % 40 * (word(i) % 4);
    fold_odd_rows(unit, 0, folds, fold, count);
    for (int i = 0; i < N / 2; i++)
      for (int k = 0; k < i; k++)
        if (unit[2 * i + 1] == unit[2 * k + 1]) TT_CHECK(fold[i], ==, fold[k]);
    if (folds < 4) check_equal_sizes(folds, count, 12); /* a quarter of the rows is one group */
    for (int64_t i = 0; i < N; i++) unit[i] = i < 301 ? 5 : (uint64_t)word(i) << 32 | (uint64_t)i;
    fold_odd_rows(unit, 0, folds, fold, count);
    check_equal_sizes(folds, count, folds < 4 ? 1 : 150);
    for (int64_t i = 0; i < N; i++) unit[i] = (uint64_t)word(i) << 32 | (uint64_t)i;
    fold_odd_rows(unit, 0, folds, fold, count);
    check_equal_sizes(folds, count, 1);
  }
}

/* Folds in an order are blocks of it; equal values are in one block. */
TT_TEST (folds_of_an_order_are_blocks) {
  uint64_t unit[N];
  int16_t fold[N / 2];
  int64_t count[7];
  for (int64_t folds = 2; folds <= 7; folds++)
    for (uint32_t values = 100; values <= 1000000; values *= 10000) {
      for (int64_t i = 0; i < N; i++)
        unit[i] = tt_split_order_key((double)(word(i) % values) - 0.5 * values);
      fold_odd_rows(unit, 1, folds, fold, count);
      for (int i = 0; i < N / 2; i++)
        for (int k = 0; k < N / 2; k++)
          if (unit[2 * i + 1] <= unit[2 * k + 1]) TT_CHECK(fold[i], <=, fold[k]);
      check_equal_sizes(folds, count, values > 100 ? 2 : 20);
    }
}

/* A fold without rows is refused, and units that a campaign or a file gives stay together. */
TT_TEST (folds_follow_the_units_of_the_data) {
  enum { ROWS = 24, FOLDS = 4 };
  tt_config *cfg = NULL;
  tt_cohorts all = {0};
  tt_columns target = {0};
  tt_dataset *d = NULL;
  const char text[] = "data: {file: a.h5}\nensembles: [{name: a, target: load,"
                      " train: {resample: kfold, folds: 4}}]\n";
  TT_CHECK_OK(tt_config_parse("job.yaml", text, (int64_t)strlen(text), NULL, 0, &cfg));
  TT_CHECK_OK(tt_dataset_create(ROWS, 4, 1, 0, &d));
  TT_CHECK_OK(tt_columns_create(1, &target));
  TT_CHECK_OK(tt_text_set(&target.name[0], "load"));
  TT_CHECK_OK(TT_ALLOC(d->unit, ROWS));
  for (int64_t r = 0; r < ROWS; r++) d->unit[r] = (uint64_t)(r % 3);
  TT_CHECK((int)tt_cohorts_create(cfg, 4, &target, d, &all), ==, TT_E_CONFIG);
  TT_CHECK_HAS(tt_err_last(),
               "ensemble a: train.folds is 4, but 1 of them have no rows, because "
               "rows with equal values of data.split.group, or equal inputs, are in one fold");
  for (int64_t r = 0; r < ROWS; r++) d->unit[r] = (uint64_t)(r % 8);
  TT_CHECK_OK(tt_cohorts_create(cfg, 4, &target, d, &all));
  for (int64_t row_set = 0; row_set < FOLDS; row_set++) {
    int seen[2][8] = {{0}};
    for (int which = 0; which < 2; which++) {
      int32_t *row = NULL;
      int64_t rows = 0;
      TT_CHECK_OK(tt_cohort_rows(all.at[0], d, row_set, (tt_split)which, &row, &rows));
      TT_CHECK(rows, ==, which ? ROWS / FOLDS : ROWS - ROWS / FOLDS);
      for (int64_t i = 0; i < rows; i++) seen[which][d->unit[row[i]]] = 1;
      tt_free(row);
    }
    for (int u = 0; u < 8; u++) TT_CHECK(seen[0][u] + seen[1][u], ==, 1);
  }
  tt_cohorts_destroy(&all);
  tt_config_destroy(&cfg);
  tt_columns_free(&target);
  tt_dataset_destroy(&d);
}
