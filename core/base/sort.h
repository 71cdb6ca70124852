/* sort.h — comparisons for qsort and bsearch, ascending. Floor 0. */
#ifndef TT_SORT_H
#define TT_SORT_H

/* Numbers, or records that begin with one. No NaN. */
int tt_compare_i64(const void *a, const void *b);
int tt_compare_f64(const void *a, const void *b);
#endif
