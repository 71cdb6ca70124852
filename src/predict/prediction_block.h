/* prediction_block.h — converts moments of normalised predictions to a tt_prediction_block in the
 * user's units. No other file de-normalises predictions. All local. */
#ifndef TT_PREDICTION_BLOCK_H
#define TT_PREDICTION_BLOCK_H
#include "core/stats/moments.h"
#include "io/results/results.h"

/* Conversion of a predicted column to the user's units. */
typedef struct tt_column_scale {
  double mean, scale; /* user value = value * scale + mean */
  double std_scale;   /* recalibration: user std = std * scale * std_scale */
} tt_column_scale;

/* Ensemble of column [0, C) of a trained ensemble; *target = column in the target table. */
const tt_ensemble *tt_column_ensemble(const tt_trained_ensemble *m, int64_t column,
                                      int32_t *target);
tt_column_scale tt_column_scale_of(const tt_trained_ensemble *m, int64_t column);

/* Convert mean and variance of a member (without recalibration), and mean and standard deviations
 * of an ensemble. */
double tt_denormalize_mean(const tt_column_scale *s, double mean);
double tt_denormalize_variance(const tt_column_scale *s, double variance);
tt_uncertainty tt_denormalize(const tt_column_scale *s, tt_uncertainty at);

/* 1 if entropies or `shape` need the predictions of every member of m. */
int tt_prediction_needs_members(const tt_trained_ensemble *m, const tt_prediction_shape *shape);

/* Allocate the arrays that the models and `shape` need, for up to `rows` rows; the list of
 * quantiles is borrowed. Owner: the caller, tt_prediction_block_free (accepts a zeroed one).
 * Errors: MEM. */
tt_err tt_prediction_block_create(const tt_trained_ensembles *all, int64_t rows,
                                  const tt_prediction_shape *shape, tt_prediction_block *out);
void tt_prediction_block_free(tt_prediction_block *b);

/* Predictions of one trained ensemble for the rows of a block, from an engine. */
typedef struct tt_ensemble_prediction {
  const tt_trained_ensemble *m;
  int64_t member, column;    /* its first member and first column in the block */
  const tt_moments *moments; /* of its own columns */
  const float *members;      /* [G][2][K q][rows] normalised, or NULL if not needed */
} tt_ensemble_prediction;

/* Fill in the columns and members of one trained ensemble; skips arrays that are NULL.
 * Errors: MEM, only with quantiles. */
tt_err tt_prediction_block_fill(tt_prediction_block *b, const tt_ensemble_prediction *p);

/* Mean entropy of the members of an ensemble that predicts classes, for its target k in row r of
 * `rows`. With softmax it is one of the predicted quantities, with sigmoid it is computed from the
 * predictions of the members.
 *   mean     [q] means of the quantities of this target and row
 *   members  [G][2][K q][rows] */
double tt_mean_member_entropy(const tt_trained_ensemble *m, const tt_ensemble *e, int64_t k,
                              int64_t r, int64_t rows, const double *mean, const float *members);
#endif
