/* pool_scorer.h — a model's predictions of some candidates as scores. Floor 5; local. Private to
 * score_pool.c. */
#ifndef TT_JURY_H
#define TT_JURY_H
#include "core/config/config.h"
#include "core/engine/engine.h"
#include "core/stats/history.h"
#include "io/data/pool.h"

typedef struct tt_pool_scoring {
  const tt_config *cfg; /* section score, run.seed */
  const tt_committees *model;
  const tt_engine_ops *ops;
  const tt_resources *use;
  tt_pool *pool;
  const tt_taken *taken;
  const double *best;    /* [T] highest (goal: minimize: lowest) label so far of each target column,
                            user's units, NaN = none */
  int64_t round;         /* of `random` */
  const char *file;      /* scores.h5 to write */
  const char *directory; /* where a file STOP may ask for a stop */
  double deadline;       /* as tt_stop_agreed */
  int64_t most_rows;     /* of a piece; 0 = what memory and patience allow */
} tt_pool_scoring;

enum { TT_JURY_UNIT = 256 }; /* rows whose sums are added up on their own */

/* A sum of finite numbers, in the order of their rows. */
typedef struct tt_running {
  double sum;
  int64_t count;
} tt_running;
void tt_running_add(tt_running *t, double x); /* one that is not finite is left out */

typedef struct tt_jury tt_jury;

/* Every committee of the model with its engine. Borrows `s`. Owner: the caller.
 * Errors: CONFIG, DATA, DIVERGED (as tt_score_pool), MEM. */
tt_err tt_jury_create_local(const tt_pool_scoring *s, tt_jury **out);
void tt_jury_destroy_local(tt_jury **j); /* accepts NULL */

int64_t tt_jury_rows(const tt_jury *j);    /* most rows at a time: a multiple of the unit */
int64_t tt_jury_lists(const tt_jury *j);   /* L of scores.h5 */
int64_t tt_jury_columns(const tt_jury *j); /* C of all committees */

/* Candidates [first, first + rows): row r of x [rows][D], normalised, is candidate first + r.
 *   skip   [rows] 1 = not to be scored: NaN
 *   score  [L][rows]
 *   sums  [units][C + 1] set: of each unit, epistemic_std of every column in the user's units,
 *          then the score (of quota the largest); of rows that are not skipped
 *   most   raised to the largest finite score
 * Errors: MEM, of the engine. */
tt_err tt_jury_score_local(tt_jury *j, int64_t first, int64_t rows, const float *x,
                           const int8_t *skip, float *score, tt_running *sums, double *most);
#endif
