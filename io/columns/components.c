/* components.c — see components.h. */
#include "io/columns/components.h"

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/model/partition.h"
#include "io/columns/eigen.h"

#include <inttypes.h>
#include <math.h>

/* Below this part of the largest variance a direction is rounding of single precision. */
static const double least_variance = 1e-12;

/* A row that lacks a label gets none: components need all of them. */
static void drop_partial_rows(tt_dataset *d)
{
  for (int64_t r = 0; r < d->rows; r++) {
    float *y = d->y + r * d->targets;
    int64_t known = 0;
    for (int64_t t = 0; t < d->targets; t++) known += !isnan(y[t]);
    for (int64_t t = 0; known < d->targets && t < d->targets; t++) y[t] = NAN;
  }
}

static int is_used(const tt_dataset *d, int64_t row)
{
  return d->split[row] == TT_TRAIN && !isnan(d->y[row * d->targets]);
}

/* Means over the training rows; returns their number. */
static int64_t compute_means(const tt_dataset *d, double *mean)
{
  int64_t rows = 0;
  for (int64_t r = 0; r < d->rows; r++) {
    if (!is_used(d, r)) continue;
    rows++;
    for (int64_t t = 0; t < d->targets; t++) mean[t] += (double)d->y[r * d->targets + t];
  }
  for (int64_t t = 0; t < d->targets && rows; t++) mean[t] /= (double)rows;
  return rows;
}

/* Rows [mine.first, mine.first + mine.count) of the covariance matrix: each element is one sum in
 * the order of the samples, on any number of ranks.
 *   away  [T] scratch */
static void compute_covariance(const tt_dataset *d, int64_t rows, tt_slice mine, double *away,
                               double *out)
{
  int64_t n = d->targets;
  for (int64_t r = 0; r < d->rows; r++) {
    if (!is_used(d, r)) continue;
    for (int64_t t = 0; t < n; t++) away[t] = (double)d->y[r * n + t] - d->scaler.component_mean[t];
    for (int64_t i = 0; i < mine.count; i++) {
      double factor = away[mine.first + i];
      for (int64_t t = 0; t < n; t++) out[i * n + t] += factor * away[t];
    }
  }
  for (int64_t i = 0; i < mine.count * n; i++) out[i] /= (double)rows;
}

static tt_err check_variances(const char *file, const double *variance, const tt_scaler *s)
{
  int64_t possible = 0;
  while (possible < s->targets && variance[possible] > least_variance * variance[0]) possible++;
  if (s->components <= possible) return TT_OK;
  return TT_FAIL(DATA,
                 "%s: data.targets_pca is %" PRId64 ", but the training rows differ in %" PRId64
                 " directions only; use %" PRId64 " or fewer components",
                 file, s->components, possible, possible);
}

/* From the eigenvectors and eigenvalues of the covariance matrix. */
static void store_components(const double *vector, const double *variance, tt_scaler *s)
{
  int64_t n = s->targets;
  double held = 0.0, all = 0.0;
  for (int64_t l = 0; l < n; l++) {
    int kept = l < s->components;
    all += fmax(variance[l], 0.0);
    held += kept ? variance[l] : 0.0;
    for (int64_t t = 0; t < n; t++) {
      double loading = vector[l * n + t];
      if (kept)
        s->component[l * n + t] = sqrt(variance[l]) * loading;
      else
        s->residual[t] += fmax(variance[l], 0.0) * loading * loading;
    }
  }
  tt_log_root(TT_LOG_INFO,
              "%" PRId64 " principal components hold %.4g %% of the variance of %" PRId64
              " normalized targets",
              s->components, 100.0 * held / all, n);
}

/* The amplitudes are the projections on the eigenvectors, over the square roots of the variances.
 */
static void compute_amplitudes(const double *vector, const double *variance, tt_dataset *d)
{
  const tt_scaler *s = &d->scaler;
  int64_t n = s->targets;
  for (int64_t r = 0; r < d->rows; r++)
    for (int64_t l = 0; l < s->components; l++) {
      double sum = 0.0;
      for (int64_t t = 0; t < n; t++)
        sum += vector[l * n + t] * ((double)d->y[r * n + t] - s->component_mean[t]);
      d->amplitude[r * s->components + l] = (float)(sum / sqrt(variance[l]));
    }
}

/* Local. matrix [T][T] is the covariance matrix and becomes its eigenvectors; variance [T]. */
static tt_err decompose(const char *file, double *matrix, double *variance, tt_dataset *d)
{
  TT_TRY(tt_eigen_symmetric(d->targets, matrix, variance));
  TT_TRY(check_variances(file, variance, &d->scaler));
  store_components(matrix, variance, &d->scaler);
  compute_amplitudes(matrix, variance, d);
  return TT_OK;
}

static tt_err allocate(const char *file, int64_t components, tt_slice mine, tt_dataset *d,
                       double **part, double **matrix, double **variance)
{
  if (components > d->targets)
    return TT_FAIL(DATA, "%s: data.targets_pca is %" PRId64 ", but there are %" PRId64 " targets",
                   file, components, d->targets);
  TT_TRY(tt_scaler_add_components(&d->scaler, components));
  TT_TRY(TT_ALLOC(d->amplitude, d->rows * components));
  TT_TRY(TT_ALLOC(*part, mine.count * d->targets));
  TT_TRY(TT_ALLOC(*matrix, d->targets * d->targets));
  return TT_ALLOC(*variance, d->targets);
}

tt_err tt_fit_components(tt_comm *c, const char *file, int64_t components, tt_dataset *d)
{
  double *part = NULL, *matrix = NULL, *variance = NULL;
  tt_slice mine = {0, 0};
  tt_err e = tt_partition_even(d->targets, tt_comm_ranks(c), tt_comm_rank(c), &mine);
  if (!e) e = allocate(file, components, mine, d, &part, &matrix, &variance);
  e = tt_agree(c, e);
  if (!e) {
    drop_partial_rows(d);
    int64_t rows = compute_means(d, d->scaler.component_mean);
    if (rows) compute_covariance(d, rows, mine, variance, part);
    tt_allgatherv(c, part, mine.count * d->targets * (int64_t)sizeof *part, matrix, NULL);
    e = tt_agree(c, decompose(file, matrix, variance, d));
  }
  tt_free_all(&part, &matrix, &variance);
  return e;
}
