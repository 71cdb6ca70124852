/* kernels_front_body.h — convolutions and pools; a fragment of kernels_body.h. */

/* One position of O output channels x V vectors of rows, all in registers. */
INLINE void convolve_tile(const int O, const int V, const tt_convolution *c, int64_t position,
                          const float *a, const float *bias, const float *x, float *y, int64_t ld)
{
  VECTOR sum[2 * PRODUCT_OUT][PRODUCT_ROWS];
  int64_t y_step = c->positions * ld;
  int32_t begin = c->taps.first[position], end = c->taps.first[position + 1];
#pragma GCC unroll 16
  for (int o = 0; o < O; o++)
#pragma GCC unroll 16
    for (int v = 0; v < V; v++) sum[o][v] = broadcast(bias ? bias[o] : 0.0f);
  for (int64_t i = 0; i < c->channels; i++) {
    const float *src = x + i * c->from_positions * ld, *weight = a + i * c->channel_step;
    for (int32_t t = begin; t < end; t++) {
      VECTOR xi[PRODUCT_ROWS];
#pragma GCC unroll 16
      for (int v = 0; v < V; v++) xi[v] = load(src + c->taps.from[t] * ld + v * WIDTH);
#pragma GCC unroll 16
      for (int o = 0; o < O; o++) {
        VECTOR w = broadcast(weight[o * c->output_step + c->taps.at[t]]);
#pragma GCC unroll 16
        for (int v = 0; v < V; v++) sum[o][v] = FMA(w, xi[v], sum[o][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int o = 0; o < O; o++)
#pragma GCC unroll 16
    for (int v = 0; v < V; v++) store(y + position * ld + o * y_step + v * WIDTH, sum[o][v]);
}

/* One panel of V vectors of rows: some output channels at positions [first, end). */
INLINE void convolve_outputs(const int O, const int V, const tt_convolution *c, int64_t o,
                             int64_t first, int64_t end, const float *a, const float *bias,
                             const float *x, float *y, int64_t ld)
{
  for (int64_t p = first; p < end; p++)
    convolve_tile(O, V, c, p, a + o * c->output_step, bias ? bias + o : NULL, x,
                  y + o * c->positions * ld, ld);
}

/* All output channels and positions. If the weights fit the cache, position by position with all
 * channels; else a few channels at a time with all positions, so that each weight is read from
 * memory once. */
INLINE void convolve_panel(const int V, const tt_convolution *c, const float *a, const float *bias,
                           const float *x, float *y, int64_t ld)
{
  enum { CACHED = 1 << 16 /* weights */ };
  int64_t taps = c->output_step < c->channel_step ? c->output_step : c->channel_step;
  int64_t step = c->outputs * c->channels * taps > CACHED ? c->positions : 1;
#define OUTPUTS(n) convolve_outputs(n, V, c, o, p, p + step, a, bias, x, y, ld)
  for (int64_t p = 0; p < c->positions; p += step) {
    int64_t o = 0;
#if PRODUCT_ROWS > 2
    for (; V <= 2 && o + 2 * PRODUCT_OUT <= c->outputs; o += 2 * PRODUCT_OUT)
      OUTPUTS(2 * PRODUCT_OUT);
#endif
    for (; o + PRODUCT_OUT <= c->outputs; o += PRODUCT_OUT) OUTPUTS(PRODUCT_OUT);
    for (; PRODUCT_OUT > 4 && o + 4 <= c->outputs; o += 4) OUTPUTS(PRODUCT_OUT > 4 ? 4 : 1);
    for (; o + 2 <= c->outputs; o += 2) OUTPUTS(2);
    for (; o < c->outputs; o++) OUTPUTS(1);
  }
#undef OUTPUTS
}

static void convolve(const tt_convolution *c, const float *a, const float *bias, const float *x,
                     float *y, int64_t ld, int64_t n)
{
  int64_t r = 0;
  for (; r + PRODUCT_ROWS * WIDTH <= n; r += PRODUCT_ROWS * WIDTH)
    convolve_panel(PRODUCT_ROWS, c, a, bias, x + r, y + r, ld);
#if PRODUCT_ROWS > 2
  for (; r + 2 * WIDTH <= n; r += 2 * WIDTH) convolve_panel(2, c, a, bias, x + r, y + r, ld);
#endif
  for (; r < n; r += WIDTH) convolve_panel(1, c, a, bias, x + r, y + r, ld);
}

/* Add to the sums of O output channels x I channels the products of pairs [begin, end). */
INLINE void add_pairs(const int O, const int I, const tt_convolution *c, int32_t begin, int32_t end,
                      const float *d, const float *x, int64_t ld, int64_t n,
                      VECTOR sum[16][REGISTERS])
{
  int64_t d_step = c->positions * ld, x_step = c->from_positions * ld;
  for (int32_t k = begin; k < end; k++) {
    const float *dst = d + c->taps.at[k] * ld, *src = x + c->taps.from[k] * ld;
    for (int64_t r = 0; r < n; r += TT_LANES)
#pragma GCC unroll 4
      for (int h = 0; h < REGISTERS; h++) {
        VECTOR xi[16];
#pragma GCC unroll 16
        for (int i = 0; i < I; i++) xi[i] = load(src + i * x_step + r + h * WIDTH);
#pragma GCC unroll 16
        for (int o = 0; o < O; o++) {
          VECTOR od = load(dst + o * d_step + r + h * WIDTH);
#pragma GCC unroll 16
          for (int i = 0; i < I; i++) sum[o * I + i][h] = FMA(od, xi[i], sum[o * I + i][h]);
        }
      }
  }
}

/* The pairs of a key from pair `begin` on, of positions of d before `limit`; returns their end. */
INLINE int32_t end_of_pairs(const tt_convolution *c, int64_t tap, int32_t begin, int64_t limit)
{
  int32_t end = c->taps.first[tap + 1];
  if (limit >= c->positions) return end;
  while (begin < end && c->taps.at[begin] < limit) begin++;
  return begin;
}

/* The positions of d come in blocks. A block, and what it reads of x, stays in the L1 cache while
 * each position of the kernel uses it. Between blocks, the sums of that position are in memory. */
enum { SUMS_TAPS = 9, SUMS_BLOCK = 8 /* positions */ };

/* O output channels x I channels of kernel positions [tap, tap + taps): sums over their pairs and
 * the rows, added to g. */
INLINE void convolve_gradient_tile(const int O, const int I, const tt_convolution *c, int64_t tap,
                                   int64_t taps, const float *d, const float *x, float *g,
                                   int64_t ld, int64_t n)
{
  VECTOR sums[SUMS_TAPS][16][REGISTERS]; /* at least O * I */
  int32_t next[SUMS_TAPS];
  for (int64_t k = 0; k < taps; k++) next[k] = c->taps.first[tap + k];
  for (int64_t p = 0; p < c->positions; p += SUMS_BLOCK)
    for (int64_t k = 0; k < taps; k++) {
      VECTOR sum[16][REGISTERS];
      int32_t begin = next[k], end = end_of_pairs(c, tap + k, begin, p + SUMS_BLOCK);
#pragma GCC unroll 32
      for (int t = 0; t < O * I; t++)
#pragma GCC unroll 4
        for (int h = 0; h < REGISTERS; h++) sum[t][h] = p ? sums[k][t][h] : broadcast(0.0f);
      add_pairs(O, I, c, begin, end, d, x, ld, n, sum);
      memcpy(sums[k], sum, sizeof sum);
      next[k] = end;
    }
  for (int64_t k = 0; k < taps; k++) {
    float result[16];
    sum_lanes_of(O * I, sums[k], result);
#pragma GCC unroll 16
    for (int o = 0; o < O; o++)
#pragma GCC unroll 16
      for (int i = 0; i < I; i++)
        g[o * c->output_step + i * c->channel_step + k] += result[o * I + i];
  }
}

/* All weights, for some rows that stay in cache. */
INLINE void convolve_gradient_rows(const tt_convolution *c, const float *d, const float *x,
                                   float *g, int64_t ld, int64_t n)
{
#define TILE(O, I)                                                                                 \
  for (int64_t t = 0, left; (left = c->channel_step - t) > 0; t += SUMS_TAPS)                      \
  convolve_gradient_tile(O, I, c, t, left < SUMS_TAPS ? left : SUMS_TAPS,                          \
                         d + o * c->positions * ld, x + i * c->from_positions * ld,                \
                         g + o * c->output_step + i * c->channel_step + t, ld, n)
  int64_t o = 0;
  for (; o + GRAD_OUT <= c->outputs; o += GRAD_OUT) {
    int64_t i = 0;
    for (; i + GRAD_IN <= c->channels; i += GRAD_IN) TILE(GRAD_OUT, GRAD_IN);
    for (; i < c->channels; i++) TILE(GRAD_OUT, 1);
  }
  for (; o < c->outputs; o++)
    for (int64_t i = 0; i < c->channels; i++) TILE(1, 1);
#undef TILE
}

static void convolve_gradient(const tt_convolution *c, const float *d, const float *x, float *g,
                              float *gb, int64_t ld, int64_t n)
{
  enum { VALUES = 65536 }; /* of a channel, so that those of a tile stay in cache */
  int64_t step = VALUES / c->positions / TT_LANES * TT_LANES;
  if (step < TT_LANES) step = TT_LANES;
  for (int64_t o = 0; o < c->outputs; o++) {
    memset(g + o * c->output_step, 0, (size_t)(c->channels * c->channel_step) * sizeof *g);
    if (gb) gb[o] = 0.0f;
  }
  for (int64_t r = 0; r < n; r += step) {
    int64_t rows = n - r < step ? n - r : step;
    convolve_gradient_rows(c, d + r, x + r, g, ld, rows);
    for (int64_t o = 0; gb && o < c->outputs; o++)
      for (int64_t p = 0; p < c->positions; p += TT_LANES) {
        float sum[TT_LANES];
        int64_t count = c->positions - p < TT_LANES ? c->positions - p : TT_LANES;
        row_sums(count, d + (o * c->positions + p) * ld + r, sum, ld, rows);
        for (int64_t k = 0; k < count; k++) gb[o] += sum[k];
      }
  }
}

/* Loop over 16 rows, one per lane. gcc does not vectorize a loop that it has unrolled. */
#define EACH_LANE _Pragma("GCC unroll 1") for (int l = 0; l < TT_LANES; l++)

/* Results of a window for 16 rows. */
INLINE void pool_window(tt_pooling by, const tt_taps *taps, int64_t window, float share,
                        const float *x, int64_t ld, float *y)
{
  float s[TT_LANES];
  EACH_LANE s[l] = tt_pooling_start(by);
  for (int32_t t = taps->first[window]; t < taps->first[window + 1]; t++) {
    const float *place = x + taps->from[t] * ld;
    EACH_LANE s[l] = tt_pooling_next(by, s[l], place[l]);
  }
  EACH_LANE y[l] = tt_pooling_result(by, s[l], share);
}

INLINE void pool_by(tt_pooling pooling, int64_t channels, int64_t from_positions,
                    const tt_taps *taps, float share, const float *x, float *y, int64_t ld,
                    int64_t n)
{
  for (int64_t c = 0; c < channels; c++, x += from_positions * ld, y += taps->keys * ld)
    for (int64_t p = 0; p < taps->keys; p++)
      for (int64_t r = 0; r < n; r += TT_LANES)
        pool_window(pooling, taps, p, share, x + r, ld, y + p * ld + r);
}

INLINE void pool_gradient_by(tt_pooling pooling, int64_t channels, int64_t from_positions,
                             const tt_taps *taps, float share, const float *x, const float *d,
                             float *dx, int64_t ld, int64_t n)
{
  for (int64_t c = 0; c < channels; c++) {
    for (int64_t p = 0; p < taps->keys; p++)
      for (int64_t r = 0; r < n; r += TT_LANES) {
        float y[TT_LANES], left[TT_LANES]; /* left: 0 after the first value, where that has all */
        pool_window(pooling, taps, p, share, x + r, ld, y);
        memcpy(left, d + p * ld + r, sizeof left);
        for (int32_t t = taps->first[p]; t < taps->first[p + 1]; t++) {
          const float *place = x + taps->from[t] * ld + r;
          float *dst = dx + taps->from[t] * ld + r, slope[TT_LANES];
          EACH_LANE slope[l] = tt_pooling_slope(pooling, place[l], y[l], share);
          EACH_LANE dst[l] += slope[l] * left[l];
          if (tt_pooling_takes_first(pooling))
            EACH_LANE left[l] = slope[l] != 0.0f ? 0.0f : left[l];
        }
      }
    x += from_positions * ld, dx += from_positions * ld;
    d += taps->keys * ld;
  }
}
#undef EACH_LANE

static void pool(tt_pooling pooling, int64_t channels, int64_t from_positions, const tt_taps *taps,
                 float share, const float *x, float *y, int64_t ld, int64_t n)
{
  switch (pooling) {
#define X(name, ...)                                                                               \
  case TT_POOLING_##name:                                                                          \
    pool_by(TT_POOLING_##name, channels, from_positions, taps, share, x, y, ld, n);                \
    return;
    TT_POOLINGS(X)
#undef X
  default: return;
  }
}

static void pool_gradient(tt_pooling pooling, int64_t channels, int64_t from_positions,
                          const tt_taps *taps, float share, const float *x, const float *d,
                          float *dx, int64_t ld, int64_t n)
{
  switch (pooling) {
#define X(name, ...)                                                                               \
  case TT_POOLING_##name:                                                                          \
    pool_gradient_by(TT_POOLING_##name, channels, from_positions, taps, share, x, d, dx, ld, n);   \
    return;
    TT_POOLINGS(X)
#undef X
  default: return;
  }
}
