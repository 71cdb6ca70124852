/* kernels_optimizer_body.h — steps of the optimizers, norm of the gradient; a fragment of
 * kernels_body.h. */

/* Each value is loaded once and stored once: in memory, a slot that an optimizer does not have
 * would be another name of its first one, and the compiler would load and store after each
 * assignment. */
#define X(name, slots, ...)                                                                        \
  static void step_##name(int64_t count, float *restrict w, const float *restrict g,               \
                          float *restrict s0, float *restrict s1, float *restrict s2,              \
                          tt_optimizer_args args)                                                  \
  {                                                                                                \
    for (int64_t i = 0; i < count; i++) {                                                          \
      float weight = w[i], first = s0[i];                                                          \
      float second = slots > 1 ? s1[i] : 0.0f, third = slots > 2 ? s2[i] : 0.0f;                   \
      tt_optimizer_step_##name(&weight, g[i], &first, &second, &third, args);                      \
      w[i] = weight;                                                                               \
      s0[i] = first;                                                                               \
      if (slots > 1) s1[i] = second;                                                               \
      if (slots > 2) s2[i] = third;                                                                \
    }                                                                                              \
  }
TT_OPTIMIZERS(X)
#undef X

static void step(tt_optimizer kind, int64_t count, float *w, const float *g, float *slots,
                 int64_t stride, tt_optimizer_args args)
{
  switch (kind) {
#define X(name, slot_count, ...)                                                                   \
  case TT_OPT_##name:                                                                              \
    step_##name(count, w, g, slots, slot_count > 1 ? slots + stride : NULL,                        \
                slot_count > 2 ? slots + 2 * stride : NULL, args);                                 \
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
