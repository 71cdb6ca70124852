/* select_internal.h — what the files of stage select share. Floor 5; collective unless the name
 * ends in _local. */
#ifndef TT_SELECT_PRIV_H
#define TT_SELECT_PRIV_H
#include "src/campaign/select/select.h"
#include "io/campaign/pool_scores.h"
#include "core/model/partition.h"
#include "core/stats/selection.h"

typedef struct tt_chooser {
  tt_comm *c;
  const tt_selection *s;
  tt_scores_reader *file;
  int64_t lists;
  tt_slice mine; /* candidates whose scores this rank reads */
  float *score;  /* [lists][a piece of them] */
  tt_window window;
  int64_t trusted[TT_TRUSTS]; /* candidates of all ranks on each side of the window */
  int64_t count, room;
  tt_ranked *chosen; /* [room] in the order chosen; the same on all ranks */
  tt_taken got;      /* their rows, ascending */
} tt_chooser;

/* Open the scores and see that they are of this pool. Close also after an error. */
tt_err tt_chooser_open(tt_comm *c, const tt_selection *s, tt_chooser *k);
void tt_chooser_close(tt_chooser *k);

/* One pass over the scores of this rank: `see` is called for every candidate that has a score, in
 * ascending order. joint: the largest over the lists; own: that of `list`, which may be NaN.
 * Errors: DATA (a taken candidate has a score), IO. */
typedef void (*tt_see)(void *to, int64_t row, float joint, float own);
tt_err tt_select_pass_local(tt_chooser *k, int64_t list, tt_see see, void *to);

/* Set window and trusted, and what `round` says of them. */
tt_err tt_choose_window(tt_chooser *k, tt_round *round);
/* Median of the candidates' own scores; NaN without candidates. */
tt_err tt_select_median(tt_chooser *k, int64_t list, double *out);

/* How candidates are ranked among which the best are wanted. */
typedef struct tt_wish tt_wish;
struct tt_wish {
  int64_t list;
  uint64_t (*key)(const tt_wish *w, int64_t row, float own);
  int whole_pool; /* also outside the window, and without an own score */
  double temperature;
  const tt_selection *s;
};
/* At most `most` of those not chosen yet, best first. *best on all ranks; owner: the caller. */
tt_err tt_select_best(tt_chooser *k, const tt_wish *wish, int64_t most, tt_ranked **best,
                      int64_t *count);
uint64_t tt_key_of_score(const tt_wish *w, int64_t row, float own);

/* Append to what is chosen; `count` must have room. Errors: none, local. */
void tt_choose_add_local(tt_chooser *k, const tt_ranked *item, int64_t count);

/* At most `most` that are far from each other: select.method kcenter or penalty. */
tt_err tt_choose_apart(tt_chooser *k, int64_t list, int64_t most);

/* x [count][D] of candidates in any order, in the user's units, on all ranks. */
tt_err tt_select_inputs(tt_chooser *k, const tt_ranked *item, int64_t count, double *x);
#endif
