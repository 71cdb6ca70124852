/* output.h — what the numbers of the last layer mean, and what is predicted from them. Floor 1; gcc
 * and nvcc.
 *
 * A network has `each` outputs for each of its K targets; output j of target k is number j * K + k.
 * From them follow q quantities a target, each with a mean and a variance; quantity j of target k
 * is number k * q + j. Ensembles are mixtures over these (moments.h). */
#ifndef TT_OUTPUT_H
#define TT_OUTPUT_H
#include "core/formulas/elementwise.h"

enum { TT_MAX_QUANTILES = 32, TT_MAX_CLASSES = 256 };

/* name, outputs a target, quantities a target (n levels or classes), meaning */
#define TT_OUTPUTS(X)                                                                              \
  X(mean, 1, 1, "one number")                                                                      \
  X(mean_variance, 2, 1, "mean, and softplus of the second output plus a floor as variance")       \
  X(quantiles, n, n, "one number for each level, put in order")                                    \
  X(softmax, n, n + 1, "probability of each class, then their entropy in nats")                    \
  X(sigmoid, 1, 1, "probability p; its variance is p (1 - p)")                                     \
  X(rate, 1, 1, "e to the output is the mean of a count, and its variance")

typedef enum tt_output {
#define X(name, each, quantities, meaning) TT_OUTPUT_##name,
  TT_OUTPUTS(X)
#undef X
      TT_OUTPUT_COUNT
} tt_output;

/* Outputs of the last layer for one target; n = levels or classes. */
TT_HD int32_t tt_outputs_per_target(tt_output kind, int32_t n)
{
  (void)n;
  switch (kind) {
#define X(name, each, quantities, meaning)                                                         \
  case TT_OUTPUT_##name: return each;
    TT_OUTPUTS(X)
#undef X
  default: return 0;
  }
}

/* q: predicted quantities of one target. */
TT_HD int32_t tt_quantities_per_target(tt_output kind, int32_t n)
{
  (void)n;
  switch (kind) {
#define X(name, each, quantities, meaning)                                                         \
  case TT_OUTPUT_##name: return quantities;
    TT_OUTPUTS(X)
#undef X
  default: return 0;
  }
}

/* Ascending, in place: levels must not cross. Chernozhukov, Fernandez-Val, Galichon 2010 show that
 * sorting brings quantiles closer to the true ones. `q[j * step]`, j in [0, n). */
TT_HD void tt_sort_quantiles(int32_t n, float *q, int64_t step)
{
  for (int32_t j = 1; j < n; j++) {
    float x = q[j * step];
    int32_t i = j;
    for (; i > 0 && q[(i - 1) * step] > x; i--) q[i * step] = q[(i - 1) * step];
    q[i * step] = x;
  }
}

/* Probabilities of n classes and their entropy, into mean[0..n]. */
TT_HD void tt_predict_softmax(int32_t n, const float *o, int64_t step, float *mean, float *variance,
                              int64_t to)
{
  float most = o[0], sum = 0.0f, entropy = 0.0f;
  for (int32_t j = 1; j < n; j++) most = o[j * step] > most ? o[j * step] : most;
  for (int32_t j = 0; j < n; j++) sum += tt_expf(o[j * step] - most);
  float log_sum = tt_logf(sum);
  for (int32_t j = 0; j < n; j++) {
    float log_p = o[j * step] - most - log_sum, p = tt_expf(log_p);
    entropy -= p * log_p;
    mean[j * to] = p;
    variance[j * to] = p * (1.0f - p);
  }
  mean[n * to] = entropy;
  variance[n * to] = 0.0f;
}

/* The quantities of one target in one row.
 *   o               outputs of the target at o[j * step]
 *   mean, variance  quantity j at [j * to] */
TT_HD void tt_output_predict(tt_output kind, int32_t n, float variance_floor, const float *o,
                             int64_t step, float *mean, float *variance, int64_t to)
{
  float p;
  switch (kind) {
  case TT_OUTPUT_mean_variance:
    mean[0] = o[0];
    variance[0] = tt_softplus(o[step]) + variance_floor;
    return;
  case TT_OUTPUT_quantiles:
    for (int32_t j = 0; j < n; j++) {
      mean[j * to] = o[j * step];
      variance[j * to] = 0.0f;
    }
    tt_sort_quantiles(n, mean, to);
    return;
  case TT_OUTPUT_softmax: tt_predict_softmax(n, o, step, mean, variance, to); return;
  case TT_OUTPUT_sigmoid:
    p = tt_sigmoid(o[0]);
    mean[0] = p;
    variance[0] = p * (1.0f - p);
    return;
  case TT_OUTPUT_rate: mean[0] = variance[0] = tt_expf(o[0]); return;
  default: mean[0] = o[0]; variance[0] = 0.0f;
  }
}
#endif
