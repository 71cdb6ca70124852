/* sort.h — comparisons for qsort and bsearch, ascending. */
#ifndef TT_SORT_H
#define TT_SORT_H

/* For arrays of numbers, or of records whose first field is the number. No NaN. */
int tt_compare_i32(const void *a, const void *b);
int tt_compare_i64(const void *a, const void *b);
int tt_compare_f64(const void *a, const void *b);
#endif
