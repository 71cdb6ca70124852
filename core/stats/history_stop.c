/* history_stop.c — when a campaign ends; see history.h. */
#include "core/stats/history.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

const char *const tt_stop_rule_name[] = {TT_STOP_RULES(TT_ROW_NAME) NULL};
static const char *const rule_option[] = {
#define X(name, option, meaning) option,
    TT_STOP_RULES(X)
#undef X
};

const char *tt_history_end_cause(const tt_history *h)
{
  const tt_round *r = &h->round[h->rounds - 1];
  if (h->ended != TT_STOP_RULE_candidates) return rule_option[h->ended];
  if (r->accurate > 0) return r->failed > 0 ? rule_option[h->ended] : "select.lower";
  return r->failed > 0 ? "select.upper" : "no row of the pool is left";
}

typedef struct stop_check {
  const tt_history *h;
  const tt_round *last;
  const tt_config *cfg;
  char *reason;
  size_t capacity;
} stop_check;

static int holds_rounds(const stop_check *q)
{
  int64_t done = q->h->rounds - 1; /* the last round has no labels yet */
  if (done < q->cfg->stop_rounds) return 0;
  snprintf(q->reason, q->capacity, "%" PRId64 " round%s of labels %s done, stop.rounds is %" PRId64,
           done, done == 1 ? "" : "s", done == 1 ? "is" : "are", q->cfg->stop_rounds);
  return 1;
}

static int holds_labels(const stop_check *q)
{
  if (q->cfg->stop_labels < 0 || q->last->labels < q->cfg->stop_labels) return 0;
  snprintf(q->reason, q->capacity, "there are %" PRId64 " labeled rows, stop.labels is %" PRId64,
           q->last->labels, q->cfg->stop_labels);
  return 1;
}

static int holds_wall_time(const stop_check *q)
{
  double seconds = 0.0;
  if (q->cfg->stop_wall_time < 0.0) return 0;
  for (int64_t i = 0; i < q->h->rounds; i++)
    for (int k = 0; k < TT_STAGE_COUNT; k++) seconds += q->h->round[i].seconds[k];
  if (!(seconds >= q->cfg->stop_wall_time)) return 0;
  snprintf(q->reason, q->capacity, "the stages took %.0f s, stop.wall_time is %.0f s", seconds,
           q->cfg->stop_wall_time);
  return 1;
}

/* A pool without candidates does not count as accurate: rule candidates handles it. */
static int holds_accurate(const stop_check *q)
{
  int64_t n = q->cfg->stop_accurate_rounds;
  if (!*q->cfg->select_lower || n < 1 || q->h->rounds < n) return 0;
  for (const tt_round *r = q->last; r > q->last - n; r--)
    if (r->pool == 0 || (double)r->accurate < q->cfg->stop_accurate_fraction * (double)r->pool)
      return 0;
  snprintf(q->reason, q->capacity,
           "%.2f %% of the pool is accurate, and was at least stop.accurate_fraction, %g %%, for "
           "%" PRId64 " round%s",
           100.0 * (double)q->last->accurate / (double)q->last->pool,
           100.0 * q->cfg->stop_accurate_fraction, n, n == 1 ? "" : "s");
  return 1;
}

static int holds_candidates(const stop_check *q)
{
  const tt_round *r = q->last;
  if (r->candidate > 0) return 0;
  if (r->pool == 0)
    snprintf(q->reason, q->capacity,
             "no row of the pool is left: each is queried, excluded, or has the inputs of a "
             "labeled row");
  else
    snprintf(q->reason, q->capacity,
             "none of the %" PRId64 " candidates is left to query: %" PRId64
             " are accurate (select.lower), %" PRId64 " failed (select.upper)",
             r->pool, r->accurate, r->failed);
  return 1;
}

static double relative_error(const tt_round *r, const tt_round *unit, int64_t column)
{
  if (isfinite(unit->rmse[column])) return r->rmse[column] / unit->rmse[column];
  return r->nll[column] / unit->nll[column];
}

double tt_history_error(const tt_history *h, int64_t round, const tt_history *unit)
{
  double sum = 0.0;
  int64_t n = 0;
  for (int64_t c = 0; c < h->columns; c++) {
    double part = relative_error(&h->round[round - 1], &unit->round[0], c);
    if (!isfinite(part)) continue;
    sum += part;
    n++;
  }
  return n ? sum / (double)n : NAN;
}

static int holds_plateau(const stop_check *q)
{
  double best = NAN;
  int64_t best_round = 0;
  if (q->cfg->stop_plateau_rounds < 1) return 0;
  for (int64_t i = 0; i < q->h->rounds; i++) {
    double now = tt_history_error(q->h, i + 1, q->h);
    if (isnan(now) || (!isnan(best) && !(now < best * (1.0 - q->cfg->stop_plateau_delta))))
      continue;
    best = now;
    best_round = i;
  }
  if (isnan(best) || q->h->rounds - 1 - best_round < q->cfg->stop_plateau_rounds) return 0;
  snprintf(q->reason, q->capacity,
           "the test error has not improved by %g %% since round %" PRId64
           " (then %.4g of the first round's, now %.4g); stop.plateau_rounds is %" PRId64,
           100.0 * q->cfg->stop_plateau_delta, best_round + 1, best,
           tt_history_error(q->h, q->h->rounds, q->h), q->cfg->stop_plateau_rounds);
  return 1;
}

static int holds_change(const stop_check *q)
{
  int64_t n = q->cfg->stop_change_rounds;
  if (!(q->cfg->stop_change > 0.0) || n < 1 || q->h->rounds < n) return 0;
  for (const tt_round *r = q->last; r > q->last - n; r--)
    if (!(r->change < q->cfg->stop_change)) return 0;
  snprintf(q->reason, q->capacity,
           "the test predictions changed by %.3g, and by less than stop.change, %g, for %" PRId64
           " round%s",
           q->last->change, q->cfg->stop_change, n, n == 1 ? "" : "s");
  return 1;
}

static int holds_error(const stop_check *q)
{
  const tt_round *r = q->last;
  if (!(q->cfg->stop_error > 0.0) || !(r->error + r->error_se < q->cfg->stop_error)) return 0;
  snprintf(q->reason, q->capacity,
           "the rmse of %" PRId64 " rows drawn at random is %.4g, and with its standard error, "
           "%.2g, below stop.error, %g",
           r->error_rows, r->error, r->error_se, q->cfg->stop_error);
  return 1;
}

static int first_rule(const stop_check *q, int scored)
{
  static int (*const holds[])(const stop_check *) = {
#define X(name, option, meaning) holds_##name,
      TT_STOP_RULES(X)
#undef X
  };
  for (int i = 0; i < TT_STOP_RULE_COUNT && q->h->rounds > 0; i++) {
    int needs_scores = i == TT_STOP_RULE_accurate || i == TT_STOP_RULE_candidates;
    if ((scored || !needs_scores) && holds[i](q)) return i;
  }
  if (q->capacity > 0) *q->reason = '\0';
  return -1;
}

int tt_history_should_stop(const tt_history *h, const tt_config *cfg, int scored, char *reason,
                           int size)
{
  const tt_round *last = h->rounds ? &h->round[h->rounds - 1] : NULL;
  return first_rule(&(stop_check){h, last, cfg, reason, (size_t)size}, scored);
}
