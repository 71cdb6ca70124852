/* score_rows.h — the part of score.c that looks at rows: predictions of a piece of them, added to
 * tallies (core/stats/metrics.h). Floor 4; local. */
#ifndef TT_SCORE_ROWS_H
#define TT_SCORE_ROWS_H
#include "core/engine/engine.h"
#include "src/predict/row_source.h"

enum { TT_SCORE_CHUNK_ROWS = 256 }; /* rows predicted at a time */
enum { TT_TEST_TABLE_FIELDS = 5 };  /* label, mean, total, aleatoric, epistemic */

typedef struct tt_scorer {
  const tt_trained_ensemble *model;
  const tt_engine_ops *ops;
  const tt_resources *use;
  const tt_row_source *source;
  int64_t targets, width;    /* K; K q columns of one ensemble */
  int64_t tally, sums;       /* doubles of one tally; of a block's sums */
  float *x;                  /* [PIECE][D] */
  double *y;                 /* [PIECE][T] */
  float *members;            /* [G][2][K q][rows of the piece] */
  tt_moments *moments, *row; /* of the piece, and of one row of one ensemble */
  double *quantity;          /* [q] of one forecast */
  double *part;              /* [3][G] share, mean, variance of the members in one row and target */
  double *errors;            /* [K][PIECE] sum over members of share * error */
  double *table;             /* [5][rows of this rank][C], or NULL */
  int64_t table_first, table_rows;
} tt_scorer;

/* Fill in sizes and make room, with a table of table_rows rows if asked for. Errors: MEM. */
tt_err tt_scorer_create(tt_scorer *s, int table);
void tt_scorer_free(tt_scorer *s);

/* Places in a block's sums: a member's tally of its target k; of target k of ensemble e, the
 * ensemble's tally and the one of its members' summed errors. */
double *tt_scorer_member_tally(const tt_scorer *s, double *sums, int64_t member, int64_t k);
double *tt_scorer_ensemble_tally(const tt_scorer *s, double *sums, int64_t e, int64_t k);
double *tt_scorer_error_tally(const tt_scorer *s, double *sums, int64_t e, int64_t k);
/* Rows inside each conformal interval: [levels]. */
double *tt_scorer_rows_inside(const tt_scorer *s, double *sums, int64_t e, int64_t k);

/* Add rows [first, first + rows), at most TT_SCORE_CHUNK_ROWS, to `sums`. Errors: of the source, of
 * the engine; DATA (a label that the output cannot say). */
tt_err tt_scorer_add_chunk(tt_scorer *s, int64_t first, int64_t rows, double *sums);
#endif
