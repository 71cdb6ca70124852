/* jacobian.c — see jacobian.h. */
#include "src/predict/jacobian.h"

#include "core/base/floating.h"
#include "core/base/mem.h"
#include "src/predict/row_slopes.h"

#include <math.h>
#include <omp.h>

typedef struct jacobian_job {
  const tt_trained_ensemble *m;
  const double *x; /* [rows][D] */
  const tt_jacobian *out;
  int64_t columns, column; /* of all trained ensembles; the first one of m */
} jacobian_job;

/* Derivative of sqrt(v), given dv. */
static double slope_of_root(double v, double dv) { return v > 0.0 ? 0.5 * dv / sqrt(v) : 0.0; }

/* Write column c of the ensemble whose first column in m is `own`, for `row`. Levels and indicators
 * do not change with an amount. */
static void store_column(const jacobian_job *job, const tt_row_slopes *s, int64_t row, int64_t own,
                         int64_t c)
{
  int64_t inputs = job->m->scaler.inputs;
  const tt_net_inputs *net = &job->m->scaler.net;
  const tt_column_scale *scale = &s->scale[own + c];
  double std_scale = scale->by == TT_TRANSFORM_identity ? scale->std_scale : 1.0;
  for (int64_t d = 0; d < inputs; d++) {
    int64_t at = c * net->count + net->first[d],
            to = (row * job->columns + job->column + own + c) * inputs + d;
    double within = s->within[c] / s->weight, between = s->between[c] / s->weight;
    double d_within = s->d_within[at] / s->weight, d_between = 2.0 * s->d_between[at] / s->weight;
    double mean = s->weight > 0.0 ? s->d_mean[at] : NAN;
    double unit =
        tt_row_slopes_unit(s, own + c) * tt_row_slopes_input_unit(s, job->x + row * inputs, d);
    double spread = unit * std_scale;
    if (!(s->weight > 0.0)) spread = NAN;
    if (job->out->mean) job->out->mean[to] = unit * mean;
    if (job->out->total)
      job->out->total[to] = spread * slope_of_root(within + between, d_within + d_between);
    if (job->out->aleatoric) job->out->aleatoric[to] = spread * slope_of_root(within, d_within);
    if (job->out->epistemic) job->out->epistemic[to] = spread * slope_of_root(between, d_between);
  }
}

static void compute_row(const jacobian_job *job, tt_row_slopes *s, int64_t row)
{
  int64_t width = tt_trained_ensemble_width(job->m);
  tt_floating caller = tt_floating_begin();
  tt_row_slopes_set_row(s, job->x + row * job->m->scaler.inputs);
  for (int64_t e = 0; e < job->m->ensembles; e++) {
    tt_row_slopes_at(s, e, NULL);
    for (int64_t c = 0; c < width; c++) store_column(job, s, row, e * width, c);
  }
  tt_floating_end(caller);
}

/* Derivatives of the columns of job->m. */
static tt_err compute(const jacobian_job *job, int threads, int64_t rows)
{
  tt_row_slopes *sums = NULL;
  threads = threads < rows ? threads : (int)rows;
  TT_TRY(TT_ALLOC(sums, threads));
  tt_err e = TT_OK;
  for (int t = 0; !e && t < threads; t++) e = tt_row_slopes_create(job->m, &sums[t]);
  if (!e) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 16)
    for (int64_t r = 0; r < rows; r++) compute_row(job, &sums[omp_get_thread_num()], r);
  }
  for (int t = 0; t < threads; t++) tt_row_slopes_free(&sums[t]);
  tt_free(sums);
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
