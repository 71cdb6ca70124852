/* test_moments.c — law C2: the prediction of an ensemble is the weighted mixture of those of its
 * members. Closed forms, weights, order. */
#include "core/base/rng.h"
#include "core/stats/moments.h"
#include "tests/support/check.h"

#include <math.h>
#include <string.h>

static tt_moments *moments(int64_t rows, int64_t columns)
{
  tt_moments *m = NULL;
  TT_CHECK_OK(tt_moments_create(rows, columns, &m));
  return m;
}

static void near(double got, double want)
{
  TT_CHECK(fabs(got - want), <=, 1e-12 * (1.0 + fabs(want)));
}

/* w1 N(m1, v1) + w2 N(m2, v2): mean and both parts of the variance, computed by hand. */
TT_TEST (two_gaussians_have_their_closed_form) {
  const float mean[2] = {1.25f, -3.5f}, variance[2] = {0.5f, 2.0f};
  const double w[2] = {0.75, 2.25}, p = w[0] / (w[0] + w[1]), q = 1.0 - p;
  tt_moments *m = moments(1, 1);
  for (int i = 0; i < 2; i++) tt_moments_add(m, 0, 1, w[i], &mean[i], &variance[i], 1);
  tt_uncertainty s = tt_moments_at(m, 0, 0);
  double apart = (double)mean[0] - (double)mean[1];
  double within = p * 0.5 + q * 2.0, between = p * q * apart * apart;
  near(s.mean, p * 1.25 - q * 3.5);
  near(s.aleatoric * s.aleatoric, within);
  near(s.epistemic * s.epistemic, between);
  near(s.total * s.total, within + between);
  tt_moments_destroy(&m);
}

TT_TEST (one_member_reproduces_itself) {
  const float mean[3] = {0.1f, -7e5f, 3e-20f}, variance[3] = {0.3f, 1e4f, 1e-30f};
  tt_moments *m = moments(3, 1);
  tt_moments_add(m, 0, 1, 0.7, mean, variance, 3);
  for (int i = 0; i < 3; i++) {
    tt_uncertainty s = tt_moments_at(m, i, 0);
    TT_CHECK(s.mean, ==, (double)mean[i]);
    TT_CHECK(s.epistemic, ==, 0.0);
    TT_CHECK(s.total, ==, s.aleatoric);
    near(s.aleatoric * s.aleatoric / (double)variance[i], 1.0);
  }
  tt_moments_destroy(&m);
}

TT_TEST (equal_members_have_no_epistemic_part) {
  const float mean = 0.1f, variance = 0.3f;
  const double w[] = {1.0, 0.3, 7.0, 1e-3};
  tt_moments *m = moments(1, 1);
  for (int i = 0; i < 4; i++) {
    tt_moments_add(m, 0, 1, w[i], &mean, &variance, 1);
    TT_CHECK(tt_moments_at(m, 0, 0).epistemic, ==, 0.0);
    TT_CHECK(tt_moments_at(m, 0, 0).mean, ==, (double)mean);
  }
  tt_moments_destroy(&m);
}

TT_TEST (members_of_nearly_no_weight_leave_the_spread_of_the_others) {
  static const double w[] = {5e-24, 1e-33, 1.0};
  static const float variance = 0.25f;
  for (int i = 0; i < 50; i++) {
    tt_moments *m = moments(1, 1);
    const float mean[] = {-52.7f - (float)i, -17.8f, 14.6f};
    for (int j = 0; j < 3; j++) tt_moments_add(m, 0, 1, w[j], &mean[j], &variance, 1);
    tt_uncertainty s = tt_moments_at(m, 0, 0);
    TT_CHECK(s.epistemic, <=, 1e-6);
    near(s.total, 0.5);
    tt_moments_destroy(&m);
  }
}

TT_TEST (a_prediction_that_is_not_a_number_has_no_spread) {
  tt_moments *m = moments(1, 1);
  const float mean[] = {1.0f, NAN};
  for (int j = 0; j < 2; j++) tt_moments_add(m, 0, 1, 1.0, &mean[j], NULL, 1);
  TT_CHECK(isnan(tt_moments_at(m, 0, 0).epistemic), ==, 1);
  TT_CHECK(isnan(tt_moments_at(m, 0, 0).total), ==, 1);
  tt_moments_destroy(&m);
}

static void same_spread(const tt_moments *a, const tt_moments *b, int64_t row, int64_t column)
{
  tt_uncertainty x = tt_moments_at(a, row, column), y = tt_moments_at(b, row, column);
  near(x.mean, y.mean);
  near(x.total, y.total);
  near(x.aleatoric, y.aleatoric);
  near(x.epistemic, y.epistemic);
}

TT_TEST (member_weights_are_used) {
  const float mean[] = {1.0f, 4.0f, -2.0f}, variance[] = {0.1f, 0.2f, 5.0f};
  tt_moments *a = moments(1, 1), *b = moments(1, 1), *c = moments(1, 1);
  for (int i = 0; i < 3; i++) { /* member 1 twice, or once with weight 2 */
    tt_moments_add(a, 0, 1, i == 1 ? 2.0 : 1.0, &mean[i], &variance[i], 1);
    tt_moments_add(b, 0, 1, 1.0, &mean[i], &variance[i], 1);
    if (i == 1) tt_moments_add(b, 0, 1, 1.0, &mean[i], &variance[i], 1);
    tt_moments_add(c, 0, 1, i == 1 ? 0.5 : 0.25, &mean[i], &variance[i],
                   1); /* weights need not add up to 1 */
  }
  same_spread(a, b, 0, 0);
  same_spread(a, c, 0, 0);
  tt_uncertainty before = tt_moments_at(a, 0, 0);
  const float wild = NAN;
  tt_moments_add(a, 0, 1, 0.0, &wild, &wild, 1);
  tt_uncertainty after = tt_moments_at(a, 0, 0);
  TT_CHECK(memcmp(&before, &after, sizeof before), ==, 0);
  tt_moments_destroy(&a);
  tt_moments_destroy(&b);
  tt_moments_destroy(&c);
}

/* Moments of a row do not depend on other rows, on its place, or on other columns. */
TT_TEST (rows_and_columns_are_independent) {
  enum { ROWS = 5, MEMBERS = 4, K = 2 };
  tt_moments *a = moments(ROWS, 3), *b = moments(ROWS, 3);
  for (uint32_t i = 0; i < MEMBERS; i++) {
    float mean[K * ROWS], variance[K * ROWS], turned_mean[K * ROWS], turned_variance[K * ROWS];
    for (int k = 0; k < K; k++)
      for (int r = 0; r < ROWS; r++) {
        tt_random4 u = tt_random(1, i, TT_PURPOSE_INIT, (uint32_t)k, (uint32_t)r);
        int index = k * ROWS + r, turned = k * ROWS + ROWS - 1 - r;
        mean[index] = turned_mean[turned] = tt_uniform(u.v[0]);
        variance[index] = turned_variance[turned] = tt_uniform(u.v[1]);
      }
    tt_moments_add(a, 1, K, 1.0 + i, mean, variance, ROWS);
    tt_moments_add(b, 1, K, 1.0 + i, turned_mean, turned_variance, ROWS);
  }
  for (int r = 0; r < ROWS; r++) {
    for (int k = 1; k < 3; k++) {
      tt_uncertainty x = tt_moments_at(a, r, k), y = tt_moments_at(b, ROWS - 1 - r, k);
      TT_CHECK(memcmp(&x, &y, sizeof x), ==, 0);
    }
    TT_CHECK(isnan(tt_moments_at(a, r, 0).mean), !=, 0); /* no member predicted column 0 */
  }
  tt_moments_clear(a);
  TT_CHECK(isnan(tt_moments_at(a, 0, 1).mean), !=, 0);
  tt_moments_destroy(&a);
  tt_moments_destroy(&b);
}

/* The sums of squares do not cancel for members that agree on a large mean. */
TT_TEST (small_variances_around_large_means_are_kept) {
  tt_moments *m = moments(1, 1);
  for (int i = 0; i < 1000; i++) {
    float mean = 1e6f + (float)(i % 2);
    tt_moments_add(m, 0, 1, 1.0, &mean, NULL, 1);
  }
  tt_uncertainty s = tt_moments_at(m, 0, 0);
  near(s.mean, 1e6 + 0.5);
  TT_CHECK(fabs(s.epistemic - 0.5), <=, 1e-9);
  TT_CHECK(s.aleatoric, ==, 0.0);
  tt_moments_destroy(&m);
}
