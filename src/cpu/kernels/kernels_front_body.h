/* kernels_front_body.h — convolutions and pools; a fragment of kernels_body.h. */

/* One position of O output channels x V vectors of rows, all in registers: adds `channels` inputs.
 *   ADD  1: the sums begin with y; 0: with the bias */
INLINE void convolve_tile(const int O, const int V, const int ADD, const tt_convolution *c,
                          int64_t channels, int64_t position, const float *a, const float *bias,
                          const float *x, float *y, int64_t ld)
{
  VECTOR sum[2 * PRODUCT_OUT][PRODUCT_ROWS];
  int64_t y_step = c->positions * ld;
  int32_t begin = c->taps.first[position], end = c->taps.first[position + 1];
  y += position * ld;
#pragma GCC unroll 16
  for (int o = 0; o < O; o++)
#pragma GCC unroll 16
    for (int v = 0; v < V; v++)
      sum[o][v] = ADD ? load(y + o * y_step + v * WIDTH) : broadcast(bias ? bias[o] : 0.0f);
  for (int64_t i = 0; i < channels; i++) {
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
    for (int v = 0; v < V; v++) store(y + o * y_step + v * WIDTH, sum[o][v]);
}

/* One panel of V vectors of rows: some output channels at positions [first, end). */
INLINE void convolve_outputs(const int O, const int V, const int ADD, const tt_convolution *c,
                             int64_t channels, int64_t o, int64_t first, int64_t end,
                             const float *a, const float *bias, const float *x, float *y,
                             int64_t ld)
{
  for (int64_t p = first; p < end; p++)
    convolve_tile(O, V, ADD, c, channels, p, a + o * c->output_step, bias ? bias + o : NULL, x,
                  y + o * c->positions * ld, ld);
}

/* OUTPUTS(n) for all outputs from o on, n at a time, the largest n first; all are constants. The
 * registers hold twice as many outputs of up to two vectors. */
#if PRODUCT_ROWS > 2
#define TWICE_AS_MANY(OUTPUTS)                                                                     \
  for (; V <= 2 && o + 2 * PRODUCT_OUT <= c->outputs; o += 2 * PRODUCT_OUT)                        \
    OUTPUTS(2 * PRODUCT_OUT);
#else
#define TWICE_AS_MANY(OUTPUTS)
#endif
#define EACH_OUTPUT(OUTPUTS)                                                                       \
  TWICE_AS_MANY(OUTPUTS)                                                                           \
  for (; o + PRODUCT_OUT <= c->outputs; o += PRODUCT_OUT) OUTPUTS(PRODUCT_OUT);                    \
  for (; PRODUCT_OUT > 4 && o + 4 <= c->outputs; o += 4) OUTPUTS(PRODUCT_OUT > 4 ? 4 : 1);         \
  for (; o + 2 <= c->outputs; o += 2) OUTPUTS(2);                                                  \
  for (; o < c->outputs; o++) OUTPUTS(1);

/* All output channels, which add `channels` inputs, at positions [first, end). */
INLINE void convolve_block(const int V, const int ADD, const tt_convolution *c, int64_t channels,
                           int64_t first, int64_t end, const float *a, const float *bias,
                           const float *x, float *y, int64_t ld)
{
  int64_t o = 0;
#define OUTPUTS(n) convolve_outputs(n, V, ADD, c, channels, o, first, end, a, bias, x, y, ld)
  EACH_OUTPUT(OUTPUTS)
#undef OUTPUTS
}

/* A few input channels at a time, so that they stay in the cache for all outputs, and in the L1
 * cache from one position to the next: the channels of an image may all lie in one set of it. */
INLINE void convolve_panel(const int V, const tt_convolution *c, const float *a, const float *bias,
                           const float *x, float *y, int64_t ld)
{
  enum { POSITIONS = 64, CHANNELS = 16 };
  for (int64_t p = 0; p < c->positions; p += POSITIONS) {
    int64_t end = tt_min_i64(p + POSITIONS, c->positions);
    for (int64_t i = 0; i < c->channels; i += CHANNELS) {
      int64_t channels = tt_min_i64(CHANNELS, c->channels - i);
      const float *w = a + i * c->channel_step, *src = x + i * c->from_positions * ld;
      if (i)
        convolve_block(V, 1, c, channels, p, end, w, NULL, src, y, ld);
      else
        convolve_block(V, 0, c, channels, p, end, w, bias, src, y, ld);
    }
  }
}

/* Windows of one position: products. POINT_CHANNELS inputs of a few positions are copied to the L1
 * cache, because those of the layer may all lie in one set of it. */
enum { POINT_CHANNELS = 128, POINT_VECTORS = 4 };

/* Some positions of O output channels, which add `channels` inputs: packed[position][channel][V].
 * A position that reads no input has the bias alone. */
INLINE void point_outputs(const int O, const int V, const int ADD, const tt_convolution *c,
                          int64_t o, int64_t first, int64_t end, int64_t channels, const float *a,
                          const float *bias, const float *packed, float *y, int64_t ld)
{
  for (int64_t p = first; p < end; p++) {
    int64_t in = c->taps.first[p + 1] > c->taps.first[p] ? channels : 0;
    product_tile(O, V, ADD, in, a + o * c->output_step, c->output_step, c->channel_step,
                 bias ? bias + o : NULL, packed + (p - first) * POINT_CHANNELS * V * WIDTH,
                 V * WIDTH, NULL, y + (o * c->positions + p) * ld, c->positions * ld);
  }
}

INLINE void point_block(const int V, const int ADD, const tt_convolution *c, int64_t first,
                        int64_t end, int64_t channels, const float *a, const float *bias,
                        const float *x, float *y, int64_t ld)
{
  _Alignas(64) float packed[POINT_VECTORS * POINT_CHANNELS * WIDTH];
  for (int64_t p = first; p < end; p++) {
    const float *src =
        x + (c->taps.first[p + 1] > c->taps.first[p] ? c->taps.from[c->taps.first[p]] : 0) * ld;
    float *dst = packed + (p - first) * POINT_CHANNELS * V * WIDTH;
    for (int64_t i = 0; i < channels; i++)
#pragma GCC unroll 4
      for (int v = 0; v < V; v++)
        store(dst + (i * V + v) * WIDTH, load(src + i * c->from_positions * ld + v * WIDTH));
  }
  int64_t o = 0;
#define OUTPUTS(n) point_outputs(n, V, ADD, c, o, first, end, channels, a, bias, packed, y, ld)
  EACH_OUTPUT(OUTPUTS)
#undef OUTPUTS
}

INLINE void point_panel(const int V, const tt_convolution *c, const float *a, const float *bias,
                        const float *x, float *y, int64_t ld)
{
  for (int64_t p = 0; p < c->positions; p += POINT_VECTORS / V) {
    int64_t end = p + POINT_VECTORS / V < c->positions ? p + POINT_VECTORS / V : c->positions;
    for (int64_t i = 0; i < c->channels; i += POINT_CHANNELS) {
      int64_t left = c->channels - i, channels = left < POINT_CHANNELS ? left : POINT_CHANNELS;
      const float *w = a + i * c->channel_step, *src = x + i * c->from_positions * ld;
      if (i)
        point_block(V, 1, c, p, end, channels, w, NULL, src, y, ld);
      else
        point_block(V, 0, c, p, end, channels, w, bias, src, y, ld);
    }
  }
}

static void convolve(const tt_convolution *c, const float *a, const float *bias, const float *x,
                     float *y, int64_t ld, int64_t n)
{
  int64_t r = 0, one = (c->output_step < c->channel_step ? c->output_step : c->channel_step) == 1;
#define PANEL(V)                                                                                   \
  (one ? point_panel(V, c, a, bias, x + r, y + r, ld)                                              \
       : convolve_panel(V, c, a, bias, x + r, y + r, ld))
  for (; r + PRODUCT_ROWS * WIDTH <= n; r += PRODUCT_ROWS * WIDTH) PANEL(PRODUCT_ROWS);
#if PRODUCT_ROWS > 2
  for (; r + 2 * WIDTH <= n; r += 2 * WIDTH) PANEL(2);
#endif
  for (; r < n; r += WIDTH) PANEL(1);
#undef PANEL
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
