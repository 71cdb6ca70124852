/* score.h — how good a committee is on labelled rows: per member and for the ensembles. Floor 4.
 *
 * Scores are those of core/stats/metrics.h, in the user's units. Sums run over fixed blocks of
 * rows, in row order, whatever the number of ranks. */
#ifndef TT_SCORE_H
#define TT_SCORE_H
#include "core/engine/engine.h"
#include "io/results/results.h"
#include "mpi/comm.h"
#include "src/predict/row_source.h"

/* Collective. Score all rows of the source. test may be NULL; else filled as io/results/results.h
 * says (row numbers excepted), owned by the caller, tt_test_predictions_free. Errors: MEM, and of
 * the source; DATA (a label that the output cannot say: row, value). */
tt_err tt_score(tt_comm *c, const tt_trained_ensemble *committee, const tt_engine_ops *ops,
                const tt_resources *use, const tt_row_source *source, tt_scores **out,
                tt_test_predictions *test);

/* The ensembles' scores as a table for people, on rank 0's standard output. Local. */
void tt_score_print_local(const tt_comm *c, const tt_trained_ensemble *committee,
                          const tt_scores *s);
/* The same of tt_out_of_bag. */
void tt_score_print_oob_local(const tt_comm *c, const tt_trained_ensemble *committee,
                              const tt_scores *s);
#endif
