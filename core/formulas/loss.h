/* loss.h — loss functions: value and gradient of one row and one target. For gcc and nvcc.
 *
 * The loss of a batch is (1 / B) * sum over its B rows of weight * sum over its K targets of l.
 * Every l is divided by K: the loss is the mean over the targets, as with reduction="mean" of
 * torch; the l of an unknown label is 0. It is summed over members, never averaged, so the learning
 * rate of a member does not depend on their number.
 */
#ifndef TT_LOSS_H
#define TT_LOSS_H
#include "core/formulas/output.h"

/* Parameters of losses: a row is a field of tt_loss_args and the option train.<name> it comes from
 * (options.def).
 * name, meaning */
#define TT_LOSS_PARAMETERS(X)                                                                      \
  X(variance_floor, "added to softplus(o1)")                                                       \
  X(huber_delta, "error at which huber changes from quadratic to linear")                          \
  X(nll_beta, "power of the variance that multiplies the gradient of gaussian_nll")

typedef struct tt_loss_args {
#define X(name, meaning) float name;
  TT_LOSS_PARAMETERS(X)
#undef X
  float inverse_targets; /* 1 / K: a factor of every loss */
} tt_loss_args;

/* Loss of one target and its derivatives by the outputs of the network: o0 the mean, o1 the raw
 * variance (0 where there is none). */
typedef struct tt_loss_grad {
  float value, d0, d1; /* l, dl/do0, dl/do1 */
} tt_loss_grad;

/* Prediction of the mixture of an ensemble for one target. Its loss is in double, and for one
 * member alone equal to the loss of that member up to rounding. */
typedef struct tt_ensemble_outputs {
  int32_t n;                     /* levels */
  const float *level;            /* [n] for quantile */
  const double *mean, *variance; /* [q] of the mixture of the members' quantities (output.h); the
                                  * variance of mean_variance and sigmoid only */
  double y, inverse_targets;
  tt_loss_args args;
} tt_ensemble_outputs;

/* (o0 - y)^2 / K, as torch.nn.MSELoss. */
TT_HD tt_loss_grad tt_loss_mse(float o0, float o1, float y, tt_loss_args a)
{
  float e = o0 - y;
  tt_loss_grad g = {e * e * a.inverse_targets, 2.0f * e * a.inverse_targets, 0.0f};
  (void)o1;
  return g;
}

TT_HD double tt_ensemble_mse(const tt_ensemble_outputs *v)
{
  double e = v->mean[0] - v->y;
  return e * e * v->inverse_targets;
}

/* |o0 - y| / K, as torch.nn.L1Loss. */
TT_HD tt_loss_grad tt_loss_mae(float o0, float o1, float y, tt_loss_args a)
{
  float e = o0 - y;
  float sign = e > 0.0f ? 1.0f : e < 0.0f ? -1.0f : 0.0f;
  tt_loss_grad g = {fabsf(e) * a.inverse_targets, sign * a.inverse_targets, 0.0f};
  (void)o1;
  return g;
}

TT_HD double tt_ensemble_mae(const tt_ensemble_outputs *v)
{
  return fabs(v->mean[0] - v->y) * v->inverse_targets;
}

/* e^2 / 2 near 0, delta (|e| - delta / 2) beyond delta, over K, as torch.nn.HuberLoss. */
TT_HD tt_loss_grad tt_loss_huber(float o0, float o1, float y, tt_loss_args a)
{
  float e = o0 - y, delta = a.huber_delta;
  float cut = e > delta ? delta : e < -delta ? -delta : e;
  tt_loss_grad g = {cut * (e - 0.5f * cut) * a.inverse_targets, cut * a.inverse_targets, 0.0f};
  (void)o1;
  return g;
}

TT_HD double tt_ensemble_huber(const tt_ensemble_outputs *v)
{
  double e = fabs(v->mean[0] - v->y), delta = (double)v->args.huber_delta;
  double cut = e > delta ? delta : e;
  return cut * (e - 0.5 * cut) * v->inverse_targets;
}

/* (ln(v) / 2 + (y - o0)^2 / (2 v)) / K with v = softplus(o1) + floor, without the constant
 * ln(2 pi) / 2, as torch.nn.GaussianNLLLoss. Nix & Weigend 1994.
 * The gradient is multiplied by v^beta, as in beta-NLL (Seitzer et al. 2022): the likelihood
 * divides errors of the mean by v, so that rows that are not learned yet soon count as noise and
 * are never learned. The value, which chooses epochs and stops, is the likelihood. beta 0: its
 * gradient. */
TT_HD tt_loss_grad tt_loss_gaussian_nll(float o0, float o1, float y, tt_loss_args a)
{
  float v = tt_softplus(o1) + a.variance_floor;
  float inverse = 1.0f / v, e = o0 - y, z = e * e * inverse, ln_v = tt_logf(v);
  float w = a.nll_beta > 0.0f ? tt_expf(a.nll_beta * ln_v) : 1.0f; /* 1 exactly */
  float finite = o1 - o1; /* 0, or NaN: after an overflow the member counts as diverged */
  tt_loss_grad g = {0.5f * (ln_v + z) * a.inverse_targets + finite,
                    e * inverse * a.inverse_targets * w,
                    0.5f * inverse * (1.0f - z) * tt_sigmoid(o1) * a.inverse_targets * w};
  return g;
}

TT_HD double tt_ensemble_gaussian_nll(const tt_ensemble_outputs *v)
{
  double e = v->mean[0] - v->y;
  return 0.5 * (log(v->variance[0]) + e * e / v->variance[0]) * v->inverse_targets;
}

/* (e^o0 - y o0) / K, without ln(y!), as torch.nn.PoissonNLLLoss. */
TT_HD tt_loss_grad tt_loss_poisson(float o0, float o1, float y, tt_loss_args a)
{
  float rate = tt_expf(o0), finite = o0 - o0;
  tt_loss_grad g = {(rate - y * o0) * a.inverse_targets + finite, (rate - y) * a.inverse_targets,
                    0.0f};
  (void)o1;
  return g;
}

TT_HD double tt_ensemble_poisson(const tt_ensemble_outputs *v)
{
  return (v->mean[0] - v->y * log(v->mean[0])) * v->inverse_targets;
}

/* (-y ln p - (1 - y) ln(1 - p)) / K with p = sigmoid(o0), y in [0, 1], as
 * torch.nn.BCEWithLogitsLoss. */
TT_HD tt_loss_grad tt_loss_bce(float o0, float o1, float y, tt_loss_args a)
{
  tt_loss_grad g = {(tt_softplus(o0) - y * o0) * a.inverse_targets + (o0 - o0),
                    (tt_sigmoid(o0) - y) * a.inverse_targets, 0.0f};
  (void)o1;
  return g;
}

/* -y ln p - (1 - y) ln(1 - p) of a predicted probability with variance p (1 - p). */
TT_HD double tt_bernoulli_nll(double p, double variance, double y)
{
  double complement = tt_bernoulli_complement(p, variance);
  return -y * tt_log_probability(p) - (1.0 - y) * tt_log_probability(complement);
}

TT_HD double tt_ensemble_bce(const tt_ensemble_outputs *v)
{
  return tt_bernoulli_nll(v->mean[0], v->variance[0], v->y) * v->inverse_targets;
}

/* Losses that need all outputs of a target at once: o[j * step], and d[j * step] for the gradient
 * times `factor` unless d is NULL. */
typedef struct tt_loss_sample {
  int32_t n;          /* outputs of a target */
  const float *level; /* [n] for quantile */
  const float *o;
  float *d;
  int64_t step;
  float y, factor;
} tt_loss_sample;

/* sum over levels of max(t (y - o), (t - 1) (y - o)) / n / K. Koenker & Bassett 1978. */
TT_HD float tt_loss_quantile(const tt_loss_sample *w, tt_loss_args a)
{
  float sum = 0.0f, inverse_targets = a.inverse_targets / (float)w->n;
  for (int32_t j = 0; j < w->n; j++) {
    float e = w->y - w->o[j * w->step], t = w->level[j];
    float slope = e < 0.0f ? t - 1.0f : t; /* NaN keeps the value NaN */
    sum += slope * e;
    if (w->d) w->d[j * w->step] = -slope * inverse_targets * w->factor;
  }
  return sum * inverse_targets;
}

TT_HD double tt_ensemble_quantile(const tt_ensemble_outputs *v)
{
  double sum = 0.0;
  for (int32_t j = 0; j < v->n; j++) {
    double e = v->y - v->mean[j], t = (double)v->level[j];
    sum += (e < 0.0 ? t - 1.0 : t) * e;
  }
  return sum * v->inverse_targets / (double)v->n;
}

/* -ln softmax(o)[y] / K, y a class number; as torch.nn.CrossEntropyLoss. NaN if y is none. */
TT_HD float tt_loss_cross_entropy(const tt_loss_sample *w, tt_loss_args a)
{
  int32_t named = tt_class_index(w->y, w->n), right = named < 0 ? 0 : named;
  float most = w->o[0], sum = 0.0f;
  float finite = named < 0 ? NAN : 0.0f; /* NaN too where any output overflowed */
  float factor = w->factor * a.inverse_targets;
  for (int32_t j = 0; j < w->n; j++) {
    float o = w->o[j * w->step];
    most = o > most ? o : most;
    finite += o - o;
  }
  for (int32_t j = 0; j < w->n; j++) sum += tt_expf(w->o[j * w->step] - most);
  float inverse = 1.0f / sum, value = most + tt_logf(sum) - w->o[right * w->step];
  for (int32_t j = 0; w->d && j < w->n; j++) {
    float p = tt_expf(w->o[j * w->step] - most) * inverse;
    w->d[j * w->step] = (p - (j == right ? 1.0f : 0.0f)) * factor;
  }
  return value * a.inverse_targets + finite;
}

TT_HD double tt_ensemble_cross_entropy(const tt_ensemble_outputs *v)
{
  int32_t right = tt_class_index((float)v->y, v->n);
  return right < 0 ? (double)NAN : -tt_log_probability(v->mean[right]) * v->inverse_targets;
}

/* name, output it needs, source; the functions are tt_loss_<name>, and tt_ensemble_<name> for the
 * mixture of an ensemble. First losses with one or two outputs per target, then those with more. */
#define TT_TWO_OUTPUT_LOSSES(X)                                                                    \
  X(mse, mean, "Gauss 1809")                                                                       \
  X(gaussian_nll, mean_variance, "Nix & Weigend 1994; Seitzer et al. 2022")                        \
  X(mae, mean, "Laplace 1774")                                                                     \
  X(huber, mean, "Huber 1964")                                                                     \
  X(poisson, rate, "Nelder & Wedderburn 1972")                                                     \
  X(bce, sigmoid, "Cox 1958")
#define TT_MULTI_OUTPUT_LOSSES(X)                                                                  \
  X(quantile, quantiles, "Koenker & Bassett 1978")                                                 \
  X(cross_entropy, softmax, "Bridle 1990")
#define TT_LOSSES(X) TT_TWO_OUTPUT_LOSSES(X) TT_MULTI_OUTPUT_LOSSES(X)

typedef enum tt_loss {
#define X(name, output, source) TT_LOSS_##name,
  TT_LOSSES(X)
#undef X
      TT_LOSS_COUNT
} tt_loss;

TT_HD tt_output tt_loss_output_head(tt_loss kind)
{
  switch (kind) {
#define X(name, output, source)                                                                    \
  case TT_LOSS_##name: return TT_OUTPUT_##output;
    TT_LOSSES(X)
#undef X
  default: return TT_OUTPUT_mean;
  }
}

/* 1 for the losses that take a tt_loss_sample. */
TT_HD int tt_loss_is_multi_output(tt_loss kind)
{
  switch (kind) {
#define X(name, output, source) case TT_LOSS_##name:
    TT_MULTI_OUTPUT_LOSSES(X)
#undef X
    return 1;
  default: return 0;
  }
}

/* An unknown label, NaN: it has no loss and no gradient. */
TT_HD int tt_label_is_unknown(float y) { return y != y; }

TT_HD tt_loss_grad tt_loss_two_outputs(tt_loss kind, float o0, float o1, float y, tt_loss_args a)
{
  tt_loss_grad none = {0.0f, 0.0f, 0.0f};
  switch (kind) {
#define X(name, output, source)                                                                    \
  case TT_LOSS_##name: return tt_loss_##name(o0, o1, y, a);
    TT_TWO_OUTPUT_LOSSES(X)
#undef X
  default: return none;
  }
}

/* A loss that knows the variance of the error of the label: mse is divided by it and the variance
 * floor (chi squared), gaussian_nll adds it to the predicted variance. Others have no such form. */
TT_HD int tt_loss_takes_label_variance(tt_loss kind)
{
  return kind == TT_LOSS_mse || kind == TT_LOSS_gaussian_nll;
}

/* The arguments of such a loss for one label: known errors weigh rows as the likelihood says. */
TT_HD tt_loss_args tt_loss_args_of_label(tt_loss kind, float variance, tt_loss_args a)
{
  a.variance_floor += variance;
  a.nll_beta = 0.0f;
  if (kind == TT_LOSS_mse) a.inverse_targets /= a.variance_floor;
  return a;
}

TT_HD tt_loss_grad tt_loss_with_label_variance(tt_loss kind, float o0, float o1, float y,
                                               float variance, tt_loss_args a)
{
  a = tt_loss_args_of_label(kind, variance, a);
  return kind == TT_LOSS_mse ? tt_loss_mse(o0, o1, y, a) : tt_loss_gaussian_nll(o0, o1, y, a);
}

/* Loss of the mixture of an ensemble, for any loss; 0 where the label is unknown. */
TT_HD double tt_ensemble_loss_target(tt_loss kind, const tt_ensemble_outputs *v)
{
  if (v->y != v->y) return 0.0;
  switch (kind) {
#define X(name, output, source)                                                                    \
  case TT_LOSS_##name: return tt_ensemble_##name(v);
    TT_LOSSES(X)
#undef X
  default: return 0.0;
  }
}

/* Any loss: value of one target in one row, and the gradient times w->factor; both 0 where the
 * label is unknown. */
TT_HD float tt_loss_target(tt_loss kind, const tt_loss_sample *w, tt_loss_args a)
{
  if (tt_label_is_unknown(w->y)) {
    for (int32_t j = 0; w->d && j < w->n; j++) w->d[j * w->step] = 0.0f;
    return 0.0f;
  }
  switch (kind) {
#define X(name, output, source)                                                                    \
  case TT_LOSS_##name: return tt_loss_##name(w, a);
    TT_MULTI_OUTPUT_LOSSES(X)
#undef X
  default: break;
  }
  tt_loss_grad g = tt_loss_two_outputs(kind, w->o[0], w->n > 1 ? w->o[w->step] : 0.0f, w->y, a);
  if (w->d) w->d[0] = g.d0 * w->factor;
  if (w->d && w->n > 1) w->d[w->step] = g.d1 * w->factor;
  return g.value;
}
#endif
