/* kernels_transpose_body.h — reads four columns of 16 rows: four values of a row in one load, then
 * transpositions of 4 x 4 values in registers. A fragment of kernels_body.h. It defines NARROW for
 * instruction sets that have no such transpositions. */

#if WIDTH == 16
#define INTRINSIC(name) _mm512_##name
/* The first four values of row row[0] of the table, then those of rows row[4], row[8], row[12]. */
INLINE VECTOR every_fourth_row(const float *table, int64_t width, const int32_t *row)
{
  VECTOR v = _mm512_castps128_ps512(_mm_loadu_ps(table + row[0] * width));
  v = _mm512_insertf32x4(v, _mm_loadu_ps(table + row[4] * width), 1);
  v = _mm512_insertf32x4(v, _mm_loadu_ps(table + row[8] * width), 2);
  return _mm512_insertf32x4(v, _mm_loadu_ps(table + row[12] * width), 3);
}
#elif WIDTH == 8
#define INTRINSIC(name) _mm256_##name
/* The first four values of row row[0] of the table, then those of row row[4]. */
INLINE VECTOR every_fourth_row(const float *table, int64_t width, const int32_t *row)
{
  VECTOR v = _mm256_castps128_ps256(_mm_loadu_ps(table + row[0] * width));
  return _mm256_insertf128_ps(v, _mm_loadu_ps(table + row[4] * width), 1);
}
#else
#define NARROW
#endif

#ifndef NARROW
/* The first four columns of rows row[0] to row[15] of table[...][width], as x[4][ld]. */
INLINE void gather_4_columns(const float *table, int64_t width, const int32_t *row, float *x,
                             int64_t ld)
{
#pragma GCC unroll 2
  for (int h = 0; h < TT_LANES; h += WIDTH) {
    VECTOR a = every_fourth_row(table, width, row + h);
    VECTOR b = every_fourth_row(table, width, row + h + 1);
    VECTOR c = every_fourth_row(table, width, row + h + 2);
    VECTOR d = every_fourth_row(table, width, row + h + 3);
    VECTOR ab = INTRINSIC(unpacklo_ps)(a, b), cd = INTRINSIC(unpacklo_ps)(c, d);
    store(x + h, INTRINSIC(shuffle_ps)(ab, cd, 0x44));
    store(x + h + ld, INTRINSIC(shuffle_ps)(ab, cd, 0xEE));
    ab = INTRINSIC(unpackhi_ps)(a, b), cd = INTRINSIC(unpackhi_ps)(c, d);
    store(x + h + 2 * ld, INTRINSIC(shuffle_ps)(ab, cd, 0x44));
    store(x + h + 3 * ld, INTRINSIC(shuffle_ps)(ab, cd, 0xEE));
  }
}
#endif
