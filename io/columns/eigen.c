/* eigen.c — see eigen.h. Vectors are the rows of a[n][n], so that the inner loops are contiguous:
 * a[j * n + k] is element k of vector j. */
#include "io/columns/eigen.h"

#include "core/base/mem.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The matrix and its tridiagonal form: d[n] the diagonal, e[n] beside it. */
typedef struct eigen_problem {
  int64_t n;
  double *a, *d, *e;
} eigen_problem;

/* Apply the reflection with vector d[0, i) and `h` to the leading i rows and columns. */
static void apply_reflection(const eigen_problem *p, int64_t i, double h)
{
  int64_t n = p->n;
  double *a = p->a, *d = p->d, *e = p->e, sum = 0.0;
  memset(e, 0, (size_t)i * sizeof *e);
  for (int64_t j = 0; j < i; j++) {
    double f = d[j], g = e[j] + a[j * n + j] * f;
    a[i * n + j] = f;
    for (int64_t k = j + 1; k < i; k++) {
      g += a[j * n + k] * d[k];
      e[k] += a[j * n + k] * f;
    }
    e[j] = g;
  }
  for (int64_t j = 0; j < i; j++) sum += (e[j] /= h) * d[j];
  for (int64_t j = 0; j < i; j++) e[j] -= sum / (h + h) * d[j];
  for (int64_t j = 0; j < i; j++) {
    double f = d[j], g = e[j];
    for (int64_t k = j; k < i; k++) a[j * n + k] -= f * e[k] + g * d[k];
    d[j] = a[j * n + i - 1];
    a[j * n + i] = 0.0;
  }
}

/* Column i of the tridiagonal form; returns h of the reflection, 0 if none is needed. */
static double reduce_column(const eigen_problem *p, int64_t i)
{
  int64_t n = p->n;
  double *d = p->d, scale = 0.0, h = 0.0;
  for (int64_t k = 0; k < i; k++) scale += fabs(d[k]);
  if (scale == 0.0) {
    p->e[i] = d[i - 1];
    for (int64_t j = 0; j < i; j++) {
      d[j] = p->a[j * n + i - 1];
      p->a[j * n + i] = p->a[i * n + j] = 0.0;
    }
    return 0.0;
  }
  for (int64_t k = 0; k < i; k++) {
    d[k] /= scale;
    h += d[k] * d[k];
  }
  double f = d[i - 1], g = f > 0.0 ? -sqrt(h) : sqrt(h);
  h -= f * g;
  d[i - 1] = f - g;
  apply_reflection(p, i, h);
  p->e[i] = scale * g;
  return h;
}

/* The product of the reflections, in a. */
static void accumulate(const eigen_problem *p)
{
  int64_t n = p->n;
  double *a = p->a, *d = p->d;
  for (int64_t i = 0; i < n - 1; i++) {
    a[i * n + n - 1] = a[i * n + i];
    a[i * n + i] = 1.0;
    double h = d[i + 1], *next = a + (i + 1) * n;
    for (int64_t k = 0; h != 0.0 && k <= i; k++) d[k] = next[k] / h;
    for (int64_t j = 0; h != 0.0 && j <= i; j++) {
      double g = 0.0;
      for (int64_t k = 0; k <= i; k++) g += next[k] * a[j * n + k];
      for (int64_t k = 0; k <= i; k++) a[j * n + k] -= g * d[k];
    }
    for (int64_t k = 0; k <= i; k++) next[k] = 0.0;
  }
  for (int64_t j = 0; j < n; j++) {
    d[j] = a[j * n + n - 1];
    a[j * n + n - 1] = 0.0;
  }
  a[n * n - 1] = 1.0;
}

static void make_tridiagonal(const eigen_problem *p)
{
  int64_t n = p->n;
  for (int64_t j = 0; j < n; j++) p->d[j] = p->a[j * n + n - 1];
  for (int64_t i = n - 1; i > 0; i--) p->d[i] = reduce_column(p, i);
  accumulate(p);
  for (int64_t i = 1; i < n; i++) p->e[i - 1] = p->e[i];
  p->e[n - 1] = 0.0;
}

static void rotate(double *x, double *y, int64_t n, double c, double s)
{
  for (int64_t k = 0; k < n; k++) {
    double h = y[k];
    y[k] = s * x[k] + c * h;
    x[k] = c * x[k] - s * h;
  }
}

/* One QL step on rows [l, m]; *shift is the sum of all shifts. */
static void ql_step(const eigen_problem *p, int64_t l, int64_t m, double *shift)
{
  double *d = p->d, *e = p->e, g = d[l], t = (d[l + 1] - g) / (2.0 * e[l]);
  double r = t < 0.0 ? -hypot(t, 1.0) : hypot(t, 1.0);
  d[l] = e[l] / (t + r);
  d[l + 1] = e[l] * (t + r);
  double next = d[l + 1], h = g - d[l], beside = e[l + 1];
  for (int64_t i = l + 2; i < p->n; i++) d[i] -= h;
  *shift += h;
  double c = 1.0, c2 = c, c3 = c, s = 0.0, s2 = 0.0, q = d[m];
  for (int64_t i = m - 1; i >= l; i--) {
    c3 = c2;
    c2 = c;
    s2 = s;
    g = c * e[i];
    h = c * q;
    r = hypot(q, e[i]);
    e[i + 1] = s * r;
    s = e[i] / r;
    c = q / r;
    q = c * d[i] - s * g;
    d[i + 1] = h + s * (c * g + s * d[i]);
    rotate(p->a + i * p->n, p->a + (i + 1) * p->n, p->n, c, s);
  }
  q = -s * s2 * c3 * beside * e[l] / next;
  e[l] = s * q;
  d[l] = c * q;
}

static tt_err diagonalize(const eigen_problem *p)
{
  enum { MAX_STEPS = 100 };
  double shift = 0.0, size = 0.0;
  for (int64_t l = 0; l < p->n; l++) {
    int64_t m = l, steps = 0;
    size = fmax(size, fabs(p->d[l]) + fabs(p->e[l]));
    while (m < p->n - 1 && fabs(p->e[m]) > DBL_EPSILON * size) m++;
    while (m > l && fabs(p->e[l]) > DBL_EPSILON * size) {
      if (++steps > MAX_STEPS)
        return TT_FAIL(INTERNAL, "eigenvalue %" PRId64 " of %" PRId64 " does not converge", l,
                       p->n);
      ql_step(p, l, m, &shift);
    }
    p->d[l] += shift;
    p->e[l] = 0.0;
  }
  return TT_OK;
}

/* Values descending, with their vectors; the largest component of each vector is positive. */
static void sort_vectors(const eigen_problem *p)
{
  int64_t n = p->n;
  for (int64_t i = 0; i < n; i++) {
    int64_t best = i, position = 0;
    for (int64_t j = i + 1; j < n; j++) best = p->d[j] > p->d[best] ? j : best;
    double *dst = p->a + i * n, *src = p->a + best * n, value = p->d[best];
    p->d[best] = p->d[i];
    p->d[i] = value;
    for (int64_t k = 0; k < n; k++) {
      double moved = src[k];
      src[k] = dst[k];
      dst[k] = moved;
      position = fabs(moved) > fabs(dst[position]) ? k : position;
    }
    for (int64_t k = 0, negative = dst[position] < 0.0; negative && k < n; k++) dst[k] = -dst[k];
  }
}

tt_err tt_eigen_symmetric(int64_t n, double *a, double *value)
{
  double *e = NULL;
  TT_TRY(TT_ALLOC(e, n));
  const eigen_problem p = {n, a, value, e};
  make_tridiagonal(&p);
  tt_err err = diagonalize(&p);
  if (!err) sort_vectors(&p);
  tt_free(e);
  return err;
}
