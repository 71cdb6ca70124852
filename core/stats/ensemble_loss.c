/* ensemble_loss.c — see ensemble_loss.h. */
#include "core/stats/ensemble_loss.h"

double tt_ensemble_loss(const tt_model *model, tt_loss kind, tt_loss_args a, const double *mean,
                        const double *variance, double y)
{
  const tt_ensemble_outputs v = {.n = model->levels,
                                 .level = model->level,
                                 .mean = mean,
                                 .variance = variance,
                                 .y = y,
                                 .inverse_targets = 1.0 / (double)model->targets,
                                 .args = a};
  return tt_ensemble_loss_target(kind, &v);
}

void tt_mixture_moments(const tt_mixture *x, int64_t count, const float *mu, double *mean,
                        double *variance)
{
  for (int64_t j = 0; j < count; j++) {
    double sum = 0.0, within = 0.0, between = 0.0, n = 0.0;
    const float *place = mu + j * x->step;
    for (int64_t i = 0; i < x->members; i++) {
      if (!x->included[i]) continue;
      sum += (double)place[i * x->each];
      within += (double)place[i * x->each + x->variance_offset];
      n += 1.0;
    }
    mean[j] = sum / n;
    for (int64_t i = 0; i < x->members; i++) {
      double off = (double)place[i * x->each] - mean[j];
      if (x->included[i]) between += off * off;
    }
    variance[j] = (within + between) / n;
  }
}
