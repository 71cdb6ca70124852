/* baselines.c — see baselines.h. */
#include "core/stats/baselines.h"

#include "core/base/mem.h"

#include <math.h>
#include <string.h>

#define X(label, name, advice) {#label, name, advice},
const tt_baseline_text tt_baseline_table[] = {TT_BASELINES(X)};
#undef X

static const double MOST_PRODUCTS = 4e9;

/* Linear algebra. A [n][n] symmetric, of which the upper half is used: A = U^T U. */

/* y -= factor * x */
static void subtract(int64_t n, double factor, const double *x, double *y)
{
  for (int64_t i = 0; i < n; i++) y[i] -= factor * x[i];
}

/* Replace A by U, in blocks of rows that stay in cache. Returns 0 if A is not positive definite. */
static int factorize(int64_t n, double *a)
{
  enum { BLOCK = 32 };
  for (int64_t b = 0; b < n; b += BLOCK) {
    int64_t end = b + BLOCK < n ? b + BLOCK : n;
    for (int64_t i = b; i < n; i++) {
      for (int64_t k = b; k < end && k < i; k++)
        subtract(n - i, a[k * n + i], a + k * n + i, a + i * n + i);
      if (i >= end) continue;
      if (!(a[i * n + i] > 0.0)) return 0;
      double root = sqrt(a[i * n + i]);
      for (int64_t j = i; j < n; j++) a[i * n + j] /= root;
    }
  }
  return 1;
}

/* Replace y by U^-T y. */
static void solve_lower(int64_t n, const double *u, double *y)
{
  for (int64_t k = 0; k < n; k++) {
    y[k] /= u[k * n + k];
    subtract(n - k - 1, y[k], u + k * n + k + 1, y + k + 1);
  }
}

/* Replace y by U^-1 y. */
static void solve_upper(int64_t n, const double *u, double *y)
{
  for (int64_t k = n - 1; k >= 0; k--) {
    double sum = y[k];
    for (int64_t j = k + 1; j < n; j++) sum -= u[k * n + j] * y[j];
    y[k] = sum / u[k * n + k];
  }
}

static double dot(int64_t n, const double *x, const double *y)
{
  double sum = 0.0;
  for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
  return sum;
}

static double squared_distance(int64_t n, const double *a, const double *b)
{
  double sum = 0.0;
  for (int64_t i = 0; i < n; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

static double mean_of(int64_t n, const double *y)
{
  double sum = 0.0;
  for (int64_t i = 0; i < n; i++) sum += y[i];
  return sum / (double)n;
}

/* Mean and nearest row */

static void predict_mean(const tt_baseline_rows *r, double *prediction)
{
  double mean = mean_of(r->train, r->y);
  for (int64_t i = 0; i < r->test; i++) prediction[i] = mean;
}

static void predict_neighbor(const tt_baseline_rows *r, double *prediction)
{
  for (int64_t i = 0; i < r->test; i++) {
    double least = INFINITY;
    for (int64_t k = 0; k < r->train; k++) {
      double d = squared_distance(r->inputs, r->x_test + i * r->inputs, r->x + k * r->inputs);
      if (!(d < least)) continue;
      least = d;
      prediction[i] = r->y[k];
    }
  }
}

/* Ridge regression: w = (Z^T Z + strength n I)^-1 Z^T y. Z are the inputs, less their means. */

typedef struct ridge {
  const tt_baseline_rows *rows;
  double mean_y;
  double *mean, *products, *u, *w, *z; /* [D], [D][D], [D][D], [D], [D] */
} ridge;

/* Z^T Z, and Z^T y in w. */
static void multiply_rows(const ridge *s)
{
  const tt_baseline_rows *r = s->rows;
  int64_t d = r->inputs;
  memset(s->w, 0, (size_t)d * sizeof *s->w);
  for (int64_t i = 0; i < r->train; i++) {
    for (int64_t k = 0; k < d; k++) s->z[k] = r->x[i * d + k] - s->mean[k];
    for (int64_t k = 0; k < d; k++) subtract(d - k, -s->z[k], s->z + k, s->products + k * d + k);
    subtract(d, s->mean_y - r->y[i], s->z, s->w);
  }
}

static int solve_ridge(const ridge *s, double strength, double *w)
{
  int64_t d = s->rows->inputs;
  memcpy(s->u, s->products, (size_t)(d * d) * sizeof *s->u);
  for (int64_t k = 0; k < d; k++) s->u[k * d + k] += strength * (double)s->rows->train;
  if (!factorize(d, s->u)) return 0;
  memcpy(w, s->w, (size_t)d * sizeof *w);
  solve_lower(d, s->u, w);
  solve_upper(d, s->u, w);
  return 1;
}

/* Mean squared leave-one-out error of the coefficients w, whose factor is in u. */
static double left_out_error(const ridge *s, const double *w)
{
  const tt_baseline_rows *r = s->rows;
  int64_t d = r->inputs;
  double sum = 0.0;
  for (int64_t i = 0; i < r->train; i++) {
    for (int64_t k = 0; k < d; k++) s->z[k] = r->x[i * d + k] - s->mean[k];
    double error = r->y[i] - s->mean_y - dot(d, s->z, w);
    solve_lower(d, s->u, s->z);
    error /= fmax(1e-3, 1.0 - dot(d, s->z, s->z) - 1.0 / (double)r->train);
    sum += error * error;
  }
  return sum / (double)r->train;
}

static int fit_ridge(ridge *s, double *w, double *best)
{
  const tt_baseline_rows *r = s->rows;
  double least = INFINITY;
  s->mean_y = mean_of(r->train, r->y);
  for (int64_t i = 0; i < r->train * r->inputs; i++)
    s->mean[i % r->inputs] += r->x[i] / (double)r->train;
  multiply_rows(s);
  for (double strength = 1e-6; strength < 2.0; strength *= 10.0) {
    if (!solve_ridge(s, strength, w)) continue;
    double error = left_out_error(s, w);
    if (!(error < least)) continue;
    least = error;
    memcpy(best, w, (size_t)r->inputs * sizeof *best);
  }
  return isfinite(least);
}

static tt_err predict_ridge(const tt_baseline_rows *r, double *prediction)
{
  ridge s = {.rows = r};
  double *store = NULL;
  int64_t d = r->inputs;
  TT_TRY(TT_ALLOC(store, 2 * d * d + 5 * d));
  s.products = store;
  s.u = s.products + d * d;
  s.mean = s.u + d * d;
  s.w = s.mean + d;
  s.z = s.w + d;
  double *w = s.z + d, *best = w + d;
  if (!fit_ridge(&s, w, best)) s.mean_y = NAN;
  for (int64_t i = 0; i < r->test; i++) {
    prediction[i] = s.mean_y;
    for (int64_t k = 0; k < d; k++) prediction[i] += best[k] * (r->x_test[i * d + k] - s.mean[k]);
  }
  tt_free(store);
  return TT_OK;
}

/* Gaussian process: the kernel is exp(-sum (x - x')^2 / length^2 / 2), plus a noise. */

enum { MOST_ROWS = 2000, ROWS_OF_FIT = 300, MOST_LENGTHS = 32 };
typedef struct gaussian_process {
  int64_t n, inputs;
  const double *y;       /* [n] without their mean */
  double *x, *z, *u, *a; /* [n][D], the same divided by the lengths, [n][n], [n] */
  double *length, noise; /* [D]; noise variance / variance of the function */
} gaussian_process;

static double kernel(const gaussian_process *g, const double *a, const double *b)
{
  return exp(-0.5 * squared_distance(g->inputs, a, b));
}

/* -2 / n times the logarithm of the marginal likelihood, with the best scale of the kernel K;
 * INFINITY if K is not positive definite. Replace a by K^-1 y. */
static double fit_process(const gaussian_process *g)
{
  double determinant = 0.0;
  for (int64_t i = 0; i < g->n * g->inputs; i++) g->z[i] = g->x[i] / g->length[i % g->inputs];
  for (int64_t i = 0; i < g->n; i++) {
    for (int64_t j = i; j < g->n; j++)
      g->u[i * g->n + j] = kernel(g, g->z + i * g->inputs, g->z + j * g->inputs);
    g->u[i * g->n + i] += g->noise;
  }
  if (!factorize(g->n, g->u)) return INFINITY;
  memcpy(g->a, g->y, (size_t)g->n * sizeof *g->a);
  solve_lower(g->n, g->u, g->a);
  for (int64_t i = 0; i < g->n; i++) determinant += 2.0 * log(g->u[i * g->n + i]);
  double scale = dot(g->n, g->a, g->a) / (double)g->n;
  solve_upper(g->n, g->u, g->a);
  return log(scale) + determinant / (double)g->n;
}

/* Multiply or divide a value by `step`, if that is better. */
static void change(const gaussian_process *g, double *value, double step, double *least)
{
  const double before = *value, tried[2] = {before * step, before / step};
  for (int i = 0; i < 2; i++) {
    *value = tried[i];
    double now = fit_process(g);
    if (!(now < *least)) continue;
    *least = now;
    return;
  }
  *value = before;
}

/* First search on a grid for the noise and one length of all inputs. Then change the noise and the
 * length of each input in turn, in smaller and smaller steps. */
static void search_lengths(gaussian_process *g)
{
  double least = INFINITY, length = 1.0, noise = 1.0;
  for (double l = 0.5; l < 40.0; l *= 2.0)
    for (double v = 1e-8; v < 2.0; v *= 100.0) {
      for (int64_t k = 0; k < g->inputs; k++) g->length[k] = l * sqrt((double)g->inputs) / 2.0;
      g->noise = v;
      double now = fit_process(g);
      if (!(now < least)) continue;
      least = now;
      length = g->length[0];
      noise = v;
    }
  for (int64_t k = 0; k < g->inputs; k++) g->length[k] = length;
  g->noise = noise;
  for (double step = 9.0; step > 1.2 && g->inputs <= MOST_LENGTHS; step = sqrt(step))
    for (int64_t k = 0; k <= g->inputs; k++)
      change(g, k < g->inputs ? &g->length[k] : &g->noise, step, &least);
}

static void predict_with(const gaussian_process *g, const tt_baseline_rows *r, double mean,
                         double *scaled, double *prediction)
{
  for (int64_t i = 0; i < r->test; i++) {
    for (int64_t k = 0; k < g->inputs; k++) scaled[k] = r->x_test[i * g->inputs + k] / g->length[k];
    prediction[i] = mean;
    for (int64_t j = 0; j < g->n; j++)
      prediction[i] += g->a[j] * kernel(g, scaled, g->z + j * g->inputs);
  }
}

/* Copy `count` rows at equal distances, and their labels less the mean. */
static void take_rows(const tt_baseline_rows *r, int64_t count, double mean, gaussian_process *g,
                      double *y)
{
  g->n = count;
  for (int64_t i = 0; i < count; i++) {
    int64_t row = i * r->train / count;
    memcpy(g->x + i * r->inputs, r->x + row * r->inputs, (size_t)r->inputs * sizeof *g->x);
    y[i] = r->y[row] - mean;
  }
}

static tt_err predict_process(const tt_baseline_rows *r, double *prediction)
{
  gaussian_process g = {.inputs = r->inputs};
  double *store = NULL, mean = mean_of(r->train, r->y);
  int64_t n = r->train, d = r->inputs;
  TT_TRY(TT_ALLOC(store, n * n + 2 * n * d + 2 * n + 2 * d));
  g.u = store;
  g.x = g.u + n * n;
  g.z = g.x + n * d;
  g.a = g.z + n * d;
  double *y = g.a + n, *scaled = y + n;
  g.y = y;
  g.length = scaled + d;
  take_rows(r, n < ROWS_OF_FIT ? n : ROWS_OF_FIT, mean, &g, y);
  search_lengths(&g);
  take_rows(r, n, mean, &g, y);
  double fit = fit_process(&g);
  for (; !isfinite(fit) && g.noise < 1.0; fit = fit_process(&g)) g.noise *= 10.0;
  if (!isfinite(fit)) mean = NAN;
  predict_with(&g, r, mean, scaled, prediction);
  tt_free(store);
  return TT_OK;
}

int tt_baseline_is_possible(tt_baseline baseline, const tt_baseline_rows *rows)
{
  double n = (double)rows->train, d = (double)rows->inputs, m = (double)rows->test;
  double fitted = fmin(n, ROWS_OF_FIT);
  const double products[TT_BASELINE_COUNT] = {
      [TT_BASELINE_ridge] = d * d * (8.0 * n + 2.5 * d),
      [TT_BASELINE_neighbor] = d * n * m,
      [TT_BASELINE_gaussian_process] =
          n > MOST_ROWS ? INFINITY : d * (n * (n + m) + 18.0 * fitted * fitted)};
  return n >= 2.0 && products[baseline] <= MOST_PRODUCTS;
}

tt_err tt_baseline_predict(tt_baseline baseline, const tt_baseline_rows *rows, double *prediction)
{
  switch (baseline) {
  case TT_BASELINE_mean: predict_mean(rows, prediction); return TT_OK;
  case TT_BASELINE_neighbor: predict_neighbor(rows, prediction); return TT_OK;
  case TT_BASELINE_ridge: return predict_ridge(rows, prediction);
  default: return predict_process(rows, prediction);
  }
}

double tt_baseline_bytes(const tt_baseline_rows *rows)
{
  double n = (double)rows->train, d = (double)rows->inputs, values = 0.0;
  if (tt_baseline_is_possible(TT_BASELINE_ridge, rows)) values = 2.0 * d * d + 5.0 * d;
  if (tt_baseline_is_possible(TT_BASELINE_gaussian_process, rows))
    values = fmax(values, n * (n + 2.0 * d + 2.0) + 2.0 * d);
  return 8.0 * values;
}
