/* history.h — what a campaign knows: its rounds and its labels. Floor 1: no files, no MPI.
 *
 * A round trains on the labels there are, scores the pool, selects, asks for labels, and takes them
 * in. It counts once all of that is committed: campaign.h5 is this struct, and its rename is the
 * commit. The last round of a campaign asks for nothing. */
#ifndef TT_HISTORY_H
#define TT_HISTORY_H
#include "core/base/err.h"

#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* The stages of a round, in order: name, what it does. */
#define TT_STAGES(X)                                                                               \
  X(train, "all members, on the labels there are")                                                 \
  X(score, "every candidate of the pool")                                                          \
  X(select, "the candidates to label")                                                             \
  X(label, "by the oracle")                                                                        \
  X(merge, "the answers into the labels, the round into campaign.h5")

typedef enum tt_stage {
#define X(name, meaning) TT_STAGE_##name,
  TT_STAGES(X)
#undef X
      TT_STAGE_COUNT
} tt_stage;
extern const char *const tt_stage_name[]; /* ends with NULL */

/* What became of a candidate that was asked for. */
typedef enum tt_label_status {
  TT_LABEL_STATUS_failed,  /* never asked again */
  TT_LABEL_STATUS_labelled /* y has at least one number */
} tt_label_status;

/* Candidates are numbered over the whole campaign: rows of pool.file, or of all files that
 * pool.command has written, one after the other. */
typedef struct tt_query {
  int64_t row;
  int32_t round;       /* 1, 2, ... */
  int8_t random;       /* drawn at random, not by score */
  int8_t label_status; /* tt_label_status */
  int8_t split;        /* tt_split of its label */
  double score;        /* when it was chosen; NaN with random */
} tt_query;

/* Counts of rows: name, type, meaning. One value a round. */
#define TT_ROUND_COUNTS(X)                                                                         \
  X(labels, "labelled rows the round trained and validated on")                                    \
  X(pool, "candidates scored")                                                                     \
  X(pool_rows, "rows of the pool of this round, those taken or excluded too")                      \
  X(accurate, "candidates below select.lower")                                                     \
  X(candidate, "from select.lower on and below select.upper")                                      \
  X(failed, "from select.upper on")                                                                \
  X(queried, "chosen and given to the oracle")                                                     \
  X(label_failed, "asked, but the oracle failed")                                                  \
  X(diverged, "members that diverged")
#define TT_ROUND_NUMBERS(X)                                                                        \
  X(lower, "select.lower as a score; NaN = not given")                                             \
  X(upper, "select.upper as a score; NaN = not given")                                             \
  X(score_mean, "of the candidates")                                                               \
  X(score_max, "of the candidates")                                                                \
  X(change, "of the test predictions since the round before, root mean square in units of the "    \
            "targets' spread; NaN = unknown")

typedef struct tt_round {
#define X(name, meaning) int64_t name;
  TT_ROUND_COUNTS(X)
#undef X
#define X(name, meaning) double name;
  TT_ROUND_NUMBERS(X)
#undef X
  double seconds[TT_STAGE_COUNT]; /* wall time of each stage, in the life that finished it */
  uint64_t model;                 /* XXH3 of model.h5's weights */
  double *rmse, *nll;             /* [C] on the test rows, in the user's units; NaN = none */
  double *spread; /* [C] mean epistemic_std over the candidates, in the user's units */
} tt_round;

typedef struct tt_history {
  int64_t inputs, targets,
      columns;       /* D, T, C of tt_trained_ensembles_columns; 0 before the first round */
  uint64_t identity; /* of data, pool and seed: another campaign's file is refused */
  int64_t rounds;
  tt_round *round; /* [rounds] */
  int64_t queries; /* of all rounds, in the order chosen */
  tt_query *query; /* [picks] */
  double *x;       /* [picks][D] inputs in the user's units */
  double *y;       /* [picks][T] labels in the user's units; NaN = unlabelled */
  int ended;       /* tt_stop_rule that ended it, -1 = it goes on */
} tt_history;

/* An empty one. Owner: the caller. Errors: MEM. */
tt_err tt_history_create(int64_t inputs, int64_t targets, tt_history **out);
void tt_history_destroy(tt_history **h);

/* Append a round with room for C columns, all counts 0, numbers and columns NaN; C must be that of
 * the rounds before. *out is valid until the next call. Errors: MEM, INTERNAL (other C). */
tt_err tt_history_add_round(tt_history *h, int64_t columns, tt_round **out);
/* Append `count` picks with their inputs x [count][D] and labels y [count][T]. Errors: MEM. */
tt_err tt_history_add_queries(tt_history *h, int64_t count, const tt_query *query, const double *x,
                              const double *y);
/* Forget rounds from `round` (1, 2, ...) on, their picks and the end. */
void tt_history_truncate(tt_history *h, int64_t round);

/* The candidates that are taken: picked in any round, labelled or not. */
typedef struct tt_used_rows {
  int64_t count;
  int64_t *row; /* [count] ascending; owned */
} tt_used_rows;
tt_err tt_history_used_rows(const tt_history *h, tt_used_rows *out);
void tt_used_rows_free(tt_used_rows *t);
/* How many taken rows are below `row`; whether `row` is taken. Binary search. */
int64_t tt_used_rows_below(const tt_used_rows *t, int64_t row);
int tt_is_row_used(const tt_used_rows *t, int64_t row);

/* ---- When a campaign ends: any of these; name, option that sets it, meaning ---- */
#define TT_STOP_RULES(X)                                                                           \
  X(rounds, "stop.rounds", "so many rounds of labels are done")                                    \
  X(labels, "stop.labels", "there are so many labels")                                             \
  X(wall_time, "stop.wall_time", "so much time has gone by, all lives together")                   \
  X(accurate, "stop.accurate_fraction", "enough of the pool counts as accurate")                   \
  X(candidates, "select.lower and select.upper", "no candidate is left to ask for")                \
  X(plateau, "stop.plateau_rounds", "the test error does not become better")                       \
  X(change, "stop.change", "the predictions do not change any more")

typedef enum tt_stop_rule {
#define X(name, option, meaning) TT_STOP_RULE_##name,
  TT_STOP_RULES(X)
#undef X
      TT_STOP_RULE_COUNT
} tt_stop_rule;
extern const char *const tt_stop_rule_name[];   /* "plateau"; ends with NULL */
extern const char *const tt_stop_rule_option[]; /* "stop.plateau_rounds" */

/* The numbers of the rules, from the options of section stop. */
typedef struct tt_stop_settings {
  int64_t rounds, labels; /* labels < 0 = no limit */
  double wall_time;       /* seconds, < 0 = no limit */
  double accurate;
  int64_t accurate_rounds;
  int64_t plateau_rounds;
  double plateau_delta, change;
  int64_t change_rounds;
} tt_stop_settings;

/* The error of a round in one number: the mean over the columns of rmse (of classes, which have
 * none, nll), each in units of its value in the first round of `unit`; NaN = none is known.
 *   round  1, 2, ...; the columns of both histories are the same */
double tt_history_error(const tt_history *h, int64_t round, const tt_history *unit);

/* The first rule that holds after the last round of `h` was trained and scored (its counts labels,
 * pool, accurate, candidate, failed, its change and errors are set), before it asks; -1 = none.
 *   trusted  select.lower was given: without it nothing counts as accurate and rule accurate is
 *            silent
 * The plateau looks at tt_history_error in units of the campaign's own first round. why [room]: one
 * sentence with the numbers. */
int tt_history_should_stop(const tt_history *h, const tt_stop_settings *l, int has_lower,
                           char *reason, int size);
#ifdef __cplusplus
}
#endif
#endif
