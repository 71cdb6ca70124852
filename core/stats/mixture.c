/* mixture.c — see mixture.h. */
#include "core/stats/mixture.h"

#include "core/base/sort.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static const double pi = 3.14159265358979323846;

double tt_gaussian_mixture_recalibrate(double factor, double noise, int64_t n, const double *w,
                                       double *mean, double *variance)
{
  double all = 0.0, center = 0.0, between = 0.0, shrink = fmin(factor, 1.0);
  if (factor == 1.0 && noise == 0.0) return 0.0;
  for (int64_t i = 0; i < n; i++) {
    if (w[i] <= 0.0) continue;
    double step = mean[i] - center, before = all;
    all += w[i];
    center += step * (w[i] / all);
    between += w[i] * step * step * (before / all);
  }
  double added = (factor * factor - shrink * shrink) * between / all;
  for (int64_t i = 0; i < n; i++) {
    if (w[i] <= 0.0) continue;
    if (shrink < 1.0) mean[i] = center + shrink * (mean[i] - center);
    variance[i] = factor * factor * variance[i] + added + noise;
  }
  return added;
}

/* P(X <= y) of one Gaussian. */
static double gaussian_cdf(double mean, double variance, double y)
{
  if (!(variance > 0.0)) return (double)(mean <= y);
  return 0.5 * erfc((mean - y) / sqrt(2.0 * variance));
}

double tt_gaussian_mixture_cdf(int64_t n, const double *w, const double *mean,
                               const double *variance, double y)
{
  double below = 0.0, all = 0.0;
  for (int64_t i = 0; i < n; i++) {
    if (w[i] <= 0.0) continue;
    below += w[i] * gaussian_cdf(mean[i], variance[i], y);
    all += w[i];
  }
  return below / all;
}

double tt_gaussian_mixture_quantile(int64_t n, const double *w, const double *mean,
                                    const double *variance, double q)
{
  double low = INFINITY, high = -INFINITY;
  for (int64_t i = 0; i < n; i++) {
    if (w[i] <= 0.0) continue;
    double reach = 40.0 * sqrt(variance[i]); /* beyond every q in (0, 1) of type double */
    low = fmin(low, mean[i] - reach);
    high = fmax(high, mean[i] + reach);
  }
  if (!(low <= high)) return NAN;
  double fine = 1e-9 * fmax(fabs(low), fmax(fabs(high), 1e-300)) * 1e-3;
  for (int step = 0; step < 200 && high - low > fine; step++) {
    double middle = 0.5 * (low + high);
    if (tt_gaussian_mixture_cdf(n, w, mean, variance, middle) >= q)
      high = middle;
    else
      low = middle;
  }
  return high;
}

/* ---- likelihoods ---- */

static double log_gaussian(double mean, double variance, double y)
{
  double e = y - mean;
  return variance > 0.0 ? -0.5 * (log(2.0 * pi * variance) + e * e / variance) : (double)NAN;
}

/* ln of rate^y e^-rate / y!; the variance is the rate. */
static double log_poisson(double rate, double variance, double y)
{
  (void)variance;
  rate = rate < DBL_MIN ? DBL_MIN : rate;
  return y * log(rate) - rate - lgamma(y + 1.0);
}

/* -ln sum w exp(term) / sum w; the largest term is taken out, so that nothing underflows. */
static double mixture_nll(double (*log_term)(double, double, double), int64_t n, const double *w,
                          const double *mean, const double *variance, double y)
{
  double most = -INFINITY, sum = 0.0, all = 0.0;
  for (int64_t i = 0; i < n; i++)
    if (w[i] > 0.0) most = fmax(most, log_term(mean[i], variance[i], y));
  for (int64_t i = 0; i < n; i++) {
    if (w[i] <= 0.0) continue;
    sum += w[i] * exp(log_term(mean[i], variance[i], y) - most);
    all += w[i];
  }
  return -most - log(sum / all);
}

double tt_gaussian_mixture_nll(int64_t n, const double *w, const double *mean,
                               const double *variance, double y)
{
  return mixture_nll(log_gaussian, n, w, mean, variance, y);
}

double tt_poisson_mixture_nll(int64_t n, const double *w, const double *rate, double y)
{
  return mixture_nll(log_poisson, n, w, rate, rate, y);
}

/* ---- crps ---- */

/* E|X| of a normal X. From 9 standard deviations on, the other terms round to 0. */
static double mean_distance(double mean, double variance)
{
  if (!(variance > 0.0) || mean * mean > 81.0 * variance) return fabs(mean);
  double sd = sqrt(variance), z = mean / sd;
  return sd * sqrt(2.0 / pi) * exp(-0.5 * z * z) + mean * erf(z / sqrt(2.0));
}

double tt_crps_gaussian(double error, double variance)
{
  return mean_distance(error, variance) - sqrt(variance / pi);
}

/* Half of E|X - X'| times the square of the sum of the weights: over all pairs. */
static double pair_distance(int64_t n, const double *w, const double *mean, const double *variance)
{
  double between = 0.0;
  for (int64_t i = 0; i < n; i++) {
    if (w[i] <= 0.0) continue;
    double distance = 0.5 * w[i] * mean_distance(0.0, 2.0 * variance[i]);
    for (int64_t j = 0; j < i; j++)
      if (w[j] > 0.0)
        distance += w[j] * mean_distance(mean[i] - mean[j], variance[i] + variance[j]);
    between += w[i] * distance;
  }
  return between;
}

/* The same for points: with x ascending, the sum over i of w_i sum over j < i of w_j (x_i - x_j).
 */
static double point_distance(int64_t n, const double *w, const double *mean, double *scratch)
{
  double between = 0.0, before = 0.0, moment = 0.0;
  int64_t used = 0;
  for (int64_t i = 0; i < n; i++) {
    if (w[i] <= 0.0) continue;
    scratch[2 * used] = mean[i];
    scratch[2 * used++ + 1] = w[i];
  }
  qsort(scratch, (size_t)used, 2 * sizeof *scratch, tt_compare_f64);
  for (int64_t i = 0; i < used; i++) {
    double x = scratch[2 * i] - scratch[0], weight = scratch[2 * i + 1];
    between += weight * (x * before - moment);
    before += weight;
    moment += weight * x;
  }
  return between;
}

/* The same as the integral of F (1 - F) from `low` on. */
static double integral_distance(int64_t n, const double *w, const double *mean,
                                const double *variance, double low, double step, int64_t steps)
{
  double sum = 0.0, all = 0.0;
  for (int64_t i = 0; i < n; i++) all += w[i] > 0.0 ? w[i] : 0.0;
  for (int64_t k = 0; k <= steps; k++) {
    double below = tt_gaussian_mixture_cdf(n, w, mean, variance, low + (double)k * step);
    sum += below * (1.0 - below);
  }
  return sum * step * all * all;
}

/* The same for more than TT_CRPS_PAIRS components. */
static double distance_of_many(int64_t n, const double *w, const double *mean,
                               const double *variance, double *scratch)
{
  double low = INFINITY, high = -INFINITY, least = INFINITY, most = 0.0, used = 0.0;
  for (int64_t i = 0; i < n; i++) {
    if (w[i] <= 0.0) continue;
    double sd = sqrt(variance[i]);
    low = fmin(low, mean[i] - 9.0 * sd);
    high = fmax(high, mean[i] + 9.0 * sd);
    least = fmin(least, sd);
    most = fmax(most, sd);
    used += 1.0;
  }
  if (most == 0.0) return point_distance(n, w, mean, scratch);
  double step = 0.5 * least, steps = ceil((high - low) / step);
  return steps < 0.5 * used ? integral_distance(n, w, mean, variance, low, step, (int64_t)steps)
                            : pair_distance(n, w, mean, variance);
}

double tt_crps_mixture(int64_t n, const double *w, const double *mean, const double *variance,
                       double y, double *scratch)
{
  double all = 0.0, away = 0.0;
  int64_t used = 0;
  for (int64_t i = 0; i < n; i++) {
    if (w[i] <= 0.0) continue;
    all += w[i];
    away += w[i] * mean_distance(mean[i] - y, variance[i]);
    used++;
  }
  double between = used > TT_CRPS_PAIRS ? distance_of_many(n, w, mean, variance, scratch)
                                        : pair_distance(n, w, mean, variance);
  return away / all - between / (all * all);
}

/* What the integral over t needs of a mixture. */
typedef struct transformed_mixture {
  int64_t n;
  const double *w, *mean, *variance;
  tt_transform by;
  double lambda, step; /* largest length of a piece */
} transformed_mixture;

/* Integral of F^2, or with `above` of (1 - F)^2, over x from f^-1(from) to f^-1(to). */
static double integrate_squares(const transformed_mixture *m, double low, double high, int above)
{
  static const double node[4] = {0.1834346424956498, 0.5255324099163290, 0.7966664774136267,
                                 0.9602898564975363},
                      share[4] = {0.3626837833783620, 0.3137066458778873, 0.2223810344533745,
                                  0.1012285362903763};
  double sum = 0.0;
  if (!(high > low)) return 0.0;
  double chunks = fmin(ceil((high - low) / m->step), (double)TT_CRPS_PIECES);
  double half = 0.5 * (high - low) / chunks;
  for (int64_t i = 0; i < (int64_t)chunks; i++)
    for (int k = 0; k < 8; k++) {
      double t = low + half * (double)(2 * i + 1) + (k < 4 ? -1.0 : 1.0) * node[k % 4] * half;
      double f = tt_gaussian_mixture_cdf(m->n, m->w, m->mean, m->variance, t);
      double x = tt_transform_undo(m->by, m->lambda, t), p = above ? 1.0 - f : f;
      sum += share[k % 4] * half * p * p / tt_transform_slope(m->by, m->lambda, x);
    }
  return sum;
}

double tt_crps_transformed_mixture(int64_t n, const double *w, const double *mean,
                                   const double *variance, tt_transform transform, double lambda,
                                   double y)
{
  static const double tail = 9.0; /* standard deviations */
  double low = INFINITY, high = -INFINITY, least = INFINITY;
  double transformed = tt_transform_apply(transform, lambda, y), away = 0.0;
  for (int64_t i = 0; i < n; i++) {
    if (w[i] <= 0.0) continue;
    double sd = sqrt(variance[i]);
    low = fmin(low, mean[i] - tail * sd);
    high = fmax(high, mean[i] + tail * sd);
    if (sd > 0.0) least = fmin(least, sd);
  }
  const transformed_mixture m = {n, w, mean, variance, transform, lambda, 2.0 * least};
  if (transformed > high) away = y - tt_transform_undo(transform, lambda, high);
  if (transformed < low) away = tt_transform_undo(transform, lambda, low) - y;
  return away + integrate_squares(&m, low, fmin(transformed, high), 0) +
         integrate_squares(&m, fmax(transformed, low), high, 1);
}

/* ---- counts ---- */

/* P(X <= k) for a large rate: the normal approximation with its correction for skewness, error
 * about 1 / rate. Feller 1966, XVI.4. */
static double poisson_cdf_of_large_rate(double rate, double k)
{
  double z = (k + 0.5 - rate) / sqrt(rate);
  double density = exp(-0.5 * z * z) / sqrt(2.0 * pi);
  return 0.5 * erfc(-z / sqrt(2.0)) - density * (z * z - 1.0) / (6.0 * sqrt(rate));
}

/* P(X > k) = x^a e^-x / Gamma(a + 1) (1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ...), a = k + 1,
 * x = rate < a + 1. */
static double poisson_above(double rate, double k)
{
  double term = 1.0, sum = 1.0;
  for (double a = k + 2.0; term > DBL_EPSILON * sum; a += 1.0) sum += term *= rate / a;
  return sum * exp(log_poisson(rate, rate, k + 1.0));
}

/* P(X <= k) as a continued fraction, x = rate >= a + 1; evaluated from the front (Lentz 1976). */
static double poisson_below(double rate, double k)
{
  double a = k + 1.0, b = rate + 1.0 - a, c = 1.0 / DBL_MIN, d = 1.0 / b, h = d, change = 0.0;
  for (double i = 1.0; fabs(change - 1.0) > 4.0 * DBL_EPSILON; i += 1.0) {
    double numerator = -i * (i - a);
    b += 2.0;
    d = 1.0 / (numerator * d + b);
    c = b + numerator / c;
    change = c * d;
    h *= change;
  }
  return h * exp(log_poisson(rate, rate, k) + log(rate));
}

double tt_poisson_cdf(double rate, double k)
{
  k = floor(k);
  if (isnan(rate) || isnan(k)) return NAN;
  if (k < 0.0) return 0.0;
  if (!(rate > 0.0)) return 1.0;
  if (rate > 1e8) return poisson_cdf_of_large_rate(rate, k);
  return rate < k + 2.0 ? 1.0 - poisson_above(rate, k) : poisson_below(rate, k);
}

double tt_poisson_mixture_cdf(int64_t n, const double *w, const double *rate, double k)
{
  double below = 0.0, all = 0.0;
  for (int64_t i = 0; i < n; i++) {
    if (w[i] <= 0.0) continue;
    below += w[i] * tt_poisson_cdf(rate[i], k);
    all += w[i];
  }
  return below / all;
}

double tt_poisson_mixture_quantile(int64_t n, const double *w, const double *rate, double q)
{
  double low = -1.0, high = -INFINITY, sum = 0.0;
  for (int64_t i = 0; i < n; i++) {
    if (w[i] <= 0.0) continue;
    sum += rate[i];
    high = fmax(high, ceil(rate[i] + 40.0 * (sqrt(rate[i]) + 1.0))); /* beyond every q < 1 */
  }
  if (!isfinite(sum) || !isfinite(high)) return NAN;
  while (high - low > 1.0) { /* P(X <= low) < q <= P(X <= high) */
    double middle = floor(0.5 * (low + high));
    if (middle <= low || middle >= high) break; /* beyond 2^53 */
    if (tt_poisson_mixture_cdf(n, w, rate, middle) >= q)
      high = middle;
    else
      low = middle;
  }
  return high;
}
