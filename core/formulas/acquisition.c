/* acquisition.c — see acquisition.h. */
#include "core/formulas/acquisition.h"

#include "core/base/rng.h"
#include "core/base/text.h"

#include <float.h>
#include <math.h>

unsigned tt_acquisition_needs(tt_acquisition acquisition)
{
  switch (acquisition) {
#define X(name, needs, ...)                                                                        \
  case TT_ACQUISITION_##name: return (needs);
    TT_ACQUISITIONS(X)
#undef X
  default: return 0;
  }
}

int tt_acquisition_supports(tt_acquisition acquisition, tt_output output)
{
  unsigned needs = tt_acquisition_needs(acquisition);
  if (needs & TT_NEEDS_MEAN_STD && tt_output_forecast(output) == TT_FORECAST_categorical) return 0;
  if (needs & TT_NEEDS_BEST_LABEL && tt_output_is_class(output)) return 0;
  return !(needs & TT_NEEDS_CLASSES) || tt_output_is_class(output);
}

/* The quantities of softmax contain the mean entropy of the members, those of sigmoid do not. */
int tt_acquisition_uses_members(tt_acquisition acquisition, tt_output output)
{
  unsigned needs = tt_acquisition_needs(acquisition);
  if (needs & TT_NEEDS_MEMBER_ENTROPY && tt_output_forecast(output) == TT_FORECAST_bernoulli)
    return 1;
  return (needs & TT_NEEDS_MEMBERS) != 0;
}

void tt_acquisition_list_supported(tt_output output, char *text, int capacity)
{
  static const char *const name[] = {TT_ACQUISITIONS(TT_ROW_NAME)};
  int fit[TT_ACQUISITION_COUNT], count = 0;
  for (int kind = 0; kind < TT_ACQUISITION_COUNT; kind++)
    if (tt_acquisition_supports((tt_acquisition)kind, output)) fit[count++] = kind;
  text[0] = '\0';
  for (int i = 0; i < count; i++)
    tt_text_append(text, (size_t)capacity, i + 1 < count ? ", " : " or ", name[fit[i]]);
}

double tt_acquisition_score(const tt_acquisition_settings *rule, const tt_prediction_stats *o)
{
  double sign = rule->goal == TT_GOAL_minimize ? -1.0 : 1.0;
  switch (rule->by) {
#define X(name, needs, formula, meaning)                                                           \
  case TT_ACQUISITION_##name: return formula;
    TT_ACQUISITIONS(X)
#undef X
  default: return NAN;
  }
}

/* Word 3: the other random numbers of a candidate use words 0 to 2 (selection.h). */
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

double tt_reduce_ensemble_scores(tt_ensemble_reduction join, int64_t n, const double *score,
                                 const double *weight)
{
  reduction_kind kind = join == TT_ENSEMBLE_REDUCTION_mean       ? REDUCE_MEAN
                        : join == TT_ENSEMBLE_REDUCTION_weighted ? REDUCE_WEIGHTED
                                                                 : REDUCE_MAX;
  return reduce(kind, n, score, weight);
}

float tt_acquisition_score_to_float(double score)
{
  if (!isfinite(score) || score < -(double)FLT_MAX) return -FLT_MAX;
  return score > (double)FLT_MAX ? FLT_MAX : (float)score;
}
