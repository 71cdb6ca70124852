/* select.h — stage select: which candidates are asked for. Floor 5. */
#ifndef TT_SELECT_H
#define TT_SELECT_H
#include "io/campaign_io.h"
#include "io/pool_io.h"
#include "spec/config.h"
#include "spec/history.h"

typedef struct tt_selection {
  const tt_config *cfg; /* section select, score.combine and score.weights, run.seed */
  const char *scores;   /* scores.h5 */
  tt_pool *pool;
  const tt_taken *taken;
  int64_t round, most;     /* at most so many picks: select.batch, or what is left of stop.labels */
  const tt_scaler *scaler; /* of the model: distances are between normalised inputs */
  const double
      *labelled; /* [count][D] inputs that have labels, user's units: kcenter starts there */
  int64_t labelled_count;
  int64_t ensembles;
} tt_selection;

/* Collective. Sort the candidates into accurate, candidate, failed by the trust window (quantiles
 * are exact order statistics of all scores) and choose. The same picks on every rank count: ties go
 * to the lower row number, random draws depend on (seed, round, row) alone. Sets of `round`:
 * accurate, candidate, failed, lower, upper. With quota, candidates are counted by the largest of
 * their scores, and each ensemble chooses its part in turn, in the order of the file, among rows
 * nobody has yet.
 * Fewer than `most` picks, down to none, if there are no more candidates.
 * Owner of *out: the caller, on all ranks. Errors: DATA (the scores are of another pool), IO, MEM.
 */
tt_err tt_select_picks(tt_comm *c, const tt_selection *s, tt_round *round, tt_picks **out);

/* The trust window alone, of a pool that nobody is to choose from (the last round). */
tt_err tt_select_window(tt_comm *c, const tt_selection *s, tt_round *round);
#endif
