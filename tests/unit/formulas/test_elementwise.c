/* test_elementwise.c — the elementary functions against libm in double: the bounds that
 * elementwise.h states, over floats of the whole range; NaN in gives NaN out; limits at the far
 * ends. */
#include "core/config/choices.h"
#include "core/formulas/elementwise.h"
#include "tests/support/check.h"

#include <math.h>
#include <string.h>

static double true_softplus(double x) { return (x > 0.0 ? x : 0.0) + log1p(exp(-fabs(x))); }
static double true_sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
static double true_cdf(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }
static double true_density(double x) { return exp(-0.5 * x * x) / sqrt(2.0 * M_PI); }

/* Bound on [low, high] in units of the last place, or absolute where ulp is 0. */
typedef struct bound {
  const char *name;
  float (*f)(float);
  double (*truth)(double);
  float low, high;
  double ulp, absolute;
} bound;

static const bound bounds[] = {
    {"exp", tt_expf, exp, -87.3f, 88.3f, 2.0, 0.0},
    {"log", tt_logf, log, 0x1p-126f, 0x1.fffffep127f, 2.0, 0.0},
    {"log1p", tt_log1pf, log1p, 0.0f, 1e30f, 2.0, 0.0},
    {"sigmoid", tt_sigmoid, true_sigmoid, -87.0f, 1e30f, 3.0, 0.0},
    {"softplus", tt_softplus, true_softplus, -87.0f, 1e30f, 2.0, 0.0},
    {"tanh", tt_tanhf, tanh, -1e30f, 1e30f, 2.0, 0.0},
    {"sine", tt_sinf, sin, -1e4f, 1e4f, 0.0, 2e-7},
    {"normal_cdf", tt_normal_cdf, true_cdf, -1e30f, 1e30f, 0.0, 4e-7},
    {"normal_density", tt_normal_pdf, true_density, -1e30f, 1e30f, 0.0, 5e-8},
};
enum { BOUNDS = sizeof bounds / sizeof *bounds };

static double last_place(double x)
{
  int e;
  if (fabs(x) < 0x1p-126) return 0x1p-149;
  frexp(x, &e);
  return ldexp(1.0, e - 24);
}

static void measure(const bound *b)
{
  double worst = 0.0, unit = 1.0;
  float worst_x = 0.0f;
  for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 2003) { /* a prime: all exponents and signs */
    float x = tt_int_as_float((int32_t)(uint32_t)bits);
    if (!(x >= b->low && x <= b->high)) continue;
    double truth = b->truth((double)x), error = fabs((double)b->f(x) - truth);
    if (b->ulp > 0.0) unit = last_place(truth);
    if (error / unit > worst) worst = error / unit, worst_x = x;
  }
  fprintf(stderr, "  %-15s %.3g %s at %.9g\n", b->name, worst, b->ulp > 0.0 ? "ulp" : "absolute",
          (double)worst_x);
  TT_CHECK(worst, <=, b->ulp > 0.0 ? b->ulp : b->absolute);
}

TT_TEST (functions_keep_the_bounds_they_state) {
  for (int i = 0; i < BOUNDS; i++) measure(&bounds[i]);
}

TT_TEST (nan_gives_nan) {
  for (int i = 0; i < BOUNDS; i++) {
    if (bounds[i].f == tt_logf) continue; /* defined for normal numbers only */
    if (!isnan(bounds[i].f(NAN)) || !isnan(bounds[i].f(-NAN)))
      fprintf(stderr, "%s hides NaN\n", bounds[i].name), fail();
  }
  for (int a = 0; a < TT_ACT_COUNT; a++)
    if (!isnan(tt_act((tt_activation)a, NAN)))
      fprintf(stderr, "%s hides NaN\n", tt_choice_activation[a]), fail();
}

/* No decrease on a grid that crosses every boundary: ends of the range, change of polynomial, sign.
 */
TT_TEST (increasing_functions_never_decrease) {
  float (*rising[])(float) = {tt_expf, tt_sigmoid, tt_softplus, tt_tanhf};
  for (size_t f = 0; f < sizeof rising / sizeof *rising; f++)
    for (float x = -110.0f; x < 110.0f; x += 0x1p-10f)
      TT_CHECK(rising[f](x + 0x1p-10f), >=, rising[f](x));
  for (float x = 0x1p-126f; x < 0x1p120f; x *= 1.001f) TT_CHECK(tt_logf(x * 1.001f), >, tt_logf(x));
  for (float x = -20.0f; x < 20.0f; x += 0x1p-4f)
    TT_CHECK(tt_normal_cdf(x + 0x1p-4f), >=, tt_normal_cdf(x));
}

TT_TEST (far_ends_are_limits) {
  const float far[] = {100.0f, 1e30f, INFINITY};
  for (int i = 0; i < 3; i++) {
    float x = far[i];
    TT_CHECK(tt_expf(x), ==, tt_expf(88.3f)); /* clamped, never infinite: quotients stay finite */
    TT_CHECK(tt_expf(-x), ==, tt_expf(-87.3f));
    TT_CHECK(tt_sigmoid(x), ==, 1.0f);
    TT_CHECK(tt_sigmoid(-x), <, 1e-38f);
    TT_CHECK(tt_softplus(x), ==, x);
    TT_CHECK(tt_softplus(-x), <, 2e-38f);
    TT_CHECK(tt_softplus(-x), >, 0.0f);
    TT_CHECK(tt_tanhf(x), ==, 1.0f);
    TT_CHECK(tt_tanhf(-x), ==, -1.0f);
    TT_CHECK(tt_normal_cdf(x), ==, 1.0f);
    TT_CHECK(tt_normal_cdf(-x), <, 1e-38f);
  }
  TT_CHECK(tt_expf(0.0f), ==, 1.0f);
  TT_CHECK(tt_logf(1.0f), ==, 0.0f);
  TT_CHECK(tt_log1pf(0.0f), ==, 0.0f);
  TT_CHECK(tt_tanhf(0.0f), ==, 0.0f);
  TT_CHECK(tt_sigmoid(0.0f), ==, 0.5f);
}
