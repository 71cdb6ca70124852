/* score.h — scores of a trained ensemble on labeled rows, per member and per ensemble.
 *
 * Metrics are those of core/stats/metrics.h, in the user's units, with the weights of the rows.
 * Sums run over fixed blocks of rows in row order, so that they do not depend on the number of
 * ranks. */
#ifndef TT_SCORE_H
#define TT_SCORE_H
#include "core/engine/engine.h"
#include "io/model/model_file.h"
#include "io/results/results.h"
#include "src/score/row_source.h"

/* Collective. Score all rows of the source.
 *   shard [networks] members of this rank (src/predict/row_predictor.h); NULL: all ranks have all
 *   out   the same on all ranks; owner: the caller, tt_scores_destroy
 *   test  filled on rank 0 as in io/results/results.h, except row numbers; owner: the caller,
 *         tt_test_predictions_free. May be NULL
 * Errors: MEM; of the source; of the engine; DATA (a label that is invalid for the output; the
 * message names row and value). */
tt_err tt_score(tt_comm *c, const tt_trained_ensemble *trained, const tt_model_shard *shard,
                const tt_engine_ops *ops, const tt_resources *use, const tt_row_source *source,
                tt_scores **out, tt_test_predictions *test);

/* Collective. Set s->baseline: the rmse of core/stats/baselines.h, trained on the training rows of
 * each ensemble and scored on the test rows of `d`, for at most 8 targets that are numbers, without
 * weights of rows. Errors: MEM. */
tt_err tt_score_baselines(tt_comm *c, const tt_dataset *d, const tt_trained_ensemble *m,
                          tt_scores *s);

/* Bytes that it allocates on rank 0 for `ensembles` ensembles with so many rows. Local. */
double tt_score_baseline_bytes(const tt_model *m, int64_t ensembles, int64_t train, int64_t test);

/* Bytes that tt_score allocates on a rank, for the plan of memory, to a few percent. Local.
 *   members, ensembles, width  of the trained ensemble; columns per ensemble
 *   table                      1 = with the table of predictions */
double tt_score_bytes(const tt_model *m, int64_t members, int64_t ensembles, int64_t width,
                      int64_t rows, int ranks, int table);

/* Print the ensembles' scores on rank 0's standard output: for each target a title and a table of
 * at most 80 columns. Local.
 *   out_of_bag  1: they are of tt_out_of_bag */
void tt_score_print_local(const tt_comm *comm, const tt_trained_ensemble *c, const tt_scores *s,
                          int out_of_bag);
/* Print the scores of all trained ensembles as one JSON object (docs/json.md). Local. Errors: MEM.
 *   part  [all->count] */
tt_err tt_score_print_json_local(const tt_comm *c, const tt_trained_ensembles *all,
                                 const tt_scores *const *part);
#endif
