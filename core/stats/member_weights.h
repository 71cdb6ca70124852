/* member_weights.h — member weights of an ensemble (`combine`), from rows that were not used for
 * training.
 *
 * Weights are relative: only their ratios matter. A diverged member has weight 0. The loss of a set
 * of members is that of its mixture (ensemble_loss.h). */
#ifndef TT_MEMBER_WEIGHTS_H
#define TT_MEMBER_WEIGHTS_H
#include "core/model/model.h"
TT_BEGIN_C

/* mean     1 for all
 * weights  exp(-(loss - lowest loss) / temperature)
 * top_k    1 for the k members with the lowest loss, 0 for the others
 * greedy   number of times a member was added (Caruana, Niculescu-Mizil, Crew & Ksikes, "Ensemble
 *          selection from libraries of models", ICML 2004): `rounds` times, add the member that
 *          gives the set with the lowest loss; a member may be added again. The result is the
 *          best of these sets.
 * For equal losses the first member wins. With units of several members, a unit takes the place of
 * a member: the plain mean of its members that did not diverge, which share its weight. */
typedef struct tt_combine_options {
  tt_combine method;
  int64_t k, rounds;
  double temperature;
} tt_combine_options;

/* Weights share[n] of n members, or units, from one loss of each: top_k or weights. A loss may be
 * infinite: weight 0. For top_k the losses are overwritten. Local. */
void tt_weights_from_losses(const tt_combine_options *rule, int64_t n, double *loss, double *share);

/* Predictions of the members of one ensemble for `cells` pairs of a row and a target, as numbers
 * that can be summed over members. */
typedef struct tt_member_predictions {
  const tt_model *model;
  tt_loss loss;
  tt_loss_args args;
  int64_t members, cells;
  int64_t units;       /* 0: each member is one */
  const int64_t *unit; /* [units + 1] first member of each unit, and `members` */
  int64_t stride;      /* members per cell in `part`: at least `members` */
  const float *part;   /* [cells][stride][tt_member_prediction_size]; NaN first: the member is not
                        * used for this cell, and the unit is the mean of its other members */
  const double *y;     /* [cells] normalized labels; NaN: the cell is ignored */
  const float *weight; /* [cells] sample weight of the row, or NULL: all 1 */
  const int8_t *alive; /* [members] 0 = diverged */
} tt_member_predictions;

/* Count of numbers per member and cell. */
int32_t tt_member_prediction_size(const tt_model *m);

/* Compute these numbers from the quantities of one target (output.h), quantity j at [j * step], and
 * its label y. */
void tt_member_prediction_pack(const tt_model *m, const float *mean, const float *variance,
                               int64_t step, double y, float *part);

/* Compute the member weights share[members], and in best (may be NULL) the loss of the ensemble
 * with them. If no cell counts, members that did not diverge have weight 1. Local. Errors: MEM. */
tt_err tt_member_weights_compute(const tt_combine_options *rule, const tt_member_predictions *s,
                                 double *share, double *best);
TT_END_C
#endif
