/* output.h — the outputs of the last layer, and the quantities predicted from them. For gcc and
 * nvcc.
 *
 * A network has `each` outputs for each of its K targets; output j of target k has index j * K + k.
 * From them it predicts q quantities per target, each with a mean and a variance; quantity j of
 * target k has index k * q + j. Ensembles are mixtures over these quantities (moments.h). */
#ifndef TT_OUTPUT_H
#define TT_OUTPUT_H
#include "core/formulas/elementwise.h"

enum { TT_MAX_QUANTILES = 32, TT_MAX_CLASSES = 1024 };

/* What is predicted for a target. It decides which metrics and acquisition functions are possible,
 * the units and names of columns, and the intervals of calibration.
 * name, largest n (0: there is no n), what the quantities are */
#define TT_FORECAST_KINDS(X)                                                                       \
  X(gaussian, 0, "a number and its variance")                                                      \
  X(quantiles, TT_MAX_QUANTILES, "one number for each level of model.quantiles, ascending")        \
  X(categorical, TT_MAX_CLASSES, "probability of each class of model.classes, then their entropy") \
  X(bernoulli, 0, "probability p of a class; the other class has 1 - p")                           \
  X(poisson, 0, "mean of a count")

typedef enum tt_forecast_kind {
#define X(name, max_n, meaning) TT_FORECAST_##name,
  TT_FORECAST_KINDS(X)
#undef X
      TT_FORECAST_KIND_COUNT
} tt_forecast_kind;

/* Valid labels y. Real labels are normalized, all others are used unchanged.
 * name, condition on y with n classes, the condition in words */
#define TT_LABEL_TYPES(X)                                                                          \
  X(real, 1, "a number")                                                                           \
  X(class_index, y >= 0.0 && y < n && y == (double)(int32_t)y,                                     \
    "a whole number from 0 to the number of classes - 1")                                          \
  X(probability, y >= 0.0 && y <= 1.0, "a number from 0 to 1")                                     \
  X(count, y >= 0.0, "a number of at least 0")

typedef enum tt_label_type {
#define X(name, condition, text) TT_LABEL_TYPE_##name,
  TT_LABEL_TYPES(X)
#undef X
      TT_LABEL_TYPE_COUNT
} tt_label_type;

/* name, outputs per target (with 2, the variance follows from the second), quantities per target (n
 * levels or classes), tt_forecast_kind, tt_label_type, meaning. The quantities come from the
 * functions tt_predict_<name> and tt_slopes_<name> below. */
#define TT_OUTPUTS(X)                                                                              \
  X(mean, 1, 1, gaussian, real, "one number")                                                      \
  X(mean_variance, 2, 1, gaussian, real,                                                           \
    "mean, and softplus of the second output plus a floor as variance")                            \
  X(quantiles, n, n, quantiles, real, "one number for each level, sorted")                         \
  X(softmax, n, n + 1, categorical, class_index,                                                   \
    "probability of each class, then their entropy in nats")                                       \
  X(sigmoid, 1, 1, bernoulli, probability, "probability p; its variance is p (1 - p)")             \
  X(rate, 1, 1, poisson, count, "exp(output) is the mean of a count, and its variance")

typedef enum tt_output {
#define X(name, each, quantities, ...) TT_OUTPUT_##name,
  TT_OUTPUTS(X)
#undef X
      TT_OUTPUT_COUNT
} tt_output;

/* Outputs of the last layer for one target; n = levels or classes. */
TT_HD int32_t tt_outputs_per_target(tt_output kind, int32_t n)
{
  (void)n;
  switch (kind) {
#define X(name, each, quantities, ...)                                                             \
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
#define X(name, each, quantities, ...)                                                             \
  case TT_OUTPUT_##name: return quantities;
    TT_OUTPUTS(X)
#undef X
  default: return 0;
  }
}

/* 1 if the variance follows from the second output of a target. */
TT_HD int tt_output_has_variance(tt_output kind)
{
  const int32_t n = 0;
  (void)n;
  switch (kind) {
#define X(name, each, ...)                                                                         \
  case TT_OUTPUT_##name: return (each) == 2;
    TT_OUTPUTS(X)
#undef X
  default: return 0;
  }
}

TT_HD tt_forecast_kind tt_output_forecast(tt_output kind)
{
  switch (kind) {
#define X(name, each, quantities, forecast, ...)                                                   \
  case TT_OUTPUT_##name: return TT_FORECAST_##forecast;
    TT_OUTPUTS(X)
#undef X
  default: return TT_FORECAST_gaussian;
  }
}

/* 1 if the output predicts probabilities of classes. */
TT_HD int tt_output_is_class(tt_output kind)
{
  tt_forecast_kind forecast = tt_output_forecast(kind);
  return forecast == TT_FORECAST_categorical || forecast == TT_FORECAST_bernoulli;
}

/* Largest number n of levels or classes; 0: the output has none. */
TT_HD int32_t tt_output_max_levels(tt_output kind)
{
  switch (tt_output_forecast(kind)) {
#define X(name, max_n, meaning)                                                                    \
  case TT_FORECAST_##name: return max_n;
    TT_FORECAST_KINDS(X)
#undef X
  default: return 0;
  }
}

TT_HD tt_label_type tt_output_labels(tt_output kind)
{
  switch (kind) {
#define X(name, each, quantities, forecast, labels, ...)                                           \
  case TT_OUTPUT_##name: return TT_LABEL_TYPE_##labels;
    TT_OUTPUTS(X)
#undef X
  default: return TT_LABEL_TYPE_real;
  }
}

/* Whether y (not NaN) is a valid label of this type, with n classes. */
TT_HD int tt_label_fits(tt_label_type type, int32_t n, double y)
{
  (void)n;
  switch (type) {
#define X(name, condition, text)                                                                   \
  case TT_LABEL_TYPE_##name: return condition;
    TT_LABEL_TYPES(X)
#undef X
  default: return 0;
  }
}

/* Index in [0, n) of the class that label y names; -1: it names none. Every label that becomes an
 * index goes through this function. */
TT_HD int32_t tt_class_index(float y, int32_t n)
{
  return y >= 0.0f && y < (float)n ? (int32_t)y : -1;
}

/* The functions of the table: the quantities of one target in one row.
 *   o               outputs of the target at o[j * step]
 *   mean, variance  quantity j at [j * to] */
TT_HD void tt_predict_mean(int32_t n, float variance_floor, const float *o, int64_t step,
                           float *mean, float *variance, int64_t out_step)
{
  mean[0] = o[0];
  variance[0] = 0.0f;
  (void)n, (void)variance_floor, (void)step, (void)out_step;
}

TT_HD void tt_predict_mean_variance(int32_t n, float variance_floor, const float *o, int64_t step,
                                    float *mean, float *variance, int64_t out_step)
{
  mean[0] = o[0];
  variance[0] = tt_softplus(o[step]) + variance_floor;
  (void)n, (void)out_step;
}

/* Sort in place, ascending, so that quantiles do not cross. Chernozhukov, Fernandez-Val & Galichon
 * 2010 show that sorted quantiles are closer to the true ones. `q[j * step]`, j in [0, n). */
TT_HD void tt_sort_quantiles(int32_t n, float *q, int64_t step)
{
  for (int32_t j = 1; j < n; j++) {
    float x = q[j * step];
    int32_t i = j;
    for (; i > 0 && q[(i - 1) * step] > x; i--) q[i * step] = q[(i - 1) * step];
    q[i * step] = x;
  }
}

TT_HD void tt_predict_quantiles(int32_t n, float variance_floor, const float *o, int64_t step,
                                float *mean, float *variance, int64_t out_step)
{
  for (int32_t j = 0; j < n; j++) {
    mean[j * out_step] = o[j * step];
    variance[j * out_step] = 0.0f;
  }
  tt_sort_quantiles(n, mean, out_step);
  (void)variance_floor;
}

/* Probabilities of n classes and their entropy, into mean[0..n]. */
TT_HD void tt_predict_softmax(int32_t n, float variance_floor, const float *o, int64_t step,
                              float *mean, float *variance, int64_t out_step)
{
  float most = o[0], sum = 0.0f, entropy = 0.0f;
  for (int32_t j = 1; j < n; j++) most = o[j * step] > most ? o[j * step] : most;
  for (int32_t j = 0; j < n; j++) sum += tt_expf(o[j * step] - most);
  float log_sum = tt_logf(sum);
  for (int32_t j = 0; j < n; j++) {
    float log_p = o[j * step] - most - log_sum, p = tt_expf(log_p);
    entropy -= p * log_p;
    mean[j * out_step] = p;
    variance[j * out_step] = p * (1.0f - p);
  }
  mean[n * out_step] = entropy;
  variance[n * out_step] = 0.0f;
  (void)variance_floor;
}

TT_HD void tt_predict_sigmoid(int32_t n, float variance_floor, const float *o, int64_t step,
                              float *mean, float *variance, int64_t out_step)
{
  float p = tt_sigmoid(o[0]);
  mean[0] = p;
  variance[0] = p * tt_sigmoid(-o[0]); /* 1 - p would be 0 from o[0] = 17 on */
  (void)n, (void)variance_floor, (void)step, (void)out_step;
}

/* 1 - p from the mean p and variance p (1 - p) of a class, also of a mixture: precise where single
 * precision has rounded p to 1. */
TT_HD double tt_bernoulli_complement(double p, double variance)
{
  return p > 0.5 ? variance / p : 1.0 - p;
}

/* ln p; a probability that single precision has rounded to 0 counts as 2^-126, its smallest normal
 * number, so that one row cannot make a loss infinite. */
TT_HD double tt_log_probability(double p) { return log(p < 0x1p-126 ? 0x1p-126 : p); }

TT_HD void tt_predict_rate(int32_t n, float variance_floor, const float *o, int64_t step,
                           float *mean, float *variance, int64_t out_step)
{
  mean[0] = variance[0] = tt_expf(o[0]);
  (void)n, (void)variance_floor, (void)step, (void)out_step;
}

/* The quantities of one target, for any output. */
TT_HD void tt_output_predict(tt_output kind, int32_t n, float variance_floor, const float *o,
                             int64_t step, float *mean, float *variance, int64_t out_step)
{
  switch (kind) {
#define X(name, ...)                                                                               \
  case TT_OUTPUT_##name:                                                                           \
    tt_predict_##name(n, variance_floor, o, step, mean, variance, out_step);                       \
    return;
    TT_OUTPUTS(X)
#undef X
  default: return;
  }
}

/* Quantities of one target in one row with their derivatives by D inputs, in double, for the host.
 */
typedef struct tt_output_slopes {
  int32_t n; /* levels or classes */
  double variance_floor;
  int64_t inputs;              /* D */
  const double *o, *d_o;       /* outputs of the target [each], their derivatives [each][D] */
  double *mean, *variance;     /* [q] written */
  double *d_mean, *d_variance; /* [q][D] written */
} tt_output_slopes;

/* Quantity j, whose mean is a function of output i with derivative d_mean, and whose variance is
 * one of output k with derivative d_variance. */
static inline void tt_slope_by_output(const tt_output_slopes *s, int64_t j, int64_t i,
                                      double d_mean, int64_t k, double d_variance)
{
  for (int64_t d = 0; d < s->inputs; d++) {
    s->d_mean[j * s->inputs + d] = d_mean * s->d_o[i * s->inputs + d];
    s->d_variance[j * s->inputs + d] = d_variance * s->d_o[k * s->inputs + d];
  }
}

/* The functions of the table: values and derivatives of the functions tt_predict_<name>. */
static inline void tt_slopes_mean(const tt_output_slopes *s)
{
  s->mean[0] = s->o[0];
  s->variance[0] = 0.0;
  tt_slope_by_output(s, 0, 0, 1.0, 0, 0.0);
}

static inline void tt_slopes_mean_variance(const tt_output_slopes *s)
{
  double e = exp(-fabs(s->o[1]));
  s->mean[0] = s->o[0];
  s->variance[0] = fmax(s->o[1], 0.0) + log1p(e) + s->variance_floor;
  tt_slope_by_output(s, 0, 0, 1.0, 1, (s->o[1] > 0.0 ? 1.0 : e) / (1.0 + e));
}

static inline void tt_slopes_quantiles(const tt_output_slopes *s)
{
  for (int32_t i = 0; i < s->n; i++) {
    int32_t j = 0; /* the place of output i in ascending order */
    for (int32_t k = 0; k < s->n; k++) j += s->o[k] < s->o[i] || (s->o[k] == s->o[i] && k < i);
    s->mean[j] = s->o[i];
    s->variance[j] = 0.0;
    tt_slope_by_output(s, j, i, 1.0, i, 0.0);
  }
}

/* dp_j = p_j (do_j - sum p do);  dH = -sum ln p dp. */
static inline void tt_slopes_softmax(const tt_output_slopes *s)
{
  double most = s->o[0], sum = 0.0;
  for (int32_t j = 1; j < s->n; j++) most = fmax(most, s->o[j]);
  for (int32_t j = 0; j < s->n; j++) sum += exp(s->o[j] - most);
  s->mean[s->n] = s->variance[s->n] = 0.0;
  for (int32_t j = 0; j < s->n; j++) {
    double log_p = s->o[j] - most - log(sum);
    s->mean[j] = exp(log_p);
    s->variance[j] = s->mean[j] * (1.0 - s->mean[j]);
    s->mean[s->n] -= s->mean[j] * log_p;
  }
  for (int64_t d = 0; d < s->inputs; d++) {
    double *d_mean = s->d_mean + d, *d_variance = s->d_variance + d, along = 0.0, entropy = 0.0;
    for (int32_t j = 0; j < s->n; j++) along += s->mean[j] * s->d_o[j * s->inputs + d];
    for (int32_t j = 0; j < s->n; j++) {
      double d_p = s->mean[j] * (s->d_o[j * s->inputs + d] - along);
      d_mean[j * s->inputs] = d_p;
      d_variance[j * s->inputs] = (1.0 - 2.0 * s->mean[j]) * d_p;
      entropy -= (s->o[j] - most) * d_p; /* the sum of d_p is 0 */
    }
    d_mean[s->n * s->inputs] = entropy;
    d_variance[s->n * s->inputs] = 0.0;
  }
}

static inline void tt_slopes_sigmoid(const tt_output_slopes *s)
{
  double e = exp(-fabs(s->o[0])), small = e / (1.0 + e), p = s->o[0] > 0.0 ? 1.0 - small : small;
  s->mean[0] = p;
  s->variance[0] = small * (1.0 - small);
  tt_slope_by_output(s, 0, 0, s->variance[0], 0, s->variance[0] * (1.0 - 2.0 * p));
}

static inline void tt_slopes_rate(const tt_output_slopes *s)
{
  s->mean[0] = s->variance[0] = exp(s->o[0]);
  tt_slope_by_output(s, 0, 0, s->mean[0], 0, s->mean[0]);
}

/* For any output. */
static inline void tt_output_differentiate(tt_output kind, const tt_output_slopes *s)
{
  switch (kind) {
#define X(name, ...)                                                                               \
  case TT_OUTPUT_##name: tt_slopes_##name(s); return;
    TT_OUTPUTS(X)
#undef X
  default: return;
  }
}
#endif
