/* sort.c — see sort.h. */
#include "core/base/sort.h"

#include "core/base/mem.h"

#include <math.h>
#include <stdlib.h>

int tt_compare_i64(const void *a, const void *b)
{
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

int tt_compare_f64(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int64_t tt_lower_bound(const void *key, const void *array, int64_t count, size_t size,
                       int (*compare)(const void *, const void *))
{
  int64_t low = 0, high = count;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (compare((const char *)array + (size_t)middle * size, key) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

int tt_compare_ranked(const void *a, const void *b)
{
  const tt_ranked *x = a, *y = b;
  return x->key != y->key ? tt_compare_f64(a, b) : tt_compare_i64(&x->index, &y->index);
}

static int compare_places(const void *a, const void *b)
{
  const tt_place *x = a, *y = b;
  return x->number != y->number ? tt_compare_i64(a, b) : tt_compare_i64(&x->index, &y->index);
}

tt_err tt_places_sort(const int64_t *number, int64_t count, tt_place **out)
{
  TT_TRY(TT_ALLOC(*out, count));
  for (int64_t i = 0; i < count; i++) (*out)[i] = (tt_place){number[i], i};
  if (count) qsort(*out, (size_t)count, sizeof **out, compare_places);
  return TT_OK;
}

int64_t tt_places_find(const tt_place *sorted, int64_t count, int64_t number)
{
  int64_t i = tt_lower_bound(&number, sorted, count, sizeof *sorted, tt_compare_i64);
  return i < count && sorted[i].number == number ? sorted[i].index : -1;
}

double tt_sorted_quantile(int64_t n, const double *value, double q)
{
  if (n < 1) return (double)NAN;
  double position = q * (double)(n - 1);
  int64_t i = (int64_t)position;
  return i + 1 < n ? value[i] + (position - (double)i) * (value[i + 1] - value[i]) : value[n - 1];
}
