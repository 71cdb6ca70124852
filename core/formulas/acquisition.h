/* acquisition.h — how much the label of a candidate is wanted: the table of scores. Floor 1.
 *
 * A score is a number for one row of the pool, one ensemble and one of its targets, the higher the
 * more wanted; over the targets of an ensemble, and over ensembles, scores are joined by the
 * options score.target_reduction and score.ensemble_reduction.
 *
 * Units. score.scaled: true: predictions are what the networks say, counted from the mean of the
 * target's training labels in units of their standard deviation (data.normalize: none: 0 and 1);
 * false: the user's. Only relative_std asks how large a prediction is: it counts from the target's
 * own 0 in either unit. Entropies are in nats. The spread that calibration has learnt is not
 * applied.
 *
 * A score that is not finite (a prediction that overflows for an input far off) counts as the
 * lowest there is, -FLT_MAX: the row stays a candidate, asked for last. Members that diverged have
 * no share; an ensemble that has no other is an error of the model. */
#ifndef TT_ACQUISITION_H
#define TT_ACQUISITION_H
#include "core/formulas/output.h"

#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* What a score looks at, as a set. */
typedef enum tt_acquisition_need {
  TT_NEEDS_MEAN_STD = 1, /* mean and standard deviations of one number: every output but softmax; of
                          quantiles the level nearest to 0.5, of sigmoid the probability */
  TT_NEEDS_CLASSES = 2,  /* probabilities of classes: softmax, sigmoid */
  TT_NEEDS_MEMBERS = 4,  /* what each member says */
  TT_NEEDS_BEST_LABEL = 8 /* the best label so far: not of classes */
} tt_acquisition_need;

/* name, what it needs (0: only the row's number), meaning with source. */
#define TT_ACQUISITIONS(X)                                                                         \
  X(epistemic_std, TT_NEEDS_MEAN_STD, "standard deviation of the members' means: the ensemble's")  \
  X(relative_std, TT_NEEDS_MEAN_STD, "epistemic_std / (|prediction| + score.floor)")               \
  X(total_std, TT_NEEDS_MEAN_STD, "epistemic and aleatoric together")                              \
  X(disagreement, TT_NEEDS_MEMBERS,                                                                \
    "largest distance of a member from the mean; of classes: largest KL divergence of a member "   \
    "from the mean probabilities (McCallum & Nigam 1998)")                                         \
  X(entropy, TT_NEEDS_CLASSES, "of the mean probabilities (Shannon 1948)")                         \
  X(bald, TT_NEEDS_CLASSES,                                                                        \
    "mutual information of label and member: entropy less the members' mean entropy "              \
    "(Houlsby et al. 2011)")                                                                       \
  X(vote_entropy, TT_NEEDS_CLASSES | TT_NEEDS_MEMBERS,                                             \
    "entropy of the members' votes (Dagan & Engelson 1995)")                                       \
  X(expected_improvement, TT_NEEDS_MEAN_STD | TT_NEEDS_BEST_LABEL,                                 \
    "over the best label so far, of a Gaussian with mean and total_std (Jones et al. 1998)")       \
  X(confidence_bound, TT_NEEDS_MEAN_STD,                                                           \
    "mean + kappa total_std; minimize: -mean + kappa total_std (Cox & John 1992)")                 \
  X(random, 0, "uniform in [0, 1), the same for every model: the baseline")

typedef enum tt_acquisition {
#define X(name, needs, meaning) TT_ACQUISITION_##name,
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
unsigned tt_acquisition_needs(tt_acquisition by);
/* Whether a score can be told from such an output. */
int tt_acquisition_supports(tt_acquisition by, tt_output output);
/* Whether the engine must be asked what each member says. */
int tt_acquisition_uses_members(tt_acquisition by, tt_output output);
/* "entropy, bald or random": the scores that fit, in the order of the table. */
void tt_acquisition_list_supported(tt_output output, char *text, int room);

/* What an ensemble says of one target of one candidate, all in one unit. Fields that a score does
 * not need are not looked at. */
typedef struct tt_prediction_stats {
  double mean, total, aleatoric, epistemic; /* of the mixture (moments.h) */
  double target_zero;                       /* where the target is 0 */
  double best;                              /* highest (goal: minimize: lowest) label so far */
  int32_t classes;       /* 0: a number; 2 of sigmoid: not the class, the class */
  const double *p;       /* [classes] mean probabilities */
  double member_entropy; /* the members' mean entropy */
  int64_t members;
  const double *member_weight; /* [members] 0 = has no say */
  const double *member;        /* [members] what each predicts; of classes its [members][classes] */
} tt_prediction_stats;

/* The options of section score that one score depends on. */
typedef struct tt_acquisition_settings {
  tt_acquisition by;
  tt_goal goal;
  double floor, kappa;
} tt_acquisition_settings;

/* The score of one target; any row of the table but random, which asks nobody. May be NaN or
 * infinite where the opinion is. Scores that are 0 where members agree are never below 0. */
double tt_acquisition_score(const tt_acquisition_settings *rule, const tt_prediction_stats *o);

/* Row `random` of the table. */
double tt_acquisition_random_score(uint64_t seed, int64_t round, int64_t row);

/* Scores of the K targets of an ensemble as one: their max, mean, or weighted mean; and those of
 * the ensembles as one (not of quota, which keeps them apart).
 *   weight  [n] of weighted, not all 0
 * One score that is not finite makes the result NaN. */
double tt_reduce_target_scores(tt_target_reduction over, int64_t n, const double *score,
                               const double *weight);
double tt_reduce_ensemble_scores(tt_ensemble_reduction join, int64_t n, const double *score,
                                 const double *weight);

/* As a file holds it: not finite is -FLT_MAX, too large is FLT_MAX. */
float tt_acquisition_score_to_float(double score);

/* Entropy in nats of `classes` probabilities p[j * step]; 0 ln 0 = 0. */
double tt_entropy(int32_t classes, const double *p, int64_t step);
#ifdef __cplusplus
}
#endif
#endif
