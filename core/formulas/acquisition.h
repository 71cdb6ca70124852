/* acquisition.h — the table of acquisition functions: scores that rank candidates for labeling.
 *
 * A score is a number for one row of the pool, one ensemble and one of its targets; candidates with
 * higher scores are queried first. The options score.target_reduction and score.ensemble_reduction
 * reduce the scores over the targets of an ensemble, and over ensembles.
 *
 * Units. score.scaled: true: predictions are normalized, as the networks compute them: minus the
 * mean of the target's training labels, divided by their standard deviation (data.normalize: none:
 * 0 and 1); false: the user's units. Only relative_std depends on the size of a prediction: in both
 * units it measures it from the target's own 0, and score.floor is in the same units. Entropies are
 * in nats. Factor and noise of calibration are not applied.
 *
 * A score that is not finite (a prediction overflows for an input far from the data) becomes the
 * lowest score, -FLT_MAX: the row stays a candidate and is queried last. Diverged members have
 * weight 0; an ensemble with only diverged members is an error of the model. */
#ifndef TT_ACQUISITION_H
#define TT_ACQUISITION_H
#include "core/formulas/output.h"

#include <stdint.h>
TT_BEGIN_C

/* Inputs and options that a score needs, as a set of bits. */
typedef enum tt_acquisition_need {
  TT_NEEDS_MEAN_STD = 1, /* mean and standard deviations of one number: every output but softmax; of
                          quantiles the level nearest to 0.5, of sigmoid the probability */
  TT_NEEDS_CLASSES = 2,  /* probabilities of classes: softmax, sigmoid */
  TT_NEEDS_MEMBERS = 4,  /* the prediction of each member */
  TT_NEEDS_BEST_LABEL = 8,      /* the best label so far; not for classes */
  TT_NEEDS_MEMBER_ENTROPY = 16, /* mean entropy of the members; for classes */
  TT_NEEDS_GOAL = 32,           /* option score.goal */
  TT_NEEDS_FLOOR = 64,          /* option score.floor */
  TT_NEEDS_KAPPA = 128          /* option score.kappa */
} tt_acquisition_need;

/* One row is one score. Its formula uses `o` (tt_prediction_stats), `rule`
 * (tt_acquisition_settings) and `sign`, -1 with goal: minimize, else 1.
 * name, set of needs (0: only the row number), formula, meaning with source. */
#define TT_ACQUISITIONS(X)                                                                         \
  X(epistemic_std, TT_NEEDS_MEAN_STD, o->epistemic,                                                \
    "standard deviation of the members' means: the ensemble's")                                    \
  X(relative_std, TT_NEEDS_MEAN_STD | TT_NEEDS_FLOOR,                                              \
    o->epistemic / (fabs(o->mean - o->target_zero) + rule->floor),                                 \
    "epistemic_std / (|prediction| + score.floor)")                                                \
  X(total_std, TT_NEEDS_MEAN_STD, o->total, "epistemic and aleatoric together")                    \
  X(disagreement, TT_NEEDS_MEMBERS,                                                                \
    o->classes ? tt_largest_kl_divergence(o) : tt_largest_distance(o),                             \
    "largest distance of a member from the mean; of classes: largest KL divergence of a member "   \
    "from the mean probabilities (McCallum & Nigam 1998)")                                         \
  X(entropy, TT_NEEDS_CLASSES, tt_clamp_to_zero(tt_entropy(o->classes, o->p, 1)),                  \
    "of the mean probabilities (Shannon 1948)")                                                    \
  X(bald, TT_NEEDS_CLASSES | TT_NEEDS_MEMBER_ENTROPY,                                              \
    tt_clamp_to_zero(tt_entropy(o->classes, o->p, 1) - o->member_entropy),                         \
    "mutual information of label and member: entropy less the members' mean entropy "              \
    "(Houlsby et al. 2011)")                                                                       \
  X(vote_entropy, TT_NEEDS_CLASSES | TT_NEEDS_MEMBERS, tt_vote_entropy(o),                         \
    "entropy of the members' votes (Dagan & Engelson 1995)")                                       \
  X(expected_improvement, TT_NEEDS_MEAN_STD | TT_NEEDS_BEST_LABEL | TT_NEEDS_GOAL,                 \
    tt_expected_improvement(sign * (o->mean - o->best), o->total),                                 \
    "over the best label so far, of a Gaussian with mean and total_std (Jones et al. 1998)")       \
  X(confidence_bound, TT_NEEDS_MEAN_STD | TT_NEEDS_GOAL | TT_NEEDS_KAPPA,                          \
    sign * o->mean + rule->kappa * o->total,                                                       \
    "mean + kappa total_std; minimize: -mean + kappa total_std (Cox & John 1992)")                 \
  X(epistemic_improvement, TT_NEEDS_MEAN_STD | TT_NEEDS_BEST_LABEL | TT_NEEDS_GOAL,                \
    tt_expected_improvement(sign * (o->mean - o->best), o->epistemic),                             \
    "expected_improvement with epistemic_std: of the target without its noise")                    \
  X(epistemic_bound, TT_NEEDS_MEAN_STD | TT_NEEDS_GOAL | TT_NEEDS_KAPPA,                           \
    sign * o->mean + rule->kappa * o->epistemic,                                                   \
    "confidence_bound with epistemic_std (Srinivas et al. 2010)")                                  \
  X(random, 0, (double)NAN, "uniform in [0, 1), the same for every model: the baseline")

typedef enum tt_acquisition {
#define X(name, ...) TT_ACQUISITION_##name,
  TT_ACQUISITIONS(X)
#undef X
      TT_ACQUISITION_COUNT
} tt_acquisition;

#define TT_TARGET_REDUCTIONS(X) X(max) X(mean) X(weighted)
#define TT_ENSEMBLE_REDUCTIONS(X) X(max) X(mean) X(weighted) X(quota)
#define TT_GOALS(X) X(maximize) X(minimize)

#define X(name) TT_TARGET_REDUCTION_##name,
typedef enum tt_target_reduction {
  TT_TARGET_REDUCTIONS(X) TT_TARGET_REDUCTION_COUNT
} tt_target_reduction;
#undef X
#define X(name) TT_ENSEMBLE_REDUCTION_##name,
typedef enum tt_ensemble_reduction {
  TT_ENSEMBLE_REDUCTIONS(X) TT_ENSEMBLE_REDUCTION_COUNT
} tt_ensemble_reduction;
#undef X
#define X(name) TT_GOAL_##name,
typedef enum tt_goal { TT_GOALS(X) TT_GOAL_COUNT } tt_goal;
#undef X

/* The set of needs of a score. */
unsigned tt_acquisition_needs(tt_acquisition acquisition);
/* Whether the score can be computed for this output. */
int tt_acquisition_supports(tt_acquisition acquisition, tt_output output);
/* Whether the engine must return the prediction of each member. */
int tt_acquisition_uses_members(tt_acquisition acquisition, tt_output output);
/* Write the scores for this output, in the order of the table: "entropy, bald or random". At most
 * capacity - 1 characters. */
void tt_acquisition_list_supported(tt_output output, char *text, int capacity);

/* Prediction of an ensemble for one target of one candidate, all in the same units. Fields that a
 * score does not need are not read. */
typedef struct tt_prediction_stats {
  double mean, total, aleatoric, epistemic; /* of the mixture (moments.h) */
  double target_zero;                       /* value of the prediction where the target is 0 */
  double best;                              /* highest (goal: minimize: lowest) label so far */
  int32_t classes;                          /* 0: a number; 2 for sigmoid: 1 - p, p */
  const double *p;                          /* [classes] mean probabilities */
  double member_entropy;                    /* the members' mean entropy */
  int64_t members;
  const double *member_weight; /* [members] 0 = not used */
  const double *member;        /* [members] prediction of each; for classes [members][classes] */
} tt_prediction_stats;

/* The options of section score that one score depends on. */
typedef struct tt_acquisition_settings {
  tt_acquisition by;
  tt_goal goal;
  double floor, kappa;
} tt_acquisition_settings;

/* Entropy in nats of `classes` probabilities p[j * step]; 0 ln 0 = 0. */
static inline double tt_entropy(int32_t classes, const double *p, int64_t step)
{
  double sum = 0.0;
  for (int32_t j = 0; j < classes; j++)
    if (!(p[j * step] <= 0.0)) sum -= p[j * step] * log(p[j * step]);
  return sum;
}

/* Largest distance of a member from the mean. */
static inline double tt_largest_distance(const tt_prediction_stats *o)
{
  double most = 0.0;
  for (int64_t i = 0; i < o->members; i++) {
    if (!(o->member_weight[i] > 0.0)) continue;
    double d = fabs(o->member[i] - o->mean);
    if (!(d <= most)) most = d; /* NaN too */
  }
  return most;
}

/* Largest KL divergence, sum over classes of p_i ln(p_i / p), of a member i. Where p_i is above 0,
 * the mean p is too. */
static inline double tt_largest_kl_divergence(const tt_prediction_stats *o)
{
  double most = 0.0;
  for (int64_t i = 0; i < o->members; i++) {
    const double *member_p = o->member + i * o->classes;
    double d = 0.0;
    if (!(o->member_weight[i] > 0.0)) continue;
    for (int32_t j = 0; j < o->classes; j++)
      if (!(member_p[j] <= 0.0)) d += member_p[j] * log(member_p[j] / o->p[j]);
    if (!(d <= most)) most = d;
  }
  return most;
}

/* The most probable class; among equal ones the first. */
static inline int32_t tt_member_vote(const tt_prediction_stats *o, int64_t i)
{
  const double *member_p = o->member + i * o->classes;
  int32_t vote = 0;
  for (int32_t j = 1; j < o->classes; j++)
    if (member_p[j] > member_p[vote]) vote = j;
  return vote;
}

static inline double tt_vote_entropy(const tt_prediction_stats *o)
{
  double part[TT_MAX_CLASSES], all = 0.0;
  for (int32_t j = 0; j < o->classes; j++) part[j] = 0.0;
  for (int64_t i = 0; i < o->members; i++) {
    if (!(o->member_weight[i] > 0.0)) continue;
    int32_t vote = tt_member_vote(o, i);
    if (!isfinite(o->member[i * o->classes + vote])) return (double)NAN;
    part[vote] += o->member_weight[i];
    all += o->member_weight[i];
  }
  for (int32_t j = 0; j < o->classes; j++) part[j] /= all;
  return tt_entropy(o->classes, part, 1);
}

static inline double tt_clamp_to_zero(double x) { return x < 0.0 ? 0.0 : x; }

/* Mean of the positive part of a Gaussian with mean `gain`. */
static inline double tt_expected_improvement(double gain, double sd)
{
  const double root2 = 1.4142135623730951, root2pi = 2.5066282746310002;
  if (sd <= 0.0) return tt_clamp_to_zero(gain);
  double z = gain / sd;
  return tt_clamp_to_zero(gain * 0.5 * erfc(-z / root2) + sd * exp(-0.5 * z * z) / root2pi);
}

/* The score of one target, for any row of the table except random. NaN or infinite where the
 * prediction is. A score that is 0 where the members agree is never below 0. */
double tt_acquisition_score(const tt_acquisition_settings *rule, const tt_prediction_stats *o);

/* The score of row `random` of the table. */
double tt_acquisition_random_score(uint64_t seed, int64_t round, int64_t row);

/* Reduce the scores of the K targets of an ensemble, or of the ensembles, to one: their max, mean
 * or weighted mean. Not for quota, which keeps the ensembles separate.
 *   weight  [n] for weighted, not all 0
 * If a score is not finite, the result is NaN. */
double tt_reduce_target_scores(tt_target_reduction over, int64_t n, const double *score,
                               const double *weight);
double tt_reduce_ensemble_scores(tt_ensemble_reduction join, int64_t n, const double *score,
                                 const double *weight);

/* The value for files: -FLT_MAX for a score that is not finite, FLT_MAX for one that is too large.
 */
float tt_acquisition_score_to_float(double score);

TT_END_C
#endif
