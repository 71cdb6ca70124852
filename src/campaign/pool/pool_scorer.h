/* pool_scorer.h — a model's predictions of some candidates as scores. Floor 5; local. Private to
 * score_pool.c. */
#ifndef TT_JURY_H
#define TT_JURY_H
#include "src/campaign/pool/score_pool.h"

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
