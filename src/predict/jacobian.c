/* jacobian.c — see jacobian.h. */
#include "src/predict/jacobian.h"

#include "core/base/mem.h"
#include "src/predict/network_slopes.h"
#include "src/predict/prediction_block.h"

#include <math.h>
#include <omp.h>
#include <string.h>

typedef struct jacobian_job {
  const tt_trained_ensemble *m;
  const double *x; /* [rows][D] */
  const tt_jacobian *out;
  int64_t columns, column; /* of all trained ensembles; the first one of m */
  tt_column_scale *scale;  /* [C] of m */
  int transformed;         /* 1: one of them has a transform */
} jacobian_job;

/* Buffers of one thread. The sums are over the members of one ensemble, for its K q columns. */
typedef struct row_sums {
  tt_network_slopes network;
  double *x; /* [F] normalised */
  double weight;
  double *mu, *variance, *d_mu, *d_variance; /* of one target of one member: [q], [q][F] */
  double *mean, *between, *within;           /* [K q] as in tt_moments */
  double *d_mean, *d_between, *d_within;     /* [K q][F]; d_between without the factor 2 */
  /* [L], [L][F] amplitudes of a member, if the targets have components, and their variances */
  double *amplitude, *spread, *d_amplitude, *d_spread;
  double *centre, *d_centre; /* [K q], [K q][F] mean and d_mean before transforms are undone */
} row_sums;

static void sums_free(row_sums *s)
{
  tt_network_slopes_free(&s->network);
  tt_free_all(&s->x, &s->mu, &s->variance, &s->d_mu, &s->d_variance, &s->mean, &s->between,
              &s->within, &s->d_mean, &s->d_between, &s->d_within, &s->amplitude, &s->spread,
              &s->d_amplitude, &s->d_spread, &s->centre, &s->d_centre);
}

static tt_err sums_create(const tt_trained_ensemble *m, row_sums *s)
{
  int64_t q = m->model.quantities, width = tt_trained_ensemble_width(m), inputs = m->model.inputs;
  double **of_component[] = {&s->amplitude, &s->spread, &s->d_amplitude, &s->d_spread};
  double **of_target[] = {&s->mu, &s->variance}, **slopes[] = {&s->d_mu, &s->d_variance};
  double **sum[] = {&s->mean, &s->between, &s->within, &s->centre};
  double **slope_sum[] = {&s->d_mean, &s->d_between, &s->d_within, &s->d_centre};
  TT_TRY(tt_network_slopes_create(&m->model, &s->network));
  TT_TRY(TT_ALLOC(s->x, inputs));
  for (int i = 0; m->scaler.components && i < 4; i++)
    TT_TRY(TT_ALLOC(*of_component[i], m->scaler.components * (i < 2 ? 1 : inputs)));
  for (int i = 0; i < 2; i++) TT_TRY(TT_ALLOC(*of_target[i], q));
  for (int i = 0; i < 2; i++) TT_TRY(TT_ALLOC(*slopes[i], q * inputs));
  for (int i = 0; i < 4; i++) TT_TRY(TT_ALLOC(*sum[i], width));
  for (int i = 0; i < 4; i++) TT_TRY(TT_ALLOC(*slope_sum[i], width * inputs));
  return TT_OK;
}

static void sums_clear(const tt_trained_ensemble *m, row_sums *s)
{
  size_t width = (size_t)tt_trained_ensemble_width(m) * sizeof(double);
  double *sum[] = {s->mean, s->between, s->within};
  double *slope_sum[] = {s->d_mean, s->d_between, s->d_within};
  s->weight = 0.0;
  for (int i = 0; i < 3; i++) memset(sum[i], 0, width);
  for (int i = 0; i < 3; i++) memset(slope_sum[i], 0, width * (size_t)m->model.inputs);
}

/* Add quantity j of a target of a member with weight w to column c: running moments, as in
 * tt_moments_add. */
static void add_quantity(row_sums *s, double w, int64_t inputs, int64_t j, int64_t c)
{
  double share = w / s->weight, step = s->mu[j] - s->mean[c];
  s->mean[c] += step * share;
  s->between[c] += w * step * (s->mu[j] - s->mean[c]);
  s->within[c] += w * s->variance[j];
  for (int64_t d = 0; d < inputs; d++) {
    double slope = s->d_mu[j * inputs + d], *mean = &s->d_mean[c * inputs + d];
    *mean += (slope - *mean) * share;
    s->d_between[c * inputs + d] += w * step * (slope - *mean);
    s->d_within[c * inputs + d] += w * s->d_variance[j * inputs + d];
  }
}

/* Convert quantity j of a member, in column c of its ensemble, to the user's units, as
 * tt_denormalize_mixture does. */
static void undo_transform(const tt_column_scale *scale, row_sums *s, int64_t inputs, int64_t j,
                           int64_t c)
{
  double spread = scale->std_scale, *v = &s->variance[j];
  double mu = s->centre[c] + spread * (s->mu[j] - s->centre[c]), squared = spread * spread;
  tt_transform_moments t = tt_denormalize_latent(scale, mu, *v * squared);
  tt_transform_slopes by =
      tt_transform_undo_gaussian_slopes(scale->by, scale->lambda, t.mean, t.variance);
  for (int64_t d = 0; d < inputs; d++) {
    double *d_mu = &s->d_mu[j * inputs + d], *d_v = &s->d_variance[j * inputs + d];
    double d_centre = s->d_centre[c * inputs + d];
    double d_mean = scale->scale * (d_centre + spread * (*d_mu - d_centre));
    double d_variance = scale->scale * scale->scale * squared * *d_v;
    *d_mu = by.mean_by_mean * d_mean + by.mean_by_variance * d_variance;
    *d_v = by.variance_by_mean * d_mean + by.variance_by_variance * d_variance;
  }
  t = tt_denormalize_member(scale, mu, *v * squared);
  s->mu[j] = t.mean;
  *v = t.variance;
}

/* Add quantity j of a target, of a member with weight w, to column c.
 *   scale  [K q] undo the transforms of columns that have one; NULL: of none */
static void add_value(row_sums *s, double w, int64_t inputs, int64_t j, int64_t c,
                      const tt_column_scale *scale)
{
  if (scale && scale[c].by != TT_TRANSFORM_identity) undo_transform(&scale[c], s, inputs, j, c);
  add_quantity(s, w, inputs, j, c);
}

/* Add all targets of a member from the amplitudes of their components. */
static void add_components(const tt_trained_ensemble *m, row_sums *s, double w,
                           const tt_column_scale *scale)
{
  const tt_scaler *of = &m->scaler;
  int64_t inputs = m->model.inputs;
  for (int64_t t = 0; t < of->targets; t++) {
    s->mu[0] = of->component_mean[t];
    s->variance[0] = of->residual[t];
    memset(s->d_mu, 0, (size_t)inputs * sizeof *s->d_mu);
    memset(s->d_variance, 0, (size_t)inputs * sizeof *s->d_variance);
    for (int64_t l = 0; l < of->components; l++) {
      double by = of->component[l * of->targets + t];
      s->mu[0] += by * s->amplitude[l];
      s->variance[0] += by * by * s->spread[l];
      for (int64_t d = 0; d < inputs; d++) {
        s->d_mu[d] += by * s->d_amplitude[l * inputs + d];
        s->d_variance[d] += by * by * s->d_spread[l * inputs + d];
      }
    }
    add_value(s, w, inputs, 0, t, scale);
  }
}

/* Add a member to the sums; scale as for add_value. */
static void add_member(const tt_trained_ensemble *m, row_sums *s, int64_t member,
                       const tt_column_scale *scale)
{
  const tt_model *model = &m->model;
  int has_components = m->scaler.components > 0;
  tt_output_slopes at = {
      .n = model->levels, .variance_floor = (double)m->variance_floor, .inputs = model->inputs};
  s->weight += m->weight[member];
  tt_network_slopes_at(&s->network, m->w + member * model->params, s->x);
  for (int64_t k = 0; k < model->targets; k++) {
    at.o = s->network.o + k * model->each;
    at.d_o = s->network.d_o + k * model->each * model->inputs;
    at.mean = has_components ? s->amplitude + k : s->mu;
    at.variance = has_components ? s->spread + k : s->variance;
    at.d_mean = has_components ? s->d_amplitude + k * model->inputs : s->d_mu;
    at.d_variance = has_components ? s->d_spread + k * model->inputs : s->d_variance;
    tt_output_differentiate(model->output, &at);
    for (int64_t j = 0; !has_components && j < model->quantities; j++)
      add_value(s, m->weight[member], model->inputs, j, k * model->quantities + j, scale);
  }
  if (has_components) add_components(m, s, m->weight[member], scale);
}

/* Add the members of an ensemble to empty sums; scale as for add_value. */
static void add_ensemble(const tt_trained_ensemble *m, row_sums *s, const tt_ensemble *own,
                         const tt_column_scale *scale)
{
  sums_clear(m, s);
  for (int64_t i = own->first; i < own->first + own->members; i++)
    if (m->weight[i] > 0.0) add_member(m, s, i, scale);
}

/* Derivative of sqrt(v), given dv. */
static double slope_of_root(double v, double dv) { return v > 0.0 ? 0.5 * dv / sqrt(v) : 0.0; }

/* Write column c of the ensemble whose first column in m is `own`, for `row`. An amount is the
 * first input of the network of its column; levels and indicators do not change with it. */
static void store_column(const jacobian_job *job, const row_sums *s, int64_t row, int64_t own,
                         int64_t c)
{
  int64_t inputs = job->m->scaler.inputs;
  const tt_net_inputs *net = &job->m->scaler.net;
  tt_column_scale scale = job->scale[own + c];
  if (scale.by != TT_TRANSFORM_identity) scale.scale = scale.std_scale = 1.0; /* in the sums */
  for (int64_t d = 0; d < inputs; d++) {
    int64_t at = c * net->count + net->first[d],
            to = (row * job->columns + job->column + own + c) * inputs + d;
    double within = s->within[c] / s->weight, between = s->between[c] / s->weight;
    double d_within = s->d_within[at] / s->weight, d_between = 2.0 * s->d_between[at] / s->weight;
    double mean = s->weight > 0.0 ? s->d_mean[at] : NAN;
    double slope = tt_scaler_input_slope(&job->m->scaler, d, job->x[row * inputs + d]);
    double unit = scale.scale / job->m->scaler.x_scale[d] * slope;
    double spread = unit * scale.std_scale;
    if (!(s->weight > 0.0)) spread = NAN;
    if (job->out->mean) job->out->mean[to] = unit * mean;
    if (job->out->total)
      job->out->total[to] = spread * slope_of_root(within + between, d_within + d_between);
    if (job->out->aleatoric) job->out->aleatoric[to] = spread * slope_of_root(within, d_within);
    if (job->out->epistemic) job->out->epistemic[to] = spread * slope_of_root(between, d_between);
  }
}

static void compute_row(const jacobian_job *job, row_sums *s, int64_t row)
{
  const tt_trained_ensemble *m = job->m;
  int64_t width = tt_trained_ensemble_width(m), inputs = m->model.inputs;
  tt_scaler_net_inputs(&m->scaler, job->x + row * m->scaler.inputs, s->x);
  for (int64_t e = 0; e < m->ensembles; e++) {
    add_ensemble(m, s, &m->ensemble[e], NULL);
    if (job->transformed) {
      memcpy(s->centre, s->mean, (size_t)width * sizeof *s->mean);
      memcpy(s->d_centre, s->d_mean, (size_t)(width * inputs) * sizeof *s->d_mean);
      add_ensemble(m, s, &m->ensemble[e], job->scale + e * width);
    }
    for (int64_t c = 0; c < width; c++) store_column(job, s, row, e * width, c);
  }
}

static tt_err compute(const jacobian_job *job, int threads, int64_t rows)
{
  row_sums *sums = NULL;
  threads = threads < rows ? threads : (int)rows;
  TT_TRY(TT_ALLOC(sums, threads));
  tt_err e = TT_OK;
  for (int t = 0; !e && t < threads; t++) e = sums_create(job->m, &sums[t]);
  if (!e) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 16)
    for (int64_t r = 0; r < rows; r++) compute_row(job, &sums[omp_get_thread_num()], r);
  }
  for (int t = 0; t < threads; t++) sums_free(&sums[t]);
  tt_free(sums);
  return e;
}

/* Derivatives of the columns of job->m. */
static tt_err compute_trained(jacobian_job *job, int threads, int64_t rows)
{
  int64_t columns = tt_trained_ensemble_columns(job->m);
  TT_TRY(TT_ALLOC(job->scale, columns));
  job->transformed = 0;
  for (int64_t c = 0; c < columns; c++) {
    job->scale[c] = tt_column_scale_of(job->m, c);
    job->transformed |= job->scale[c].by != TT_TRANSFORM_identity;
  }
  tt_err e = compute(job, threads, rows);
  tt_free(job->scale);
  job->column += columns;
  return e;
}

tt_err tt_jacobian_compute(const tt_trained_ensembles *all, int threads, int64_t rows,
                           const double *x, const tt_jacobian *out)
{
  jacobian_job job = {.x = x, .out = out, .columns = tt_trained_ensembles_columns(all)};
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && rows > 0 && i < all->count; i++) {
    job.m = all->at[i];
    e = compute_trained(&job, threads < 1 ? 1 : threads, rows);
  }
  return e;
}
