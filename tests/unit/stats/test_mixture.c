/* test_mixture.c — mixtures of Gaussians and of counts against their definitions, written again in
 * double, and against values from SciPy. */
#include "core/base/rng.h"
#include "core/stats/mixture.h"
#include "tests/support/check.h"

#include <math.h>

static void near(double got, double want)
{
  TT_CHECK(fabs(got - want), <=, 1e-12 * (1.0 + fabs(want)));
}

/* crps */

/* E|X| of N(mean, variance). */
static double distance_of(double mean, double variance)
{
  double sd = sqrt(variance);
  if (sd == 0.0) return fabs(mean);
  return sd * sqrt(2.0 / acos(-1.0)) * exp(-0.5 * mean * mean / variance) +
         mean * erf(mean / sd / sqrt(2.0));
}

/* E|X - y| - E|X - X'| / 2, over all ordered pairs. */
static double crps(int n, const double *w, const double *mean, const double *variance, double y)
{
  double all = 0.0, away = 0.0, apart = 0.0;
  for (int i = 0; i < n; i++) {
    if (w[i] == 0.0) continue;
    all += w[i];
    away += w[i] * distance_of(mean[i] - y, variance[i]);
    for (int j = 0; j < n; j++)
      if (w[j] > 0.0)
        apart += w[i] * w[j] * distance_of(mean[i] - mean[j], variance[i] + variance[j]);
  }
  return away / all - 0.5 * apart / all / all;
}

enum { MOST = 1000 };
typedef struct capacity {
  double w[MOST], mean[MOST], variance[MOST], scratch[2 * MOST];
} capacity;

/* Components of some weight and standard deviations in [low, high]; every seventh has no weight. */
static void draw(int n, double low, double high, capacity *r)
{
  for (int i = 0; i < n; i++) {
    tt_random4 u = tt_random(6, (uint64_t)n, TT_PURPOSE_INIT, 0, (uint32_t)i);
    double sd = low + (high - low) * (double)tt_uniform(u.v[2]);
    r->w[i] = i % 7 == 6 ? 0.0 : 0.5 + (double)tt_uniform(u.v[0]);
    r->mean[i] = i % 7 == 6 ? NAN : 3.0 * (double)tt_uniform(u.v[1]);
    r->variance[i] = i % 7 == 6 ? NAN : sd * sd;
  }
}

/* By pairs (few components, or a small standard deviation), by the integral, by sorted points. */
TT_TEST (crps_is_exact_for_any_number_of_components) {
  const int n[] = {1, 2, 100, TT_CRPS_PAIRS + 1, 400, MOST};
  const double low[] = {0.5, 0.3, 1e-4, 0.0}, high[] = {0.5, 1.0, 0.8, 0.0};
  capacity r;
  for (int k = 0; k < 6; k++)
    for (int s = 0; s < 4; s++) {
      draw(n[k], low[s], high[s], &r);
      for (double y = -1.0; y < 5.0; y += 1.7) {
        double got = tt_crps_mixture(n[k], r.w, r.mean, r.variance, y, r.scratch);
        double want = crps(n[k], r.w, r.mean, r.variance, y);
        TT_CHECK(fabs(got - want), <=, 1e-12 * (1.0 + fabs(want)));
      }
    }
}

/* One component with an infinite variance: the result is not a number, and it is there at once. */
TT_TEST (crps_of_an_overflow_ends) {
  capacity r;
  draw(300, 0.1, 0.2, &r);
  r.variance[3] = INFINITY;
  TT_CHECK(isfinite(tt_crps_mixture(300, r.w, r.mean, r.variance, 0.0, r.scratch)), ==, 0);
}

/* quantiles */

TT_TEST (quantiles_of_one_gaussian) {
  const double q[] = {0.001, 0.025, 0.1, 0.5, 0.9, 0.975, 0.999};
  const double z[] = {-3.090232306167813, -1.959963984540054, -1.281551565544600, 0.0,
                      1.281551565544600,  1.959963984540054,  3.090232306167813};
  const double mean = 12.5, variance = 6.25, w = 3.0;
  for (int i = 0; i < 7; i++) {
    double got = tt_gaussian_mixture_quantile(1, &w, &mean, &variance, q[i]);
    TT_CHECK(fabs(got - (mean + 2.5 * z[i])), <=, 1e-8 * 12.5);
  }
}

/* A member of weight 0, whose numbers may be of any kind, counts for nothing. */
TT_TEST (quantiles_of_points_are_the_points) {
  const double w[] = {1.0, 2.0, 0.0, 1.0}, mean[] = {3.0, -1.0, (double)NAN, 7.0};
  const double none[] = {0.0, 0.0, 1.0, 0.0};
  const double q[] = {0.1, 0.49, 0.51, 0.74, 0.76, 0.99}, want[] = {-1, -1, 3, 3, 7, 7};
  for (int i = 0; i < 6; i++)
    TT_CHECK(fabs(tt_gaussian_mixture_quantile(4, w, mean, none, q[i]) - want[i]), <=, 1e-8 * 7.0);
}

/* The quantile is where the distribution function is q, and rises with q. */
TT_TEST (quantiles_invert_the_distribution) {
  const double w[] = {1.0, 3.0, 0.5}, mean[] = {0.0, 5.0, -40.0}, variance[] = {1.0, 0.01, 9.0};
  double last = -INFINITY;
  for (int i = 1; i < 200; i++) {
    double q = i / 200.0, at = tt_gaussian_mixture_quantile(3, w, mean, variance, q), cdf = 0.0;
    for (int k = 0; k < 3; k++)
      cdf += w[k] / 4.5 * 0.5 * erfc((mean[k] - at) / sqrt(2.0 * variance[k]));
    TT_CHECK(fabs(cdf - q), <=, 1e-6);
    TT_CHECK(at, >, last);
    last = at;
  }
  TT_CHECK(isnan(tt_gaussian_mixture_quantile(0, w, mean, variance, 0.5)), !=, 0);
}

/* likelihood */

/* recalibration */

static void moments(int n, const capacity *r, double *mean, double *variance)
{
  double all = 0.0, squares = 0.0;
  *mean = 0.0;
  for (int i = 0; i < n; i++)
    if (r->w[i] > 0.0) all += r->w[i], *mean += r->w[i] * r->mean[i];
  *mean /= all;
  for (int i = 0; i < n; i++)
    if (r->w[i] > 0.0)
      squares += r->w[i] * (r->variance[i] + (r->mean[i] - *mean) * (r->mean[i] - *mean));
  *variance = squares / all;
}

/* Members with and without a variance of their own: the mean stays, the variance has the square of
 * the factor and the noise more, quantiles invert the distribution, the CRPS is that of all pairs and not below 0. */
TT_TEST (recalibration_multiplies_the_standard_deviation) {
  const double noise[] = {0.0, 0.0, 0.0, 0.0, 0.7, 2.0};
  const double factor[] = {0.3, 1.0 - 1e-9, 1.0, 1.0 + 1e-9, 1.5, 12.0}, high[] = {0.0, 0.01, 1.0};
  for (int f = 0; f < 6; f++)
    for (int s = 0; s < 3; s++) {
      double mean[2], variance[2];
      capacity r, was;
      draw(9, 0.0, high[s], &r);
      was = r;
      moments(9, &r, mean, variance);
      tt_gaussian_mixture_recalibrate(factor[f], noise[f], 9, r.w, r.mean, r.variance);
      moments(9, &r, mean + 1, variance + 1);
      near(mean[1], mean[0]);
      near(variance[1], variance[0] * factor[f] * factor[f] + noise[f]);
      for (int i = 0; i < 9; i++) {
        if (r.w[i] == 0.0) continue;
        TT_CHECK(r.variance[i], >=, 0.0);
        if (fabs(factor[f] - 1.0) > 1e-8) continue; /* near 1 nothing jumps */
        TT_CHECK(fabs(r.mean[i] - was.mean[i]), <=, 1e-8);
        TT_CHECK(fabs(r.variance[i] - was.variance[i]), <=, 1e-8);
      }
      for (int i = 1; i < 20; i++) {
        double q = i / 20.0, at = tt_gaussian_mixture_quantile(9, r.w, r.mean, r.variance, q);
        if (factor[f] > 1.1)
          TT_CHECK(fabs(tt_gaussian_mixture_cdf(9, r.w, r.mean, r.variance, at) - q), <=, 1e-8);
        double score = tt_crps_mixture(9, r.w, r.mean, r.variance, at, r.scratch);
        near(score, crps(9, r.w, r.mean, r.variance, at));
        TT_CHECK(score, >=, 0.0);
      }
    }
}

/* Points whose standard deviation is much too small become almost one Gaussian: no gaps between
 * them, as if they only moved apart. */
TT_TEST (points_that_are_recalibrated_are_nearly_a_gaussian) {
  capacity r;
  double mean, variance;
  draw(5, 0.0, 0.0, &r);
  tt_gaussian_mixture_recalibrate(6.0, 0.0, 5, r.w, r.mean, r.variance);
  moments(5, &r, &mean, &variance);
  for (double z = -3.0; z <= 3.0; z += 0.1) {
    double error = z * sqrt(variance), want = tt_crps_gaussian(error, variance);
    double got = tt_crps_mixture(5, r.w, r.mean, r.variance, mean - error, NULL);
    TT_CHECK(fabs(got - want), <=, 0.01 * want);
    TT_CHECK(fabs(tt_gaussian_mixture_cdf(5, r.w, r.mean, r.variance, mean + error) -
                  0.5 * erfc(-z / sqrt(2.0))),
             <=, 0.01);
  }
}

TT_TEST (likelihood_of_a_mixture_is_the_mean_likelihood) {
  const double w[] = {1.0, 3.0, 0.0}, mean[] = {0.5, -1.0, NAN}, variance[] = {0.25, 4.0, NAN};
  const double rate[] = {2.0, 5.0, NAN}, none[] = {0.25, 0.0, NAN};
  for (double y = -2.0; y < 3.0; y += 0.7) {
    double p = 0.0;
    for (int i = 0; i < 2; i++)
      p += w[i] / 4.0 / sqrt(2.0 * acos(-1.0) * variance[i]) *
           exp(-0.5 * (y - mean[i]) * (y - mean[i]) / variance[i]);
    near(tt_gaussian_mixture_nll(3, w, mean, variance, y), -log(p));
  }
  /* far from all components, where the densities underflow: the nearest one decides */
  near(tt_gaussian_mixture_nll(3, w, mean, variance, 1000.0),
       0.5 * log(2.0 * acos(-1.0) * 4.0) + 0.5 * 1001.0 * 1001.0 / 4.0 - log(0.75));
  TT_CHECK(isnan(tt_gaussian_mixture_nll(3, w, mean, none, 0.0)), !=, 0);
  double a = exp(-2.0) * 8.0 / 6.0, b = exp(-5.0) * 125.0 / 6.0;
  near(tt_poisson_mixture_nll(3, w, rate, 3.0), -log(0.25 * a + 0.75 * b));
}

/* counts */

/* python3 -c "from scipy.stats import poisson; print(poisson.cdf(k, rate))", SciPy 1.17.1 */
TT_TEST (poisson_distribution_as_in_scipy) {
  static const double known[][3] = {
      {0.3, 0.0, 0.740818220681718},         {4.25, 3.0, 0.3862115623746491},
      {4.25, 11.0, 0.9984858259379822},      {30.0, 17.0, 0.007270216205189685},
      {30.0, 60.0, 0.9999995515359782},      {1e4, 9800.0, 0.02274922201089487},
      {1e7, 10005000.0, 0.9430858861751571}, {2e8, 200010000.0, 0.7602627541234588}};
  for (int i = 0; i < 8; i++) {
    double tolerance = known[i][0] > 1e8 ? 1e-8 : known[i][0] > 1e5 ? 1e-9 : 1e-12;
    TT_CHECK(fabs(tt_poisson_cdf(known[i][0], known[i][1]) - known[i][2]), <=, tolerance);
  }
  TT_CHECK(tt_poisson_cdf(3.0, -1.0), ==, 0.0);
  TT_CHECK(tt_poisson_cdf(0.0, 0.0), ==, 1.0);
  TT_CHECK(tt_poisson_cdf(3.0, 2.9), ==, tt_poisson_cdf(3.0, 2.0));
}

/* Sums of probabilities, for every k on both sides of the rate. */
TT_TEST (poisson_distribution_is_the_sum_of_its_probabilities) {
  for (double rate = 0.125; rate < 200.0; rate *= 1.7) {
    double p = exp(-rate), sum = 0.0;
    for (int k = 0; k < 300; k++) {
      sum += p;
      p *= rate / (k + 1.0);
      TT_CHECK(fabs(tt_poisson_cdf(rate, k) - sum), <=, 1e-13);
    }
  }
}

/* Values of SciPy 1.17.1: w = [1, 2, 1] / 4, rate = [0.5, 4, 30]; k = 0
 * while (w * poisson.cdf(k, rate)).sum() < q: k += 1 */
TT_TEST (quantiles_of_counts_are_the_smallest_counts) {
  const double w[] = {1.0, 2.0, 0.0, 1.0}, rate[] = {0.5, 4.0, NAN, 30.0};
  const double q[] = {0.01, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.999};
  const double want[] = {0, 0, 1, 4, 13, 31, 35, 45};
  for (int i = 0; i < 8; i++) TT_CHECK(tt_poisson_mixture_quantile(4, w, rate, q[i]), ==, want[i]);
  for (int i = 1; i < 1000; i++) {
    double k = tt_poisson_mixture_quantile(4, w, rate, i / 1000.0);
    TT_CHECK(tt_poisson_mixture_cdf(4, w, rate, k), >=, i / 1000.0);
    TT_CHECK(tt_poisson_mixture_cdf(4, w, rate, k - 1.0), <, i / 1000.0);
  }
  TT_CHECK(isnan(tt_poisson_mixture_quantile(4, w, (const double[]){NAN, 1, 1, 1}, 0.5)), !=, 0);
}
