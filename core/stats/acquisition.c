/* acquisition.c — see acquisition.h. */
#include "core/formulas/acquisition.h"

#include "core/base/rng.h"
#include "core/config/choices.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

unsigned tt_score_needs_of(tt_score_by by)
{
  switch (by) {
#define X(name, needs, meaning)                                                                    \
  case TT_SCORE_##name: return (needs);
    TT_SCORES(X)
#undef X
  default: return 0;
  }
}

static int is_classes(tt_output output)
{
  return output == TT_OUTPUT_softmax || output == TT_OUTPUT_sigmoid;
}

int tt_score_fits(tt_score_by by, tt_output output)
{
  unsigned needs = tt_score_needs_of(by);
  if (needs & TT_NEEDS_NUMBER && output == TT_OUTPUT_softmax) return 0;
  if (needs & TT_NEEDS_BEST && is_classes(output)) return 0;
  return !(needs & TT_NEEDS_CLASSES) || is_classes(output);
}

/* Softmax has the members' mean entropy among its quantities, sigmoid has not. */
int tt_score_asks_members(tt_score_by by, tt_output output)
{
  if (by == TT_SCORE_bald) return output == TT_OUTPUT_sigmoid;
  return (tt_score_needs_of(by) & TT_NEEDS_MEMBERS) != 0;
}

void tt_score_fitting(tt_output output, char *text, int room)
{
  int used = 0, fit[TT_SCORE_COUNT], count = 0;
  for (int by = 0; by < TT_SCORE_COUNT; by++)
    if (tt_score_fits((tt_score_by)by, output)) fit[count++] = by;
  for (int i = 0; i < count && used < room; i++)
    used += snprintf(text + used, (size_t)(room - used), "%s%s",
                     i == 0           ? ""
                     : i + 1 == count ? " or "
                                      : ", ",
                     tt_choice_score[fit[i]]);
}

double tt_entropy(int32_t classes, const double *p, int64_t step)
{
  double sum = 0.0;
  for (int32_t j = 0; j < classes; j++)
    if (!(p[j * step] <= 0.0)) sum -= p[j * step] * log(p[j * step]);
  return sum;
}

/* Largest distance of a member from the mean. */
static double distance(const tt_opinion *o)
{
  double most = 0.0;
  for (int64_t i = 0; i < o->members; i++) {
    if (!(o->share[i] > 0.0)) continue;
    double d = fabs(o->member[i] - o->mean);
    if (!(d <= most)) most = d; /* NaN too */
  }
  return most;
}

/* Largest sum of p_i ln(p_i / p) of a member. Where its p_i is above 0, so is the mean p. */
static double divergence(const tt_opinion *o)
{
  double most = 0.0;
  for (int64_t i = 0; i < o->members; i++) {
    const double *own = o->member + i * o->classes;
    double d = 0.0;
    if (!(o->share[i] > 0.0)) continue;
    for (int32_t j = 0; j < o->classes; j++)
      if (!(own[j] <= 0.0)) d += own[j] * log(own[j] / o->p[j]);
    if (!(d <= most)) most = d;
  }
  return most;
}

/* The most probable class, of equal ones the first. */
static int32_t vote_of(const tt_opinion *o, int64_t i)
{
  const double *own = o->member + i * o->classes;
  int32_t vote = 0;
  for (int32_t j = 1; j < o->classes; j++)
    if (own[j] > own[vote]) vote = j;
  return vote;
}

static double votes(const tt_opinion *o)
{
  double part[TT_MAX_CLASSES] = {0.0}, all = 0.0;
  for (int64_t i = 0; i < o->members; i++) {
    if (!(o->share[i] > 0.0)) continue;
    int32_t vote = vote_of(o, i);
    if (!isfinite(o->member[i * o->classes + vote])) return NAN;
    part[vote] += o->share[i];
    all += o->share[i];
  }
  for (int32_t j = 0; j < o->classes; j++)
    part[j] /= all;
  return tt_entropy(o->classes, part, 1);
}

static double not_below_0(double x) { return x < 0.0 ? 0.0 : x; }

/* Mean of the positive part of a Gaussian with mean `gain`. */
static double improvement(double gain, double sd)
{
  const double root2 = 1.4142135623730951, root2pi = 2.5066282746310002;
  if (sd <= 0.0) return not_below_0(gain);
  double z = gain / sd;
  return not_below_0(gain * 0.5 * erfc(-z / root2) + sd * exp(-0.5 * z * z) / root2pi);
}

double tt_score_of(const tt_score_rule *rule, const tt_opinion *o)
{
  double sign = rule->goal == TT_GOAL_minimize ? -1.0 : 1.0;
  switch (rule->by) {
  case TT_SCORE_epistemic_std: return o->epistemic;
  case TT_SCORE_relative_std: return o->epistemic / (fabs(o->mean - o->zero) + rule->floor);
  case TT_SCORE_total_std: return o->total;
  case TT_SCORE_disagreement: return o->classes ? divergence(o) : distance(o);
  case TT_SCORE_entropy: return not_below_0(tt_entropy(o->classes, o->p, 1));
  case TT_SCORE_bald: return not_below_0(tt_entropy(o->classes, o->p, 1) - o->own);
  case TT_SCORE_vote_entropy: return votes(o);
  case TT_SCORE_expected_improvement: return improvement(sign * (o->mean - o->best), o->total);
  case TT_SCORE_confidence_bound: return sign * o->mean + rule->kappa * o->total;
  default: return NAN;
  }
}

/* Word 3: what else is drawn for a candidate takes the others. */
double tt_score_random(uint64_t seed, int64_t round, int64_t row)
{
  tt_random4 r = tt_random(seed, (uint64_t)round, TT_FOR_PICKS, (uint32_t)row,
                           (uint32_t)((uint64_t)row >> 32));
  return (double)tt_unit(r.v[3]);
}

typedef enum tt_way { LARGEST, MEAN, WEIGHTED } tt_way;

static double join(tt_way way, int64_t n, const double *score, const double *weight)
{
  double sum = 0.0, all = 0.0, most = -INFINITY;
  for (int64_t i = 0; i < n; i++) {
    double w = way == WEIGHTED ? weight[i] : 1.0;
    if (!isfinite(score[i])) return NAN;
    sum += w * score[i];
    all += w;
    most = score[i] > most ? score[i] : most;
  }
  return way == LARGEST ? most : sum / all;
}

double tt_score_over(tt_over over, int64_t n, const double *score, const double *weight)
{
  tt_way way = over == TT_OVER_mean ? MEAN : over == TT_OVER_weighted ? WEIGHTED : LARGEST;
  return join(way, n, score, weight);
}

double tt_score_join(tt_join by, int64_t n, const double *score, const double *weight)
{
  tt_way way = by == TT_JOIN_mean ? MEAN : by == TT_JOIN_weighted ? WEIGHTED : LARGEST;
  return join(way, n, score, weight);
}

float tt_score_stored(double score)
{
  if (!isfinite(score) || score < -(double)FLT_MAX) return -FLT_MAX;
  return score > (double)FLT_MAX ? FLT_MAX : (float)score;
}
