/* kernels_conv_gradient_body.h — gradients of the weights of convolutions; a fragment of
 * kernels_body.h. */

/* Add to the sums of O output channels x I channels the products of pairs [begin, end) of some
 * rows.
 *   near  1: x is near[pair][rows / 16][x_step / 16][16]; 0: x[channel][position][ld] */
INLINE void add_pairs(const int O, const int I, const int near, const tt_convolution *c,
                      int32_t begin, int32_t end, const float *d, const float *x, int64_t x_step,
                      int64_t ld, int64_t rows, VECTOR sum[16][REGISTERS])
{
  int64_t d_step = c->positions * ld, channel = near ? TT_LANES : x_step;
  for (int32_t k = begin; k < end; k++) {
    const float *dst = d + c->taps.at[k] * ld;
    const float *src =
        near ? x + (k - begin) * (rows / TT_LANES) * x_step : x + c->taps.from[k] * ld;
    for (int64_t r = 0; r < rows; r += TT_LANES, src += near ? x_step : TT_LANES)
#pragma GCC unroll 4
      for (int h = 0; h < REGISTERS; h++) {
        VECTOR xi[16];
#pragma GCC unroll 16
        for (int i = 0; i < I; i++) xi[i] = load(src + i * channel + h * WIDTH);
#pragma GCC unroll 16
        for (int o = 0; o < O; o++) {
          VECTOR od = load(dst + o * d_step + r + h * WIDTH);
#pragma GCC unroll 16
          for (int i = 0; i < I; i++) sum[o * I + i][h] = FMA(od, xi[i], sum[o * I + i][h]);
        }
      }
  }
}

/* The pairs of one kernel position are sorted by position of d. Returns the first pair from
 * `begin` on whose position is `limit` or later. */
INLINE int32_t end_of_pairs(const tt_convolution *c, int64_t tap, int32_t begin, int64_t limit)
{
  int32_t end = c->taps.first[tap + 1];
  if (limit >= c->positions) return end;
  while (begin < end && c->taps.at[begin] < limit) begin++;
  return begin;
}

/* The positions of d and the rows come in blocks. Meanwhile the sums of some tiles of GRAD_OUT x
 * GRAD_IN channels and some positions of the kernel are in memory, so that a block of d and x is
 * read once for all of them. For several tiles of outputs, x is copied to the L1
 * cache, because the channels of an image may all lie in one set of it. */
enum {
  SUMS_TAPS = 9,
  SUMS = 256,
  SUMS_VALUES = 512, /* of a channel in a block */
  SUMS_WIDE = 4,     /* most tiles of input channels in a block */
  NEAR_LEAST = 3     /* x is copied if at least so many tiles of output channels use it */
};

/* Sums that are not yet in the gradient: for `outs` x `ins` tiles of channels, and `taps` positions
 * of the kernel. */
typedef struct gradient_sums {
  int64_t outs, ins, taps;
  VECTOR at[SUMS][16][REGISTERS]; /* [outs][ins][taps] */
} gradient_sums;

/* Copy some rows of `channels` channels at the positions of pairs [begin, end):
 * near[pair][rows / 16][channel][16]. */
INLINE void copy_near(const tt_convolution *c, int64_t channels, int32_t begin, int32_t end,
                      const float *x, int64_t ld, int64_t rows, float *near)
{
  int64_t x_step = c->from_positions * ld;
  for (int32_t k = begin; k < end; k++)
    for (int64_t r = 0; r < rows; r += TT_LANES) {
      const float *src = x + c->taps.from[k] * ld + r;
      for (int64_t i = 0; i < channels; i++, near += TT_LANES)
#pragma GCC unroll 4
        for (int h = 0; h < REGISTERS; h++)
          store(near + h * WIDTH, load(src + i * x_step + h * WIDTH));
    }
}

/* Add the pairs [begin, end) of position k of the kernel. */
INLINE void add_tiles(const int O, const int I, const int near, const tt_convolution *c, int64_t k,
                      int32_t begin, int32_t end, const float *d, const float *x, int64_t ld,
                      int64_t rows, gradient_sums *s)
{
  _Alignas(64) float copied[SUMS_WIDE * GRAD_IN * SUMS_VALUES];
  int64_t x_step = c->from_positions * ld;
  if (near) {
    copy_near(c, s->ins * I, begin, end, x, ld, rows, copied);
    x = copied, x_step = s->ins * I * TT_LANES;
  }
  for (int64_t o = 0; o < s->outs; o++)
    for (int64_t i = 0; i < s->ins; i++) {
      VECTOR sum[16][REGISTERS], (*place)[REGISTERS] = s->at[(o * s->ins + i) * s->taps + k];
      memcpy(sum, place, sizeof sum);
      add_pairs(O, I, near, c, begin, end, d + o * O * c->positions * ld,
                x + i * I * (near ? TT_LANES : x_step), x_step, ld, rows, sum);
      memcpy(place, sum, sizeof sum);
    }
}

/* Add the pairs [begin, end) of each position of the kernel. */
INLINE void add_block(const int O, const int I, const tt_convolution *c, const int32_t *begin,
                      const int32_t *end, const float *d, const float *x, int64_t ld, int64_t rows,
                      gradient_sums *s)
{
  for (int64_t k = 0; k < s->taps; k++)
    if (s->outs >= NEAR_LEAST)
      add_tiles(O, I, 1, c, k, begin[k], end[k], d, x, ld, rows, s);
    else
      add_tiles(O, I, 0, c, k, begin[k], end[k], d, x, ld, rows, s);
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
  int64_t step = n < SUMS_VALUES ? SUMS_VALUES / n : 1;
  s.outs = outs, s.ins = ins, s.taps = taps;
  memset(s.at, 0, (size_t)(outs * ins * taps) * sizeof *s.at);
  for (int64_t k = 0; k < taps; k++) end[k] = c->taps.first[tap + k];
  for (int64_t p = 0; p < c->positions; p += step) {
    memcpy(begin, end, sizeof begin);
    for (int64_t k = 0; k < taps; k++) end[k] = end_of_pairs(c, tap + k, begin[k], p + step);
    for (int64_t r = 0; r < n; r += SUMS_VALUES)
      add_block(O, I, c, begin, end, d + r, x + r, ld, tt_min_i64(SUMS_VALUES, n - r), &s);
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
    int64_t wide = tt_min_i64(channels / I, SUMS_WIDE), high = SUMS / taps / (wide ? wide : 1);
    for (int64_t o = 0; o < outputs / O; o += high)
      for (int64_t i = 0; i < channels / I; i += wide)
        convolve_gradient_tiles(O, I, c, tt_min_i64(high, outputs / O - o),
                                tt_min_i64(wide, channels / I - i), k, taps,
                                d + o * O * c->positions * ld, x + i * I * c->from_positions * ld,
                                g + o * O * c->output_step + i * I * c->channel_step + k, ld, n);
  }
}

/* Gradients of the weights of one position, with many channels: products of d and x, where a lane
 * has a channel, so that each value from the cache is used for more sums. Each block of TURNED
 * values of a channel is one sum over its pairs and rows in order; blocks are added in order. The
 * channels lie far apart, where the processor does not fetch ahead by itself. */
enum { AHEAD = 96 /* values */, TURNED = 128, TURNED_LEAST = 64 /* channels */ };

/* turned[rows][lanes] = x[lanes][x_step] */
INLINE void turn(const int lanes, const float *x, int64_t x_step, int64_t rows, float *turned)
{
#ifdef NARROW
  for (int64_t r = 0; r < rows; r++)
    for (int l = 0; l < lanes; l++) turned[r * lanes + l] = x[l * x_step + r];
#else
  static const int32_t lane[TT_LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  for (int l = 0; l < lanes; l += TT_LANES)
    for (int64_t r = 0; r < rows; r += 4) {
      for (int64_t k = r % TT_LANES; k < r % TT_LANES + 4; k++)
        __builtin_prefetch(x + (l + k) * x_step + r / TT_LANES * TT_LANES + TURNED);
      gather_4_columns(x + l * x_step + r, x_step, lane, turned + r * lanes + l, lanes);
    }
#endif
}

/* Add to O x V vectors of g the sums of pairs [begin, end) of some rows. */
INLINE void turned_tile(const int O, const int V, const tt_convolution *c, int64_t begin,
                        int64_t end, const float *d, const float *turned, float *g, int64_t ld,
                        int64_t rows)
{
  VECTOR sum[2 * PRODUCT_OUT][PRODUCT_ROWS];
  int64_t d_step = c->positions * ld;
#pragma GCC unroll 16
  for (int o = 0; o < O; o++)
#pragma GCC unroll 16
    for (int v = 0; v < V; v++) sum[o][v] = broadcast(0.0f);
  for (int64_t k = begin; k < end; k++) {
    const float *dst = d + c->taps.at[k] * ld;
    for (int64_t r = 0; r < rows; r++, turned += V * WIDTH) {
      VECTOR xi[PRODUCT_ROWS];
      if (r % TT_LANES == 0)
#pragma GCC unroll 16
        for (int o = 0; o < O; o++) __builtin_prefetch(dst + o * d_step + r + AHEAD);
#pragma GCC unroll 16
      for (int v = 0; v < V; v++) xi[v] = load(turned + v * WIDTH);
#pragma GCC unroll 16
      for (int o = 0; o < O; o++) {
        VECTOR w = broadcast(dst[o * d_step + r]);
#pragma GCC unroll 16
        for (int v = 0; v < V; v++) sum[o][v] = FMA(w, xi[v], sum[o][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int o = 0; o < O; o++)
#pragma GCC unroll 16
    for (int v = 0; v < V; v++) {
      float *place = g + o * c->output_step + v * WIDTH;
      store(place, load(place) + sum[o][v]);
    }
}

/* All outputs and V vectors of channels. */
INLINE void turned_panel(const int V, const tt_convolution *c, const float *d, const float *x,
                         float *g, int64_t ld, int64_t n)
{
  _Alignas(64) float turned[TURNED * PRODUCT_ROWS * WIDTH];
  int64_t pairs = c->taps.first[1], step = n < TURNED ? TURNED / n : 1;
  for (int64_t k = 0; k < pairs; k += step)
    for (int64_t r = 0; r < n; r += TURNED) {
      int64_t rows = tt_min_i64(TURNED, n - r), end = tt_min_i64(k + step, pairs), o = 0;
      for (int64_t j = k; j < end; j++)
        turn(V * WIDTH, x + c->taps.from[j] * ld + r, c->from_positions * ld, rows,
             turned + (j - k) * rows * V * WIDTH);
#define OUTPUTS(n)                                                                                 \
  turned_tile(n, V, c, k, end, d + o * c->positions * ld + r, turned, g + o * c->output_step, ld,  \
              rows)
      EACH_OUTPUT(OUTPUTS)
#undef OUTPUTS
    }
}

/* The first channels, a multiple of 16; returns their number. */
INLINE int64_t turned_gradient(const tt_convolution *c, const float *d, const float *x, float *g,
                               int64_t ld, int64_t n)
{
  int64_t i = 0, channels = c->channels / TT_LANES * TT_LANES;
  if (c->channel_step > 1 || channels < TURNED_LEAST) return 0;
#define PANEL(V) turned_panel(V, c, d, x + i * c->from_positions * ld, g + i, ld, n)
  for (; i + PRODUCT_ROWS * WIDTH <= channels; i += PRODUCT_ROWS * WIDTH) PANEL(PRODUCT_ROWS);
#if PRODUCT_ROWS > 2
  for (; i + 2 * WIDTH <= channels; i += 2 * WIDTH) PANEL(2);
  for (; i < channels; i += WIDTH) PANEL(1);
#endif
#undef PANEL
  return channels;
}

static void convolve_gradient_rows(const tt_convolution *c, const float *d, const float *x,
                                   float *g, int64_t ld, int64_t n)
{
  int64_t outputs = c->outputs / GRAD_OUT * GRAD_OUT, done = turned_gradient(c, d, x, g, ld, n);
  int64_t left = c->channels - done, channels = left / GRAD_IN * GRAD_IN;
  x += done * c->from_positions * ld, g += done * c->channel_step;
  convolve_gradient_of(GRAD_OUT, GRAD_IN, c, outputs, channels, d, x, g, ld, n);
  convolve_gradient_of(GRAD_OUT, 1, c, outputs, left - channels, d,
                       x + channels * c->from_positions * ld, g + channels * c->channel_step, ld,
                       n);
  convolve_gradient_of(1, 1, c, c->outputs - outputs, left, d + outputs * c->positions * ld, x,
                       g + outputs * c->output_step, ld, n);
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
