/* out_of_bag.h — out-of-bag scores: each training row is predicted by the members that did not
 * train on it. Breiman, "Out-of-bag estimation", 1996. */
#ifndef TT_OUT_OF_BAG_H
#define TT_OUT_OF_BAG_H
#include "src/score/score.h"

/* The parts of cohorts whose members are those of a trained ensemble, in order. All borrowed. */
typedef struct tt_oob_members {
  int64_t count;
  const tt_cohort_part *part; /* [count] with the same train.resample */
  const int32_t *attempt;     /* [G] retries of each member, because a retry may draw other rows */
} tt_oob_members;

/* Which members with train.resample (bootstrap, subsample, kfold) did not train on a row. */
typedef struct tt_oob tt_oob;

/* *out stays NULL without resampling. Owner: the caller, tt_oob_destroy (accepts NULL). The data
 * set is borrowed. Local. Errors: MEM. */
tt_err tt_oob_create(const tt_oob_members *src, const tt_dataset *d, int64_t members, tt_oob **out);
void tt_oob_destroy(tt_oob **b);

/* 1 if a member did not train on a row of the training split. A tt_uses_member; its context is the
 * tt_oob. */
int tt_oob_has(void *oob, int64_t data_row, int64_t member);

/* Collective. Score the training rows.
 *
 *   shard    as in tt_score
 *   out      columns as in tt_trained_ensemble_columns, no scores of members; NULL without
 *            resampling; owner: the caller
 *
 * Errors: of the engine, MEM. */
tt_err tt_out_of_bag(tt_comm *c, tt_oob *b, const tt_model_shard *shard,
                     const tt_trained_ensemble *all, const tt_engine_ops *ops,
                     const tt_resources *use, tt_scores **out);
#endif
