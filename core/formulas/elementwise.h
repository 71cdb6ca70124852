/* elementwise.h — elementary functions, activations and initial weights; each formula is written
 * once, for gcc and nvcc.
 *
 * The functions have no branches, so that compilers vectorize loops over them, and use only fused
 * multiply-adds, so that host and device give the same bits where both fuse. */
#ifndef TT_ELEMENTWISE_H
#define TT_ELEMENTWISE_H
#ifndef __CUDACC_RTC__ /* NVRTC has the maths built in and no system headers */
#include <math.h>
#include <stdint.h>
#include <string.h>
#endif
#include "core/base/host_device.h"

/* a * b + c, rounded once where the processor has the instruction; elsewhere plain arithmetic,
 * because fmaf would be a slow call. */
TT_HD float tt_fma(float a, float b, float c)
{
#if defined(__CUDACC__) || defined(TT_CUDA_DOUBLE) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

TT_HD int32_t tt_float_as_int(float x)
{
  int32_t i;
  memcpy(&i, &x, sizeof i);
  return i;
}

TT_HD float tt_int_as_float(int32_t i)
{
  float x;
  memcpy(&x, &i, sizeof x);
  return x;
}

/* e^x to 2 ulp on [-87.3, 88.3], clamped to this range outside; NaN stays NaN.
 * Cody & Waite range reduction, polynomial of Cephes (Moshier, expf). */
TT_HD float tt_expf(float x)
{
  const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
  x = x > 88.3f ? 88.3f : x;
  x = x < -87.3f ? -87.3f : x;
  float t = tt_fma(x, 1.44269504f, shift);
  float n = t - shift;
  float r = tt_fma(n, -0.693359375f, x);
  r = tt_fma(n, 2.12194440e-4f, r);
  float p = tt_fma(1.9875691500e-4f, r, 1.3981999507e-3f);
  p = tt_fma(p, r, 8.3334519073e-3f);
  p = tt_fma(p, r, 4.1665795894e-2f);
  p = tt_fma(p, r, 1.6666665459e-1f);
  p = tt_fma(p, r, 5.0000001201e-1f);
  p = tt_fma(p, r * r, r) + 1.0f;
  uint32_t power = (uint32_t)tt_float_as_int(t) - (uint32_t)tt_float_as_int(shift) + 127u;
  return p * tt_int_as_float((int32_t)(power << 23));
}

/* ln x to 2 ulp for normal x > 0; undefined for other arguments. Polynomial of Cephes (logf). */
TT_HD float tt_logf(float x)
{
  int32_t bits = (int32_t)((uint32_t)tt_float_as_int(x) - 0x3F3504F3u); /* relative to sqrt(1/2) */
  float e = (float)(bits >> 23);
  float m = tt_int_as_float((bits & 0x007FFFFF) + 0x3F3504F3) - 1.0f;
  float z = m * m;
  float p = tt_fma(7.0376836292e-2f, m, -1.1514610310e-1f);
  p = tt_fma(p, m, 1.1676998740e-1f);
  p = tt_fma(p, m, -1.2420140846e-1f);
  p = tt_fma(p, m, 1.4249322787e-1f);
  p = tt_fma(p, m, -1.6668057665e-1f);
  p = tt_fma(p, m, 2.0000714765e-1f);
  p = tt_fma(p, m, -2.4999993993e-1f);
  p = tt_fma(p, m, 3.3333331174e-1f);
  p = p * m * z;
  p = tt_fma(e, -2.12194440e-4f, p);
  p = tt_fma(-0.5f, z, p);
  return tt_fma(e, 0.693359375f, m + p);
}

/* ln(1 + u) for u >= 0, to 2 ulp, near 0 too: it corrects the rounding error of 1 + u. */
TT_HD float tt_log1pf(float u)
{
  float s = 1.0f + u;
  return tt_logf(s) + (u - (s - 1.0f)) / s;
}

/* To 3 ulp for x >= -87; constant below. */
TT_HD float tt_sigmoid(float x) { return 1.0f / (1.0f + tt_expf(-x)); }

/* ln(1 + e^x) to 2 ulp for x >= -87. */
TT_HD float tt_softplus(float x)
{
  float positive = x > 0.0f ? x : 0.0f;
  return positive + tt_log1pf(tt_expf(-fabsf(x)));
}

/* To 2 ulp: odd polynomial near 0 (Cephes, tanhf), exponential elsewhere. */
TT_HD float tt_tanhf(float x)
{
  float z = x * x;
  float p = tt_fma(-5.70498872745e-3f, z, 2.06390887954e-2f);
  p = tt_fma(p, z, -5.37397155531e-2f);
  p = tt_fma(p, z, 1.33314422036e-1f);
  p = tt_fma(p, z, -3.33332819422e-1f);
  float near = tt_fma(p * z, x, x);
  float far = 1.0f - 2.0f / (tt_expf(2.0f * fabsf(x)) + 1.0f);
  far = x < 0.0f ? -far : far;
  return fabsf(x) < 0.625f ? near : far;
}

/* To 2e-7 for |x| <= 1e4. Cody & Waite range reduction to [-pi / 2, pi / 2], Taylor polynomial. */
TT_HD float tt_sinf(float x)
{
  const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
  float t = tt_fma(x, 0.318309886f, shift), n = t - shift;
  float r = tt_fma(n, -3.140625f, x);
  r = tt_fma(n, -9.67502593994e-4f, r);
  r = tt_fma(n, -1.50995799097e-7f, r);
  float z = r * r;
  float p = tt_fma(-2.50521084e-8f, z, 2.75573192e-6f);
  p = tt_fma(p, z, -1.98412698e-4f);
  p = tt_fma(p, z, 8.33333333e-3f);
  p = tt_fma(p, z, -1.66666667e-1f);
  float sine = tt_fma(p * z, r, r);
  return (tt_float_as_int(t) & 1) ? -sine : sine;
}

TT_HD float tt_cosf(float x) { return tt_sinf(x + 1.57079633f); }

/* Distribution function of the standard normal, to 4e-7: Abramowitz & Stegun 7.1.26. */
TT_HD float tt_normal_cdf(float x)
{
  float a = 0.70710678f * fabsf(x);
  float t = 1.0f / tt_fma(0.3275911f, a, 1.0f);
  float p = tt_fma(1.061405429f, t, -1.453152027f);
  p = tt_fma(p, t, 1.421413741f);
  p = tt_fma(p, t, -0.284496736f);
  p = tt_fma(p, t, 0.254829592f);
  float tail = 0.5f * p * t * tt_expf(-a * a);
  return x < 0.0f ? tail : 1.0f - tail;
}

TT_HD float tt_normal_pdf(float x) { return 0.39894228f * tt_expf(-0.5f * x * x); }

/* cos(pi x) for x in [0, 1], to 1e-15: Taylor series of sin(pi (1/2 - x)). */
TT_HD double tt_cospi(double x)
{
  double y = 3.14159265358979323846 * (0.5 - x), z = y * y, term = y, sum = y;
  for (int k = 1; k <= 11; k++) {
    term *= -z / (double)(2 * k * (2 * k + 1));
    sum += term;
  }
  return sum;
}

/* Standard normal number from two uniform words: Box & Muller 1958, with the cosine (second = 0) or
 * the sine (second = 1). In double, with +, *, / and sqrt only: the same bits on every machine. */
TT_HD float tt_box_muller(uint32_t a, uint32_t b, int second)
{
  double u = ((double)a + 0.5) * 0x1p-32, turn = ((double)b + 0.5) * 0x1p-32;
  int k = 0;
  for (; u < 0.5; k++) u *= 2.0; /* -ln u = k ln 2 - 2 atanh((u - 1) / (u + 1)) */
  double z = (u - 1.0) / (u + 1.0), zz = z * z, term = z, log_u = z;
  for (int i = 3; i < 40; i += 2) {
    term *= zz;
    log_u += term / (double)i;
  }
  double radius = sqrt(2.0 * ((double)k * 0.69314718055994530942 - 2.0 * log_u));
  double x = 2.0 * turn - (second ? 0.5 : 0.0); /* sin a = cos(a - pi / 2) */
  x = x < 0.0 ? -x : x;
  x = x > 1.0 ? 2.0 - x : x;
  return (float)(radius * tt_cospi(x));
}

/* name, y = f(x), dy/dx given x and y, whether dy/dx needs x (1) or only y (0), source.
 * All of them keep NaN: x < 0 ? 0 : x, never x > 0 ? x : 0, which would hide a diverged member. */
#define TT_ACTIVATIONS(X)                                                                          \
  X(identity, x, 1.0f, 0, "")                                                                      \
  X(relu, x<0.0f ? 0.0f : x, x> 0.0f ? 1.0f : 0.0f, 0, "Nair & Hinton 2010")                       \
  X(leaky_relu, x<0.0f ? 0.01f * x : x, x> 0.0f ? 1.0f : 0.01f, 0, "Maas, Hannun & Ng 2013")       \
  X(tanh, tt_tanhf(x), 1.0f - y * y, 0, "LeCun et al. 1998")                                       \
  X(sigmoid, tt_sigmoid(x), y *(1.0f - y), 0, "Rumelhart, Hinton & Williams 1986")                 \
  X(silu, x *tt_sigmoid(x), tt_sigmoid(x) * (1.0f + x - y), 1, "Elfwing, Uchibe & Doya 2018")      \
  X(gelu, x *tt_normal_cdf(x), tt_normal_cdf(x) + x * tt_normal_pdf(x), 1,                         \
    "Hendrycks & Gimpel 2016")                                                                     \
  X(softplus, tt_softplus(x), tt_sigmoid(x), 1, "Dugas et al. 2001")                               \
  X(elu, x<0.0f ? tt_expf(x) - 1.0f : x, x> 0.0f ? 1.0f : y + 1.0f, 0, "Clevert et al. 2016")      \
  X(sine, tt_sinf(x), tt_cosf(x), 1, "Sitzmann et al. 2020")                                       \
  X(hardtanh, x<-1.0f ? -1.0f : x> 1.0f ? 1.0f : x, (y > -1.0f) & (y < 1.0f) ? 1.0f : 0.0f, 0,     \
    "Collobert 2004")

typedef enum tt_activation {
#define X(name, f, df, ...) TT_ACT_##name,
  TT_ACTIVATIONS(X)
#undef X
      TT_ACT_COUNT
} tt_activation;

/* y = f(x). In a kernel `a` is a constant and the compiler removes the switch. */
TT_HD float tt_act(tt_activation a, float x)
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
TT_HD float tt_act_grad(tt_activation a, float x, float y)
{
  (void)x, (void)y;
  switch (a) {
#define X(name, f, df, ...)                                                                        \
  case TT_ACT_##name: return df;
    TT_ACTIVATIONS(X)
#undef X
  default: return 1.0f;
  }
}

/* 0 where dy/dx depends on y only; then it is tt_act_grad(a, y, y). */
TT_HD int tt_act_grad_needs_input(tt_activation a)
{
  switch (a) {
#define X(name, f, df, needs_x, source)                                                            \
  case TT_ACT_##name: return needs_x;
    TT_ACTIVATIONS(X)
#undef X
  default: return 1;
  }
}

/* Initial weights, given the layer's inputs and outputs: uniform in [-spread, spread], or normal
 * with standard deviation spread; biases uniform in [-bound, bound].
 * name, shape, spread of weights, bound of biases, source */
#define TT_INITS(X)                                                                                \
  X(fan_in_uniform, uniform, 1.0 / sqrt(in), 1.0 / sqrt(in), "the default of torch.nn.Linear")     \
  X(he_uniform, uniform, sqrt(6.0 / in), 0.0, "He et al. 2015")                                    \
  X(glorot_uniform, uniform, sqrt(6.0 / (in + out)), 0.0, "Glorot & Bengio 2010")                  \
  X(lecun_uniform, uniform, sqrt(3.0 / in), 0.0, "LeCun et al. 1998")                              \
  X(he_normal, normal, sqrt(2.0 / in), 0.0, "He et al. 2015")                                      \
  X(glorot_normal, normal, sqrt(2.0 / (in + out)), 0.0, "Glorot & Bengio 2010")                    \
  X(lecun_normal, normal, sqrt(1.0 / in), 0.0, "LeCun et al. 1998")

typedef enum tt_init {
#define X(name, shape, weights, biases, source) TT_INIT_##name,
  TT_INITS(X)
#undef X
      TT_INIT_COUNT
} tt_init;
#endif
