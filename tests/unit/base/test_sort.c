/* test_sort.c — what is read off sorted arrays. */
#include "core/base/mem.h"
#include "core/base/sort.h"
#include "tests/support/check.h"

#include <math.h>

TT_TEST (lower_bound_counts_smaller_elements) {
  const int64_t value[] = {-4, 0, 0, 3, 7};
  for (int64_t count = 0; count <= 5; count++)
    for (int64_t key = -6; key < 9; key++) {
      int64_t below = 0;
      for (int64_t i = 0; i < count; i++) below += value[i] < key;
      TT_CHECK(tt_lower_bound(&key, value, count, sizeof key, tt_compare_i64), ==, below);
    }
}

TT_TEST (places_are_found_by_their_numbers) {
  const int64_t number[] = {7, -2, 9, 7, -2, 0};
  const tt_place wanted[] = {{-2, 1}, {-2, 4}, {0, 5}, {7, 0}, {7, 3}, {9, 2}};
  tt_place *sorted = NULL;
  TT_CHECK_OK(tt_places_sort(number, 6, &sorted));
  for (int i = 0; i < 6; i++) {
    TT_CHECK(sorted[i].number, ==, wanted[i].number);
    TT_CHECK(sorted[i].index, ==, wanted[i].index);
  }
  TT_CHECK(tt_places_find(sorted, 6, 7), ==, 0);
  TT_CHECK(tt_places_find(sorted, 6, 8), ==, -1);
  TT_CHECK(tt_places_find(sorted, 0, 7), ==, -1);
  tt_free(sorted);
}

TT_TEST (quantiles_are_those_of_numpy) {
  const double value[] = {1.0, 2.0, 4.0, 8.0};
  TT_CHECK(tt_sorted_quantile(4, value, 0.0), ==, 1.0);
  TT_CHECK(tt_sorted_quantile(4, value, 0.5), ==, 3.0);
  TT_CHECK(tt_sorted_quantile(4, value, 0.75), ==, 5.0);
  TT_CHECK(tt_sorted_quantile(4, value, 1.0), ==, 8.0);
  TT_CHECK(tt_sorted_quantile(1, value, 0.3), ==, 1.0);
  TT_CHECK(isnan(tt_sorted_quantile(0, value, 0.5)), !=, 0);
}
