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
    EACH_OUTPUT(OUTPUTS)
  }
#undef OUTPUTS
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

/* The positions of d come in blocks. Meanwhile the sums of some tiles of GRAD_OUT x GRAD_IN
 * channels and some positions of the kernel are in memory, so that a block of d and x, which stays
 * in cache, is used by all of them. */
enum { SUMS_TAPS = 9, SUMS = 128, SUMS_VALUES = 256 /* of a channel in a block */, SUMS_WIDE = 16 };

/* Sums of the tiles that begin with output channel 0 and channel 0. */
typedef struct gradient_sums {
  int64_t outs, ins, taps;        /* tiles, and positions of the kernel */
  VECTOR at[SUMS][16][REGISTERS]; /* [outs][ins][taps] */
} gradient_sums;

/* Add the pairs [begin, end) of each position of the kernel. */
INLINE void add_block(const int O, const int I, const tt_convolution *c, const int32_t *begin,
                      const int32_t *end, const float *d, const float *x, int64_t ld, int64_t n,
                      gradient_sums *s)
{
  int64_t d_step = O * c->positions * ld, x_step = I * c->from_positions * ld;
  for (int64_t t = 0; t < s->outs * s->ins; t++)
    for (int64_t k = 0; k < s->taps; k++) {
      VECTOR sum[16][REGISTERS], (*place)[REGISTERS] = s->at[t * s->taps + k];
      memcpy(sum, place, sizeof sum);
      add_pairs(O, I, c, begin[k], end[k], d + t / s->ins * d_step, x + t % s->ins * x_step, ld, n,
                sum);
      memcpy(place, sum, sizeof sum);
    }
}

/* Add the sums over the lanes to g. */
INLINE void add_sums(const int O, const int I, const tt_convolution *c, gradient_sums *s, float *g)
{
  for (int64_t t = 0; t < s->outs * s->ins; t++)
    for (int64_t k = 0; k < s->taps; k++) {
      float result[16];
      sum_lanes_of(O * I, s->at[t * s->taps + k], result);
#pragma GCC unroll 16
      for (int o = 0; o < O; o++)
#pragma GCC unroll 16
        for (int i = 0; i < I; i++)
          g[(t / s->ins * O + o) * c->output_step + (t % s->ins * I + i) * c->channel_step + k] +=
              result[o * I + i];
    }
}

/* `outs` x `ins` tiles of O output channels x I channels at kernel positions [tap, tap + taps):
 * sums over their pairs and the rows, added to g. */
INLINE void convolve_gradient_tiles(const int O, const int I, const tt_convolution *c, int64_t outs,
                                    int64_t ins, int64_t tap, int64_t taps, const float *d,
                                    const float *x, float *g, int64_t ld, int64_t n)
{
  gradient_sums s;
  int32_t begin[SUMS_TAPS], end[SUMS_TAPS];
  int64_t step = SUMS_VALUES / n > 4 ? SUMS_VALUES / n : 4;
  s.outs = outs, s.ins = ins, s.taps = taps;
  memset(s.at, 0, (size_t)(outs * ins * taps) * sizeof *s.at);
  for (int64_t k = 0; k < taps; k++) end[k] = c->taps.first[tap + k];
  for (int64_t p = 0; p < c->positions; p += step) {
    memcpy(begin, end, sizeof begin);
    for (int64_t k = 0; k < taps; k++) end[k] = end_of_pairs(c, tap + k, begin[k], p + step);
    add_block(O, I, c, begin, end, d, x, ld, n, &s);
  }
  add_sums(O, I, c, &s, g);
}

/* All weights of `outputs` x `channels` channels, multiples of O and I, for some rows. */
INLINE void convolve_gradient_of(const int O, const int I, const tt_convolution *c, int64_t outputs,
                                 int64_t channels, const float *d, const float *x, float *g,
                                 int64_t ld, int64_t n)
{
  for (int64_t k = 0, taps; (taps = c->channel_step - k) > 0; k += taps) {
    if (taps > SUMS_TAPS) taps = SUMS_TAPS;
    int64_t wide = tt_min_i64(channels / I, taps > 1 ? 4 : SUMS_WIDE),
            high = SUMS / taps / (wide ? wide : 1);
    for (int64_t o = 0; o < outputs / O; o += high)
      for (int64_t i = 0; i < channels / I; i += wide)
        convolve_gradient_tiles(O, I, c, tt_min_i64(high, outputs / O - o),
                                tt_min_i64(wide, channels / I - i), k, taps,
                                d + o * O * c->positions * ld, x + i * I * c->from_positions * ld,
                                g + o * O * c->output_step + i * I * c->channel_step + k, ld, n);
  }
}

static void convolve_gradient_rows(const tt_convolution *c, const float *d, const float *x,
                                   float *g, int64_t ld, int64_t n)
{
  int64_t outputs = c->outputs / GRAD_OUT * GRAD_OUT, channels = c->channels / GRAD_IN * GRAD_IN;
  convolve_gradient_of(GRAD_OUT, GRAD_IN, c, outputs, channels, d, x, g, ld, n);
  convolve_gradient_of(GRAD_OUT, 1, c, outputs, c->channels - channels, d,
                       x + channels * c->from_positions * ld, g + channels * c->channel_step, ld,
                       n);
  convolve_gradient_of(1, 1, c, c->outputs - outputs, c->channels, d + outputs * c->positions * ld,
                       x, g + outputs * c->output_step, ld, n);
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
