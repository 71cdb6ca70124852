/* pool_scorer.h — scores of candidates from the predictions of a model. Local. Private to
 * score_pool.c. */
#ifndef TT_POOL_SCORER_H
#define TT_POOL_SCORER_H
#include "core/config/config.h"
#include "core/engine/engine.h"
#include "core/stats/history.h"
#include "io/data/pool.h"
#include "io/hdf5/provenance.h"
#include "src/campaign/state/known_inputs.h"
#include "src/predict/row_predictor.h"

typedef struct tt_score_pool_args {
  const tt_config *cfg; /* section score, run.seed */
  const tt_trained_ensembles *model;
  const tt_engine_ops *ops;
  const tt_resources *use;
  tt_pool *pool;
  const tt_used_rows *used_rows;
  tt_known_inputs *known; /* inputs of labeled and queried rows: rows with the same inputs are no
                             candidates; NULL = none */
  const double *best; /* [T] highest (goal: minimize: lowest) label so far of each target column,
                            user's units, NaN = no label */
  int64_t round;      /* used by acquisition `random` */
  const char *file;   /* pool_scores.h5 to write */
  const tt_provenance *from; /* of this file, or NULL */
  const char *directory;     /* a file STOP in it requests a stop */
  double deadline;           /* as in tt_stop_agreed */
  int64_t max_piece_rows; /* candidates predicted at a time; 0 = limited by memory and time alone */
} tt_score_pool_args;

/* Rows of one partial sum: a fixed number, so that sums are the same on any number of ranks. */
enum { TT_POOL_SCORER_SUM_ROWS = TT_PREDICTOR_ROWS };

/* A sum of finite numbers, in the order of their rows. */
typedef struct tt_partial_sum {
  double sum;
  int64_t count;
} tt_partial_sum;
void tt_partial_sum_add(tt_partial_sum *t, double x); /* ignores x if it is not finite */

typedef struct tt_pool_scorer tt_pool_scorer;

/* A scorer for all trained ensembles of the model. Borrows `s`. Owner: the caller.
 * Errors: CONFIG, DATA, DIVERGED (as tt_score_pool), MEM. */
tt_err tt_pool_scorer_create_local(const tt_score_pool_args *s, tt_pool_scorer **out);
void tt_pool_scorer_destroy_local(tt_pool_scorer **scorer); /* accepts NULL */

/* 1 if the scores need the predictions of the members of m. */
int tt_pool_scorer_needs_members(const tt_pool_scorer *j, const tt_trained_ensemble *m);
int64_t tt_pool_scorer_lists(const tt_pool_scorer *j);            /* L of pool_scores.h5 */
const char *const *tt_pool_scorer_names(const tt_pool_scorer *j); /* of the ensembles */
int64_t tt_pool_scorer_columns(const tt_pool_scorer *j); /* C: columns of all trained ensembles */

/* Row r of the chunk, of all trained ensembles of the model, is candidate first + r.
 *   skip       [rows] 1 = do not score this row; its score is NaN
 *   score      [L][rows]
 *   sums       [units][C + 1], one unit per TT_POOL_SCORER_SUM_ROWS rows; set to the sums over the
 *              rows that are not skipped: of epistemic_std of every column in the user's units,
 *              then of the score (with quota: of the largest score of the row)
 *   score_max  raised to the largest finite score */
void tt_pool_scorer_score(tt_pool_scorer *j, int64_t first, const tt_row_chunk *chunk,
                          const int8_t *skip, float *score, tt_partial_sum *sums,
                          double *score_max);
#endif
