/* prediction_block.c — see prediction_block.h. */
#include "src/predict/prediction_block.h"

#include "core/base/mem.h"
#include "core/formulas/acquisition.h"
#include "core/stats/calibration.h"
#include "core/stats/mixture.h"

#include <math.h>

const tt_ensemble *tt_column_ensemble(const tt_trained_ensemble *m, int64_t column, int32_t *target)
{
  int64_t width = tt_trained_ensemble_width(m);
  const tt_ensemble *e = &m->ensemble[column / width];
  *target = e->column[column % width / m->model.quantities];
  return e;
}

tt_column_scale tt_column_scale_of(const tt_trained_ensemble *m, int64_t column)
{
  int32_t t = 0;
  const tt_scaler *k = &m->scaler;
  tt_column_ensemble(m, column, &t);
  return (tt_column_scale){k->y_mean[t],
                           k->y_scale[t],
                           tt_calibration_std_scale(&m->calibration, column),
                           tt_calibration_noise(&m->calibration, column),
                           tt_normalize_transform((tt_normalize)k->y_normalize[t]),
                           k->y_lambda[t]};
}

tt_transform_moments tt_denormalize_latent(const tt_column_scale *s, double mean, double variance)
{
  return (tt_transform_moments){tt_denormalize_value(mean, s->mean, s->scale),
                                variance * s->scale * s->scale};
}

double tt_denormalize_point(const tt_column_scale *s, double point)
{
  return tt_transform_undo(s->by, s->lambda, tt_denormalize_value(point, s->mean, s->scale));
}

tt_transform_moments tt_denormalize_member(const tt_column_scale *s, double mean, double variance)
{
  tt_transform_moments t = tt_denormalize_latent(s, mean, variance);
  return tt_transform_undo_gaussian(s->by, s->lambda, t.mean, t.variance);
}

tt_uncertainty tt_denormalize(const tt_column_scale *s, tt_uncertainty uncertainty)
{
  double spread = s->scale * s->std_scale, noise = s->scale * s->noise;
  uncertainty.mean = tt_denormalize_value(uncertainty.mean, s->mean, s->scale);
  uncertainty.total = hypot(uncertainty.total * spread, noise);
  uncertainty.aleatoric = hypot(uncertainty.aleatoric * spread, noise);
  uncertainty.epistemic *= spread;
  return uncertainty;
}

tt_uncertainty tt_denormalize_mixture(const tt_column_scale *s, int64_t n, const double *weight,
                                      double *mean, double *variance)
{
  double all = 0.0, average = 0.0, between = 0.0, within = 0.0, wider = 0.0;
  double added =
      tt_gaussian_mixture_recalibrate(s->std_scale, s->noise * s->noise, n, weight, mean, variance);
  for (int64_t i = 0; i < n; i++) {
    if (weight[i] <= 0.0) continue;
    tt_transform_moments user = tt_denormalize_member(s, mean[i], variance[i]), own = user;
    if (added > 0.0) own = tt_denormalize_member(s, mean[i], fmax(variance[i] - added, 0.0));
    double step = user.mean - average, before = all;
    all += weight[i];
    average += step * (weight[i] / all);
    between += weight[i] * step * step * (before / all); /* never below 0 */
    within += weight[i] * own.variance;
    wider += weight[i] * (user.variance - own.variance);
  }
  if (!(all > 0.0)) return (tt_uncertainty){NAN, NAN, NAN, NAN};
  between += fmax(wider, 0.0); /* rounding */
  return (tt_uncertainty){average, sqrt((within + between) / all), sqrt(within / all),
                          sqrt(between / all)};
}

static int is_bernoulli(const tt_model *m)
{
  return tt_output_forecast(m->output) == TT_FORECAST_bernoulli;
}

int tt_prediction_needs_members(const tt_trained_ensemble *m, const tt_prediction_shape *shape)
{
  return shape->members || shape->quantiles > 0 ||
         (is_bernoulli(&m->model) && !shape->no_entropy) ||
         tt_scaler_transformed_target(&m->scaler) >= 0;
}

static tt_err allocate_members(const tt_trained_ensembles *all, int64_t rows,
                               tt_prediction_block *b)
{
  int64_t members = tt_trained_ensembles_members(all);
  for (int64_t i = 0; i < all->count; i++) {
    int64_t width = tt_trained_ensemble_width(all->at[i]);
    b->width = width > b->width ? width : b->width;
  }
  TT_TRY(TT_ALLOC(b->member_mean, members * rows * b->width));
  return TT_ALLOC(b->member_variance, members * rows * b->width);
}

tt_err tt_prediction_block_create(const tt_trained_ensembles *all, int64_t rows,
                                  const tt_prediction_shape *shape, tt_prediction_block *out)
{
  int classes = 0;
  out->columns = tt_trained_ensembles_columns(all);
  out->quantiles = shape->quantiles;
  out->probability = shape->quantile;
  for (int64_t i = 0; i < all->count; i++) {
    int64_t levels = all->at[i]->calibration.levels;
    out->levels = levels > out->levels ? levels : out->levels;
    classes |= tt_output_is_class(all->at[i]->model.output) && !shape->no_entropy;
  }
  int64_t cells = rows * out->columns;
  double **column[] = {&out->mean, &out->total, &out->aleatoric, &out->epistemic};
  for (int i = 0; i < 4; i++) TT_TRY(TT_ALLOC(*column[i], cells));
  TT_TRY(TT_ALLOC(out->quantile, out->quantiles * cells));
  TT_TRY(TT_ALLOC(out->lower, out->levels * cells));
  TT_TRY(TT_ALLOC(out->upper, out->levels * cells));
  if (classes) TT_TRY(TT_ALLOC(out->entropy, cells));
  if (classes) TT_TRY(TT_ALLOC(out->mutual_information, cells));
  if (shape->leverage) TT_TRY(TT_ALLOC(out->leverage, cells));
  if (shape->extrapolation) TT_TRY(TT_ALLOC(out->extrapolation, rows));
  int64_t slopes = shape->jacobian ? cells * all->at[0]->scaler.inputs : 0;
  double **jacobian[] = {&out->jacobian.mean, &out->jacobian.total, &out->jacobian.aleatoric,
                         &out->jacobian.epistemic};
  for (int i = 0; shape->jacobian && i < 4; i++) TT_TRY(TT_ALLOC(*jacobian[i], slopes));
  return shape->members ? allocate_members(all, rows, out) : TT_OK;
}

void tt_prediction_block_free(tt_prediction_block *b)
{
  tt_free_all(&b->mean, &b->total, &b->aleatoric, &b->epistemic, &b->quantile, &b->lower, &b->upper,
              &b->entropy, &b->mutual_information, &b->extrapolation, &b->leverage, &b->member_mean,
              &b->member_variance);
  tt_free_all(&b->jacobian.mean, &b->jacobian.total, &b->jacobian.aleatoric,
              &b->jacobian.epistemic);
}

static void store(double *out, int64_t cell, double value)
{
  if (out) out[cell] = value;
}

/* Weight, mean and variance, [members] each, of quantity j of the members of e in row r. */
static void collect_mixture(const tt_ensemble_prediction *p, const tt_ensemble *e, int64_t j,
                            int64_t r, double *weight)
{
  int64_t n = e->members;
  double *mean = weight + n, *variance = mean + n;
  for (int64_t i = 0; i < n; i++) {
    weight[i] = p->m->weight[e->first + i];
    mean[i] = weight[i] > 0.0 ? tt_member_mean(p, e->first + i, j, r) : 0.0;
    variance[i] = weight[i] > 0.0 ? tt_member_variance(p, e->first + i, j, r) : 0.0;
  }
}

/* Mean and standard deviations of a transformed column in the user's units.
 *   scratch  [3][members of the ensemble] */
static tt_uncertainty transformed_at(const tt_ensemble_prediction *p, const tt_column_scale *s,
                                     int64_t column, int64_t r, double *scratch)
{
  int32_t t;
  const tt_ensemble *e = tt_column_ensemble(p->m, column, &t);
  int64_t n = e->members;
  collect_mixture(p, e, column % p->width, r, scratch);
  return tt_denormalize_mixture(s, n, scratch, scratch + n, scratch + 2 * n);
}

static void fill_column(tt_prediction_block *b, const tt_ensemble_prediction *p, int64_t column,
                        double *scratch)
{
  tt_column_scale s = tt_column_scale_of(p->m, column);
  for (int64_t r = 0; r < b->rows; r++) {
    tt_uncertainty uncertainty = s.by == TT_TRANSFORM_identity
                                     ? tt_denormalize(&s, tt_moments_at(p->moments, r, column))
                                     : transformed_at(p, &s, column, r, scratch);
    int64_t cell = r * b->columns + p->column + column;
    store(b->mean, cell, uncertainty.mean);
    store(b->total, cell, uncertainty.total);
    store(b->aleatoric, cell, uncertainty.aleatoric);
    store(b->epistemic, cell, uncertainty.epistemic);
    if (b->leverage)
      b->leverage[cell] =
          tt_moments_at(p->moments, r, column).epistemic / p->m->typical_epistemic[column];
  }
}

/* Quantile `q` of a normalized mixture, [3][n] as of collect_mixture, or of a mixture of counts;
 * NaN for outputs without a distribution of numbers. */
static double mixture_quantile(const tt_trained_ensemble *m, int64_t n, const double *mixture,
                               double q)
{
  const double *mean = mixture + n;
  switch (tt_output_forecast(m->model.output)) {
  case TT_FORECAST_poisson: return tt_poisson_mixture_quantile(n, mixture, mean, q);
  case TT_FORECAST_gaussian: return tt_gaussian_mixture_quantile(n, mixture, mean, mean + n, q);
  default: return NAN;
  }
}

/* scratch  [3][members of the ensemble] */
static void fill_quantiles_at(tt_prediction_block *b, const tt_ensemble_prediction *p,
                              int64_t column, int64_t r, double *scratch)
{
  int32_t t;
  const tt_ensemble *e = tt_column_ensemble(p->m, column, &t);
  tt_column_scale s = tt_column_scale_of(p->m, column);
  int64_t n = e->members;
  collect_mixture(p, e, column % p->width, r, scratch);
  tt_gaussian_mixture_recalibrate(s.std_scale, s.noise * s.noise, n, scratch, scratch + n,
                                  scratch + 2 * n);
  for (int64_t k = 0; k < b->quantiles; k++) {
    double normalized = mixture_quantile(p->m, n, scratch, b->probability[k]);
    b->quantile[(k * b->rows + r) * b->columns + p->column + column] =
        tt_denormalize_point(&s, normalized);
  }
}

static void fill_quantiles(tt_prediction_block *b, const tt_ensemble_prediction *p, double *scratch)
{
  for (int64_t column = 0; column < p->moments->columns; column++)
    for (int64_t r = 0; r < b->rows; r++) fill_quantiles_at(b, p, column, r, scratch);
}

/* Quantity j of member i -> [rows][b->width] in the user's units. */
static void fill_member(tt_prediction_block *b, const tt_ensemble_prediction *p, int64_t i,
                        int64_t j, const tt_column_scale *s)
{
  for (int64_t r = 0; r < b->rows; r++) {
    int64_t cell = ((p->member + i) * b->rows + r) * b->width + j;
    b->member_mean[cell] = b->member_variance[cell] = NAN;
    if (j >= p->width) continue;
    tt_transform_moments moments =
        tt_denormalize_member(s, tt_member_mean(p, i, j, r), tt_member_variance(p, i, j, r));
    b->member_mean[cell] = moments.mean;
    b->member_variance[cell] = moments.variance;
  }
}

static void fill_members(tt_prediction_block *b, const tt_ensemble_prediction *p)
{
  for (int64_t e = 0; e < p->m->ensembles; e++) {
    const tt_ensemble *own = &p->m->ensemble[e];
    for (int64_t j = 0; j < b->width; j++) {
      tt_column_scale s = tt_column_scale_of(p->m, e * p->width + (j < p->width ? j : 0));
      for (int64_t i = own->first; i < own->first + own->members; i++) fill_member(b, p, i, j, &s);
    }
  }
}

static double bernoulli_entropy(double p)
{
  double both[2] = {p, 1.0 - p};
  return tt_entropy(2, both, 1);
}

/* Weighted mean of the entropies of members that predict a probability. */
static double mean_bernoulli_entropy(const tt_ensemble_prediction *p, const tt_ensemble *e,
                                     int64_t k, int64_t r)
{
  double sum = 0.0, all = 0.0;
  for (int64_t i = e->first; i < e->first + e->members; i++) {
    double weight = p->m->weight[i];
    if (weight <= 0.0) continue;
    sum += weight * bernoulli_entropy(tt_member_mean(p, i, k, r));
    all += weight;
  }
  return sum / all;
}

double tt_mean_member_entropy(const tt_ensemble_prediction *p, const tt_ensemble *e, int64_t k,
                              int64_t r, const double *mean)
{
  if (is_bernoulli(&p->m->model)) return mean_bernoulli_entropy(p, e, k, r);
  return mean[p->m->model.levels];
}

/* Entropy and mutual information of target k of e in row r (Depeweg et al. 2018).
 *   mean  [q] from the first column of the target */
static void decompose_entropy(const tt_ensemble_prediction *p, const tt_ensemble *e, int64_t k,
                              int64_t r, const double *mean, double *entropy,
                              double *mutual_information)
{
  const tt_model *model = &p->m->model;
  double own = tt_mean_member_entropy(p, e, k, r, mean);
  double whole =
      is_bernoulli(model) ? bernoulli_entropy(mean[0]) : tt_entropy(model->levels, mean, 1);
  *entropy = whole;
  *mutual_information = whole > own ? whole - own : 0.0;
}

/* Fill all columns of target k of an ensemble; `own` is the first of them. */
static void fill_entropies(tt_prediction_block *b, const tt_ensemble_prediction *p,
                           const tt_ensemble *e, int64_t k, int64_t own)
{
  for (int64_t r = 0; r < b->rows; r++) {
    int64_t cell = r * b->columns + p->column + own;
    double entropy = NAN, mutual_information = NAN;
    if (tt_output_is_class(p->m->model.output))
      decompose_entropy(p, e, k, r, b->mean + cell, &entropy, &mutual_information);
    for (int32_t j = 0; j < p->m->model.quantities; j++) {
      b->entropy[cell + j] = entropy;
      b->mutual_information[cell + j] = mutual_information;
    }
  }
}

/* One interval of a numeric target in row r: before the transform is undone, so that it holds as
 * many labels as it does there. */
static void interval_at(const tt_ensemble_prediction *p, int64_t level, int64_t own, int64_t r,
                        double *low, double *high)
{
  const tt_model *m = &p->m->model;
  tt_column_scale s = tt_column_scale_of(p->m, own);
  double quantity[TT_MAX_CLASSES + 1];
  tt_uncertainty first = tt_denormalize(&s, tt_moments_at(p->moments, r, own));
  for (int32_t j = 0; j < m->quantities; j++)
    quantity[j] = tt_denormalize(&s, tt_moments_at(p->moments, r, own + j)).mean;
  tt_calibration_interval(&p->m->calibration, m, level, own, quantity, first.total, s.scale, low,
                          high);
  *low = tt_transform_undo(s.by, s.lambda, *low);
  *high = tt_transform_undo(s.by, s.lambda, *high);
}

/* Fill all columns of the target whose first column is `own`. */
static void fill_intervals(tt_prediction_block *b, const tt_ensemble_prediction *p, int64_t own)
{
  for (int64_t l = 0; l < b->levels; l++)
    for (int64_t r = 0; r < b->rows; r++) {
      int64_t cell = r * b->columns + p->column + own, component = l * b->rows * b->columns + cell;
      double low = NAN, high = NAN;
      if (l < p->m->calibration.levels) interval_at(p, l, own, r, &low, &high);
      for (int32_t j = 0; j < p->m->model.quantities; j++) {
        b->lower[component + j] = low;
        b->upper[component + j] = high;
      }
    }
}

static tt_err fill(tt_prediction_block *b, const tt_ensemble_prediction *p)
{
  const tt_trained_ensemble *m = p->m;
  int64_t own = 0;
  double *scratch = NULL;
  TT_TRY(TT_ALLOC(scratch, 3 * m->members));
  for (int64_t column = 0; column < p->moments->columns; column++)
    fill_column(b, p, column, scratch);
  for (int64_t e = 0; e < m->ensembles; e++)
    for (int64_t k = 0; k < tt_trained_ensemble_targets(m); k++, own += m->model.quantities) {
      if (b->levels) fill_intervals(b, p, own);
      if (b->entropy) fill_entropies(b, p, &m->ensemble[e], k, own);
    }
  if (b->member_mean) fill_members(b, p);
  if (b->quantiles) fill_quantiles(b, p, scratch);
  tt_free(scratch);
  return TT_OK;
}

tt_err tt_prediction_block_fill(tt_prediction_block *b, int64_t models, const tt_row_chunk *chunk)
{
  b->first = chunk->first;
  b->rows = chunk->rows;
  for (int64_t i = 0; i < models; i++) TT_TRY(fill(b, &chunk->of[i]));
  return TT_OK;
}
