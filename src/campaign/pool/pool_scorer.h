/* pool_scorer.h — a model's predictions of some candidates as scores. Floor 5; local. Private to
 * score_pool.c. */
#ifndef TT_POOL_SCORER_H
#define TT_POOL_SCORER_H
#include "core/config/config.h"
#include "core/engine/engine.h"
#include "core/stats/history.h"
#include "io/data/pool.h"

typedef struct tt_score_pool_args {
  const tt_config *cfg; /* section score, run.seed */
  const tt_trained_ensembles *model;
  const tt_engine_ops *ops;
  const tt_resources *use;
  tt_pool *pool;
  const tt_used_rows *used_rows;
  const double *best;    /* [T] highest (goal: minimize: lowest) label so far of each target column,
                            user's units, NaN = none */
  int64_t round;         /* of `random` */
  const char *file;      /* pool_scores.h5 to write */
  const char *directory; /* where a file STOP may ask for a stop */
  double deadline;       /* as tt_stop_agreed */
  int64_t max_piece_rows; /* of a piece; 0 = what memory and patience allow */
} tt_score_pool_args;

enum { TT_POOL_SCORER_SUM_ROWS = 256 }; /* rows whose sums are added up on their own */

/* A sum of finite numbers, in the order of their rows. */
typedef struct tt_partial_sum {
  double sum;
  int64_t count;
} tt_partial_sum;
void tt_partial_sum_add(tt_partial_sum *t, double x); /* one that is not finite is left out */

typedef struct tt_pool_scorer tt_pool_scorer;

/* Every committee of the model with its engine. Borrows `s`. Owner: the caller.
 * Errors: CONFIG, DATA, DIVERGED (as tt_score_pool), MEM. */
tt_err tt_pool_scorer_create_local(const tt_score_pool_args *s, tt_pool_scorer **out);
void tt_pool_scorer_destroy_local(tt_pool_scorer **j); /* accepts NULL */

int64_t
tt_pool_scorer_rows(const tt_pool_scorer *j); /* most rows at a time: a multiple of the unit */
int64_t tt_pool_scorer_lists(const tt_pool_scorer *j);   /* L of pool_scores.h5 */
int64_t tt_pool_scorer_columns(const tt_pool_scorer *j); /* C of all committees */

/* Candidates [first, first + rows): row r of x [rows][D], normalised, is candidate first + r.
 *   skip   [rows] 1 = not to be scored: NaN
 *   score  [L][rows]
 *   sums  [units][C + 1] set: of each unit, epistemic_std of every column in the user's units,
 *          then the score (of quota the largest); of rows that are not skipped
 *   most   raised to the largest finite score
 * Errors: MEM, of the engine. */
tt_err tt_pool_scorer_score_local(tt_pool_scorer *j, int64_t first, int64_t rows, const float *x,
                                  const int8_t *skip, float *score, tt_partial_sum *sums,
                                  double *score_max);
#endif
