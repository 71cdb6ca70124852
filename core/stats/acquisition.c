/* acquisition.c — see acquisition.h. */
#include "core/formulas/acquisition.h"

#include "core/base/rng.h"
#include "core/config/choices.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

unsigned tt_acquisition_needs(tt_acquisition by)
{
  switch (by) {
#define X(name, needs, meaning)                                                                    \
  case TT_ACQUISITION_##name: return (needs);
    TT_ACQUISITIONS(X)
#undef X
  default: return 0;
  }
}

int tt_acquisition_supports(tt_acquisition by, tt_output output)
{
  unsigned needs = tt_acquisition_needs(by);
  if (needs & TT_NEEDS_MEAN_STD && tt_output_forecast(output) == TT_FORECAST_categorical) return 0;
  if (needs & TT_NEEDS_BEST_LABEL && tt_output_is_class(output)) return 0;
  return !(needs & TT_NEEDS_CLASSES) || tt_output_is_class(output);
}

/* Softmax has the members' mean entropy among its quantities, sigmoid has not. */
int tt_acquisition_uses_members(tt_acquisition by, tt_output output)
{
  if (by == TT_ACQUISITION_bald) return tt_output_forecast(output) == TT_FORECAST_bernoulli;
  return (tt_acquisition_needs(by) & TT_NEEDS_MEMBERS) != 0;
}

void tt_acquisition_list_supported(tt_output output, char *text, int room)
{
  int used = 0, fit[TT_ACQUISITION_COUNT], count = 0;
  for (int by = 0; by < TT_ACQUISITION_COUNT; by++)
    if (tt_acquisition_supports((tt_acquisition)by, output)) fit[count++] = by;
  for (int i = 0; i < count && used < room; i++)
    used += snprintf(text + used, (size_t)(room - used), "%s%s",
                     i == 0           ? ""
                     : i + 1 == count ? " or "
                                      : ", ",
                     tt_choice_acquisition[fit[i]]);
}

double tt_entropy(int32_t classes, const double *p, int64_t step)
{
  double sum = 0.0;
  for (int32_t j = 0; j < classes; j++)
    if (!(p[j * step] <= 0.0)) sum -= p[j * step] * log(p[j * step]);
  return sum;
}

/* Largest distance of a member from the mean. */
static double largest_distance(const tt_prediction_stats *o)
{
  double most = 0.0;
  for (int64_t i = 0; i < o->members; i++) {
    if (!(o->member_weight[i] > 0.0)) continue;
    double d = fabs(o->member[i] - o->mean);
    if (!(d <= most)) most = d; /* NaN too */
  }
  return most;
}

/* Largest sum of p_i ln(p_i / p) of a member. Where its p_i is above 0, so is the mean p. */
static double largest_kl_divergence(const tt_prediction_stats *o)
{
  double most = 0.0;
  for (int64_t i = 0; i < o->members; i++) {
    const double *member_entropy = o->member + i * o->classes;
    double d = 0.0;
    if (!(o->member_weight[i] > 0.0)) continue;
    for (int32_t j = 0; j < o->classes; j++)
      if (!(member_entropy[j] <= 0.0)) d += member_entropy[j] * log(member_entropy[j] / o->p[j]);
    if (!(d <= most)) most = d;
  }
  return most;
}

/* The most probable class, of equal ones the first. */
static int32_t member_vote(const tt_prediction_stats *o, int64_t i)
{
  const double *member_entropy = o->member + i * o->classes;
  int32_t vote = 0;
  for (int32_t j = 1; j < o->classes; j++)
    if (member_entropy[j] > member_entropy[vote]) vote = j;
  return vote;
}

static double vote_entropy(const tt_prediction_stats *o)
{
  double part[TT_MAX_CLASSES] = {0.0}, all = 0.0;
  for (int64_t i = 0; i < o->members; i++) {
    if (!(o->member_weight[i] > 0.0)) continue;
    int32_t vote = member_vote(o, i);
    if (!isfinite(o->member[i * o->classes + vote])) return NAN;
    part[vote] += o->member_weight[i];
    all += o->member_weight[i];
  }
  for (int32_t j = 0; j < o->classes; j++) part[j] /= all;
  return tt_entropy(o->classes, part, 1);
}

static double clamp_to_zero(double x) { return x < 0.0 ? 0.0 : x; }

/* Mean of the positive part of a Gaussian with mean `gain`. */
static double expected_improvement(double gain, double sd)
{
  const double root2 = 1.4142135623730951, root2pi = 2.5066282746310002;
  if (sd <= 0.0) return clamp_to_zero(gain);
  double z = gain / sd;
  return clamp_to_zero(gain * 0.5 * erfc(-z / root2) + sd * exp(-0.5 * z * z) / root2pi);
}

double tt_acquisition_score(const tt_acquisition_settings *rule, const tt_prediction_stats *o)
{
  double sign = rule->goal == TT_GOAL_minimize ? -1.0 : 1.0;
  switch (rule->by) {
  case TT_ACQUISITION_epistemic_std: return o->epistemic;
  case TT_ACQUISITION_relative_std:
    return o->epistemic / (fabs(o->mean - o->target_zero) + rule->floor);
  case TT_ACQUISITION_total_std: return o->total;
  case TT_ACQUISITION_disagreement:
    return o->classes ? largest_kl_divergence(o) : largest_distance(o);
  case TT_ACQUISITION_entropy: return clamp_to_zero(tt_entropy(o->classes, o->p, 1));
  case TT_ACQUISITION_bald:
    return clamp_to_zero(tt_entropy(o->classes, o->p, 1) - o->member_entropy);
  case TT_ACQUISITION_vote_entropy: return vote_entropy(o);
  case TT_ACQUISITION_expected_improvement:
    return expected_improvement(sign * (o->mean - o->best), o->total);
  case TT_ACQUISITION_confidence_bound: return sign * o->mean + rule->kappa * o->total;
  default: return NAN;
  }
}

/* Word 3: what else is drawn for a candidate takes the others. */
double tt_acquisition_random_score(uint64_t seed, int64_t round, int64_t row)
{
  tt_random4 r = tt_random(seed, (uint64_t)round, TT_PURPOSE_QUERIES, (uint32_t)row,
                           (uint32_t)((uint64_t)row >> 32));
  return (double)tt_uniform(r.v[3]);
}

typedef enum reduction_kind { REDUCE_MAX, REDUCE_MEAN, REDUCE_WEIGHTED } reduction_kind;

static double reduce(reduction_kind kind, int64_t n, const double *score, const double *weight)
{
  double sum = 0.0, all = 0.0, most = -INFINITY;
  for (int64_t i = 0; i < n; i++) {
    double w = kind == REDUCE_WEIGHTED ? weight[i] : 1.0;
    if (!isfinite(score[i])) return NAN;
    sum += w * score[i];
    all += w;
    most = score[i] > most ? score[i] : most;
  }
  return kind == REDUCE_MAX ? most : sum / all;
}

double tt_reduce_target_scores(tt_target_reduction over, int64_t n, const double *score,
                               const double *weight)
{
  reduction_kind kind = over == TT_TARGET_REDUCTION_mean       ? REDUCE_MEAN
                        : over == TT_TARGET_REDUCTION_weighted ? REDUCE_WEIGHTED
                                                               : REDUCE_MAX;
  return reduce(kind, n, score, weight);
}

double tt_reduce_ensemble_scores(tt_ensemble_reduction by, int64_t n, const double *score,
                                 const double *weight)
{
  reduction_kind kind = by == TT_ENSEMBLE_REDUCTION_mean       ? REDUCE_MEAN
                        : by == TT_ENSEMBLE_REDUCTION_weighted ? REDUCE_WEIGHTED
                                                               : REDUCE_MAX;
  return reduce(kind, n, score, weight);
}

float tt_acquisition_score_to_float(double score)
{
  if (!isfinite(score) || score < -(double)FLT_MAX) return -FLT_MAX;
  return score > (double)FLT_MAX ? FLT_MAX : (float)score;
}
