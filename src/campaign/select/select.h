/* select.h — stage select: which candidates are asked for. Floor 5. */
#ifndef TT_SELECT_H
#define TT_SELECT_H
#include "core/config/config.h"
#include "core/stats/history.h"
#include "io/campaign/campaign_files.h"
#include "io/data/pool.h"

typedef struct tt_select_args {
  const tt_config *cfg; /* section select, score.ensemble_reduction and score.weights, run.seed */
  const char *scores;   /* pool_scores.h5 */
  tt_pool *pool;
  const tt_used_rows *used_rows;
  int64_t round,
      max_queries;         /* at most so many picks: select.batch, or what is left of stop.labels */
  const tt_scaler *scaler; /* of the model: distances are between normalised inputs */
  const double
      *labelled; /* [count][D] inputs that have labels, user's units: kcenter starts there */
  int64_t labelled_count;
  int64_t ensembles;
  const char *directory; /* where a file STOP may ask for a stop; NULL = nowhere */
  double deadline;       /* as tt_stop_agreed */
} tt_select_args;

/* Collective. Sort the candidates into accurate, candidate, failed by the trust window (quantiles
 * are exact order statistics of all scores: core/stats/selection.h) and choose. The same picks on
 * every rank count: ties go to the lower row number, random draws depend on (seed, round, row)
 * alone. Sets of `round`: accurate, candidate, failed, lower, upper. With quota, candidates are
 * counted by the largest of their scores, and each ensemble chooses its part in turn, in the order
 * of the file, by its own scores among rows nobody has yet.
 *   top         the highest scores
 *   stochastic  the largest tt_gumbel_score; temperature: select.temperature * |median of the
 *               candidates' scores|, that median being 1 if it is 0
 *   kcenter     of the select.prefilter highest, in turn the one furthest from every labelled input
 *               and every pick of the round so far; the highest score where there is neither
 *   penalty     of the same, in turn the largest score * (1 - exp(-(d / select.length_scale)^2)), d
 * to the nearest pick of the round so far; where one of them has a negative score, all are raised
 * by the size of the lowest round(select.random_fraction * most) rows are drawn before that,
 * uniformly from the whole pool, in or out of the window. *out: those by score, in the order
 * chosen, then those drawn. Fewer than `most` picks if there are no more candidates, none if no
 * score is in the window. Two passes over the scores, and two for quantiles, two for stochastic,
 * one for random. Owner of *out: the caller, on all ranks. Errors: DATA (the scores are of another
 * pool or round), NOINPUT, STOPPED (asked to while choosing by kcenter or penalty), IO, MEM. */
tt_err tt_select_queries(tt_comm *c, const tt_select_args *s, tt_round *round, tt_queries **out);

/* The trust window alone, of a pool that nobody is to choose from (the last round). */
tt_err tt_select_window_only(tt_comm *c, const tt_select_args *s, tt_round *round);
#endif
