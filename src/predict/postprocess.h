/* postprocess.h — what the validation rows say about a trained committee: how much each member
 * counts, and how wide its predictions should be. Floor 4. */
#ifndef TT_POSTPROCESS_H
#define TT_POSTPROCESS_H
#include "core/engine/engine.h"
#include "mpi/comm.h"

/* What both look at; borrowed. */
typedef struct tt_postprocess_context {
  const tt_config *cfg; /* combine, calibration */
  const tt_cohort *cohort;
  const tt_dataset *data;
  const tt_engine_ops *ops;
  const tt_resources *use;
} tt_postprocess_context;

/* Collective. Shares of the members by cfg's `combine` (core/stats/member_weights.h), in place of
 * the ones they have; diverged members keep 0. The rows are those of the validation split that an
 * ensemble has labels for and selects, with kfold too. At most 2^26 numbers are held: of more rows
 * every n-th counts. The same on any number of ranks. Errors: of the engine, MEM. */
tt_err tt_combine_members(tt_comm *c, const tt_postprocess_context *v, tt_trained_ensemble *all);

/* Collective. Recalibration and conformal widths by cfg's `calibration` into all->calibration, for
 * the members in their shares. Errors: of the engine, MEM. */
tt_err tt_calibrate(tt_comm *c, const tt_postprocess_context *v, tt_trained_ensemble *all);
#endif
