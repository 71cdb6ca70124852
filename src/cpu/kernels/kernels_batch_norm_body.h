/* kernels_batch_norm_body.h — batch_norm of a channel; a fragment of kernels_body.h.
 *
 * Sums over rows and positions are in double, in 16 lanes of rows, which are added in order. */

/* Loop over 16 rows, one per lane. gcc does not vectorize a loop that it has unrolled. */
#define EACH_LANE _Pragma("GCC unroll 1") for (int l = 0; l < TT_LANES; l++)

static double add_lanes(const double *lane)
{
  double sum = 0.0;
  EACH_LANE sum += lane[l];
  return sum;
}

/* Add n values of a position, and the squares of their distance from `center`. */
INLINE void add_values(const int n, const float *x, double *sum)
{
#pragma GCC unroll 1
  for (int l = 0; l < n; l++) sum[l] += (double)x[l];
}

INLINE void add_squares(const int n, const float *x, double center, double *sum)
{
#pragma GCC unroll 1
  for (int l = 0; l < n; l++) {
    double from_center = (double)x[l] - center;
    sum[l] += from_center * from_center;
  }
}

static void moments(int64_t each, int64_t rows, const float *x, float *mean, float *variance,
                    int64_t ld)
{
  double sum[TT_LANES] = {0}, squares[TT_LANES] = {0}, count = (double)(each * rows);
  int64_t whole = rows / TT_LANES * TT_LANES;
  for (int64_t p = 0; p < each; p++) {
    for (int64_t r = 0; r < whole; r += TT_LANES) add_values(TT_LANES, x + p * ld + r, sum);
    add_values((int)(rows - whole), x + p * ld + whole, sum);
  }
  double center = add_lanes(sum) / count;
  for (int64_t p = 0; p < each; p++) {
    for (int64_t r = 0; r < whole; r += TT_LANES)
      add_squares(TT_LANES, x + p * ld + r, center, squares);
    add_squares((int)(rows - whole), x + p * ld + whole, center, squares);
  }
  *mean = (float)center;
  *variance = (float)(add_lanes(squares) / count);
}

static void normalize(int64_t each, const tt_channel_norm *c, const float *x, float *normalized,
                      float *y, int64_t ld, int64_t n)
{
  for (int64_t p = 0; p < each; p++)
    for (int64_t r = 0; r < n; r += TT_LANES) {
      int64_t offset = p * ld + r;
      float scaled[TT_LANES];
      EACH_LANE scaled[l] = tt_layer_norm_normalized(x[offset + l], c->mean, c->inverse_std);
      if (normalized) memcpy(normalized + offset, scaled, sizeof scaled);
      EACH_LANE y[offset + l] = tt_layer_norm_output(scaled[l], c->gain, c->shift);
    }
}

INLINE void add_deltas(const int n, const float *normalized, const float *d, double *sum,
                       double *along)
{
#pragma GCC unroll 1
  for (int l = 0; l < n; l++) {
    sum[l] += (double)d[l];
    along[l] += (double)d[l] * (double)normalized[l];
  }
}

static void delta_sums(int64_t each, int64_t rows, const float *normalized, const float *d,
                       float sums[2], int64_t ld)
{
  double sum[TT_LANES] = {0}, along[TT_LANES] = {0};
  int64_t whole = rows / TT_LANES * TT_LANES;
  for (int64_t p = 0; p < each; p++) {
    const float *z = normalized + p * ld, *src = d + p * ld;
    for (int64_t r = 0; r < whole; r += TT_LANES) add_deltas(TT_LANES, z + r, src + r, sum, along);
    add_deltas((int)(rows - whole), z + whole, src + whole, sum, along);
  }
  sums[0] = (float)add_lanes(sum);
  sums[1] = (float)add_lanes(along);
}

static void normalize_gradient(int64_t each, int64_t rows, const tt_channel_norm *c,
                               const float sums[2], const float *normalized, const float *src,
                               float *dst, int64_t ld, int64_t n)
{
  float share = c->gain / (float)(each * rows), mean = share * sums[0], along = share * sums[1];
  for (int64_t p = 0; p < each; p++)
    for (int64_t r = 0; r < n; r += TT_LANES) {
      int64_t offset = p * ld + r;
      int in_group = (int)(rows - r < TT_LANES ? rows - r : TT_LANES); /* or none, below 0 */
      EACH_LANE
      {
        float delta = tt_layer_norm_delta(c->gain * src[offset + l], mean, along,
                                          normalized[offset + l], c->inverse_std);
        dst[offset + l] = l < in_group ? delta : 0.0f;
      }
    }
}
#undef EACH_LANE
