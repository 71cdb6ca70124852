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
