/* history.h — the history of a campaign: its rounds and its queries. No files, no MPI: all
 * functions are local.
 *
 * A round trains on the present labels, scores the pool, selects the queries, has them labeled and
 * adds the labels. A round is committed when campaign.h5, which holds this struct, is renamed. The
 * last round of a campaign has no queries. */
#ifndef TT_HISTORY_H
#define TT_HISTORY_H
#include "core/config/config.h"

#include <stdint.h>
TT_BEGIN_C

/* The stages of a round, in order: name, what it does. */
#define TT_STAGES(X)                                                                               \
  X(train, "train all members on the present labels")                                              \
  X(score, "score every candidate of the pool")                                                    \
  X(select, "select the candidates to label")                                                      \
  X(label, "have the oracle label them")                                                           \
  X(merge, "add the new labels, commit the round to campaign.h5")

typedef enum tt_stage {
#define X(name, meaning) TT_STAGE_##name,
  TT_STAGES(X)
#undef X
      TT_STAGE_COUNT
} tt_stage;
extern const char *const tt_stage_name[]; /* ends with NULL */

/* The result of a query. */
typedef enum tt_label_status {
  TT_LABEL_STATUS_failed, /* never queried again */
  TT_LABEL_STATUS_labeled /* y has at least one number */
} tt_label_status;

/* A candidate that was selected. Candidates are numbered over the whole campaign: rows of
 * pool.file, or of all files that pool.command has written, one after the other. */
typedef struct tt_query {
  int64_t row;
  int32_t round;       /* 1, 2, ... */
  int8_t random;       /* drawn at random, not by score */
  int8_t label_status; /* tt_label_status */
  int8_t split;        /* tt_split of its label */
  double score;        /* at its selection; NaN with random */
} tt_query;

/* Numbers of a round: name, meaning. Counts are int64_t, the others double. */
#define TT_ROUND_COUNTS(X)                                                                         \
  X(labels, "labeled rows of the round: for training, validation, and stop.error")                 \
  X(pool, "candidates scored")                                                                     \
  X(pool_rows, "rows of the pool of this round, queried or excluded ones too")                     \
  X(duplicate, "rows with the inputs of a labeled or queried row, no candidates")                  \
  X(accurate, "candidates below select.lower")                                                     \
  X(candidate, "candidates from select.lower on and below select.upper")                           \
  X(failed, "candidates from select.upper on")                                                     \
  X(queried, "candidates selected and given to the oracle")                                        \
  X(label_failed, "queries that the oracle could not label")                                       \
  X(diverged, "members that diverged")                                                             \
  X(error_rows, "labeled rows drawn at random for stop.error")
#define TT_ROUND_NUMBERS(X)                                                                        \
  X(lower, "select.lower as a score; NaN = not given")                                             \
  X(upper, "select.upper as a score; NaN = not given")                                             \
  X(score_mean, "mean score of the candidates")                                                    \
  X(score_max, "largest score of the candidates")                                                  \
  X(change, "of the test predictions since the previous round: root mean square in units of the "  \
            "targets' scale; NaN = unknown")                                                       \
  X(error, "rmse on the rows drawn at random for stop.error, of the worst column; NaN = unknown")  \
  X(error_se, "standard error of this rmse")

typedef struct tt_round {
#define X(name, meaning) int64_t name;
  TT_ROUND_COUNTS(X)
#undef X
#define X(name, meaning) double name;
  TT_ROUND_NUMBERS(X)
#undef X
  double seconds[TT_STAGE_COUNT]; /* wall time of each stage, in the process that finished it */
  uint64_t model;                 /* XXH3 of model.h5's weights */
  uint64_t pool_hash;             /* XXH3 of the inputs of all rows of the pool; 0 = not scored */
  double *rmse, *nll;             /* [C] on the test rows, in the user's units; NaN = none */
  double *spread; /* [C] mean epistemic_std over the candidates, in the user's units */
} tt_round;

/* What must not change between two starts, because the rows of labels and candidates refer to it.
 * Files of another campaign differ here. */
typedef struct tt_history_identity {
  uint64_t data; /* hash of the data set: data.file and its split */
  uint64_t pool; /* hash of pool.file, or of the options of section pool */
  uint64_t seed; /* run.seed */
} tt_history_identity;

typedef struct tt_history {
  int64_t inputs, targets; /* D, T */
  int64_t columns;         /* C of tt_trained_ensembles_columns; 0 before the first round */
  tt_history_identity identity;
  int64_t rounds;
  tt_round *round; /* [rounds] */
  int64_t queries; /* of all rounds, in the order selected */
  tt_query *query; /* [queries] */
  double *x;       /* [queries][D] inputs in the user's units */
  double *y;       /* [queries][T] labels in the user's units; NaN = unlabeled */
  int ended;       /* tt_stop_rule that ended the campaign, -1 = not ended */
} tt_history;

/* An empty history. Owner: the caller. Errors: MEM. */
tt_err tt_history_create(int64_t inputs, int64_t targets, tt_history **out);
void tt_history_destroy(tt_history **h);

/* Append a round with C columns: counts 0, numbers and columns NaN; C must be the same in all
 * rounds. *out is valid until the next call. Errors: MEM, INTERNAL (other C). */
tt_err tt_history_add_round(tt_history *h, int64_t columns, tt_round **out);
/* Append `count` queries with their inputs x [count][D] and labels y [count][T]; all NULL: zeros.
 * Errors: MEM. */
tt_err tt_history_add_queries(tt_history *h, int64_t count, const tt_query *query, const double *x,
                              const double *y);
/* Remove the rounds from `round` (1, 2, ...) on and their queries; set ended = -1. */
void tt_history_truncate(tt_history *h, int64_t round);

/* The rows queried in any round, labeled or failed. */
typedef struct tt_used_rows {
  int64_t count;
  int64_t *row; /* [count] ascending; owned */
} tt_used_rows;
tt_err tt_history_used_rows(const tt_history *h, tt_used_rows *out);
void tt_used_rows_free(tt_used_rows *t);
/* The number of used rows below `row`; whether `row` is used. Binary search. */
int64_t tt_used_rows_below(const tt_used_rows *t, int64_t row);
int tt_is_row_used(const tt_used_rows *t, int64_t row);

/* The rules that end a campaign, each on its own: name, option that sets it, meaning. */
#define TT_STOP_RULES(X)                                                                           \
  X(rounds, "stop.rounds", "this number of rounds of labels is done")                              \
  X(labels, "stop.labels", "this number of labels is reached")                                     \
  X(wall_time, "stop.wall_time", "the finished stages have used this time")                        \
  X(accurate, "stop.accurate_fraction", "this fraction of the pool is accurate")                   \
  X(candidates, "select.lower and select.upper", "no candidate is left to query")                  \
  X(plateau, "stop.plateau_rounds", "the test error no longer improves")                           \
  X(change, "stop.change", "the test predictions no longer change")                                \
  X(error, "stop.error", "the error on rows drawn at random is low enough")

typedef enum tt_stop_rule {
#define X(name, option, meaning) TT_STOP_RULE_##name,
  TT_STOP_RULES(X)
#undef X
      TT_STOP_RULE_COUNT
} tt_stop_rule;
extern const char *const tt_stop_rule_name[]; /* "plateau"; ends with NULL */

/* What ended the campaign, for messages: "stop.plateau_rounds"; of rule candidates the bounds that
 * leave none, or that no row of the pool is left. The campaign must have ended. */
const char *tt_history_end_cause(const tt_history *h);

/* The error of a round in one number: the mean over the columns of rmse (nll for class targets,
 * which have no rmse), each divided by its value in the first round of `unit`; NaN = not known.
 *   round  1, 2, ...; the columns of both histories are the same */
double tt_history_error(const tt_history *h, int64_t round, const tt_history *unit);

/* The first rule that holds for the last round of `h`, -1 = none. Call it after the round was
 * trained and scored and its counts labels, pool, accurate, candidate, failed, its change and
 * errors are set, before its queries are selected.
 *   cfg     section stop; select.lower, without which rule accurate never holds
 *   scored  0 = the pool is not scored yet: only rules that need no scores of the last round
 *   reason  [size] one sentence with the numbers; "" if no rule holds
 * Rule plateau uses tt_history_error in units of the campaign's own first round. */
int tt_history_should_stop(const tt_history *h, const tt_config *cfg, int scored, char *reason,
                           int size);
TT_END_C
#endif
