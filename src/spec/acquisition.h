/* acquisition.h — how much the label of a candidate is wanted: the table of scores. Floor 1.
 *
 * A score is a number for one row of the pool, one ensemble and one of its targets, the higher the
 * more wanted; over the targets of an ensemble, and over ensembles, scores are joined by the
 * options score.targets and score.combine. Standard deviations and predictions are in units of the
 * spread of the target's training labels (score.scaled: true) or in the user's units. */
#ifndef TT_ACQUISITION_H
#define TT_ACQUISITION_H

/* name, what it needs, meaning with source.
 *   SPREAD   mean and standard deviations of the mixture (any output with one quantity, quantiles:
 *            those of the level nearest to 0.5)
 *   MEMBERS  also what each member predicts
 *   CLASSES  probabilities of classes: output softmax or sigmoid
 *   NOTHING  only the row's number */
#define TT_SCORES(X)                                                                               \
  X(epistemic_std, SPREAD, "standard deviation of the members' means: the ensemble's")             \
  X(relative_std, SPREAD, "epistemic_std / (|mean| + score.floor)")                                \
  X(total_std, SPREAD, "epistemic and aleatoric together")                                         \
  X(disagreement, MEMBERS,                                                                         \
    "largest distance of a member from the mean; of classes: largest KL divergence of a member "   \
    "from the mean probabilities (McCallum & Nigam 1998)")                                         \
  X(entropy, CLASSES, "of the mean probabilities (Shannon 1948)")                                  \
  X(bald, CLASSES,                                                                                 \
    "mutual information of label and member: entropy less the members' mean entropy "              \
    "(Houlsby et al. 2011)")                                                                       \
  X(vote_entropy, CLASSES, "entropy of the members' votes (Dagan & Engelson 1995)")                \
  X(expected_improvement, SPREAD,                                                                  \
    "over the best label so far, of a Gaussian with mean and total_std (Jones et al. 1998)")       \
  X(confidence_bound, SPREAD,                                                                      \
    "mean + kappa total_std; minimize: -mean + kappa total_std (Cox & John 1992)")                 \
  X(random, NOTHING, "the same for every model: the baseline")

typedef enum tt_score_by {
#define X(name, needs, meaning) TT_SCORE_##name,
  TT_SCORES(X)
#undef X
      TT_SCORE_COUNT
} tt_score_by;

#define TT_OVERS(X) X(max) X(mean) X(weighted)
#define TT_JOINS(X) X(max) X(mean) X(weighted) X(quota)
#define TT_GOALS(X) X(maximize) X(minimize)

#define X(name) TT_OVER_##name,
typedef enum tt_over { TT_OVERS(X) TT_OVER_COUNT } tt_over;
#undef X
#define X(name) TT_JOIN_##name,
typedef enum tt_join { TT_JOINS(X) TT_JOIN_COUNT } tt_join;
#undef X
#define X(name) TT_GOAL_##name,
typedef enum tt_goal { TT_GOALS(X) TT_GOAL_COUNT } tt_goal;
#undef X
#endif
