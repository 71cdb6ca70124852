/* prediction_block.h — converts moments of normalized predictions to a tt_prediction_block in the
 * user's units. No other file de-normalizes predictions. All local. */
#ifndef TT_PREDICTION_BLOCK_H
#define TT_PREDICTION_BLOCK_H
#include "io/results/results.h"
#include "src/predict/row_predictor.h"

/* Conversion of a predicted column to the user's units. */
typedef struct tt_column_scale {
  double mean, scale; /* f(user value) = value * scale + mean */
  double std_scale;   /* recalibration: std of f(user value) = std * scale * std_scale */
  double noise;    /* normalized standard deviation, added to this one and to the aleatoric one */
  tt_transform by; /* f */
  double lambda;
} tt_column_scale;

/* Ensemble of column [0, C) of a trained ensemble; *target = column in the target table. */
const tt_ensemble *tt_column_ensemble(const tt_trained_ensemble *m, int64_t column,
                                      int32_t *target);
tt_column_scale tt_column_scale_of(const tt_trained_ensemble *m, int64_t column);

/* Convert a point or a quantile to the user's units. */
double tt_denormalize_point(const tt_column_scale *s, double point);
/* Mean and variance of a member, a Gaussian number before the transform is undone, without
 * recalibration: in the units of f(user value), and in the user's units. */
tt_transform_moments tt_denormalize_latent(const tt_column_scale *s, double mean, double variance);
tt_transform_moments tt_denormalize_member(const tt_column_scale *s, double mean, double variance);
/* Mean and standard deviations of an ensemble, with recalibration, in the units of f(user value):
 * those of the user unless the column is transformed. */
tt_uncertainty tt_denormalize(const tt_column_scale *s, tt_uncertainty uncertainty);
/* The same in the user's units, from the n members of the ensemble: the mixture is recalibrated
 * (tt_gaussian_mixture_recalibrate), then each member is converted. What recalibration adds to the
 * variances of the members counts as epistemic, as for the columns without a transform.
 *   weight          [n]; members of weight 0 are not read
 *   mean, variance  [n] normalized; recalibrated in place */
tt_uncertainty tt_denormalize_mixture(const tt_column_scale *s, int64_t n, const double *weight,
                                      double *mean, double *variance);

/* 1 if entropies, transformed targets or `shape` need the predictions of every member of m. */
int tt_prediction_needs_members(const tt_trained_ensemble *m, const tt_prediction_shape *shape);

/* Allocate the arrays that the models and `shape` need, for up to `rows` rows; the list of
 * quantiles is borrowed. Owner: the caller, tt_prediction_block_free (accepts a zeroed one).
 * Errors: MEM. */
tt_err tt_prediction_block_create(const tt_trained_ensembles *all, int64_t rows,
                                  const tt_prediction_shape *shape, tt_prediction_block *out);
void tt_prediction_block_free(tt_prediction_block *b);

/* Fill in the rows of a chunk, for all `models` trained ensembles; skips arrays that are NULL.
 * Errors: MEM. */
tt_err tt_prediction_block_fill(tt_prediction_block *b, int64_t models, const tt_row_chunk *chunk);

/* Mean entropy of the members of an ensemble that predicts classes, for its target k in row r. With
 * softmax it is one of the predicted quantities, with sigmoid it is computed from the
 * predictions of the members.
 *   mean  [q] means of the quantities of this target and row */
double tt_mean_member_entropy(const tt_ensemble_prediction *p, const tt_ensemble *e, int64_t k,
                              int64_t r, const double *mean);
#endif
