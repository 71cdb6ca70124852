/* step_cost.h — what a step of training costs on a CPU core, as a sum of terms: a count that
 * follows from the network, times the seconds of one unit of it on this machine. Local. */
#ifndef TT_STEP_COST_H
#define TT_STEP_COST_H
#include "core/model/cohort.h"

/* name, what is counted in a step of one member. B rows of a batch, padded to a multiple of 16. */
#define TT_STEP_COSTS(X)                                                                           \
  X(step, "steps")                                                                                 \
  X(flops, "operations of the products")                                                           \
  X(values, "outputs of all layers, for every row")                                                \
  X(rows, "rows and their inputs")                                                                 \
  X(params, "parameters that adam updates")
typedef enum tt_step_cost {
#define X(name, what) TT_STEP_COST_##name,
  TT_STEP_COSTS(X)
#undef X
      TT_STEP_COST_COUNT
} tt_step_cost;

/* Seconds of one unit. */
typedef struct tt_step_seconds {
  double term[TT_STEP_COST_COUNT];
  double activation[TT_ACT_COUNT]; /* of a hidden unit and row, above relu; may be below 0 */
  double optimizer[TT_OPT_COUNT];  /* of a parameter, above adam; may be below 0 */
  double dropout, layer_norm;      /* of a hidden unit and row */
} tt_step_seconds;

/* Counts of a step of a member with `rows` rows.
 *   forward  1: of a forward pass alone, as for validation rows */
void tt_step_count(const tt_model *m, int64_t rows, int forward, double count[TT_STEP_COST_COUNT]);

/* Hidden units of a network, times padded rows. */
double tt_step_hidden_values(const tt_model *m, int64_t rows);

/* Seconds of a step of a member, and of the losses of validation rows in batches of B. */
double tt_step_estimate(const tt_step_seconds *s, const tt_cohort *c, const tt_hyper *h,
                        int64_t rows);
double tt_step_estimate_forward(const tt_step_seconds *s, const tt_cohort *c, int64_t rows);

/* Least squares of relative errors: the unknowns >= 0 for which the sums of `terms` counts times
 * unknowns are nearest to the measured values.
 *   count  [cases][terms];  value  [cases], above 0;  out  [terms], terms at most 8 */
void tt_step_fit(int64_t cases, int terms, const double *count, const double *value, double *out);
#endif
