/* score_pool.h — stage score: the model's word on every candidate, streamed. Floor 5. */
#ifndef TT_SCORE_POOL_H
#define TT_SCORE_POOL_H
#include "mpi/comm.h"
#include "src/campaign/pool/pool_scorer.h"

/* Before anything is trained: whether score.target_weights are as many as each ensemble learns
 * targets; `targets` are those of the data. Local. Errors: CONFIG. */
tt_err tt_score_pool_check_local(const tt_config *cfg, int64_t targets);

/* Collective. Every rank scores its own part of the pool in pieces and writes pool_scores.h5;
 * memory O(chunk). The same bits for every rank count: a score depends on its row alone. Sets of
 * `round`: pool (candidates scored), score_mean, score_max (of quota: of the largest of each row;
 * over finite scores, NaN without), and spread[C]; sums go in fixed blocks of rows. Members that
 * diverged have no share. Feeds the watchdog. Errors: STOPPED (asked to; nothing was written), DATA
 * (inputs that are not finite; a score that this model's output has not: section score is to
 * change; a target without any label to be better than; other ensembles than the file's), CONFIG
 * (tt_score_pool_check_local), DIVERGED (an ensemble without a sound member), CANTCREAT, IO, MEM.
 */
tt_err tt_score_pool(tt_comm *c, const tt_score_pool_args *s, tt_round *round);
#endif
