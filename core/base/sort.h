/* sort.h — comparisons for qsort and bsearch, ascending; what is read off sorted arrays. */
#ifndef TT_SORT_H
#define TT_SORT_H
#include "core/base/err.h"

#include <stddef.h>
#include <stdint.h>

/* For arrays of numbers, or of records whose first field is the number. No NaN. */
int tt_compare_i64(const void *a, const void *b);
int tt_compare_f64(const void *a, const void *b);

/* Index of the first of `count` ascending elements that is not below *key; `count`: there is none.
 * Arguments as those of bsearch. */
int64_t tt_lower_bound(const void *key, const void *array, int64_t count, size_t size,
                       int (*compare)(const void *, const void *));

/* A number and its index in an array. */
typedef struct tt_place {
  int64_t number, index;
} tt_place;
/* Sort number[count] with their indices; equal numbers in the order of the array. Owner of *out:
 * the caller, tt_free. Errors: MEM. */
tt_err tt_places_sort(const int64_t *number, int64_t count, tt_place **out);
/* The index that the number has in number[], the lowest if it is there several times; -1: it is not
 * there. */
int64_t tt_places_find(const tt_place *sorted, int64_t count, int64_t number);

/* A key and the index of what it belongs to, for qsort: ascending keys, no NaN; equal ones in the
 * order of their indices. */
typedef struct tt_ranked {
  double key;
  int64_t index;
} tt_ranked;
int tt_compare_ranked(const void *a, const void *b);

/* Quantile q in [0, 1] of n ascending values, interpolated linearly between two of them, as by
 * numpy.quantile; NaN if n is 0. */
double tt_sorted_quantile(int64_t n, const double *value, double q);
#endif
