/* ensemble_loss.h — the loss of an ensemble: of the mixture of its members. */
#ifndef TT_ENSEMBLE_LOSS_H
#define TT_ENSEMBLE_LOSS_H
#include "core/model/model.h"
TT_BEGIN_C

/* Loss of one target in one row. For one member alone it equals the loss of that member (loss.h) up
 * to rounding: mse of the mean, the NLL of a Gaussian with the mixture's mean and variance
 * (Lakshminarayanan et al. 2017), -ln of the mean probability of the class, the pinball loss of the
 * mean quantiles, ...
 *   mean, variance  [q] of the mixture of the members' quantities (output.h, moments.h)
 *   y               normalized label */
double tt_ensemble_loss(const tt_model *model, tt_loss kind, tt_loss_args a, const double *mean,
                        const double *variance, double y);
TT_END_C
#endif
