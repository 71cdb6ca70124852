/* sort.h — comparisons for qsort and bsearch, ascending; what is read off sorted arrays. */
#ifndef TT_SORT_H
#define TT_SORT_H
#include <stddef.h>
#include <stdint.h>

/* For arrays of numbers, or of records whose first field is the number. No NaN. */
int tt_compare_i32(const void *a, const void *b);
int tt_compare_i64(const void *a, const void *b);
int tt_compare_f64(const void *a, const void *b);

/* Index of the first of `count` ascending elements that is not below *key; `count`: there is none.
 * Arguments as those of bsearch. */
int64_t tt_lower_bound(const void *key, const void *array, int64_t count, size_t size,
                       int (*compare)(const void *, const void *));

/* Quantile q in [0, 1] of n ascending values, interpolated linearly between two of them, as by
 * numpy.quantile; NaN if n is 0. */
double tt_sorted_quantile(int64_t n, const double *value, double q);
#endif
