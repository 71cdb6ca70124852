/* test_vector_loops.c — the loops of every instruction set draw the rows of the plain functions, and
 * equal the scalar rows of the table of activations up to rounding; NaN in gives NaN out. */
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
static void same_rows(const tt_kernels *k, const tt_cohort *c, int batches, int64_t labeled,
                      int64_t epoch)
{
  enum { MOST = 3000 };
  static int32_t list[MOST], row[MOST];
  tt_member m = {.stream = 77ull << 32 | 3, .hyper.batch_order = batches};
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
      for (int batches = 0; batches < TT_BATCH_ORDER_COUNT; batches++)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
          const tt_kernels *k;
          if (tt_kernels_get((tt_simd)simd, &k)) continue;
          tt_cohort c = {.resample = (tt_resample)resample, .subsample = 0.63, .seed = 4};
          for (int64_t epoch = 0; epoch < 3; epoch++) same_rows(k, &c, batches, lengths[l], epoch);
        }
}
