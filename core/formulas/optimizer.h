/* optimizer.h — the step of each optimizer for one parameter. For gcc and nvcc.
 * State: S slots per parameter, all zero before the first step. */
#ifndef TT_OPTIMIZER_H
#define TT_OPTIMIZER_H
#include "core/formulas/elementwise.h"
#include "core/formulas/hyper.h"

typedef struct tt_optimizer_args {
  float learning_rate, l2, decay; /* decay = weight_decay, decoupled */
  float momentum, nesterov;       /* nesterov 0 or 1 */
  float beta1, beta2, epsilon;
  float step_size;  /* learning_rate / (1 - beta1^t), bias-corrected step of Adam */
  float root_scale; /* 1 / sqrt(1 - beta2^t) */
} tt_optimizer_args;

/* x / y and the root of x in a step. A GPU computes them to 2 ulp: rounded exactly, they take
 * several times as many instructions, and a slow function for numbers near zero, such as the
 * moments of weights without gradient. */
TT_HD float tt_step_quotient(float x, float y)
{
#ifdef __CUDA_ARCH__
  return __fdividef(x, y);
#else
  return x / y;
#endif
}
TT_HD float tt_step_root(float x)
{
#ifdef __CUDA_ARCH__
  float root;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(x));
  return root;
#else
  return sqrtf(x);
#endif
}

/* x^n by repeated squaring: the same bits on every machine, unlike pow. */
TT_HD double tt_power(double x, int64_t n)
{
  double r = 1.0;
  for (; n > 0; n >>= 1, x *= x)
    if (n & 1) r *= x;
  return r;
}

/* Fill step_size and root_scale for step t (from 1). */
TT_HD void tt_optimizer_bias_correction(tt_optimizer_args *a, int64_t t)
{
  a->step_size = (float)((double)a->learning_rate / (1.0 - tt_power((double)a->beta1, t)));
  a->root_scale = (float)(1.0 / sqrt(1.0 - tt_power((double)a->beta2, t)));
}

/* Factor that clips a gradient with this sum of squares to norm `limit`, as
 * torch.nn.utils.clip_grad_norm_; 1 if the norm is less, or limit is 0. */
TT_HD float tt_clip_factor(double square_sum, float limit)
{
  double norm = sqrt(square_sum) + 1e-6;
  return limit > 0.0f && norm > (double)limit ? (float)((double)limit / norm) : 1.0f;
}

/* Sutskever et al. 2013, as torch.optim.SGD without dampening. Slots: velocity. */
TT_HD void tt_optimizer_step_sgd(float *w, float g, float *s0, float *s1, float *s2,
                                 tt_optimizer_args a)
{
  (void)s1, (void)s2;
  g = tt_fma(a.l2, *w, g);
  *s0 = tt_fma(a.momentum, *s0, g);
  g = a.nesterov > 0.0f ? tt_fma(a.momentum, *s0, g) : *s0;
  *w = tt_fma(-a.learning_rate, g, *w);
}

/* Kingma & Ba 2015, as torch.optim.Adam. Slots: first and second moment. */
TT_HD void tt_optimizer_step_adam(float *w, float g, float *s0, float *s1, float *s2,
                                  tt_optimizer_args a)
{
  (void)s2;
  g = tt_fma(a.l2, *w, g);
  *s0 = tt_fma(a.beta1, *s0, (1.0f - a.beta1) * g);
  *s1 = tt_fma(a.beta2, *s1, (1.0f - a.beta2) * g * g);
  *w = tt_fma(-a.step_size,
              tt_step_quotient(*s0, tt_fma(tt_step_root(*s1), a.root_scale, a.epsilon)), *w);
}

/* Loshchilov & Hutter 2019, algorithm 2: Adam and w *= 1 - learning_rate * decay; l2 and decay both
 * use the weight before the step. */
TT_HD void tt_optimizer_step_adamw(float *w, float g, float *s0, float *s1, float *s2,
                                   tt_optimizer_args a)
{
  g = tt_fma(a.l2, *w, g);
  a.l2 = 0.0f;
  *w = tt_fma(-a.learning_rate * a.decay, *w, *w);
  tt_optimizer_step_adam(w, g, s0, s1, s2, a);
}

/* Duchi, Hazan & Singer 2011, as torch.optim.Adagrad. Slots: sum of squares. */
TT_HD void tt_optimizer_step_adagrad(float *w, float g, float *s0, float *s1, float *s2,
                                     tt_optimizer_args a)
{
  (void)s1, (void)s2;
  g = tt_fma(a.l2, *w, g);
  *s0 = tt_fma(g, g, *s0);
  *w = tt_fma(-a.learning_rate, tt_step_quotient(g, tt_step_root(*s0) + a.epsilon), *w);
}

/* Hinton 2012, as torch.optim.RMSprop with alpha = beta2. Slots: mean square, velocity. */
TT_HD void tt_optimizer_step_rmsprop(float *w, float g, float *s0, float *s1, float *s2,
                                     tt_optimizer_args a)
{
  (void)s2;
  g = tt_fma(a.l2, *w, g);
  *s0 = tt_fma(a.beta2, *s0, (1.0f - a.beta2) * g * g);
  *s1 = tt_fma(a.momentum, *s1, tt_step_quotient(g, tt_step_root(*s0) + a.epsilon));
  *w = tt_fma(-a.learning_rate, *s1, *w);
}

/* Reddi, Kale & Kumar 2018, as torch.optim.AdamW with amsgrad (without decay: as torch.optim.Adam).
 * Slots: first and second moment, largest second moment. */
TT_HD void tt_optimizer_step_amsgrad(float *w, float g, float *s0, float *s1, float *s2,
                                     tt_optimizer_args a)
{
  g = tt_fma(a.l2, *w, g);
  *w = tt_fma(-a.learning_rate * a.decay, *w, *w);
  *s0 = tt_fma(a.beta1, *s0, (1.0f - a.beta1) * g);
  *s1 = tt_fma(a.beta2, *s1, (1.0f - a.beta2) * g * g);
  *s2 = *s1 < *s2 ? *s2 : *s1;
  *w = tt_fma(-a.step_size,
              tt_step_quotient(*s0, tt_fma(tt_step_root(*s2), a.root_scale, a.epsilon)), *w);
}

#define TT_USES_ADAM (TT_USES_beta1 | TT_USES_beta2 | TT_USES_epsilon)

/* name, slots, options it uses (those with weight_decay have decoupled decay), source */
#define TT_OPTIMIZERS(X)                                                                           \
  X(sgd, 1, TT_USES_momentum | TT_USES_nesterov, "Sutskever et al. 2013")                          \
  X(adam, 2, TT_USES_ADAM, "Kingma & Ba 2015")                                                     \
  X(adamw, 2, TT_USES_ADAM | TT_USES_weight_decay, "Loshchilov & Hutter 2019")                     \
  X(rmsprop, 2, TT_USES_momentum | TT_USES_beta2 | TT_USES_epsilon, "Hinton 2012")                 \
  X(amsgrad, 3, TT_USES_ADAM | TT_USES_weight_decay, "Reddi, Kale & Kumar 2018")                   \
  X(adagrad, 1, TT_USES_epsilon, "Duchi, Hazan & Singer 2011")

typedef enum tt_optimizer {
#define X(name, ...) TT_OPT_##name,
  TT_OPTIMIZERS(X)
#undef X
      TT_OPT_COUNT
} tt_optimizer;
enum { TT_MAX_SLOTS = 3 };

TT_HD int tt_optimizer_slots(tt_optimizer kind)
{
  switch (kind) {
#define X(name, slots, ...)                                                                        \
  case TT_OPT_##name: return slots;
    TT_OPTIMIZERS(X)
#undef X
  default: return 0;
  }
}

TT_HD void tt_optimizer_step(tt_optimizer kind, float *w, float g, float *s0, float *s1, float *s2,
                             tt_optimizer_args a)
{
  switch (kind) {
#define X(name, ...)                                                                               \
  case TT_OPT_##name: tt_optimizer_step_##name(w, g, s0, s1, s2, a); return;
    TT_OPTIMIZERS(X)
#undef X
  default: return;
  }
}

/* Averages of a parameter over training; `averaged` values are in the average already. Exponential:
 * average = decay * average + (1 - decay) * w, starting from the first value. Polyak & Juditsky
 * 1992. */
TT_HD float tt_ema_update(float average, float w, float decay, int64_t averaged)
{
  return averaged ? tt_fma(decay, average, (1.0f - decay) * w) : w;
}

/* Mean of all values: Izmailov et al. 2018 (stochastic weight averaging). */
TT_HD float tt_swa_update(float average, float w, int64_t averaged)
{
  return averaged ? tt_fma(w - average, 1.0f / (float)(averaged + 1), average) : w;
}

/* name, options it uses */
#define TT_AVERAGES(X)                                                                             \
  X(none, 0) X(ema, TT_USES_average_decay | TT_USES_average_start) X(swa, TT_USES_average_start)

typedef enum tt_weight_average {
#define X(name, uses) TT_AVERAGE_##name,
  TT_AVERAGES(X)
#undef X
      TT_AVERAGE_COUNT
} tt_weight_average;
#endif
