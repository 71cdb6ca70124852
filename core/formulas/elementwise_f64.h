/* elementwise_f64.h — the activations in double, for the host: the rows of TT_ACTIVATIONS, with
 * elementary functions of the C library. A row with another function does not compile with
 * -Wconversion: add the function to the table and the names below. */
#ifndef TT_ELEMENTWISE_F64_H
#define TT_ELEMENTWISE_F64_H
#include "core/formulas/elementwise.h"

/* A function of elementwise.h, and the function of math.h that computes it in double. */
#define TT_ELEMENTARY_F64(X)                                                                       \
  X(tt_expf, exp(x))                                                                               \
  X(tt_logf, log(x))                                                                               \
  X(tt_log1pf, log1p(x))                                                                           \
  X(tt_tanhf, tanh(x))                                                                             \
  X(tt_sinf, sin(x))                                                                               \
  X(tt_cosf, cos(x))                                                                               \
  X(tt_sigmoid, 1.0 / (1.0 + exp(-x)))                                                             \
  X(tt_softplus, fmax(x, 0.0) + log1p(exp(-fabs(x))))                                              \
  X(tt_normal_cdf, 0.5 * erfc(-0.70710678118654752 * x))                                           \
  X(tt_normal_pdf, 0.39894228040143268 * exp(-0.5 * x * x))

/* Up to the #undef lines these names mean the functions in double. */
#define tt_expf tt_expf_f64
#define tt_logf tt_logf_f64
#define tt_log1pf tt_log1pf_f64
#define tt_tanhf tt_tanhf_f64
#define tt_sinf tt_sinf_f64
#define tt_cosf tt_cosf_f64
#define tt_sigmoid tt_sigmoid_f64
#define tt_softplus tt_softplus_f64
#define tt_normal_cdf tt_normal_cdf_f64
#define tt_normal_pdf tt_normal_pdf_f64

#define X(name, value)                                                                             \
  static inline double name(double x) { return value; }
TT_ELEMENTARY_F64(X)
#undef X

/* y = f(x). */
static inline double tt_act_f64(tt_activation a, double x)
{
  switch (a) {
#define X(name, f, df, ...)                                                                        \
  case TT_ACT_##name: return f;
    TT_ACTIVATIONS(X)
#undef X
  default: return x;
  }
}

/* dy/dx from x and y = f(x). */
static inline double tt_act_grad_f64(tt_activation a, double x, double y)
{
  (void)x, (void)y;
  switch (a) {
#define X(name, f, df, ...)                                                                        \
  case TT_ACT_##name: return df;
    TT_ACTIVATIONS(X)
#undef X
  default: return 1.0;
  }
}

#undef tt_expf
#undef tt_logf
#undef tt_log1pf
#undef tt_tanhf
#undef tt_sinf
#undef tt_cosf
#undef tt_sigmoid
#undef tt_softplus
#undef tt_normal_cdf
#undef tt_normal_pdf
#endif
