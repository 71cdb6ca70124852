/* ensemble_loss.c — see ensemble_loss.h. */
#include "core/stats/ensemble_loss.h"

#include <math.h>

/* What every row of the table of losses may look at. */
typedef struct view {
  const tt_model *model;
  const double *mean, *variance;
  double y, share;
  tt_loss_args a;
} view;

static double of_mse(const view *v)
{
  double e = v->mean[0] - v->y;
  return e * e * v->share;
}

static double of_mae(const view *v) { return fabs(v->mean[0] - v->y) * v->share; }

static double of_huber(const view *v)
{
  double e = fabs(v->mean[0] - v->y), delta = (double)v->a.huber_delta;
  double cut = e > delta ? delta : e;
  return cut * (e - 0.5 * cut) * v->share;
}

static double of_gaussian_nll(const view *v)
{
  double e = v->mean[0] - v->y;
  return 0.5 * (log(v->variance[0]) + e * e / v->variance[0]);
}

static double of_beta_nll(const view *v)
{
  return of_gaussian_nll(v) * pow(v->variance[0], (double)v->a.nll_beta);
}

static double of_poisson(const view *v) { return v->mean[0] - v->y * log(v->mean[0]); }

/* A label of 0 or 1 does not ask for the other's logarithm. A probability that single precision
 * rounds to 1 lies within 2^-25 of it: one row that is wrong must not cost infinitely much. */
static double of_bce(const view *v)
{
  double p = v->mean[0], loss = 0.0;
  if (v->y > 0.0) loss -= v->y * log(p);
  if (v->y < 1.0) loss -= (1.0 - v->y) * log1p(-fmin(p, 1.0 - 0x1p-25));
  return loss;
}

static double of_quantile(const view *v)
{
  double sum = 0.0;
  for (int32_t j = 0; j < v->model->levels; j++) {
    double e = v->y - v->mean[j], t = (double)v->model->level[j];
    sum += (e < 0.0 ? t - 1.0 : t) * e;
  }
  return sum * v->share / (double)v->model->levels;
}

static double of_cross_entropy(const view *v) { return -log(v->mean[(int32_t)v->y]); }

double tt_ensemble_loss(const tt_model *model, tt_loss kind, tt_loss_args a, const double *mean,
                        const double *variance, double y)
{
  view v = {.model = model,
            .mean = mean,
            .variance = variance,
            .y = y,
            .share = 1.0 / (double)model->targets,
            .a = a};
  switch (kind) {
#define X(name, output, source)                                                                    \
  case TT_LOSS_##name:                                                                             \
    return of_##name(&v);
    TT_LOSSES(X)
#undef X
  default:
    return (double)NAN;
  }
}

void tt_mixture_take(const tt_mixture *x, int64_t count, const float *mu, double *mean,
                     double *variance)
{
  for (int64_t j = 0; j < count; j++) {
    double sum = 0.0, within = 0.0, between = 0.0, n = 0.0;
    const float *at = mu + j * x->step;
    for (int64_t i = 0; i < x->members; i++) {
      if (!x->take[i]) continue;
      sum += (double)at[i * x->each];
      within += (double)at[i * x->each + x->apart];
      n += 1.0;
    }
    mean[j] = sum / n;
    for (int64_t i = 0; i < x->members; i++) {
      double off = (double)at[i * x->each] - mean[j];
      if (x->take[i]) between += off * off;
    }
    variance[j] = (within + between) / n;
  }
}
