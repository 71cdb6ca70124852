/* kernels_body.h — the loops of kernels.h, compiled once per instruction set. Floor 3.
 *
 * The including file defines: VECTOR (a vector type of WIDTH floats, 16 a multiple of WIDTH),
 * FMA(a, b, c) on it, the register tiles PRODUCT_OUT x PRODUCT_ROWS (vectors), GRAD_OUT x GRAD_IN
 * and 1 x GRAD_LINE (each at most 16), TABLE (name of the table), NAME and ARITHMETIC. */
#include "src/cpu/kernels.h"

#include <string.h>

#define REGISTERS (TT_LANES / WIDTH) /* registers that make 16 lanes */
#define INLINE static inline __attribute__((always_inline))

INLINE VECTOR load(const float *p)
{
  VECTOR v;
  memcpy(&v, p, sizeof v);
  return v;
}
INLINE void store(float *p, VECTOR v) { memcpy(p, &v, sizeof v); }
INLINE VECTOR broadcast(float x) { return x - (VECTOR){0}; }

/* O outputs x V vectors of rows, all in registers. */
INLINE void product_tile(const int O, const int V, int64_t in, const float *a, int64_t row_step,
                         int64_t column_step, const float *bias, const float *x, const float *scale,
                         float *y, int64_t ld)
{
  VECTOR sum[PRODUCT_OUT][PRODUCT_ROWS];
#pragma GCC unroll 16
  for (int o = 0; o < O; o++)
#pragma GCC unroll 16
    for (int v = 0; v < V; v++) sum[o][v] = broadcast(bias ? bias[o] : 0.0f);
  for (int64_t i = 0; i < in; i++) {
    VECTOR xi[PRODUCT_ROWS];
#pragma GCC unroll 16
    for (int v = 0; v < V; v++) xi[v] = load(x + i * ld + v * WIDTH);
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
  product_tile(n, V, in, a + o * row_step, row_step, column_step, bias ? bias + o : NULL, x,       \
               scale ? scale + o * ld : NULL, y + o * ld, ld)
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
  for (; r < n; r += WIDTH) PANEL(1);
#undef PANEL
}

/* Lane sums of 16 lanes held in REGS registers, folding halves. */
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

#if WIDTH == 16
#define FOLD_PAIR(a, b, l, h) (__builtin_shuffle(a, b, l) + __builtin_shuffle(a, b, h))
typedef int tt_mask __attribute__((vector_size(64)));

/* out[t] = sum of the lanes of v[t] for 16 vectors at once: each level folds halves of two vectors
 * into one, so that 15 steps do the work of 64. */
INLINE VECTOR sum_lanes_of_16(VECTOR v[16])
{
  const tt_mask low8 = {0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23};
  const tt_mask low4 = {0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27};
  const tt_mask low2 = {0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29};
  const tt_mask low1 = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
  const tt_mask reverse = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};
#pragma GCC unroll 8
  for (int t = 0; t < 8; t++) v[t] = FOLD_PAIR(v[t], v[t + 8], low8, low8 + 8);
#pragma GCC unroll 4
  for (int t = 0; t < 4; t++) v[t] = FOLD_PAIR(v[t], v[t + 4], low4, low4 + 4);
#pragma GCC unroll 2
  for (int t = 0; t < 2; t++) v[t] = FOLD_PAIR(v[t], v[t + 2], low2, low2 + 2);
  v[0] = FOLD_PAIR(v[0], v[1], low1, low1 + 1);
  return __builtin_shuffle(v[0], reverse); /* the levels leave the sums in bit-reversed order */
}
#endif

/* O outputs x I inputs: dot products over the rows. */
INLINE void gradient_tile(const int O, const int I, const float *d, const float *x, float *g,
                          int64_t in, int64_t ld, int64_t n)
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
#if WIDTH == 16
  if (O * I == 16) {
    VECTOR all[16];
    float s[16];
#pragma GCC unroll 16
    for (int t = 0; t < 16; t++) all[t] = sum[t][0];
    store(s, sum_lanes_of_16(all));
#pragma GCC unroll 16
    for (int o = 0; o < O; o++) memcpy(g + o * in, s + o * I, (size_t)I * sizeof *s);
    return;
  }
#endif
#pragma GCC unroll 16
  for (int o = 0; o < O; o++)
#pragma GCC unroll 16
    for (int i = 0; i < I; i++) g[o * in + i] = sum_lanes(sum[o * I + i]);
}

/* All outputs against a block of inputs that stays in the first-level cache. */
INLINE void gradient_block(int64_t out, int64_t block, const float *d, const float *x, float *g,
                           int64_t in, int64_t ld, int64_t n)
{
#define TILE(O, I) gradient_tile(O, I, d + o * ld, x + i * ld, g + o * in + i, in, ld, n)
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

/* Sums over the rows of `count` <= 16 features. */
static void row_sums(int64_t count, const float *d, float *sum, int64_t ld, int64_t n)
{
  VECTOR all[TT_LANES][REGISTERS];
  for (int64_t o = 0; o < count; o++)
    for (int h = 0; h < REGISTERS; h++) {
      VECTOR s = broadcast(0.0f);
      for (int64_t r = h * WIDTH; r < n; r += TT_LANES) s += load(d + o * ld + r);
      all[o][h] = s;
    }
#if WIDTH == 16
  if (count == TT_LANES) {
    VECTOR all_lanes[TT_LANES];
    memcpy(all_lanes, all, sizeof all_lanes);
    store(sum, sum_lanes_of_16(all_lanes));
    return;
  }
#endif
  for (int64_t o = 0; o < count; o++) sum[o] = sum_lanes(all[o]);
}

static void weight_gradient(int64_t out, int64_t in, const float *d, const float *x, float *g,
                            float *gb, int64_t ld, int64_t n)
{
  enum { BLOCK = 16 };
  for (int64_t i = 0; i < in; i += BLOCK)
    gradient_block(out, in - i < BLOCK ? in - i : BLOCK, d, x + i * ld, g + i, in, ld, n);
  for (int64_t o = 0; o < out; o += TT_LANES)
    row_sums(out - o < TT_LANES ? out - o : TT_LANES, d + o * ld, gb + o, ld, n);
}

#define X(name, f, df, ...)                                                                        \
  static void value_and_gradient_##name(int64_t count, float *restrict z, float *restrict y)       \
  {                                                                                                \
    for (int64_t i = 0; i < count; i++) {                                                          \
      float v = z[i], r = tt_act(TT_ACT_##name, v);                                                \
      y[i] = r;                                                                                    \
      z[i] = tt_act_grad(TT_ACT_##name, v, r);                                                     \
    }                                                                                              \
  }                                                                                                \
  static void value_##name(int64_t count, const float *restrict z, float *restrict y)              \
  {                                                                                                \
    for (int64_t i = 0; i < count; i++) y[i] = tt_act(TT_ACT_##name, z[i]);                        \
  }
TT_ACTIVATIONS(X)
#undef X

static void activate(tt_activation kind, int64_t count, float *z, float *y, int gradient)
{
  switch (kind) {
#define X(name, f, df, ...)                                                                        \
  case TT_ACT_##name:                                                                              \
    if (gradient)                                                                                  \
      value_and_gradient_##name(count, z, y);                                                      \
    else                                                                                           \
      value_##name(count, z, y);                                                                   \
    return;
    TT_ACTIVATIONS(X)
#undef X
  default: return;
  }
}

/* value[r] += l, d0[r], d1[r] of one target; the compiler turns the loop into vectors. */
#define X(name, output, source)                                                                    \
  static void loss_##name(tt_loss_args args, int64_t rows, const float *o0, const float *o1,       \
                          const float *restrict y, float *restrict value, float *restrict d0,      \
                          float *restrict d1)                                                      \
  {                                                                                                \
    for (int64_t r = 0; r < rows; r++) {                                                           \
      tt_loss_grad l = tt_loss_##name(o0[r], o1[r], y[r], args);                                   \
      value[r] += l.value;                                                                         \
      d0[r] = l.d0;                                                                                \
      d1[r] = l.d1;                                                                                \
    }                                                                                              \
  }
TT_TWO_OUTPUT_LOSSES(X)
#undef X

static void loss_target(tt_loss kind, tt_loss_args args, int64_t rows, const float *o0,
                        const float *o1, const float *y, float *value, float *d0, float *d1)
{
  switch (kind) {
#define X(name, output, source)                                                                    \
  case TT_LOSS_##name: loss_##name(args, rows, o0, o1, y, value, d0, d1); return;
    TT_TWO_OUTPUT_LOSSES(X)
#undef X
  default: return;
  }
}

static void apply_weights(float *d, const float *weight, float factor, int64_t rows, int64_t padded)
{
  for (int64_t r = 0; r < rows; r++) d[r] *= weight ? weight[r] * factor : factor;
  for (int64_t r = rows; r < padded; r++) d[r] = 0.0f;
}

enum { LOSS_CHUNK = 256 };

/* One chunk of rows: its loss; d as in kernels.h, or NULL. */
static double loss_chunk(tt_loss kind, tt_loss_args args, int64_t targets, int64_t rows,
                         const float *o, const float *y, const float *weight, float factor,
                         float *d, int64_t ld)
{
  float value[LOSS_CHUNK] = {0}, d0[LOSS_CHUNK], d1[LOSS_CHUNK];
  int64_t padded = (rows + TT_LANES - 1) / TT_LANES * TT_LANES;
  int two = tt_output_has_variance(tt_loss_output_head(kind));
  for (int64_t k = 0; k < targets; k++) {
    const float *o0 = o + k * ld, *o1 = two ? o0 + targets * ld : o0;
    loss_target(kind, args, rows, o0, o1, y + k * ld, value, d0, d1);
    if (!d) continue;
    apply_weights(d0, weight, factor, rows, padded);
    memcpy(d + k * ld, d0, (size_t)padded * sizeof *d);
    if (!two) continue;
    apply_weights(d1, weight, factor, rows, padded);
    memcpy(d + (targets + k) * ld, d1, (size_t)padded * sizeof *d);
  }
  double sum = 0.0;
  for (int64_t r = 0; r < rows; r++)
    sum += weight ? (double)weight[r] * (double)value[r] : (double)value[r];
  return sum;
}

#include "src/cpu/kernels_layers_body.h"

static double loss(tt_loss kind, tt_loss_args args, const tt_model *model, int64_t rows,
                   const float *o, const float *y, const float *weight, float factor, float *d,
                   int64_t ld)
{
  double sum = 0.0;
  if (tt_loss_is_multi_output(kind))
    return loss_multi_output(kind, args, model, rows, o, y, weight, factor, d, ld);
  for (int64_t r = 0; r < rows; r += LOSS_CHUNK) {
    int64_t count = rows - r < LOSS_CHUNK ? rows - r : LOSS_CHUNK;
    sum += loss_chunk(kind, args, model->targets, count, o + r, y + r, weight ? weight + r : NULL,
                      factor, d ? d + r : NULL, ld);
  }
  return sum;
}

#define X(name, slots, ...)                                                                        \
  static void step_##name(int64_t count, float *restrict w, const float *restrict g,               \
                          float *restrict s0, float *restrict s1, float *restrict s2,              \
                          tt_optimizer_args args)                                                  \
  {                                                                                                \
    for (int64_t i = 0; i < count; i++)                                                            \
      tt_optimizer_step_##name(w + i, g[i], s0 + i, slots > 1 ? s1 + i : s0 + i,                   \
                               slots > 2 ? s2 + i : s0 + i, args);                                 \
  }
TT_OPTIMIZERS(X)
#undef X

static void step(tt_optimizer kind, int64_t count, float *w, const float *g, float *slots,
                 tt_optimizer_args args)
{
  switch (kind) {
#define X(name, slot_count, ...)                                                                   \
  case TT_OPT_##name:                                                                              \
    step_##name(count, w, g, slots, slot_count > 1 ? slots + count : NULL,                         \
                slot_count > 2 ? slots + 2 * count : NULL, args);                                  \
    return;
    TT_OPTIMIZERS(X)
#undef X
  default: return;
  }
}

static double square_sum(int64_t count, const float *g)
{
  double lane[TT_LANES] = {0}, sum = 0.0;
  int64_t i = 0;
  for (; i + TT_LANES <= count; i += TT_LANES)
    for (int l = 0; l < TT_LANES; l++) lane[l] += (double)g[i + l] * (double)g[i + l];
  for (; i < count; i++) lane[i % TT_LANES] += (double)g[i] * (double)g[i];
  for (int l = 0; l < TT_LANES; l++) sum += lane[l];
  return sum;
}

/* The shuffle for many slots at once: those that fall outside [0, n) are collected and walk on
 * together, so that the passes stay vector code. */
static void shuffle_all(const tt_shuffle *s, int32_t *restrict slot, int64_t count)
{
  enum { CHUNK = 1024 };
  uint32_t value[CHUNK];
  int32_t slot_of[CHUNK];
  for (int64_t first = 0; first < count; first += CHUNK) {
    int64_t n = count - first < CHUNK ? count - first : CHUNK, left = n;
    for (int64_t i = 0; i < n; i++) value[i] = (uint32_t)slot[first + i], slot_of[i] = (int32_t)i;
    while (left > 0) {
      for (int64_t i = 0; i < left; i++) value[i] = tt_shuffle_pass(s, value[i]);
      int64_t unfinished = 0;
      for (int64_t i = 0; i < left; i++) {
        slot[first + slot_of[i]] = (int32_t)value[i];
        slot_of[unfinished] = slot_of[i];
        value[unfinished] = value[i];
        unfinished += value[i] >= s->n;
      }
      left = unfinished;
    }
  }
}

static void order(const tt_sampler *o, const int32_t *list, int64_t first, int64_t count,
                  int32_t *row)
{
  for (int64_t i = 0; i < count; i++) row[i] = (int32_t)(first + i);
  shuffle_all(&o->epoch, row, count);
  if (o->resample == TT_RESAMPLE_subsample) shuffle_all(&o->subset, row, count);
  if (o->resample == TT_RESAMPLE_bootstrap)
    for (int64_t i = 0; i < count; i++) {
      tt_random4 r = tt_random(o->seed, o->stream, TT_PURPOSE_RESAMPLE, 0, (uint32_t)row[i]);
      row[i] = (int32_t)tt_uniform_below(r.v[0], r.v[1], o->labelled);
    }
  for (int64_t i = 0; i < count; i++) row[i] = list[row[i]];
}

static void gather(int64_t columns, int64_t width, const int32_t *pick, const float *table,
                   const int32_t *row, int64_t rows, int64_t n, float *x, int64_t ld)
{
  for (int64_t k = 0; k < columns; k++) {
    const float *from = table + (pick ? pick[k] : k);
    float *restrict to = x + k * ld;
    for (int64_t r = 0; r < rows; r++) to[r] = from[row[r] * width];
    for (int64_t r = rows; r < n; r++) to[r] = 0.0f;
  }
}

const tt_kernels KERNEL_TABLE = {
    .name = KERNEL_NAME,
    .arithmetic = ARITHMETIC,
    .product = product,
    .weight_gradient = weight_gradient,
    .activate = activate,
    .loss = loss,
    .step = step,
    .square_sum = square_sum,
    .order = order,
    .gather = gather,
    .norm = norm,
    .norm_gradient = norm_gradient,
    .drop = drop,
    .add = add,
    .times = times,
};
