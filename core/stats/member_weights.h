/* member_weights.h — how much each member counts in its ensemble, chosen on rows it was not trained
 * on. Floor 1.
 *
 * Shares may have any scale. A diverged member has none. The loss of a set of members is that of
 * its mixture (ensemble_loss.h), of a member that of the set it makes alone. */
#ifndef TT_MEMBER_WEIGHTS_H
#define TT_MEMBER_WEIGHTS_H
#include "core/model/model.h"
#ifdef __cplusplus
extern "C" {
#endif

/* mean     1 for all
 * weights  exp(-(loss - least loss) / temperature)
 * top_k    1 for the k members of least loss, 0 for the others
 * greedy   how often a member was chosen: Caruana, Niculescu-Mizil, Crew & Ksikes, "Ensemble
 * selection from libraries of models", ICML 2004: `rounds` times the member that makes the set
 * best, members may come again; the best set on the way Of equal losses the first member wins. */
typedef struct tt_combine_options {
  tt_combine method;
  int64_t k, rounds;
  double temperature;
} tt_combine_options;

/* What the members of one ensemble say, of `cells` pairs of a row and a target: numbers that add up
 * when members are mixed. */
typedef struct tt_member_predictions {
  const tt_model *model;
  tt_loss loss;
  tt_loss_args args;
  int64_t members, cells;
  int64_t stride;      /* members of a cell: at least `members` */
  const float *part;   /* [cells][stride][tt_member_prediction_size] */
  const double *y;     /* [cells] normalised labels; NaN: the cell does not count */
  const float *weight; /* [cells] of its row, or NULL: all 1 */
  const int8_t *alive; /* [members] 0 = diverged */
} tt_member_predictions;

/* Numbers of one member and cell. */
int32_t tt_member_prediction_size(const tt_model *m);

/* They follow from quantities of one target (output.h), quantity j at [j * step], and its label. */
void tt_member_prediction_pack(const tt_model *m, const float *mean, const float *variance,
                               int64_t step, double y, float *part);

/* share[members]; best (may be NULL) the loss of the ensemble they make. All 1 (of the sound) where
 * no cell counts. Local. Errors: MEM. */
tt_err tt_member_weights_compute(const tt_combine_options *rule, const tt_member_predictions *s,
                                 double *share, double *best);
#ifdef __cplusplus
}
#endif
#endif
