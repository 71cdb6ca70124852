/* select.h — stage select: choose the candidates to label (the queries). */
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
  int64_t round;
  int64_t max_queries;     /* select.batch, or the labels that stop.labels still allows; and */
  int64_t drawn;           /* rows that are drawn besides, for stop.error */
  const tt_scaler *scaler; /* of the model: distances are between normalized inputs */
  const double *labeled;   /* [labeled_count][D] labeled inputs, user's units: the first centers
                              of kcenter */
  int64_t labeled_count;
  const char *directory; /* a file STOP in it requests a stop; NULL = no such file */
  double deadline;       /* as in tt_stop_agreed */
} tt_select_args;

/* Collective. Classify the candidates as accurate, candidate or failed by the trust window
 * (quantiles are exact order statistics of all scores: core/stats/selection.h), then select the
 * queries. The same queries for every number of ranks: ties go to the lower row number, random
 * draws depend on (seed, round, row) alone. Sets in `round`: accurate, candidate, failed, lower,
 * upper. With quota, a row is classified by the largest of its scores, and each ensemble selects
 * its part in turn, in the order of the file, by its own scores among the rows not selected yet.
 *   top         the highest scores
 *   stochastic  the largest tt_gumbel_score; temperature: select.temperature * |median of the
 *               candidates' scores|, or select.temperature if the median is 0
 *   kcenter     of the select.prefilter highest scores, repeatedly the row furthest from every
 *               labeled input and every query of the round so far; first the highest score if
 *               there is neither
 *   penalty     of the same rows, repeatedly the one with the largest
 *               score * (1 - exp(-(d / select.length_scale)^2)), where d is the distance to the
 *               nearest query of the round so far; if a score is negative, the lowest one is
 *               subtracted from all scores first
 * Before that, round(select.random_fraction * max_queries) rows, and s->drawn more, are drawn
 * uniformly from the whole pool, inside or outside the window. *out: the rows selected by score, in
 * the order selected, then the random ones; no two of them have the same inputs. Fewer if there are
 * not enough such candidates, none if no score is in the window. Two passes over the scores, plus
 * two for quantiles, two for stochastic, one for random. Owner of *out: the caller, on all ranks.
 * Errors: DATA (the scores are of another pool or round), NOINPUT, STOPPED (stop request during
 * kcenter or penalty), IO, MEM. */
tt_err tt_select_queries(tt_comm *c, const tt_select_args *s, tt_round *round, tt_queries **out);

/* Collective. Apply the trust window alone: set the same fields of `round`, select no query. */
tt_err tt_select_window_only(tt_comm *c, const tt_select_args *s, tt_round *round);
#endif
