/* moments.h — predictions of an ensemble: the mixture of its members.
 *
 * Each member predicts a mean and a variance; the ensemble's predictive distribution is the
 * weighted mixture (Lakshminarayanan, Pritzel, Blundell, "Simple and scalable predictive
 * uncertainty estimation using deep ensembles", NeurIPS 2017):
 *   mean      = sum w mu / sum w
 *   aleatoric = sum w variance / sum w              (noise the members agree on)
 *   epistemic = sum w (mu - mean)^2 / sum w         (disagreement of the members)
 *   total variance = aleatoric + epistemic */
#ifndef TT_MOMENTS_H
#define TT_MOMENTS_H
#include "core/base/err.h"
#include "core/model/trained_ensemble.h"
TT_BEGIN_C

/* Running weighted moments of rows x columns (columns as in tt_trained_ensemble_columns). */
typedef struct tt_moments {
  int64_t rows, columns;
  double *weight;  /* [columns] sum of w */
  double *mean;    /* [rows][columns] */
  double *between; /* [rows][columns] sum of w (mu - mean)^2 */
  double *within;  /* [rows][columns] sum of w variance */
} tt_moments;

tt_err tt_moments_create(int64_t rows, int64_t columns, tt_moments **out);
void tt_moments_destroy(tt_moments **m);
void tt_moments_clear(tt_moments *m);

/* weight[columns] = sum of the member weights of each ensemble, for callers that compute mean,
 * between and within without tt_moments_add on *m. */
void tt_moments_set_weights(tt_moments *m, const tt_trained_ensemble *c);

/* Add one member's prediction, in member order (West, CACM 1979: one pass, no cancellation).
 *   column    first column of its ensemble;   k  columns per ensemble (tt_trained_ensemble_width)
 *   w         its member weight; a weight of 0 changes nothing
 *   mean      [k][stride] with `rows` values each;  variance the same, or NULL = 0 */
void tt_moments_add(tt_moments *m, int64_t column, int64_t k, double w, const float *mean,
                    const float *variance, int64_t stride);

/* Moments of the predictions members[G][2][K q][rows] of all members of c, in their order. */
void tt_moments_mix(tt_moments *m, const tt_trained_ensemble *c, const float *members);

/* Predictions of one of several trained ensembles for some rows. */
typedef struct tt_ensemble_prediction {
  const tt_trained_ensemble *m;
  int64_t width;          /* tt_trained_ensemble_width */
  int64_t member, column; /* its first member and column among those of all trained ensembles */
  tt_moments *moments;    /* of its own columns */
  float *members;         /* [G][2][width][rows] normalized, or NULL if not needed */
} tt_ensemble_prediction;

/* Whether a member is used for a row of a caller. */
typedef int tt_uses_member(void *context, int64_t row, int64_t member);

/* Moments of row r of p by the members of e that are used for `row`: m has one row, and the width
 * columns of an ensemble. Without such a member its weights are 0. */
void tt_moments_of_used(tt_moments *m, const tt_ensemble_prediction *p, const tt_ensemble *e,
                        int64_t r, tt_uses_member *uses, void *context, int64_t row);

/* Mean of quantity `quantity`, in [0, width), of a member in a row; and its variance. */
TT_HD double tt_member_mean(const tt_ensemble_prediction *p, int64_t member, int64_t quantity,
                            int64_t row)
{
  return (double)p->members[tt_prediction_place(p->width, p->moments->rows, member, quantity, row)];
}
TT_HD double tt_member_variance(const tt_ensemble_prediction *p, int64_t member, int64_t quantity,
                                int64_t row)
{
  return tt_member_mean(p, member, p->width + quantity, row);
}

/* Mean and standard deviations of one row and column, in the units of the added means. */
typedef struct tt_uncertainty {
  double mean, total, aleatoric, epistemic;
} tt_uncertainty;
tt_uncertainty tt_moments_at(const tt_moments *m, int64_t row, int64_t column);
TT_END_C
#endif
