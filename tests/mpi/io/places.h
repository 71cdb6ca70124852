/* places.h — numbers that say where they belong, for the tests of files with many tables. */
#ifndef TT_PLACES_H
#define TT_PLACES_H
#include <stdint.h>

/* A number that encodes its place. */
static inline double value_at(int64_t table, int64_t i, int64_t j, int64_t k)
{
  return 1000.0 * (double)table + 100.0 * (double)i + 10.0 * (double)j + (double)k + 0.1;
}

static inline void fill(double *dst, int64_t table, int64_t rows, int64_t columns)
{
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) dst[i * columns + j] = value_at(table, i, j, 0);
}
#endif
