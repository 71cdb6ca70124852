/* score_rows.h — adds predicted chunks of rows to tallies (core/stats/metrics.h); used by score.c.
 * All local. */
#ifndef TT_SCORE_ROWS_H
#define TT_SCORE_ROWS_H
#include "core/engine/engine.h"
#include "io/results/results.h"
#include "src/predict/row_predictor.h"
#include "src/score/row_source.h"

enum { TT_SCORE_CHUNK_ROWS = TT_PREDICTOR_ROWS };

typedef struct tt_scorer {
  const tt_trained_ensemble *model;
  const tt_row_source *source;
  int64_t targets, width; /* K; K q, columns of one ensemble */
  int64_t tally, sums;    /* doubles in one tally; in the sums of a block */
  double *y, *weight;     /* [TT_SCORE_CHUNK_ROWS][T]; [TT_SCORE_CHUNK_ROWS] of the rows */
  double *variance;       /* [TT_SCORE_CHUNK_ROWS][T] of the errors of the labels, or NULL */
  const tt_ensemble_prediction *of; /* of the chunk */
  tt_moments *row;                  /* of one row of one ensemble */
  double *quantity, *latent;        /* [q] of one prediction; before the transform is undone */
  double *part;   /* [7][G] weight, mean, variance of the members, one row and target;
                              * scratch of tt_forecast; mean and variance before the transform is
                              * undone */
  double *errors; /* [K][TT_SCORE_CHUNK_ROWS] sum over members of weight * error */
  double *table;  /* [TT_TEST_VARIABLE_COUNT][rows of this rank][C], or NULL */
  int64_t table_first, table_rows;
} tt_scorer;

/* Fill in sizes and allocate; with `table` also a table of table_rows rows. Errors: MEM. */
tt_err tt_scorer_create(tt_scorer *s, int table);
void tt_scorer_free(tt_scorer *s);

/* Positions in the sums of a block: tally of a member for its target k; for target k of ensemble e,
 * the tally of the ensemble and the tally of the members' weighted errors. */
double *tt_scorer_member_tally(const tt_scorer *s, double *sums, int64_t member, int64_t k);
double *tt_scorer_ensemble_tally(const tt_scorer *s, double *sums, int64_t e, int64_t k);
double *tt_scorer_error_tally(const tt_scorer *s, double *sums, int64_t e, int64_t k);
/* [levels] weight of the rows inside each conformal interval. */
double *tt_scorer_weight_inside(const tt_scorer *s, double *sums, int64_t e, int64_t k);

/* tt_row_options.read_local with a tt_scorer: also reads labels and weights. */
tt_err tt_scorer_read_local(void *scorer, int64_t first, int64_t rows, float *x);
/* Add a chunk, whose rows were read last, to `sums`. Errors: DATA (a label that is invalid for the
 * output). */
tt_err tt_scorer_add_chunk(tt_scorer *s, const tt_row_chunk *chunk, double *sums);
#endif
