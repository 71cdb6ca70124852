/* kernels_gemm_body.h — matrix products, sums over rows; a fragment of kernels_body.h. */

INLINE VECTOR load(const float *p)
{
  VECTOR v;
  memcpy(&v, p, sizeof v);
  return v;
}
INLINE void store(float *p, VECTOR v) { memcpy(p, &v, sizeof v); }
INLINE VECTOR broadcast(float x) { return x - (VECTOR){0}; }

#include "src/cpu/kernels/kernels_transpose_body.h"

/* O outputs x V vectors of rows, all in registers.
 *   ADD   1: the sums begin with y; 0: with the bias
 *   x_ld  of x; ld of y and scale */
INLINE void product_tile(const int O, const int V, const int ADD, int64_t in, const float *a,
                         int64_t row_step, int64_t column_step, const float *bias, const float *x,
                         int64_t x_ld, const float *scale, float *y, int64_t ld)
{
  VECTOR sum[2 * PRODUCT_OUT][PRODUCT_ROWS];
#pragma GCC unroll 16
  for (int o = 0; o < O; o++)
#pragma GCC unroll 16
    for (int v = 0; v < V; v++)
      sum[o][v] = ADD ? load(y + o * ld + v * WIDTH) : broadcast(bias ? bias[o] : 0.0f);
  for (int64_t i = 0; i < in; i++) {
    VECTOR xi[PRODUCT_ROWS];
#pragma GCC unroll 16
    for (int v = 0; v < V; v++) xi[v] = load(x + i * x_ld + v * WIDTH);
#pragma GCC unroll 16
    for (int o = 0; o < O; o++) {
      VECTOR w = broadcast(a[o * row_step + i * column_step]);
#pragma GCC unroll 16
      for (int v = 0; v < V; v++) sum[o][v] = FMA(w, xi[v], sum[o][v]);
    }
  }
#pragma GCC unroll 16
  for (int o = 0; o < O; o++)
#pragma GCC unroll 16
    for (int v = 0; v < V; v++) {
      VECTOR s = sum[o][v];
      if (scale) s *= load(scale + o * ld + v * WIDTH);
      store(y + o * ld + v * WIDTH, s);
    }
}

/* One panel of V vectors of rows, all outputs. */
INLINE void product_panel(const int V, int64_t out, int64_t in, const float *a, int64_t row_step,
                          int64_t column_step, const float *bias, const float *x,
                          const float *scale, float *y, int64_t ld)
{
#define TILE(n)                                                                                    \
  product_tile(n, V, 0, in, a + o * row_step, row_step, column_step, bias ? bias + o : NULL, x,    \
               ld, scale ? scale + o * ld : NULL, y + o * ld, ld)
  int64_t o = 0;
  for (; o + PRODUCT_OUT <= out; o += PRODUCT_OUT) TILE(PRODUCT_OUT);
  for (; PRODUCT_OUT > 4 && o + 4 <= out; o += 4) TILE(PRODUCT_OUT > 4 ? 4 : 1);
  for (; o + 2 <= out; o += 2) TILE(2);
  for (; o < out; o++) TILE(1);
#undef TILE
}

static void product(int64_t out, int64_t in, const float *a, int64_t row_step, int64_t column_step,
                    const float *bias, const float *x, const float *scale, float *y, int64_t ld,
                    int64_t n)
{
#define PANEL(V)                                                                                   \
  product_panel(V, out, in, a, row_step, column_step, bias, x + r, scale ? scale + r : NULL,       \
                y + r, ld)
  int64_t r = 0;
  for (; r + PRODUCT_ROWS * WIDTH <= n; r += PRODUCT_ROWS * WIDTH) PANEL(PRODUCT_ROWS);
#if PRODUCT_ROWS > 2
  for (; r + 2 * WIDTH <= n; r += 2 * WIDTH) PANEL(2);
#endif
  for (; r < n; r += WIDTH) PANEL(1);
#undef PANEL
}

/* Sum of 16 lanes in REGISTERS registers: add the upper half to the lower until one is left. */
#if WIDTH == 8
INLINE float sum_lanes(const VECTOR *lanes)
{
  __m256 v = lanes[0] + lanes[1];
  __m128 s = _mm256_castps256_ps128(v) + _mm256_extractf128_ps(v, 1);
  s += _mm_movehl_ps(s, s);
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
#else
INLINE float sum_lanes(const VECTOR *lanes)
{
  float s[TT_LANES];
#pragma GCC unroll 16
  for (int r = 0; r < REGISTERS; r++) store(s + r * WIDTH, lanes[r]);
#pragma GCC unroll 4
  for (int half = TT_LANES / 2; half > 0; half /= 2)
#pragma GCC unroll 8
    for (int l = 0; l < half; l++) s[l] += s[l + half];
  return s[0];
}
#endif

#if WIDTH == 16
/* clang has no __builtin_shuffle, gcc before 12 has no __builtin_shufflevector. */
#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int tt_mask __attribute__((vector_size(64)));
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (tt_mask){__VA_ARGS__})
#endif

/* Lane l of two vectors, 0 to 31, in groups of 2 s lanes: of the first vector if it is in the lower
 * half of its group, else of the second; and the other half of the same groups. */
#define OWN(s, l) (((l) / (s)) % 2 ? 16 + (l) : (l))
#define OTHER(s, l) (((l) / (s)) % 2 ? 16 + (l) - (s) : (l) + (s))
#define LANES16(of, s)                                                                             \
  of(s, 0), of(s, 1), of(s, 2), of(s, 3), of(s, 4), of(s, 5), of(s, 6), of(s, 7), of(s, 8),        \
      of(s, 9), of(s, 10), of(s, 11), of(s, 12), of(s, 13), of(s, 14), of(s, 15)
/* The lower half of each group has sums of a, the upper half sums of b. OWN selects lanes without
 * moving them, which costs less than a shuffle. */
#define FOLD_PAIR(a, b, s) (SHUFFLE(a, b, LANES16(OWN, s)) + SHUFFLE(a, b, LANES16(OTHER, s)))

/* out[t] = sum of the lanes of v[t] for 16 vectors at once: each level adds the halves of two
 * vectors into one vector, so that 15 additions replace 64. */
INLINE VECTOR sum_lanes_of_16(VECTOR v[16])
{
#pragma GCC unroll 8
  for (int t = 0; t < 8; t++) v[t] = FOLD_PAIR(v[t], v[t + 8], 8);
#pragma GCC unroll 4
  for (int t = 0; t < 4; t++) v[t] = FOLD_PAIR(v[t], v[t + 4], 4);
#pragma GCC unroll 2
  for (int t = 0; t < 2; t++) v[t] = FOLD_PAIR(v[t], v[t + 2], 2);
  return FOLD_PAIR(v[0], v[1], 1);
}
#endif

/* result[t] = sum_lanes of sum[t], of `count` sums. */
INLINE void sum_lanes_of(const int count, VECTOR sum[16][REGISTERS], float *result)
{
#if WIDTH == 16
  if (count == 16) {
    VECTOR all[16];
#pragma GCC unroll 16
    for (int t = 0; t < 16; t++) all[t] = sum[t][0];
    store(result, sum_lanes_of_16(all));
    return;
  }
#endif
#pragma GCC unroll 16
  for (int t = 0; t < count; t++) result[t] = sum_lanes(sum[t]);
}

/* O outputs x I inputs: dot products over rows [0, n), sum[O][I]. */
INLINE void gradient_tile_sums(const int O, const int I, const float *d, const float *x, int64_t ld,
                               int64_t n, float *result)
{
  VECTOR sum[16][REGISTERS]; /* at least O * I */
#pragma GCC unroll 32
  for (int t = 0; t < O * I; t++)
#pragma GCC unroll 4
    for (int h = 0; h < REGISTERS; h++) sum[t][h] = broadcast(0.0f);
  for (int64_t r = 0; r < n; r += TT_LANES)
#pragma GCC unroll 4
    for (int h = 0; h < REGISTERS; h++) {
      VECTOR xi[16];
#pragma GCC unroll 16
      for (int i = 0; i < I; i++) xi[i] = load(x + i * ld + r + h * WIDTH);
#pragma GCC unroll 16
      for (int o = 0; o < O; o++) {
        VECTOR od = load(d + o * ld + r + h * WIDTH);
#pragma GCC unroll 16
        for (int i = 0; i < I; i++) sum[o * I + i][h] = FMA(od, xi[i], sum[o * I + i][h]);
      }
    }
  sum_lanes_of(O * I, sum, result);
}

/* The sums of rows [0, cut) and of rows [cut, n), added. */
INLINE void gradient_tile(const int O, const int I, const float *d, const float *x, float *g,
                          int64_t in, int64_t ld, int64_t cut, int64_t n)
{
  float s[16], more[16];
  gradient_tile_sums(O, I, d, x, ld, cut, s);
  if (cut < n) {
    gradient_tile_sums(O, I, d + cut, x + cut, ld, n - cut, more);
#pragma GCC unroll 16
    for (int t = 0; t < O * I; t++) s[t] += more[t];
  }
#pragma GCC unroll 16
  for (int o = 0; o < O; o++) memcpy(g + o * in, s + o * I, (size_t)I * sizeof *s);
}

/* All outputs with a block of inputs that stays in the L1 cache. */
INLINE void gradient_block(int64_t out, int64_t block, const float *d, const float *x, float *g,
                           int64_t in, int64_t ld, int64_t cut, int64_t n)
{
#define TILE(O, I) gradient_tile(O, I, d + o * ld, x + i * ld, g + o * in + i, in, ld, cut, n)
  int64_t o = 0;
  for (; o + GRAD_OUT <= out; o += GRAD_OUT) {
    int64_t i = 0;
    for (; i + GRAD_IN <= block; i += GRAD_IN) TILE(GRAD_OUT, GRAD_IN);
    for (; i < block; i++) TILE(GRAD_OUT, 1);
  }
  for (; o < out; o++) {
    int64_t i = 0;
    for (; i + GRAD_LINE <= block; i += GRAD_LINE) TILE(1, GRAD_LINE);
    for (; i < block; i++) TILE(1, 1);
  }
#undef TILE
}

/* Sums over the rows of O features. */
INLINE void sum_rows(const int O, const float *d, float *result, int64_t ld, int64_t n)
{
  VECTOR sum[16][REGISTERS];
#pragma GCC unroll 16
  for (int o = 0; o < O; o++)
#pragma GCC unroll 4
    for (int h = 0; h < REGISTERS; h++) sum[o][h] = broadcast(0.0f);
  for (int64_t r = 0; r < n; r += TT_LANES)
#pragma GCC unroll 16
    for (int o = 0; o < O; o++)
#pragma GCC unroll 4
      for (int h = 0; h < REGISTERS; h++) sum[o][h] += load(d + o * ld + r + h * WIDTH);
  sum_lanes_of(O, sum, result);
}

/* Of `count` features; with GRAD_LINE as many at a time as the registers hold. */
static void row_sums(int64_t count, const float *d, float *sum, int64_t ld, int64_t n)
{
  int64_t o = 0;
  for (; o + GRAD_LINE <= count; o += GRAD_LINE) sum_rows(GRAD_LINE, d + o * ld, sum + o, ld, n);
  for (; o < count; o++) sum_rows(1, d + o * ld, sum + o, ld, n);
}

#ifndef NARROW
enum { FEW_ROWS = 2 * TT_LANES };

/* sum[o][WIDTH] = d[o][l] t[l][WIDTH], with 32 rows plus d[o][l + 16] t[l + 16][WIDTH]: what lane l
 * has in gradients of more rows. */
INLINE void sums_of_1(const int O, const int l, const int rows, const float *const *d,
                      const float *t, VECTOR *sum)
{
#pragma GCC unroll 4
  for (int o = 0; o < O; o++) sum[o] = broadcast(0.0f);
#pragma GCC unroll 2
  for (int r = l; r < rows; r += TT_LANES) {
    VECTOR v = load(t + r * TT_LANES);
#pragma GCC unroll 4
    for (int o = 0; o < O; o++) sum[o] = FMA(broadcast(d[o][r]), v, sum[o]);
  }
}

/* gcc computes x here. Otherwise it delays all additions of the tree below to its end, where more
 * sums wait than there are registers, and a gradient takes up to 1.4 times as long. */
#define COMPUTE_HERE(x) __asm__("" : "+v"(x))

/* The sum of two such sums, `distance` lanes apart: they are added in the order of sum_lanes. */
#define TWO_HALVES(name, half, distance)                                                           \
  INLINE void name(const int O, const int l, const int rows, const float *const *d,                \
                   const float *t, VECTOR *sum)                                                    \
  {                                                                                                \
    VECTOR upper[SUMS_OUT];                                                                        \
    half(O, l, rows, d, t, sum);                                                                   \
    half(O, l + distance, rows, d, t, upper);                                                      \
    _Pragma("GCC unroll 4") for (int o = 0; o < O; o++)                                            \
    {                                                                                              \
      sum[o] += upper[o];                                                                          \
      COMPUTE_HERE(sum[o]);                                                                        \
    }                                                                                              \
  }
TWO_HALVES(sums_of_2, sums_of_1, 8)
TWO_HALVES(sums_of_4, sums_of_2, 4)
TWO_HALVES(sums_of_8, sums_of_4, 2)
TWO_HALVES(sums_of_16, sums_of_8, 1)
#undef TWO_HALVES
#undef COMPUTE_HERE

/* O outputs x 16 inputs, whose rows are in t[rows][16]. */
INLINE void few_rows_tile(const int O, const int rows, const float *d, int64_t ld, const float *t,
                          float *g, int64_t in)
{
  const float *row[SUMS_OUT];
#pragma GCC unroll 4
  for (int o = 0; o < O; o++) row[o] = d + o * ld;
  for (int h = 0; h < TT_LANES; h += WIDTH) {
    VECTOR sum[SUMS_OUT];
    sums_of_16(O, 0, rows, row, t + h, sum);
#pragma GCC unroll 4
    for (int o = 0; o < O; o++) store(g + o * in + h, sum[o]);
  }
}

/* All outputs. Not inline: a compiler that knows where t is, or has two numbers of rows in one
 * function, keeps more values than there are registers. */
#define OUTPUTS_OF(rows)                                                                           \
  static __attribute__((noinline)) void outputs_of_##rows(int64_t out, const float *d, int64_t ld, \
                                                          const float *t, float *g, int64_t in)    \
  {                                                                                                \
    int64_t o = 0;                                                                                 \
    for (; o + SUMS_OUT <= out; o += SUMS_OUT)                                                     \
      few_rows_tile(SUMS_OUT, rows, d + o * ld, ld, t, g + o * in, in);                            \
    for (; o < out; o++) few_rows_tile(1, rows, d + o * ld, ld, t, g + o * in, in);                \
  }
OUTPUTS_OF(16)
OUTPUTS_OF(32)
#undef OUTPUTS_OF

/* The gradient of 16 or 32 rows for 16 inputs. A lane has an input, and not a row: with so few rows
 * the sums over lanes would take longer than the products. */
static void few_rows_gradient(int64_t out, const float *d, const float *x, float *g, int64_t in,
                              int64_t ld, int64_t n)
{
  static const int32_t lane[TT_LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  _Alignas(64) float t[FEW_ROWS * TT_LANES];
  for (int64_t r = 0; r < n; r += 4) gather_4_columns(x + r, ld, lane, t + r * TT_LANES, TT_LANES);
  (n == FEW_ROWS ? outputs_of_32 : outputs_of_16)(out, d, ld, t, g, in);
}
#endif

static void weight_gradient(int64_t out, int64_t in, const float *d, const float *x, float *g,
                            float *gb, int64_t ld, int64_t cut, int64_t n)
{
  enum { BLOCK = 16, LEAST_OUT = 4 };
  int64_t first = 0;
#ifndef NARROW
  int few = out >= LEAST_OUT && cut == n && (n == TT_LANES || n == FEW_ROWS);
  for (; few && first + BLOCK <= in; first += BLOCK)
    few_rows_gradient(out, d, x + first * ld, g + first, in, ld, n);
#endif
  for (int64_t i = first; i < in; i += BLOCK)
    gradient_block(out, in - i < BLOCK ? in - i : BLOCK, d, x + i * ld, g + i, in, ld, cut, n);
  row_sums(out, d, gb, ld, cut);
  for (int64_t o = 0; cut < n && o < out; o += TT_LANES) {
    float more[TT_LANES];
    int64_t count = out - o < TT_LANES ? out - o : TT_LANES;
    row_sums(count, d + o * ld + cut, more, ld, n - cut);
    for (int64_t k = 0; k < count; k++) gb[o + k] += more[k];
  }
}
