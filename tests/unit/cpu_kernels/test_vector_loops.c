/* test_vector_loops.c — the loops of every instruction set draw the rows of the plain functions,
 * gather the values of these rows, have the same gradients for few rows as for many, and equal the
 * scalar rows of the table of activations up to rounding; NaN in gives NaN out. */
#include "src/cpu/kernels/kernels.h"
#include "tests/support/check.h"

#include <math.h>

/* The vector loops of one instruction set equal the scalar table rows up to rounding. */
static void same_activation(const tt_kernels *k, tt_activation a)
{
  enum { N = 4001 };
  static float z[N], y[N], kept[N];
  for (int i = 0; i < N; i++) z[i] = kept[i] = ((float)i - 2000.0f) / 100.0f;
  k->activate(a, 1, N, z, y, N, 0);
  for (int i = 0; i < N; i++) TT_CHECK(z[i], ==, kept[i]);
  k->activate(a, 1, N, z, y, N, 1);
  for (int i = 0; i < N; i++) {
    float x = kept[i], value = tt_act(a, x), slope = tt_act_grad(a, x, value);
    TT_CHECK(fabsf(y[i] - value), <=, 1e-6f * (1.0f + fabsf(value)));
    TT_CHECK(fabsf(z[i] - slope), <=, 2e-6f);
  }
  z[0] = NAN;
  k->activate(a, 1, 1, z, y, 1, 0);
  TT_CHECK(isnan(y[0]), !=, 0);
  for (int i = 0; i < 80; i++) z[i] = NAN, y[i] = 0.0f;
  k->activate(a, 4, 16, z, y, 20, 0);
  for (int i = 0; i < 76; i++) TT_CHECK(isnan(y[i]) != 0, ==, i % 20 < 16);
}

TT_TEST (vector_loops_agree_with_the_table) {
  for (int simd = TT_SIMD_avx512; simd < TT_SIMD_COUNT; simd++) {
    const tt_kernels *k;
    if (tt_kernels_get((tt_simd)simd, &k)) continue;
    for (int a = 0; a < TT_ACT_COUNT; a++) same_activation(k, (tt_activation)a);
  }
}

/* All slots of one epoch in two pieces through the kernel, against tt_sampler_at. */
static void same_rows(const tt_kernels *k, const tt_cohort *c, int64_t labeled, int64_t epoch)
{
  enum { MOST = 3000 };
  static int32_t list[MOST], row[MOST];
  tt_member m = {.stream = 77ull << 32 | 3};
  tt_sampler o = tt_member_sampler(c, &m, 0, labeled, epoch);
  int64_t rows = tt_cohort_epoch_rows(c, labeled), cut = rows / 3;
  for (int32_t i = 0; i < labeled; i++) list[i] = 5 * i + 2;
  k->order(&o, list, 0, cut, row);
  k->order(&o, list, cut, rows - cut, row + cut);
  for (int64_t s = 0; s < rows; s++) TT_CHECK(row[s], ==, list[tt_sampler_at(&o, (uint32_t)s)]);
}

TT_TEST (vector_loops_draw_the_same_rows) {
  const int64_t lengths[] = {1, 2, 3, 5, 16, 17, 100, 1024, 1025, 3000};
  for (int simd = TT_SIMD_avx512; simd < TT_SIMD_COUNT; simd++)
    for (int resample = 0; resample < TT_RESAMPLE_COUNT; resample++)
      for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        const tt_kernels *k;
        if (tt_kernels_get((tt_simd)simd, &k)) continue;
        tt_cohort c = {.resample = (tt_resample)resample, .subsample = 0.63, .seed = 4};
        for (int64_t epoch = 0; epoch < 3; epoch++) same_rows(k, &c, lengths[l], epoch);
      }
}

/* Any numbers, with zeros behind the first `used` of each `ld`. */
static void fill(int64_t count, int64_t ld, int64_t used, float *value)
{
  for (int64_t i = 0; i < count * ld; i++)
    value[i] = i % ld < used ? sinf(1.7f * (float)i + (float)used) : 0.0f;
}

/* Rows of zeros add nothing: a few rows, which have loops of their own, have the bits of many. */
static void same_gradient(const tt_kernels *k, int64_t out, int64_t in, int64_t rows)
{
  enum { MOST = 40, LD = 64 };
  static float d[MOST * LD], x[MOST * LD], few[MOST * MOST], many[MOST * MOST], bias[2][MOST];
  fill(out, LD, rows, d);
  fill(in, LD, rows, x);
  k->weight_gradient(out, in, d, x, few, bias[0], LD, rows, rows);
  k->weight_gradient(out, in, d, x, many, bias[1], LD, LD, LD);
  for (int64_t i = 0; i < out * in; i++) TT_CHECK(few[i], ==, many[i]);
  for (int64_t o = 0; o < out; o++) TT_CHECK(bias[0][o], ==, bias[1][o]);
}

TT_TEST (gradients_of_few_rows_have_the_bits_of_many) {
  const int64_t widths[] = {1, 3, 4, 5, 16, 17, 33, 40};
  for (int simd = TT_SIMD_avx512; simd < TT_SIMD_COUNT; simd++)
    for (int o = 0; o < 8; o++)
      for (int i = 0; i < 8; i++)
        for (int64_t rows = 16; rows <= 48; rows += 16) {
          const tt_kernels *k;
          if (tt_kernels_get((tt_simd)simd, &k)) continue;
          same_gradient(k, widths[o], widths[i], rows);
        }
}

/* The first `columns` columns of a table, or those that are picked; padded to a multiple of 16. */
static void same_values(const tt_kernels *k, int64_t columns, int64_t rows, int picks)
{
  enum { TABLE = 50, WIDTH = 11, LD = 64 };
  static float table[TABLE * WIDTH], x[WIDTH * LD];
  int32_t row[LD], pick[WIDTH];
  int64_t n = (rows + 15) / 16 * 16;
  fill(TABLE, WIDTH, WIDTH, table);
  for (int r = 0; r < LD; r++) row[r] = 7 * r % TABLE;
  for (int c = 0; c < WIDTH; c++) pick[c] = 3 * c % WIDTH;
  k->gather(columns, WIDTH, picks ? pick : NULL, table, row, rows, n, x, LD);
  for (int64_t c = 0; c < columns; c++)
    for (int64_t r = 0; r < n; r++) {
      float want = r < rows ? table[row[r] * WIDTH + (picks ? pick[c] : c)] : 0.0f;
      TT_CHECK(x[c * LD + r], ==, want);
    }
}

TT_TEST (vector_loops_gather_the_same_values) {
  for (int simd = TT_SIMD_avx512; simd < TT_SIMD_COUNT; simd++)
    for (int64_t columns = 1; columns <= 11; columns++)
      for (int64_t rows = 1; rows <= 40; rows += 3)
        for (int picks = 0; picks < 2; picks++) {
          const tt_kernels *k;
          if (!tt_kernels_get((tt_simd)simd, &k)) same_values(k, columns, rows, picks);
        }
}
