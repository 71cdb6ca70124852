/* prediction_extras.h — what predictions hold beside means and standard deviations: conformal
 * intervals, and of classes the parts of the uncertainty. Floor 4; local. */
#ifndef TT_PREDICTION_EXTRAS_H
#define TT_PREDICTION_EXTRAS_H
#include "core/model/trained_ensemble.h"

/* Columns of all committees, C. Entropies in nats, of every column of a target the same:
 *   entropy      of the mean probabilities: the whole uncertainty
 *   information  that less the mean entropy of the members: their disagreement. Depeweg et al. 2018
 */
typedef struct tt_prediction_extras {
  int64_t levels, columns;
  int classes;                          /* whether any committee predicts classes */
  double *lower, *upper;                /* [levels][rows][C] */
  double *entropy, *mutual_information; /* [rows][C]; NaN where there are no classes */
} tt_prediction_extras;

/* Whether a committee needs its members' own predictions for it. */
int tt_prediction_extras_need_members(const tt_trained_ensemble *m);

/* Room for `rows` rows. Errors: MEM. tt_prediction_extras_free accepts a zeroed one. */
tt_err tt_prediction_extras_create(const tt_trained_ensembles *all, int64_t rows,
                                   tt_prediction_extras *out);
void tt_prediction_extras_free(tt_prediction_extras *x);

/* Fill in the columns of one committee, the first of which is `column` of all.
 *   mean, total  [rows][C] in the user's units, recalibrated
 *   members      [G][2][K q][rows] normalised, if it needs them */
void tt_prediction_extras_fill(tt_prediction_extras *x, const tt_trained_ensemble *m,
                               int64_t column, int64_t rows, const double *mean,
                               const double *total, const float *members);

/* Mean entropy of the members of an ensemble that predicts classes, for its target k in row r of
 * `rows`: what softmax says itself, of sigmoid from the members.
 *   mean  of the quantities of this target and row */
double tt_prediction_extras_member_entropy(const tt_trained_ensemble *m, const tt_ensemble *e,
                                           int64_t k, int64_t r, int64_t rows, const double *mean,
                                           const float *members);
#endif
