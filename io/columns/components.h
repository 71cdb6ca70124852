/* components.h — principal components of the targets (data.targets_pca). */
#ifndef TT_COLUMNS_COMPONENTS_H
#define TT_COLUMNS_COMPONENTS_H
#include "core/model/dataset.h"
#include "mpi/comm.h"

/* Collective. Fit the components of the normalized targets d->y, which all ranks have, to the
 * training rows with all labels, each with weight 1; fill in d->scaler.component* and residual, and
 * d->amplitude. A row that lacks a label becomes one without labels. The result does not depend on
 * the number of ranks.
 *   file  for messages
 * Errors: DATA (more components than targets, or than directions in which the training rows
 * differ), MEM, INTERNAL. */
tt_err tt_fit_components(tt_comm *c, const char *file, int64_t components, tt_dataset *d);
#endif
