/* postprocess.h — member weights and calibration, from rows that were not trained on. */
#ifndef TT_POSTPROCESS_H
#define TT_POSTPROCESS_H
#include "core/engine/engine.h"
#include "io/model/model_file.h"

/* Inputs of both functions; all borrowed. */
typedef struct tt_postprocess_context {
  const tt_config *cfg; /* combine, calibration */
  const tt_cohort *cohort;
  const tt_dataset *data;
  tt_uses_member *unseen; /* of data rows for which a member is out of bag; NULL: no resampling */
  void *unseen_by;        /* its context */
  const tt_model_shard *shard; /* [networks] members of this rank (row_predictor.h) */
  const tt_engine_ops *ops;
  const tt_resources *use;
} tt_postprocess_context;

/* Collective. Set all->weight by cfg's section combine (core/stats/member_weights.h); diverged
 * members keep 0. Uses the rows of the validation split that the ensemble selects and has labels
 * for, also with kfold; networks that tt_config_weighs_folds names are weighted on the training
 * rows, of which each member predicts the fold that it left out. Each rank stores members x rows
 * predictions, at most 2^26 numbers: with more rows only every n-th row is used. Same result on any
 * number of ranks. Errors: of the engine, MEM. */
tt_err tt_combine_members(tt_comm *c, const tt_postprocess_context *v, tt_trained_ensemble *all);

/* Collective. Set all->calibration (noise, recalibration, conformal widths) by cfg's section
 * calibration from the validation rows; with fewer than TT_NOISE_ROWS of them, resampling and no
 * conformal intervals from the training rows, each predicted by the members that it is out of bag
 * for. With recalibrate: auto and no conformal intervals at most 4096 rows are used, evenly spaced.
 * With data.sigma the noise of the labels is known, and none is fitted. Uses the present member
 * weights. Errors: of the engine, MEM. */
tt_err tt_calibrate(tt_comm *c, const tt_postprocess_context *v, tt_trained_ensemble *all);

/* Collective. Set all->typical_epistemic from at most 4096 training rows, evenly spaced; uses the
 * present member weights. Same result on any number of ranks. Errors: of the engine, MEM. */
tt_err tt_measure_epistemic(tt_comm *c, const tt_postprocess_context *v, tt_trained_ensemble *all);
#endif
