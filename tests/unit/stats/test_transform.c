/* test_transform.c — laws over the table of transforms: each is undone, its slope is its derivative,
 * and its moments are those of a Gaussian number after the transform is undone. */
#include "core/formulas/normalization.h"
#include "core/stats/mixture.h"
#include "tests/support/check.h"

#include <math.h>

static const double lambdas[] = {0.0, 1e-9, 0.4, 1.0, 1.7, 2.0};
enum { LAMBDAS = sizeof lambdas / sizeof *lambdas };
static const double values[] = {-300.0, -7.0, -0.9, -1e-3, 0.0, 1e-12, 0.02, 1.0, 12.0, 4e4};
enum { VALUES = sizeof values / sizeof *values };

static int near(double got, double wanted, double precision)
{
  return fabs(got - wanted) <= precision * fmax(1.0, fabs(wanted));
}

TT_TEST (a_transform_is_undone) {
  int64_t checked = 0;
  for (int f = 0; f < TT_TRANSFORM_COUNT; f++)
    for (int l = 0; l < LAMBDAS; l++)
      for (int i = 0; i < VALUES; i++) {
        const tt_transform transform = (tt_transform)f;
        if (!tt_transform_accepts(transform, values[i])) continue;
        double t = tt_transform_apply(transform, lambdas[l], values[i]);
        TT_CHECK(near(tt_transform_undo(transform, lambdas[l], t), values[i], 1e-12), ==, 1);
        checked++;
      }
  TT_CHECK(checked, >, TT_TRANSFORM_COUNT * LAMBDAS * VALUES / 2);
}

TT_TEST (a_transform_increases_with_its_slope) {
  for (int f = 0; f < TT_TRANSFORM_COUNT; f++)
    for (int l = 0; l < LAMBDAS; l++)
      for (int i = 0; i < VALUES; i++) {
        const tt_transform transform = (tt_transform)f;
        double v = values[i], step = 1e-6 * fmax(fabs(v), 1e-3);
        if (!tt_transform_accepts(transform, v - step) || v == 0.0)
          continue; /* 0: a kink of the slope */
        double slope = tt_transform_slope(transform, lambdas[l], v);
        double around = (tt_transform_apply(transform, lambdas[l], v + step) -
                         tt_transform_apply(transform, lambdas[l], v - step)) /
                        (2.0 * step);
        TT_CHECK(slope, >, 0.0);
        TT_CHECK(fabs(around - slope), <, 1e-5 * slope);
      }
}

/* 20001 points of the Gaussian density. */
static tt_transform_moments integrate(tt_transform transform, double lambda, double mean, double sd)
{
  double weight = 0.0, sum = 0.0, squares = 0.0;
  for (int i = -10000; i <= 10000; i++) {
    double z = 1.2e-3 * i, w = exp(-0.5 * z * z),
           v = tt_transform_undo(transform, lambda, mean + z * sd);
    weight += w;
    sum += w * v;
    squares += w * v * v;
  }
  sum /= weight;
  return (tt_transform_moments){sum, squares / weight - sum * sum};
}

TT_TEST (moments_are_those_of_a_gaussian_number) {
  static const double mean[] = {-1.5, 0.0, 0.7, 3.0}, sd[] = {0.0, 0.05, 0.6, 1.1};
  for (int f = 0; f < TT_TRANSFORM_COUNT; f++)
    for (int l = 2; l < LAMBDAS - 1; l++)
      for (int i = 0; i < 16; i++) {
        const tt_transform transform = (tt_transform)f;
        double m = mean[i / 4], s = sd[i % 4];
        tt_transform_moments got = tt_transform_undo_gaussian(transform, lambdas[l], m, s * s);
        tt_transform_moments want = integrate(transform, lambdas[l], m, s);
        TT_CHECK(fabs(got.mean - want.mean), <, 2e-4 * (1.0 + fabs(want.mean)));
        TT_CHECK(fabs(got.variance - want.variance), <, 1e-3 * (1e-6 + want.variance));
      }
}

TT_TEST (slopes_of_moments_are_central_differences) {
  static const double mean[] = {-1.5, -0.2, 0.7, 3.0}, variance[] = {0.0, 0.01, 0.4, 1.2};
  for (int f = 0; f < TT_TRANSFORM_COUNT; f++)
    for (int l = 0; l < LAMBDAS; l++)
      for (int i = 0; i < 16; i++) {
        const tt_transform transform = (tt_transform)f;
        double p = lambdas[l], m = mean[i / 4], v = variance[i % 4], h = 1e-5;
        tt_transform_slopes got = tt_transform_undo_gaussian_slopes(transform, p, m, v);
        tt_transform_moments up = tt_transform_undo_gaussian(transform, p, m + h, v);
        tt_transform_moments down = tt_transform_undo_gaussian(transform, p, m - h, v);
        TT_CHECK(near(got.mean_by_mean, (up.mean - down.mean) / (2.0 * h), 1e-7), ==, 1);
        TT_CHECK(near(got.variance_by_mean, (up.variance - down.variance) / (2.0 * h), 1e-7), ==,
                 1);
        if (v == 0.0) continue;
        up = tt_transform_undo_gaussian(transform, p, m, v + h * v);
        down = tt_transform_undo_gaussian(transform, p, m, v - h * v);
        h *= v;
        TT_CHECK(near(got.mean_by_variance, (up.mean - down.mean) / (2.0 * h), 1e-6), ==, 1);
        TT_CHECK(near(got.variance_by_variance, (up.variance - down.variance) / (2.0 * h), 1e-6),
                 ==, 1);
      }
}

/* Of one component without a transform, and of a log-normal distribution (Baran & Lerch 2015,
 * eq. 6: y (2 F(y) - 1) - 2 exp(m + s^2 / 2) (F(y; m + s^2) + Phi(s / sqrt 2) - 1)). */
TT_TEST (the_crps_of_a_transformed_mixture_is_exact) {
  static const double w[] = {1.0, 2.0, 0.0}, mean[] = {-0.5, 0.8, 9.0}, v[] = {0.04, 0.5, 1.0};
  static const double labels[] = {-4.0, -0.4, 0.3, 0.9, 8.0};
  for (int i = 0; i < 5; i++) {
    double scratch[6], y = labels[i], want = tt_crps_mixture(3, w, mean, v, y, scratch);
    double got = tt_crps_transformed_mixture(3, w, mean, v, TT_TRANSFORM_identity, 1.0, y);
    TT_CHECK(near(got, want, 1e-8), ==, 1);
    double s = sqrt(v[1]), m = mean[1], z = (labels[i] - m) / s, e = exp(m + 0.5 * v[1]);
    y = exp(labels[i]);
    want = y * (erf(z * M_SQRT1_2)) -
           2.0 * e * (0.5 * erfc(-(z - s) * M_SQRT1_2) + 0.5 * erfc(-0.5 * s) - 1.0);
    got = tt_crps_transformed_mixture(1, w + 1, mean + 1, v + 1, TT_TRANSFORM_log, 1.0, y);
    TT_CHECK(near(got, want, 1e-8), ==, 1);
  }
}
