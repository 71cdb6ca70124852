/* kernels_batch_norm_body.h — batch_norm of a channel; a fragment of kernels_body.h.
 *
 * Sums over rows and positions are in double, in 16 lanes of rows, which are added in order. */

/* Loop over 16 rows, one per lane. */
#define EACH_LANE for (int l = 0; l < TT_LANES; l++)

static double add_lanes(const double *lane)
{
  double sum = 0.0;
  EACH_LANE sum += lane[l];
  return sum;
}

/* Rows of the group of 16 rows that begins with row r. */
static int rows_of_group(int64_t rows, int64_t r)
{
  return rows - r < TT_LANES ? (int)(rows - r) : TT_LANES;
}

static void moments(int64_t each, int64_t rows, const float *x, float *mean, float *variance,
                    int64_t ld)
{
  double sum[TT_LANES] = {0}, squares[TT_LANES] = {0}, count = (double)(each * rows);
  for (int64_t p = 0; p < each; p++)
    for (int64_t r = 0; r < rows; r += TT_LANES) {
      const float *place = x + p * ld + r;
      int n = rows_of_group(rows, r);
      for (int l = 0; l < n; l++) sum[l] += (double)place[l];
    }
  double center = add_lanes(sum) / count;
  for (int64_t p = 0; p < each; p++)
    for (int64_t r = 0; r < rows; r += TT_LANES) {
      const float *place = x + p * ld + r;
      int n = rows_of_group(rows, r);
      for (int l = 0; l < n; l++) {
        double from_center = (double)place[l] - center;
        squares[l] += from_center * from_center;
      }
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

static void normalize_gradient(int64_t each, int64_t rows, const tt_channel_norm *c,
                               const float *normalized, const float *src, float *dst, int64_t ld,
                               int64_t n)
{
  double sum[TT_LANES] = {0}, along[TT_LANES] = {0}, count = (double)(each * rows);
  for (int64_t p = 0; p < each; p++)
    for (int64_t r = 0; r < rows; r += TT_LANES) {
      const float *d = src + p * ld + r, *z = normalized + p * ld + r;
      int in_group = rows_of_group(rows, r);
      for (int l = 0; l < in_group; l++) {
        sum[l] += (double)d[l];
        along[l] += (double)d[l] * (double)z[l];
      }
    }
  float mean = c->gain * (float)(add_lanes(sum) / count);
  float mean_along = c->gain * (float)(add_lanes(along) / count);
  for (int64_t p = 0; p < each; p++)
    for (int64_t r = 0; r < n; r += TT_LANES) {
      int64_t offset = p * ld + r;
      int in_group = r < rows ? rows_of_group(rows, r) : 0;
      EACH_LANE
      {
        float delta = tt_layer_norm_delta(c->gain * src[offset + l], mean, mean_along,
                                          normalized[offset + l], c->inverse_std);
        dst[offset + l] = l < in_group ? delta : 0.0f;
      }
    }
}
#undef EACH_LANE
