/* search.c — see search.h. Start reading at tt_search_advance. */
#include "src/train/search.h"

#include "core/base/clock.h"
#include "core/base/int.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { LEAST = 5, FIRST_WAVE = 6 }; /* trials: that go on, if there are as many; that begin first */
static const double used_time = 0.8; /* of search.time: predictions and files need the rest */

/* Where a member, or a trial, is. */
typedef struct standing {
  double score[TT_RUNGS]; /* lowest validation loss until the end of a rung; NaN: not there yet */
  double rung;            /* at which it trains or has ended; -1: not begun */
  double units;           /* rung units done */
  double stopped, diverged, training;
} standing;

/* The trials of all ensembles: those of an ensemble are consecutive. */
typedef struct trials {
  int64_t count;
  standing *at; /* [count] */
} trials;

static int64_t unit_of(const tt_cohort *c) { return c->max_epochs / TT_RUNG_UNITS; }

static standing standing_of(const tt_cohort *c, const tt_state *s, int64_t i)
{
  standing x = {.rung = -1.0};
  int64_t unit = unit_of(c), epoch = TT_FIELD(s, epoch)[i];
  int8_t status = TT_FIELD(s, status)[i];
  const float *loss = TT_FIELD(s, loss_validation) + i * s->epochs;
  double best = INFINITY;
  x.training = status == TT_STATUS_training;
  x.stopped = status == TT_STATUS_early_stopped;
  x.diverged = status == TT_STATUS_diverged;
  x.units = (double)epoch / (double)unit;
  for (int64_t rung = 0, n = 0; rung < TT_RUNGS; rung++) {
    int64_t end = tt_rung_end(unit, rung), before = tt_rung_end(unit, rung - 1);
    for (; n < end && n < epoch; n++) best = fmin(best, (double)loss[n]);
    x.score[rung] = epoch > before && isfinite(best) ? best : (double)NAN;
    int here = x.training ? epoch >= before : epoch > before;
    if (here && (epoch > 0 || TT_FIELD(s, batch)[i] > 0)) x.rung = (double)rung;
  }
  return x;
}

/* Of a trial, from those of its members. */
static standing join(const standing *member, int64_t count)
{
  standing x = member[0];
  for (int64_t i = 1; i < count; i++) {
    x.rung = fmax(x.rung, member[i].rung);
    x.units = fmax(x.units, member[i].units);
    x.stopped = fmax(x.stopped, member[i].stopped);
    x.diverged = fmax(x.diverged, member[i].diverged);
    x.training = fmax(x.training, member[i].training);
    for (int k = 0; k < TT_RUNGS; k++) x.score[k] += member[i].score[k];
  }
  for (int k = 0; k < TT_RUNGS; k++)
    x.score[k] = x.diverged > 0.0 ? (double)NAN : x.score[k] / (double)count;
  return x;
}

/* Collective. The standings of all trials; the states of the shards are up to date. */
static tt_err gather(tt_comm *c, const tt_shards *all, trials *t)
{
  int64_t most = 0;
  standing *mine = NULL, *member = NULL;
  for (int64_t i = 0; i < all->count; i++)
    if (all->at[i].cohort->members > most) most = all->at[i].cohort->members;
  t->count = all->count;
  tt_err e = TT_ALLOC(t->at, t->count);
  if (!e) e = TT_ALLOC(mine, most);
  if (!e) e = TT_ALLOC(member, most);
  e = tt_agree(c, e);
  for (int64_t i = 0; !e && i < all->count; i++) {
    const tt_shard *shard = &all->at[i];
    for (int64_t k = 0; k < shard->slice.count; k++)
      mine[k] = standing_of(shard->cohort, shard->state, k);
    tt_allgatherv(c, mine, shard->slice.count * (int64_t)sizeof *mine, member, NULL);
    t->at[i] = join(member, shard->cohort->members);
  }
  tt_free_all(&mine, &member);
  return e;
}

static tt_err save_all(tt_comm *c, tt_shards *all)
{
  tt_err e = TT_OK;
  for (int64_t i = 0; !e && i < all->count; i++) e = tt_shard_save_local(&all->at[i]);
  return tt_agree(c, e);
}

/* The members of a trial here train until the end of this rung; its engine begins anew, because it
 * may have a copy of the number of epochs. */
static tt_err set_rung_local(tt_cohort *c, tt_shard *shard, int64_t rung)
{
  for (int64_t i = 0; i < c->members; i++)
    c->member[i].hyper.epochs = (int32_t)tt_rung_end(unit_of(c), rung);
  return rung > 0 ? tt_shard_restart_local(shard) : TT_OK;
}

/* Replace one status by another. */
static void change_status(tt_shard *shard, int8_t old, int8_t next)
{
  for (int64_t i = 0; i < shard->slice.count; i++)
    if (TT_FIELD(shard->state, status)[i] == old) TT_FIELD(shard->state, status)[i] = next;
}

static tt_err stop_local(tt_shard *shard)
{
  shard->held = 0;
  change_status(shard, TT_STATUS_training, TT_STATUS_early_stopped);
  change_status(shard, TT_STATUS_finished, TT_STATUS_early_stopped);
  return tt_shard_load_local(shard);
}

static tt_err promote_local(tt_cohort *c, tt_shard *shard, int64_t rung)
{
  change_status(shard, TT_STATUS_finished, TT_STATUS_training);
  return set_rung_local(c, shard, rung);
}

/* Rank 0's clock, for all ranks. */
static double now(tt_comm *c)
{
  double seconds = tt_monotonic_seconds();
  tt_bcast(c, &seconds, sizeof seconds);
  return seconds;
}

/* So many of `count` trials go on after a rung. */
static int64_t next_count(int64_t count)
{
  int64_t least = count < LEAST ? count : LEAST, part = tt_ceil_div(count, TT_RUNG_FACTOR);
  return part > least ? part : least;
}

/* Rung units that `count` trials of an ensemble train from rung `rung` to the end. */
static double units_from(int64_t count, int64_t rung)
{
  double sum = 0.0;
  for (; rung < TT_RUNGS; rung++, count = next_count(count))
    sum += (double)(count * tt_rung_length(1, rung));
  return sum;
}

/* Units that can be trained until the end, at the speed of this start; infinite without limit. */
static double units_in_time(tt_comm *c, const tt_search *s, const trials *t, double *done)
{
  *done = 0.0;
  for (int64_t i = 0; i < t->count; i++) *done += t->at[i].units;
  if (s->end <= 0.0) return INFINITY;
  double time = now(c), speed = (*done - s->units) / fmax(time - s->started, 1e-3);
  return speed * fmax(s->end - time, 0.0);
}

/* Of [first, first + n) those that may go on, at the same rung; best first, for equal scores the
 * earlier one. Returns their number.
 *   order  [n] */
static int64_t rank_trials(const trials *t, int64_t first, int64_t n, int64_t *order)
{
  int64_t count = 0;
  for (int64_t i = first; i < first + n; i++) {
    const standing *x = &t->at[i];
    int64_t place = count;
    if (x->stopped > 0.0 || x->rung < 0.0 || isnan(x->score[(int)x->rung])) continue;
    for (count++; place > 0; place--) {
      const standing *other = &t->at[order[place - 1]];
      if (other->score[(int)other->rung] <= x->score[(int)x->rung]) break;
      order[place] = order[place - 1];
    }
    order[place] = i;
  }
  return count;
}

static void log_rung(const tt_shards *all, const trials *t, const int64_t *order, int64_t before,
                     int64_t keep)
{
  const tt_shard *best = &all->at[order[0]];
  int rung = (int)t->at[order[0]].rung;
  char next[64] = "the search ends";
  if (keep) snprintf(next, sizeof next, "%" PRId64 " go on", keep);
  tt_log_root(TT_LOG_INFO,
              "ensemble %s, rung %d of %d: %" PRId64 " trial%s, %s; best %s, validation loss %.5g",
              best->cohort->ensemble->name, rung + 1, TT_RUNGS, before, tt_plural(before), next,
              *best->cohort->label ? best->cohort->label : "the first",
              t->at[order[0]].score[rung]);
}

/* The rung of the trials [first, first + n) of an ensemble is done: stop the worse ones. */
static tt_err end_rung_local(const tt_job *job, tt_shards *all, const trials *t, int64_t first,
                             int64_t n, double units, int64_t *order)
{
  int64_t before = rank_trials(t, first, n, order), keep = next_count(before);
  if (!before) return TT_OK;
  int64_t rung = (int64_t)t->at[order[0]].rung;
  while (keep > 0 && units_from(keep, rung + 1) > units) keep--;
  if (rung + 1 == TT_RUNGS) keep = 0;
  log_rung(all, t, order, before, keep);
  if (!keep) return TT_OK; /* the end of the search */
  for (int64_t k = 0; k < before; k++) {
    int64_t i = order[k];
    TT_TRY(k < keep ? promote_local(job->cohorts.at[i], &all->at[i], rung + 1)
                    : stop_local(&all->at[i]));
  }
  for (int64_t i = first; i < first + n; i++) /* members of trials with one that diverged */
    if (t->at[i].diverged > 0.0) TT_TRY(stop_local(&all->at[i]));
  return TT_OK;
}

static int64_t ensemble_trials(const tt_job *job, int64_t first)
{
  return tt_cohorts_joined(&job->cohorts, first);
}

/* Trials of each ensemble that have begun, and all of them. */
static int64_t begun_trials(const tt_job *job, const tt_shards *all, int64_t *trials_of_each)
{
  int64_t n = ensemble_trials(job, 0), begun = 0;
  for (int64_t i = 0; i < n; i++) begun += !all->at[i].held;
  *trials_of_each = n;
  return begun;
}

/* While the first rung has trials that wait: let more begin, as many again as have begun, up to as
 * many as can come to the end; *more = 0 and the others stop if that is reached. */
static tt_err begin_more_local(const tt_job *job, tt_shards *all, double done, double units,
                               int *more)
{
  int64_t each, begun = begun_trials(job, all, &each), ensembles = 0, fit = begun;
  *more = 0;
  if (begun == each) return TT_OK;
  for (int64_t i = 0; i < all->count; i += ensemble_trials(job, i)) ensembles++;
  while (fit < each && fit < 2 * begun &&
         (double)ensembles * units_from(fit + 1, 0) <= done + units)
    fit++;
  *more = fit > begun;
  if (!*more)
    tt_log_root(TT_LOG_INFO,
                "search: %" PRId64 " of %" PRId64
                " trials begin, the others do not fit into search.time",
                begun, each);
  for (int64_t i = 0; i < all->count; i++) {
    int64_t first = i;
    while (job->cohorts.at[first]->joined) first--;
    if (!all->at[i].held) continue;
    if (i - first < fit)
      all->at[i].held = 0;
    else if (!*more)
      TT_TRY(stop_local(&all->at[i]));
  }
  return TT_OK;
}

static tt_err advance_local(const tt_job *job, tt_shards *all, const trials *t, double done,
                            double units)
{
  int64_t *order = NULL;
  int more = 0;
  int64_t ensembles = 0;
  TT_TRY(begin_more_local(job, all, done, units, &more));
  if (more) return TT_OK;
  for (int64_t i = 0; i < all->count; i += ensemble_trials(job, i)) ensembles++;
  TT_TRY(TT_ALLOC(order, all->count));
  tt_err e = TT_OK;
  for (int64_t i = 0, n; !e && i < all->count; i += n) {
    n = ensemble_trials(job, i);
    e = end_rung_local(job, all, t, i, n, units / (double)ensembles, order);
  }
  tt_free(order);
  return e;
}

tt_err tt_search_advance(tt_comm *c, const tt_job *job, tt_shards *all, const tt_search *s)
{
  trials t = {0};
  double done = 0.0, units = INFINITY;
  tt_err e = save_all(c, all);
  if (!e) e = gather(c, all, &t);
  if (!e) units = units_in_time(c, s, &t, &done);
  if (!e) e = tt_agree(c, advance_local(job, all, &t, done, units));
  tt_free(t.at);
  return e;
}

/* Trials of a checkpoint go on at their rung; the others wait, if the time is limited. */
static tt_err begin_local(const tt_job *job, tt_shards *all, const trials *t, const tt_search *s)
{
  for (int64_t i = 0, number = 0; i < all->count; i++, number++) {
    const standing *x = &t->at[i];
    if (!job->cohorts.at[i]->joined) number = 0;
    if (x->rung > 0.0 && !(x->stopped > 0.0))
      TT_TRY(set_rung_local(job->cohorts.at[i], &all->at[i], (int64_t)x->rung));
    all->at[i].held = s->end > 0.0 && x->rung < 0.0 && x->training > 0.0 && number >= FIRST_WAVE;
  }
  return TT_OK;
}

tt_err tt_search_begin(tt_comm *c, const tt_job *job, tt_shards *all, double started, tt_search *s)
{
  trials t = {0};
  double limit = job->cfg->search_time;
  *s = (tt_search){.active = tt_config_searches(job->cfg), .started = tt_monotonic_seconds()};
  if (!s->active) return TT_OK;
  if (limit > 0.0) s->end = started + used_time * limit;
  tt_err e = save_all(c, all);
  if (!e) e = gather(c, all, &t);
  for (int64_t i = 0; !e && i < t.count; i++) s->units += t.at[i].units;
  if (!e) e = tt_agree(c, begin_local(job, all, &t, s));
  tt_free(t.at);
  return e;
}

/* The trial of [first, first + n) that trains on after the end of the time, because none has a
 * score yet; -1: none. */
static int64_t first_without_score(const trials *t, int64_t first, int64_t n)
{
  int64_t found = -1;
  for (int64_t i = first + n - 1; i >= first; i--) {
    if (!isnan(t->at[i].score[0])) return -1;
    if (t->at[i].training > 0.0 && !(t->at[i].diverged > 0.0)) found = i;
  }
  return found;
}

static tt_err stop_all_local(const tt_job *job, tt_shards *all, const trials *t, int *stopped)
{
  *stopped = 1;
  for (int64_t first = 0, n; first < all->count; first += n) {
    n = ensemble_trials(job, first);
    int64_t goes_on = first_without_score(t, first, n);
    if (goes_on >= 0) all->at[goes_on].held = *stopped = 0;
    for (int64_t i = first; i < first + n; i++)
      if (goes_on < 0 || (i != goes_on && t->at[i].training > 0.0)) TT_TRY(stop_local(&all->at[i]));
  }
  return TT_OK;
}

tt_err tt_search_stop_in_time(tt_comm *c, const tt_job *job, tt_shards *all, const tt_search *s,
                              int *stopped)
{
  trials t = {0};
  *stopped = 0;
  if (!s->active || s->end <= 0.0 || now(c) < s->end) return TT_OK;
  tt_err e = save_all(c, all);
  if (!e) e = gather(c, all, &t);
  if (!e) e = tt_agree(c, stop_all_local(job, all, &t, stopped));
  if (*stopped)
    tt_log_root(TT_LOG_INFO, "search: the time is over; members stop with their best weights");
  tt_free(t.at);
  return e;
}

/* The table of the trials, without weights. */
static tt_err list_local(const tt_job *job, const trials *t, tt_trials *out)
{
  const tt_config *cfg = job->cfg;
  TT_TRY(TT_ALLOC(out->at, t->count));
  out->count = t->count;
  for (int64_t i = 0, k = 0; i < t->count; i++, k++) {
    const tt_cohort *c = job->cohorts.at[i];
    if (!c->joined) /* the first network of this ensemble */
      for (k = 0; cfg->ensemble[k].number != c->ensemble->number;) k++;
    const tt_ensemble_config *own = &cfg->ensemble[k];
    tt_trial *x = &out->at[i];
    *x = (tt_trial){.number = own->number,
                    .first = own->first_member,
                    .members = own->members,
                    .rung = (int32_t)t->at[i].rung};
    memcpy(x->score, t->at[i].score, sizeof x->score);
    TT_TRY(tt_text_set(&x->ensemble, own->name));
    TT_TRY(tt_text_set(&x->label, own->label));
    TT_TRY(tt_config_network_text(cfg, k, &x->text));
  }
  return TT_OK;
}

/* The rung to which trials of the ensemble of trial i came; -1: none has a score. */
static int32_t farthest_rung(const tt_trials *t, int64_t i)
{
  int32_t farthest = -1;
  for (int64_t k = 0; k < t->count; k++)
    if (t->at[k].number == t->at[i].number && !isnan(tt_trial_last_score(&t->at[k])) &&
        t->at[k].rung > farthest)
      farthest = t->at[k].rung;
  return farthest;
}

/* Remove the cohorts of all trials but those that came farthest. */
static tt_err keep_finalists_local(tt_job *job, tt_shards *all, const tt_trials *t)
{
  int64_t kept = 0, number = -1;
  for (int64_t i = 0; i < t->count; i++)
    if (farthest_rung(t, i) < 0)
      return TT_FAIL(DIVERGED,
                     "ensemble %s: no trial of the search has a validation loss; all diverged, or "
                     "search.time is too short",
                     t->at[i].ensemble);
  for (int64_t i = 0; i < t->count; i++) {
    if (t->at[i].rung < farthest_rung(t, i) || isnan(tt_trial_last_score(&t->at[i]))) {
      tt_cohort_destroy(&job->cohorts.at[i]);
      tt_state_destroy(&all->at[i].state);
      continue;
    }
    job->cohorts.at[i]->joined = t->at[i].number == number;
    number = t->at[i].number;
    job->cohorts.at[kept] = job->cohorts.at[i];
    all->at[kept++] = all->at[i];
  }
  all->count = job->cohorts.count = kept;
  return TT_OK;
}

tt_err tt_search_finish(tt_comm *c, tt_job *job, tt_shards *all, const tt_search *s, tt_trials *out)
{
  trials t = {0};
  if (!s->active) return TT_OK;
  tt_err e = gather(c, all, &t);
  if (!e) e = tt_agree(c, list_local(job, &t, out));
  if (!e) e = tt_agree(c, keep_finalists_local(job, all, out));
  tt_free(t.at);
  return e;
}
