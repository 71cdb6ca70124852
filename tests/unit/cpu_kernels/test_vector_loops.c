/* test_vector_loops.c — the loops of every instruction set draw the rows of the plain functions,
 * gather the values of these rows, have the same gradients for few rows as for many, and equal
 * sums in double and the scalar rows of the table of activations up to rounding; NaN in gives NaN
 * out. */
#include "src/cpu/kernels/kernels.h"
#include "tests/support/check.h"

#include <math.h>
#include <string.h>

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

enum { CONV_OUT = 13, CONV_IN = 66, CONV_POSITIONS = 5, CONV_LD = 656, CONV_KEYS = 3 };

/* On profiles of 5 positions, for the gradient of the weights of `outputs` channels. */
static tt_convolution profile_convolution(int64_t outputs, int64_t channels, int64_t keys,
                                          int32_t list[3][CONV_POSITIONS * CONV_KEYS])
{
  int32_t pairs = 0;
  for (int64_t key = 0; key < keys; key++)
    for (int64_t p = 0; p < CONV_POSITIONS; p++) {
      int64_t from = p + key - keys / 2;
      if (!p) list[0][key] = pairs;
      if (from < 0 || from >= CONV_POSITIONS) continue;
      list[1][pairs] = (int32_t)p, list[2][pairs++] = (int32_t)from;
    }
  list[0][keys] = pairs;
  return (tt_convolution){.outputs = outputs,
                          .channels = channels,
                          .output_step = channels * keys,
                          .channel_step = keys,
                          .positions = CONV_POSITIONS,
                          .from_positions = CONV_POSITIONS,
                          .taps = {keys, list[0], list[1], list[2]}};
}

/* The gradients equal sums in double up to rounding; some outputs alone have the same bits. */
static void conv_gradient_is_sum(const tt_kernels *k, int64_t channels, int64_t keys, int64_t rows,
                                 float *g)
{
  enum { FIRST = 5 };
  static float d[CONV_OUT * CONV_POSITIONS * CONV_LD], x[CONV_IN * CONV_POSITIONS * CONV_LD];
  static float some[CONV_OUT * CONV_IN * CONV_KEYS];
  int32_t list[3][CONV_POSITIONS * CONV_KEYS];
  tt_convolution c = profile_convolution(CONV_OUT, channels, keys, list);
  fill(CONV_OUT * CONV_POSITIONS, CONV_LD, rows, d);
  fill(channels * CONV_POSITIONS, CONV_LD, rows, x);
  k->convolve_gradient(&c, d, x, g, NULL, CONV_LD, rows);
  c.outputs -= FIRST;
  k->convolve_gradient(&c, d + FIRST * CONV_POSITIONS * CONV_LD, x, some, NULL, CONV_LD, rows);
  for (int64_t w = 0; w < CONV_OUT * c.output_step; w++) {
    int64_t o = w / c.output_step, i = w % c.output_step / keys, key = w % keys;
    double sum = 0.0;
    for (int32_t t = list[0][key]; t < list[0][key + 1]; t++)
      for (int64_t r = 0; r < rows; r++)
        sum += (double)d[(o * CONV_POSITIONS + list[1][t]) * CONV_LD + r] *
               (double)x[(i * CONV_POSITIONS + list[2][t]) * CONV_LD + r];
    TT_CHECK(fabs((double)g[w] - sum), <, 1e-6 * (double)(CONV_POSITIONS * rows));
    if (o >= FIRST) TT_CHECK(some[w - FIRST * c.output_step], ==, g[w]);
  }
}

/* Also with the bits of the widest vectors, where the arithmetic is the same. Rows and channels lie
 * on both sides of the sizes from which on the loops take blocks, or channels side by side. */
TT_TEST (gradients_of_convolutions_are_sums_with_the_same_bits) {
  static float first[CONV_OUT * CONV_IN * CONV_KEYS], g[CONV_OUT * CONV_IN * CONV_KEYS];
  const int64_t many[] = {16, 32, 144, 640};
  for (int way = 0; way < 16; way++) {
    int64_t channels = way & 1 ? CONV_IN : 3, keys = way & 2 ? CONV_KEYS : 1, rows = many[way / 4];
    const char *arithmetic = NULL;
    for (int simd = TT_SIMD_avx512; simd < TT_SIMD_COUNT; simd++) {
      const tt_kernels *k;
      if (tt_kernels_get((tt_simd)simd, &k)) continue;
      conv_gradient_is_sum(k, channels, keys, rows, arithmetic ? g : first);
      for (int64_t w = 0; arithmetic && w < CONV_OUT * channels * keys; w++)
        if (!strcmp(k->arithmetic, arithmetic)) TT_CHECK(g[w], ==, first[w]);
      if (!arithmetic) arithmetic = k->arithmetic;
    }
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
