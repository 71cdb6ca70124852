/* score.h — scores of a trained ensemble on labelled rows, per member and per ensemble.
 *
 * Metrics are those of core/stats/metrics.h, in the user's units. Sums run over fixed blocks of
 * rows in row order, so that they do not depend on the number of ranks. */
#ifndef TT_SCORE_H
#define TT_SCORE_H
#include "core/engine/engine.h"
#include "io/results/results.h"
#include "mpi/comm.h"
#include "src/predict/row_source.h"

/* Collective. Score all rows of the source.
 *   out   the same on all ranks; owner: the caller, tt_scores_destroy
 *   test  filled on rank 0 as in io/results/results.h, except row numbers; owner: the caller,
 *         tt_test_predictions_free. May be NULL
 * Errors: MEM; of the source; of the engine; DATA (a label that is invalid for the output; the
 * message names row and value). */
tt_err tt_score(tt_comm *c, const tt_trained_ensemble *trained, const tt_engine_ops *ops,
                const tt_resources *use, const tt_row_source *source, tt_scores **out,
                tt_test_predictions *test);

/* Print the ensembles' scores as a table on rank 0's standard output. Local. */
void tt_score_print_local(const tt_comm *c, const tt_trained_ensemble *trained, const tt_scores *s);
/* Print the scores of tt_out_of_bag, one line per target. Local. */
void tt_score_print_oob_local(const tt_comm *c, const tt_trained_ensemble *trained,
                              const tt_scores *s);
#endif
