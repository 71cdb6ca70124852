/* kernels_layers_body.h — activations, layer_norm, dropout and residual layers; a fragment of
 * kernels_body.h. */

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

/* If no values lie between the rows (n == ld), all rows are one loop. The switch stands in the
 * loop: a function of its own makes a step of small networks 3 to 5 % slower. */
static void activate(tt_activation kind, int64_t out, int64_t n, float *z, float *y, int64_t ld,
                     int gradient)
{
  if (n == ld) n *= out, out = 1;
  for (int64_t o = 0; o < out; o++, z += ld, y += ld) switch (kind) {
#define X(name, f, df, ...)                                                                        \
  case TT_ACT_##name:                                                                              \
    if (gradient)                                                                                  \
      value_and_gradient_##name(n, z, y);                                                          \
    else                                                                                           \
      value_##name(n, z, y);                                                                       \
    break;
      TT_ACTIVATIONS(X)
#undef X
    default: break;
    }
}

/* Loop over 16 rows, one per lane. */
#define EACH_LANE for (int l = 0; l < TT_LANES; l++)

static void add(int64_t out, const float *x, float *y, int64_t ld, int64_t n)
{
  for (int64_t o = 0; o < out; o++)
    for (int64_t r = 0; r < n; r++) y[o * ld + r] += x[o * ld + r];
}

static void times(int64_t out, const float *x, float *y, int64_t ld, int64_t n)
{
  for (int64_t o = 0; o < out; o++)
    for (int64_t r = 0; r < n; r++) y[o * ld + r] *= x[o * ld + r];
}

/* Mean over features, and 1 / standard deviation, of 16 rows of z[out][ld]. */
static void row_mean_std(int64_t out, const float *z, int64_t ld, float *mean, float *inverse_std)
{
  float sum[TT_LANES] = {0}, squares[TT_LANES] = {0}, share = 1.0f / (float)out;
  for (int64_t o = 0; o < out; o++) EACH_LANE sum[l] += z[o * ld + l];
  EACH_LANE mean[l] = sum[l] * share;
  for (int64_t o = 0; o < out; o++) EACH_LANE
    {
      float e = z[o * ld + l] - mean[l];
      squares[l] = tt_fma(e, e, squares[l]);
    }
  EACH_LANE inverse_std[l] = tt_layer_norm_inverse_std(squares[l], share);
}

static void norm(int64_t out, int64_t each, const float *gain, const float *shift, float *z,
                 float *normalized, float *inverse_std, int64_t ld, int64_t n)
{
  for (int64_t r = 0; r < n; r += TT_LANES) {
    float mean[TT_LANES], inverse[TT_LANES];
    row_mean_std(out * each, z + r, ld, mean, inverse);
    if (normalized) memcpy(inverse_std + r, inverse, sizeof inverse);
    for (int64_t o = 0; o < out; o++)
      for (int64_t i = o * each; i < (o + 1) * each; i++) {
        float *place = z + i * ld + r, scaled[TT_LANES];
        EACH_LANE scaled[l] = tt_layer_norm_normalized(place[l], mean[l], inverse[l]);
        if (normalized) memcpy(normalized + i * ld + r, scaled, sizeof scaled);
        EACH_LANE place[l] = tt_layer_norm_output(scaled[l], gain[o], shift[o]);
      }
  }
}

static void norm_gradient(int64_t out, int64_t each, const float *gain, const float *normalized,
                          const float *inverse_std, const float *src, float *dst, int64_t ld,
                          int64_t n)
{
  float share = 1.0f / (float)(out * each);
  for (int64_t r = 0; r < n; r += TT_LANES) {
    float sum[TT_LANES] = {0}, along[TT_LANES] = {0};
    for (int64_t o = 0; o < out; o++)
      for (int64_t i = o * each; i < (o + 1) * each; i++) EACH_LANE
        {
          float e = gain[o] * src[i * ld + r + l];
          sum[l] += e;
          along[l] = tt_fma(e, normalized[i * ld + r + l], along[l]);
        }
    EACH_LANE sum[l] *= share;
    EACH_LANE along[l] *= share;
    for (int64_t o = 0; o < out; o++)
      for (int64_t i = o * each; i < (o + 1) * each; i++) EACH_LANE
        {
          int64_t offset = i * ld + r + l;
          dst[offset] = tt_layer_norm_delta(gain[o] * src[offset], sum[l], along[l],
                                            normalized[offset], inverse_std[r + l]);
        }
  }
}

static void drop(const tt_dropout *p, int64_t first, int64_t units, float *h, float *slope,
                 int64_t ld, int64_t n)
{
  float kept = 1.0f / (1.0f - p->p);
  for (int64_t u = 0; u < units; u++)
    for (int64_t r = 0; r < n; r += 4) {
      tt_random4 x = tt_dropout_draw(p->seed, p->stream, p->step, (uint32_t)(first + u),
                                     p->first + (uint32_t)r, p->batch_size);
      for (int j = 0; j < 4; j++) {
        float factor = tt_uniform(x.v[j]) >= p->p ? kept : 0.0f;
        h[u * ld + r + j] *= factor;
        if (slope) slope[u * ld + r + j] *= factor;
      }
    }
}
#undef EACH_LANE
