/* fold_fit.h — the normalization of each fold of kfold (data.normalize_folds: own): members that
 * leave out a fold see all rows as the training rows without this fold normalize them. */
#ifndef TT_COLUMNS_FOLD_FIT_H
#define TT_COLUMNS_FOLD_FIT_H
#include "core/config/config.h"
#include "io/columns/fit.h"

/* The rows of this rank in the user's units. Everything is borrowed. */
typedef struct tt_fold_source {
  const tt_fit_rows *x, *y;
  const double *sigma; /* [count][T] data.sigma; NULL: not given */
} tt_fold_source;

/* Collective. Add the folds of the ensembles with kfold to a data set that is normalized and has no
 * folds, as data.normalize_folds says; ensembles that leave out the same rows share a fold. Inputs
 * that are normalized by the pool, and components of targets, are not fitted again. Members that
 * begin with a model (train.init_from) have its normalization, and no folds. Bit-identical on any
 * number of ranks. Errors: as tt_cohorts_create; DATA (values that cannot be normalized, too many
 * rows), MEM. */
tt_err tt_fit_folds(tt_comm *c, const tt_config *cfg, const tt_fold_source *src, tt_dataset *d);
#endif
