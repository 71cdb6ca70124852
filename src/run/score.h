/* score.h — how good a committee is on labelled rows: per member and for the ensembles. Floor 4.
 *
 * Errors are taken in the user's units. Sums run over fixed blocks of rows, in row order, whatever
 * the number of ranks. Member NLL: Gaussian with its own mean and variance (NaN for output mean).
 * Ensemble: one Gaussian with the mixture's mean and variance (Lakshminarayanan et al. 2017). */
#ifndef TT_SCORE_H
#define TT_SCORE_H
#include "engine/engine.h"
#include "io/results_io.h"
#include "mpi/comm.h"

/* Where the rows come from. Local calls, each row asked for by one rank.
 *   x  [count][D] normalised;  y  [count][T] in the user's units, NaN = unlabelled, T columns of
 * the committee's target table */
typedef struct tt_row_source {
  int64_t rows;
  tt_err (*read_local)(void *from, int64_t first, int64_t count, float *x, double *y);
  void *from;
} tt_row_source;

/* Collective. Score all rows of the source. test may be NULL; else filled as results_io.h says
 * (row numbers excepted), owned by the caller, tt_test_table_free. Errors: MEM, and of the source.
 */
tt_err tt_score(tt_comm *c, const tt_committee *committee, const tt_engine_ops *ops,
                const tt_resources *use, const tt_row_source *source, tt_scores **out,
                tt_test_table *test);
void tt_test_table_free(tt_test_table *t);

/* The ensembles' scores as a table for people, on rank 0's standard output. Local. */
void tt_score_print_local(const tt_comm *c, const tt_committee *committee, const tt_scores *s);
#endif
