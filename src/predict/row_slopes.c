/* row_slopes.c — see row_slopes.h. */
#include "src/predict/row_slopes.h"

#include "core/base/floating.h"
#include "core/base/mem.h"

#include <math.h>
#include <omp.h>
#include <string.h>

void tt_row_slopes_free(tt_row_slopes *s)
{
  if (s->m) tt_ensemble_slopes_free(s->m, &s->network);
  tt_free_all(&s->x, &s->mu, &s->variance, &s->d_mu, &s->d_variance, &s->mean, &s->between,
              &s->within, &s->d_mean, &s->d_between, &s->d_within, &s->amplitude, &s->spread,
              &s->d_amplitude, &s->d_spread, &s->center, &s->d_center, &s->apart, &s->d_apart,
              &s->own, &s->own_variance, &s->scale);
}

static tt_err find_scales(tt_row_slopes *s)
{
  int64_t columns = tt_trained_ensemble_columns(s->m);
  TT_TRY(TT_ALLOC(s->scale, columns));
  for (int64_t c = 0; c < columns; c++) {
    s->scale[c] = tt_column_scale_of(s->m, c);
    s->transformed |= s->scale[c].by != TT_TRANSFORM_identity;
  }
  return TT_OK;
}

tt_err tt_row_slopes_create(const tt_trained_ensemble *m, const tt_slopes_source *source,
                            tt_row_slopes *out)
{
  int64_t q = m->model.quantities, width = tt_trained_ensemble_width(m), inputs = m->model.inputs;
  double **of_component[] = {&out->amplitude, &out->spread, &out->d_amplitude, &out->d_spread};
  double **of_target[] = {&out->mu, &out->variance}, **slopes[] = {&out->d_mu, &out->d_variance};
  double **sum[] = {&out->mean, &out->between, &out->within, &out->center, &out->apart};
  double **slope_sum[] = {&out->d_mean, &out->d_between, &out->d_within, &out->d_center,
                          &out->d_apart};
  *out = (tt_row_slopes){.m = m};
  TT_TRY(find_scales(out));
  if (source)
    out->source = *source;
  else
    TT_TRY(tt_ensemble_slopes_create(m, &out->network));
  TT_TRY(TT_ALLOC(out->x, inputs));
  TT_TRY(TT_ALLOC(out->own, inputs));
  TT_TRY(TT_ALLOC(out->own_variance, inputs));
  for (int i = 0; m->scaler.components && i < 4; i++)
    TT_TRY(TT_ALLOC(*of_component[i], m->scaler.components * (i < 2 ? 1 : inputs)));
  for (int i = 0; i < 2; i++) TT_TRY(TT_ALLOC(*of_target[i], q));
  for (int i = 0; i < 2; i++) TT_TRY(TT_ALLOC(*slopes[i], q * inputs));
  for (int i = 0; i < 5; i++) TT_TRY(TT_ALLOC(*sum[i], width));
  for (int i = 0; i < 5; i++) TT_TRY(TT_ALLOC(*slope_sum[i], width * inputs));
  return TT_OK;
}

static void sums_clear(tt_row_slopes *s)
{
  size_t width = (size_t)tt_trained_ensemble_width(s->m) * sizeof(double);
  double *sum[] = {s->mean, s->between, s->within};
  double *slope_sum[] = {s->d_mean, s->d_between, s->d_within};
  s->weight = 0.0;
  for (int i = 0; i < 3; i++) memset(sum[i], 0, width);
  for (int i = 0; i < 3; i++) memset(slope_sum[i], 0, width * (size_t)s->m->model.inputs);
}

/* Add quantity j of a target of a member with weight w to column c: running moments, as in
 * tt_moments_add. */
static void add_quantity(tt_row_slopes *s, double w, int64_t j, int64_t c)
{
  int64_t inputs = s->m->model.inputs;
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

/* Convert the derivatives of quantity j of a member, in column c of its ensemble, to the user's
 * units, as tt_denormalize_mixture does.
 *   std_scale, noise  of the recalibration; 1 and 0: the member on its own
 *   added            part of the variance of the means that is added to the member's variance
 *   d_mu, d_v        [F]; may be those of quantity j */
static tt_transform_moments undo_transform(const tt_row_slopes *s, int64_t j, int64_t c,
                                           double std_scale, double noise, double added,
                                           double *d_mu, double *d_v)
{
  const tt_column_scale *scale = &s->undo[c];
  int64_t inputs = s->m->model.inputs;
  double squared = std_scale * std_scale;
  double v = s->variance[j] * squared + added * s->apart[c] + noise * noise;
  double near = fmin(std_scale, 1.0), mu = s->center[c] + near * (s->mu[j] - s->center[c]);
  tt_transform_moments t = tt_denormalize_latent(scale, mu, v);
  tt_transform_slopes slopes =
      tt_transform_undo_gaussian_slopes(scale->by, scale->lambda, t.mean, t.variance);
  for (int64_t d = 0; d < inputs; d++) {
    double d_center = s->d_center[c * inputs + d], along = s->d_mu[j * inputs + d];
    double d_mean = scale->scale * (d_center + near * (along - d_center));
    double d_variance =
        scale->scale * scale->scale *
        (squared * s->d_variance[j * inputs + d] + added * s->d_apart[c * inputs + d]);
    d_mu[d] = slopes.mean_by_mean * d_mean + slopes.mean_by_variance * d_variance;
    d_v[d] = slopes.variance_by_mean * d_mean + slopes.variance_by_variance * d_variance;
  }
  return tt_denormalize_member(scale, mu, v);
}

/* Recalibrate quantity j of a member and undo the transform of column c. What recalibration adds to
 * the variance becomes a part of the sums between the members, as in tt_denormalize_mixture. */
static void recalibrate(tt_row_slopes *s, double w, int64_t j, int64_t c)
{
  int64_t inputs = s->m->model.inputs;
  double *d_mu = s->d_mu + j * inputs, *d_v = s->d_variance + j * inputs;
  double std_scale = s->undo[c].std_scale, added = fmax(std_scale * std_scale - 1.0, 0.0);
  double noise = s->undo[c].noise;
  tt_transform_moments own =
      undo_transform(s, j, c, std_scale, noise, 0.0, s->own, s->own_variance);
  tt_transform_moments t = undo_transform(s, j, c, std_scale, noise, added, d_mu, d_v);
  s->mu[j] = t.mean;
  s->variance[j] = own.variance;
  s->between[c] += w * (t.variance - own.variance);
  for (int64_t d = 0; d < inputs; d++) {
    s->d_between[c * inputs + d] += 0.5 * w * (d_v[d] - s->own_variance[d]);
    d_v[d] = s->own_variance[d];
  }
}

/* Add quantity j of a target of a member to column c. */
static void add_value(tt_row_slopes *s, int64_t member, int64_t j, int64_t c)
{
  int undo = s->undo && s->undo[c].by != TT_TRANSFORM_identity;
  if (undo) recalibrate(s, s->m->weight[member], j, c);
  add_quantity(s, s->m->weight[member], j, c);
}

/* Add all targets of a member from the amplitudes of their components. */
static void add_components(tt_row_slopes *s, int64_t member)
{
  const tt_scaler *scaler = &s->m->scaler;
  int64_t inputs = s->m->model.inputs;
  for (int64_t t = 0; t < scaler->targets; t++) {
    s->mu[0] = scaler->component_mean[t];
    s->variance[0] = scaler->residual[t];
    memset(s->d_mu, 0, (size_t)inputs * sizeof *s->d_mu);
    memset(s->d_variance, 0, (size_t)inputs * sizeof *s->d_variance);
    for (int64_t l = 0; l < scaler->components; l++) {
      double loading = scaler->component[l * scaler->targets + t];
      s->mu[0] += loading * s->amplitude[l];
      s->variance[0] += loading * loading * s->spread[l];
      for (int64_t d = 0; d < inputs; d++) {
        s->d_mu[d] += loading * s->d_amplitude[l * inputs + d];
        s->d_variance[d] += loading * loading * s->d_spread[l * inputs + d];
      }
    }
    add_value(s, member, 0, t);
  }
}

static tt_member_outputs outputs_of(tt_row_slopes *s, int64_t member)
{
  if (s->source.at) return s->source.at(s->source.with, member);
  const tt_network_slopes *n = tt_ensemble_slopes_at(s->m, s->network, member, s->x);
  return (tt_member_outputs){n->o, n->d_o};
}

static void add_member(tt_row_slopes *s, int64_t member)
{
  const tt_trained_ensemble *m = s->m;
  const tt_model *model = &m->model;
  int has_components = m->scaler.components > 0;
  tt_output_slopes slopes = {
      .n = model->levels, .variance_floor = (double)m->variance_floor, .inputs = model->inputs};
  s->weight += m->weight[member];
  const tt_member_outputs network = outputs_of(s, member);
  for (int64_t k = 0; k < model->targets; k++) {
    slopes.o = network.o + k * model->each;
    slopes.d_o = network.d_o + k * model->each * model->inputs;
    slopes.mean = has_components ? s->amplitude + k : s->mu;
    slopes.variance = has_components ? s->spread + k : s->variance;
    slopes.d_mean = has_components ? s->d_amplitude + k * model->inputs : s->d_mu;
    slopes.d_variance = has_components ? s->d_spread + k * model->inputs : s->d_variance;
    tt_output_differentiate(model->output, &slopes);
    for (int64_t j = 0; !has_components && j < model->quantities; j++)
      add_value(s, member, j, k * model->quantities + j);
  }
  if (has_components) add_components(s, member);
}

/* Add the members of an ensemble to empty sums. */
static void add_ensemble(tt_row_slopes *s, const tt_ensemble *own)
{
  sums_clear(s);
  for (int64_t i = own->first; i < own->first + own->members; i++)
    if (s->m->weight[i] > 0.0) add_member(s, i);
}

/* Fill in the sums of ensemble e for the present row. */
static void find_sums(tt_row_slopes *s, int64_t e)
{
  int64_t width = tt_trained_ensemble_width(s->m), inputs = s->m->model.inputs;
  s->undo = NULL;
  if (s->transformed) { /* mean and spread of the members are needed first */
    add_ensemble(s, &s->m->ensemble[e]);
    memcpy(s->center, s->mean, (size_t)width * sizeof *s->mean);
    memcpy(s->d_center, s->d_mean, (size_t)(width * inputs) * sizeof *s->d_mean);
    for (int64_t c = 0; c < width; c++) s->apart[c] = s->between[c] / s->weight;
    for (int64_t c = 0; c < width * inputs; c++) s->d_apart[c] = 2.0 * s->d_between[c] / s->weight;
    s->undo = s->scale + e * width;
  }
  add_ensemble(s, &s->m->ensemble[e]);
}

/* Scale of a derivative of column [0, C) to f(user value), or 1 where the transform is undone. */
static double unit_of(const tt_row_slopes *s, int64_t column)
{
  const tt_column_scale *scale = &s->scale[column];
  return scale->by == TT_TRANSFORM_identity ? scale->scale : 1.0;
}

/* What the derivative by an input of the networks is multiplied by, to be that by column d of the
 * row raw [D]. An amount is the first input of the networks of its column. */
static double input_unit(const tt_row_slopes *s, const double *raw, int64_t d)
{
  const tt_scaler *scaler = &s->m->scaler;
  return tt_scaler_input_slope(scaler, d, raw[d]) / scaler->x_scale[d];
}

typedef void row_work(void *context, int thread, int64_t row);

static void call_row(row_work *compute, void *context, int thread, int64_t row)
{
  tt_floating caller = tt_floating_begin();
  compute(context, thread, row);
  tt_floating_end(caller);
}

void tt_each_row(int threads, int64_t rows, row_work *compute, void *context)
{
  for (int64_t r = 0; threads == 1 && r < rows; r++) call_row(compute, context, 0, r);
  if (threads == 1) return;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 16)
  for (int64_t r = 0; r < rows; r++) call_row(compute, context, omp_get_thread_num(), r);
}

/* Jacobians */

typedef struct jacobian_job {
  const tt_trained_ensemble *m;
  const double *x; /* [rows][D] */
  const tt_jacobian *out;
  int64_t columns, column; /* of all trained ensembles; the first one of m */
  tt_row_slopes *sums;     /* [threads] */
} jacobian_job;

tt_jacobian tt_jacobian_from(const tt_jacobian *all, int64_t offset)
{
  return (tt_jacobian){all->mean ? all->mean + offset : NULL,
                       all->total ? all->total + offset : NULL,
                       all->aleatoric ? all->aleatoric + offset : NULL,
                       all->epistemic ? all->epistemic + offset : NULL};
}

/* Derivative of sqrt(v), given dv. */
static double slope_of_root(double v, double dv) { return v > 0.0 ? 0.5 * dv / sqrt(v) : 0.0; }

/* Write column c of the ensemble whose first column in the trained ensemble is `own`. Levels and
 * indicators do not change with an amount. */
static void store_column(const tt_row_slopes *s, const double *x, const tt_jacobian *out,
                         int64_t own, int64_t c)
{
  int64_t inputs = s->m->scaler.inputs;
  const tt_net_inputs *net = &s->m->scaler.net;
  const tt_column_scale *scale = &s->scale[own + c];
  int undone = scale->by != TT_TRANSFORM_identity; /* and recalibrated */
  double std_scale = undone ? 1.0 : scale->std_scale;
  double noise = undone ? 0.0 : scale->noise / std_scale;
  for (int64_t d = 0; d < inputs; d++) {
    int64_t offset = c * net->count + net->first[d], cell = (own + c) * inputs + d;
    double within = s->within[c] / s->weight + noise * noise, between = s->between[c] / s->weight;
    double d_within = s->d_within[offset] / s->weight,
           d_between = 2.0 * s->d_between[offset] / s->weight;
    double mean = s->weight > 0.0 ? s->d_mean[offset] : NAN;
    double unit = unit_of(s, own + c) * input_unit(s, x, d);
    double spread = unit * std_scale;
    if (!(s->weight > 0.0)) spread = NAN;
    if (out->mean) out->mean[cell] = unit * mean;
    if (out->total)
      out->total[cell] = spread * slope_of_root(within + between, d_within + d_between);
    if (out->aleatoric) out->aleatoric[cell] = spread * slope_of_root(within, d_within);
    if (out->epistemic) out->epistemic[cell] = spread * slope_of_root(between, d_between);
  }
}

void tt_jacobian_row(tt_row_slopes *s, const double *x, const tt_jacobian *out)
{
  int64_t width = tt_trained_ensemble_width(s->m);
  tt_scaler_net_inputs(&s->m->scaler, x, s->x);
  for (int64_t e = 0; e < s->m->ensembles; e++) {
    find_sums(s, e);
    for (int64_t c = 0; c < width; c++) store_column(s, x, out, e * width, c);
  }
}

/* Of tt_each_row. */
static void compute_row(void *context, int thread, int64_t row)
{
  const jacobian_job *job = context;
  int64_t inputs = job->m->scaler.inputs;
  tt_jacobian out = tt_jacobian_from(job->out, (row * job->columns + job->column) * inputs);
  tt_jacobian_row(&job->sums[thread], job->x + row * inputs, &out);
}

/* Derivatives of the columns of job->m. */
static tt_err compute_rows(jacobian_job *job, int threads, int64_t rows)
{
  threads = threads < rows ? threads : (int)rows;
  TT_TRY(TT_ALLOC(job->sums, threads));
  tt_err e = TT_OK;
  for (int t = 0; !e && t < threads; t++) e = tt_row_slopes_create(job->m, NULL, &job->sums[t]);
  if (!e) tt_each_row(threads, rows, compute_row, job);
  for (int t = 0; t < threads; t++) tt_row_slopes_free(&job->sums[t]);
  tt_free(job->sums);
  return e;
}

tt_err tt_jacobian_compute(const tt_trained_ensembles *all, int threads, int64_t rows,
                           const double *x, const tt_jacobian *out)
{
  jacobian_job job = {.x = x, .out = out, .columns = tt_trained_ensembles_columns(all)};
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && rows > 0 && i < all->count; i++) {
    job.m = all->at[i];
    e = compute_rows(&job, threads < 1 ? 1 : threads, rows);
    job.column += tt_trained_ensemble_columns(job.m);
  }
  return e;
}
