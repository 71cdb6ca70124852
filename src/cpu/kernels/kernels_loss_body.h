/* kernels_loss_body.h — losses and their derivatives; a fragment of kernels_body.h. */

/* value[r] += loss; d0[r], d1[r] its derivatives, for one target; all 0 where the label is unknown.
 * The compiler vectorizes the loop. */
#define X(name, output, source)                                                                    \
  static void loss_##name(tt_loss_args args, int64_t rows, const float *o0, const float *o1,       \
                          const float *restrict y, float *restrict value, float *restrict d0,      \
                          float *restrict d1)                                                      \
  {                                                                                                \
    for (int64_t r = 0; r < rows; r++) {                                                           \
      tt_loss_grad l = tt_loss_##name(o0[r], o1[r], y[r], args);                                   \
      int unknown = tt_label_is_unknown(y[r]);                                                     \
      value[r] += unknown ? 0.0f : l.value;                                                        \
      d0[r] = unknown ? 0.0f : l.d0;                                                               \
      d1[r] = unknown ? 0.0f : l.d1;                                                               \
    }                                                                                              \
  }
TT_TWO_OUTPUT_LOSSES(X)
#undef X

/* The same where the variances of the errors of the labels are known. */
static void loss_label_variance(tt_loss kind, tt_loss_args args, int64_t rows, const float *o0,
                                const float *o1, const float *y, const float *variance,
                                float *restrict value, float *restrict d0, float *restrict d1)
{
  for (int64_t r = 0; r < rows; r++) {
    tt_loss_grad l = tt_loss_with_label_variance(kind, o0[r], o1[r], y[r], variance[r], args);
    int unknown = tt_label_is_unknown(y[r]);
    value[r] += unknown ? 0.0f : l.value;
    d0[r] = unknown ? 0.0f : l.d0;
    d1[r] = unknown ? 0.0f : l.d1;
  }
}

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

/* to = from times the weights, and 0 in the padding. */
static void apply_weights(const float *from, const float *weight, float factor, int64_t rows,
                          int64_t padded, float *restrict to)
{
  for (int64_t r = 0; r < rows; r++) to[r] = from[r] * (weight ? weight[r] * factor : factor);
  for (int64_t r = rows; r < padded; r++) to[r] = 0.0f;
}

/* Loss of at most TT_LOSS_CHUNK rows of one head; term and d as in kernels.h.
 *   more  1: term has the losses of other heads, and this one is added */
static void loss_chunk(tt_loss kind, tt_loss_args args, int64_t targets, int64_t rows,
                       const float *o, const float *y, const float *variance, const float *weight,
                       float factor, int more, double *term, float *d, int64_t ld)
{
  float value[TT_LOSS_CHUNK], d0[TT_LOSS_CHUNK], d1[TT_LOSS_CHUNK];
  int64_t padded = (rows + TT_LANES - 1) / TT_LANES * TT_LANES;
  int two = tt_output_has_variance(tt_loss_output_head(kind));
  for (int64_t r = 0; r < rows; r++) value[r] = 0.0f;
  for (int64_t k = 0; k < targets; k++) {
    const float *o0 = o + k * ld, *o1 = two ? o0 + targets * ld : o0;
    if (variance)
      loss_label_variance(kind, args, rows, o0, o1, y + k * ld, variance + k * ld, value, d0, d1);
    else
      loss_target(kind, args, rows, o0, o1, y + k * ld, value, d0, d1);
    if (!d) continue;
    apply_weights(d0, weight, factor, rows, padded, d + k * ld);
    if (two) apply_weights(d1, weight, factor, rows, padded, d + (targets + k) * ld);
  }
  for (int64_t r = 0; r < rows; r++) {
    double own = weight ? (double)weight[r] * (double)value[r] : (double)value[r];
    term[r] = more ? term[r] + own : own;
  }
}

/* Losses that need all outputs of a target at once, row by row; arguments as loss of kernels.h. */
static void loss_multi_output(tt_loss kind, tt_loss_args args, const tt_model *m, int64_t rows,
                              const float *o, const float *y, const float *weight, float factor,
                              int more, double *term, float *d, int64_t ld)
{
  int64_t padded = (rows + TT_LANES - 1) / TT_LANES * TT_LANES;
  tt_loss_sample sample = {.n = m->each, .level = m->level, .step = m->targets * ld};
  for (int64_t r = 0; r < rows; r++) {
    float value = 0.0f, share = weight ? weight[r] : 1.0f;
    sample.factor = weight ? share * factor : factor;
    for (int64_t k = 0; k < m->targets; k++) {
      sample.o = o + k * ld + r;
      sample.d = d ? d + k * ld + r : NULL;
      sample.y = y[k * ld + r];
      value += tt_loss_target(kind, &sample, args);
    }
    term[r] = (more ? term[r] : 0.0) + (double)share * (double)value;
  }
  for (int64_t j = 0; d && j < m->outputs; j++)
    memset(d + j * ld + rows, 0, (size_t)(padded - rows) * sizeof *d);
}

static void head_loss(tt_loss kind, tt_loss_args args, const tt_model *model, int64_t rows,
                      const float *o, const float *y, const float *variance, const float *weight,
                      float factor, int more, double *term, float *d, int64_t ld)
{
  if (tt_loss_is_multi_output(kind)) {
    loss_multi_output(kind, args, model, rows, o, y, weight, factor, more, term, d, ld);
    return;
  }
  for (int64_t r = 0; r < rows; r += TT_LOSS_CHUNK) {
    int64_t count = rows - r < TT_LOSS_CHUNK ? rows - r : TT_LOSS_CHUNK;
    loss_chunk(kind, args, model->targets, count, o + r, y + r, variance ? variance + r : NULL,
               weight ? weight + r : NULL, factor, more, term + r, d ? d + r : NULL, ld);
  }
}

static void loss(tt_loss kind, tt_loss_args args, const tt_model *model, int64_t rows,
                 const float *o, const float *y, const float *variance, const float *weight,
                 float factor, double *term, float *d, int64_t ld)
{
  int heads = model->heads > 1 ? model->heads : 1;
  for (int h = 0; h < heads; h++) {
    int64_t offset = h * model->outputs * ld;
    head_loss(kind, args, model, rows, o + offset, y, variance, weight, factor, h > 0, term,
              d ? d + offset : NULL, ld);
  }
  for (int64_t r = 0; heads > 1 && r < rows; r++) term[r] /= (double)heads;
}
