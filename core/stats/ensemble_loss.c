/* ensemble_loss.c — see ensemble_loss.h. */
#include "core/stats/ensemble_loss.h"

#include <math.h>

/* What every row of the table of losses may look at. */
typedef struct loss_input {
  const tt_model *model;
  const double *mean, *variance;
  double y, inverse_targets;
  tt_loss_args a;
} loss_input;

static double of_mse(const loss_input *v)
{
  double e = v->mean[0] - v->y;
  return e * e * v->inverse_targets;
}

static double of_mae(const loss_input *v) { return fabs(v->mean[0] - v->y) * v->inverse_targets; }

static double of_huber(const loss_input *v)
{
  double e = fabs(v->mean[0] - v->y), delta = (double)v->a.huber_delta;
  double cut = e > delta ? delta : e;
  return cut * (e - 0.5 * cut) * v->inverse_targets;
}

static double of_gaussian_nll(const loss_input *v)
{
  double e = v->mean[0] - v->y;
  return 0.5 * (log(v->variance[0]) + e * e / v->variance[0]);
}

static double of_beta_nll(const loss_input *v)
{
  return of_gaussian_nll(v) * pow(v->variance[0], (double)v->a.nll_beta);
}

static double of_poisson(const loss_input *v) { return v->mean[0] - v->y * log(v->mean[0]); }

/* A label of 0 or 1 does not ask for the other's logarithm. A probability that single precision
 * rounds to 1 lies within 2^-25 of it: one row that is wrong must not cost infinitely much. */
static double of_bce(const loss_input *v)
{
  double p = v->mean[0], loss = 0.0;
  if (v->y > 0.0) loss -= v->y * log(p);
  if (v->y < 1.0) loss -= (1.0 - v->y) * log1p(-fmin(p, 1.0 - 0x1p-25));
  return loss;
}

static double of_quantile(const loss_input *v)
{
  double sum = 0.0;
  for (int32_t j = 0; j < v->model->levels; j++) {
    double e = v->y - v->mean[j], t = (double)v->model->level[j];
    sum += (e < 0.0 ? t - 1.0 : t) * e;
  }
  return sum * v->inverse_targets / (double)v->model->levels;
}

static double of_cross_entropy(const loss_input *v) { return -log(v->mean[(int32_t)v->y]); }

double tt_ensemble_loss(const tt_model *model, tt_loss kind, tt_loss_args a, const double *mean,
                        const double *variance, double y)
{
  loss_input v = {.model = model,
                  .mean = mean,
                  .variance = variance,
                  .y = y,
                  .inverse_targets = 1.0 / (double)model->targets,
                  .a = a};
  switch (kind) {
#define X(name, output, source)                                                                    \
  case TT_LOSS_##name: return of_##name(&v);
    TT_LOSSES(X)
#undef X
  default: return (double)NAN;
  }
}

void tt_mixture_moments(const tt_mixture *x, int64_t count, const float *mu, double *mean,
                        double *variance)
{
  for (int64_t j = 0; j < count; j++) {
    double sum = 0.0, within = 0.0, between = 0.0, n = 0.0;
    const float *at = mu + j * x->step;
    for (int64_t i = 0; i < x->members; i++) {
      if (!x->included[i]) continue;
      sum += (double)at[i * x->each];
      within += (double)at[i * x->each + x->variance_offset];
      n += 1.0;
    }
    mean[j] = sum / n;
    for (int64_t i = 0; i < x->members; i++) {
      double off = (double)at[i * x->each] - mean[j];
      if (x->included[i]) between += off * off;
    }
    variance[j] = (within + between) / n;
  }
}
