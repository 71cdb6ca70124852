/* transform.h — monotone functions t = f(v) of a value before it is shifted and scaled.
 *
 * An input with a long tail is easier to learn after its logarithm, and a target that is always
 * positive has an error that is proportional to its size. All functions increase, so a quantile of
 * v is the function of the quantile of t. */
#ifndef TT_TRANSFORM_H
#define TT_TRANSFORM_H
#include <math.h>

/* Yeo & Johnson 2000, eq. 2.1, with lambda p in [0, 2]: there the function is a bijection of the
 * real numbers, so that every prediction has a value in the user's units. */
static inline double tt_yeo_johnson(double v, double p)
{
  double power = v < 0.0 ? 2.0 - p : p, log_size = log1p(fabs(v));
  double t = power == 0.0 ? log_size : expm1(power * log_size) / power;
  return v < 0.0 ? -t : t;
}

static inline double tt_yeo_johnson_inverse(double t, double p)
{
  double power = t < 0.0 ? 2.0 - p : p, size = fabs(t);
  double v = expm1(power == 0.0 ? size : log1p(power * size) / power);
  return t < 0.0 ? -v : v;
}

static inline double tt_yeo_johnson_slope(double v, double p)
{
  return exp((v < 0.0 ? 1.0 - p : p - 1.0) * log1p(fabs(v)));
}

/* Mean and variance of the inverse of a number with a Gaussian distribution. */
typedef struct tt_transform_moments {
  double mean, variance;
} tt_transform_moments;

/* Their derivatives by the mean and by the variance of the Gaussian number. */
typedef struct tt_transform_slopes {
  double mean_by_mean, mean_by_variance, variance_by_mean, variance_by_variance;
} tt_transform_slopes;

/* Of exp(t) + shift: the log-normal distribution. */
static inline tt_transform_moments tt_log_moments(double mean, double variance, double shift)
{
  double middle = mean + 0.5 * variance;
  tt_transform_moments m = {shift == 0.0 ? exp(middle) : expm1(middle),
                            expm1(variance) * exp(2.0 * middle)};
  return m;
}

static inline tt_transform_slopes tt_log_slopes(double mean, double variance)
{
  double middle = exp(mean + 0.5 * variance), more = expm1(variance), square = middle * middle;
  tt_transform_slopes s = {middle, 0.5 * middle, 2.0 * more * square, (1.0 + 2.0 * more) * square};
  return s;
}

/* By the trapezoidal rule with steps of half a standard deviation, whose error for a smooth
 * function of a Gaussian number is about exp(-2 pi^2 / 0.5^2). */
static inline tt_transform_moments tt_yeo_johnson_moments(double mean, double variance, double p)
{
  tt_transform_moments m = {tt_yeo_johnson_inverse(mean, p), 0.0};
  double sd = sqrt(variance), weight = 0.0, sum = 0.0, squares = 0.0, middle = m.mean;
  if (!(variance > 0.0)) return m;
  for (int i = -18; i <= 18; i++) {
    double z = 0.5 * i, w = exp(-0.5 * z * z);
    double away = tt_yeo_johnson_inverse(mean + z * sd, p) - middle;
    weight += w;
    sum += w * away;
    squares += w * away * away;
  }
  sum /= weight;
  m.mean = middle + sum;
  m.variance = squares / weight - sum * sum;
  return m;
}

/* Derivatives of the sums of tt_yeo_johnson_moments. Without a variance, its derivatives count as
 * 0. */
static inline tt_transform_slopes tt_yeo_johnson_slopes(double mean, double variance, double p)
{
  double sd = sqrt(variance), middle = tt_yeo_johnson_inverse(mean, p), weight = 0.0;
  double away = 0.0, slope = 0.0, slope_z = 0.0, away_slope = 0.0, away_slope_z = 0.0;
  tt_transform_slopes s = {1.0 / tt_yeo_johnson_slope(middle, p), 0.0, 0.0, 0.0};
  if (!(variance > 0.0)) return s;
  for (int i = -18; i <= 18; i++) {
    double z = 0.5 * i, w = exp(-0.5 * z * z), v = tt_yeo_johnson_inverse(mean + z * sd, p);
    double w_slope = w / tt_yeo_johnson_slope(v, p);
    weight += w;
    away += w * (v - middle);
    slope += w_slope;
    slope_z += w_slope * z;
    away_slope += w_slope * (v - middle);
    away_slope_z += w_slope * (v - middle) * z;
  }
  away /= weight;
  s.mean_by_mean = slope / weight;
  s.mean_by_variance = slope_z / (2.0 * sd * weight);
  s.variance_by_mean = 2.0 * (away_slope - away * slope) / weight;
  s.variance_by_variance = (away_slope_z - away * slope_z) / (sd * weight);
  return s;
}

/* name, whether v has a value, the same in words, t of v, v of t, dt / dv; p: a parameter that is
 * fitted to the training rows, moments of v if t is Gaussian with `mean` and `variance`, their
 * derivatives */
#define TT_TRANSFORMS(X)                                                                           \
  X(identity, 1, "a finite number", v, t, 1.0, gaussian, same)                                     \
  X(log, v > 0.0, "above 0", log(v), exp(t), 1.0 / v, tt_log_moments(mean, variance, 0.0),         \
    tt_log_slopes(mean, variance))                                                                 \
  X(log1p, v > -1.0, "above -1", log1p(v), expm1(t), 1.0 / (1.0 + v),                              \
    tt_log_moments(mean, variance, -1.0), tt_log_slopes(mean, variance))                           \
  X(yeo_johnson, 1, "a finite number", tt_yeo_johnson(v, p), tt_yeo_johnson_inverse(t, p),         \
    tt_yeo_johnson_slope(v, p), tt_yeo_johnson_moments(mean, variance, p),                         \
    tt_yeo_johnson_slopes(mean, variance, p))

typedef enum tt_transform {
#define X(name, ...) TT_TRANSFORM_##name,
  TT_TRANSFORMS(X)
#undef X
      TT_TRANSFORM_COUNT
} tt_transform;

/* Evaluate one expression of the row `transform`. */
#define X(name, valid, text, forward, inverse, slope, moments, slopes)                             \
  case TT_TRANSFORM_##name: return valid;
static inline int tt_transform_accepts(tt_transform transform, double v)
{
  switch (transform) {
    TT_TRANSFORMS(X)
  default: return 0;
  }
}
#undef X
#define X(name, valid, text, forward, inverse, slope, moments, slopes)                             \
  case TT_TRANSFORM_##name: return text;
static inline const char *tt_transform_wants(tt_transform transform)
{
  switch (transform) {
    TT_TRANSFORMS(X)
  default: return "";
  }
}
#undef X
#define X(name, valid, text, forward, inverse, slope, moments, slopes)                             \
  case TT_TRANSFORM_##name: return forward;
static inline double tt_transform_apply(tt_transform transform, double p, double v)
{
  (void)p;
  switch (transform) {
    TT_TRANSFORMS(X)
  default: return v;
  }
}
#undef X
#define X(name, valid, text, forward, inverse, slope, moments, slopes)                             \
  case TT_TRANSFORM_##name: return inverse;
static inline double tt_transform_undo(tt_transform transform, double p, double t)
{
  (void)p;
  switch (transform) {
    TT_TRANSFORMS(X)
  default: return t;
  }
}
#undef X
#define X(name, valid, text, forward, inverse, slope, moments, slopes)                             \
  case TT_TRANSFORM_##name: return slope;
static inline double tt_transform_slope(tt_transform transform, double p, double v)
{
  (void)p;
  switch (transform) {
    TT_TRANSFORMS(X)
  default: return 1.0;
  }
}
#undef X
#define X(name, valid, text, forward, inverse, slope, moments, slopes)                             \
  case TT_TRANSFORM_##name: return moments;
static inline tt_transform_moments tt_transform_undo_gaussian(tt_transform transform, double p,
                                                              double mean, double variance)
{
  const tt_transform_moments gaussian = {mean, variance};
  (void)p;
  switch (transform) {
    TT_TRANSFORMS(X)
  default: return gaussian;
  }
}
#undef X
#define X(name, valid, text, forward, inverse, slope, moments, slopes)                             \
  case TT_TRANSFORM_##name: return slopes;
static inline tt_transform_slopes
tt_transform_undo_gaussian_slopes(tt_transform transform, double p, double mean, double variance)
{
  const tt_transform_slopes same = {1.0, 0.0, 0.0, 1.0};
  (void)p;
  switch (transform) {
    TT_TRANSFORMS(X)
  default: return same;
  }
}
#undef X
#endif
