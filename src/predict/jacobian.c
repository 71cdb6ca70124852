/* jacobian.c — see jacobian.h. */
#include "src/predict/jacobian.h"

#include "core/base/mem.h"

#include <math.h>

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
  double std_scale = scale->by == TT_TRANSFORM_identity ? scale->std_scale : 1.0;
  for (int64_t d = 0; d < inputs; d++) {
    int64_t offset = c * net->count + net->first[d], cell = (own + c) * inputs + d;
    double within = s->within[c] / s->weight, between = s->between[c] / s->weight;
    double d_within = s->d_within[offset] / s->weight,
           d_between = 2.0 * s->d_between[offset] / s->weight;
    double mean = s->weight > 0.0 ? s->d_mean[offset] : NAN;
    double unit = tt_row_slopes_unit(s, own + c) * tt_row_slopes_input_unit(s, x, d);
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
  tt_row_slopes_set_row(s, x);
  for (int64_t e = 0; e < s->m->ensembles; e++) {
    tt_row_slopes_at(s, e, NULL);
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
static tt_err compute(jacobian_job *job, int threads, int64_t rows)
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
    e = compute(&job, threads < 1 ? 1 : threads, rows);
    job.column += tt_trained_ensemble_columns(job.m);
  }
  return e;
}
