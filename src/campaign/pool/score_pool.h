/* score_pool.h — stage score: score every candidate of the pool, in pieces. */
#ifndef TT_SCORE_POOL_H
#define TT_SCORE_POOL_H
#include "mpi/comm.h"
#include "src/campaign/pool/pool_scorer.h"

/* Check that score.target_weights has one number for each target of every ensemble. Called before
 * training.
 *   targets  number of target columns of the data
 * Local. Errors: CONFIG. */
tt_err tt_score_pool_check_local(const tt_config *cfg, int64_t targets);

/* Collective. Every rank scores its own part of the pool in pieces and writes pool_scores.h5;
 * memory O(piece). Bit-identical for every number of ranks: a score depends on its row alone, and
 * sums are added in fixed blocks of rows. Sets in `round`: pool (candidates scored), duplicate,
 * score_mean, score_max (over finite scores, NaN if there are none; with quota: of the largest
 * score of each row), spread[C], and pool_hash (over all rows, also those that are not scored).
 * Members that diverged have weight 0. Sends the heartbeat of the watchdog. Errors: STOPPED (stop
 * request; no file is written), DATA (inputs that are not finite; the acquisition does not support
 * the output of the model; a target without a label, where the acquisition needs the best one; the
 * ensembles of the model differ from those of the file), CONFIG (tt_score_pool_check_local),
 * DIVERGED (all members of an ensemble diverged), CANTCREAT, IO, MEM. */
tt_err tt_score_pool(tt_comm *c, const tt_score_pool_args *s, tt_round *round);

/* Collective. The pool_hash that tt_score_pool would set, without scores or files. Errors: STOPPED,
 * DATA (inputs that are not finite), IO, MEM. */
tt_err tt_score_pool_hash(tt_comm *c, const tt_score_pool_args *s, uint64_t *hash);
#endif
