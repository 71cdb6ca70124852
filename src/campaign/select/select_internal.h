/* select_internal.h — what the files of stage select share. Floor 5; collective unless the name
 * ends in _local. */
#ifndef TT_SELECT_INTERNAL_H
#define TT_SELECT_INTERNAL_H
#include "core/model/partition.h"
#include "core/stats/selection.h"
#include "io/campaign/pool_scores.h"
#include "src/campaign/select/select.h"

typedef struct tt_selector {
  tt_comm *c;
  const tt_select_args *s;
  tt_pool_scores_reader *file;
  int64_t lists;
  tt_slice mine; /* candidates whose scores this rank reads */
  float *score;  /* [lists][a piece of them] */
  tt_trust_window window;
  int64_t trust_count[TT_TRUST_COUNT]; /* candidates of all ranks on each side of the window */
  int64_t count, capacity;
  tt_top_k_item *selected;    /* [room] in the order chosen; the same on all ranks */
  tt_used_rows selected_rows; /* their rows, ascending */
} tt_selector;

/* Open the scores and see that they are of this pool. Close also after an error. */
tt_err tt_selector_open(tt_comm *c, const tt_select_args *s, tt_selector *k);
void tt_selector_close(tt_selector *k);

/* One pass over the scores of this rank: `see` is called for every candidate that has a score, in
 * ascending order. joint: the largest over the lists; own: that of `list`, which may be NaN.
 * Errors: DATA (a taken candidate has a score), IO. */
typedef void (*tt_score_visitor)(void *to, int64_t row, float max_score, float list_score);
tt_err tt_selector_scan_local(tt_selector *k, int64_t list, tt_score_visitor visit, void *to);

/* Set window and trusted, and what `round` says of them. */
tt_err tt_select_trust_window(tt_selector *k, tt_round *round);
/* Median of the candidates' own scores; NaN without candidates. */
tt_err tt_selector_median(tt_selector *k, int64_t list, double *out);

/* How candidates are ranked among which the best are wanted. */
typedef struct tt_ranking tt_ranking;
struct tt_ranking {
  int64_t list;
  uint64_t (*key)(const tt_ranking *w, int64_t row, float list_score);
  int whole_pool; /* also outside the window, and without an own score */
  double temperature;
  const tt_select_args *s;
};
/* At most `most` of those not chosen yet, best first. *best on all ranks; owner: the caller. */
tt_err tt_select_top_k(tt_selector *k, const tt_ranking *ranking, int64_t max_rows,
                       tt_top_k_item **best, int64_t *count);
uint64_t tt_score_key(const tt_ranking *w, int64_t row, float list_score);

/* Append to what is chosen; `count` must have room. Errors: none, local. */
void tt_selector_add_local(tt_selector *k, const tt_top_k_item *item, int64_t count);

/* The methods: append at most max_rows candidates, chosen by the scores of `list`. */
#define X(name, options) tt_err tt_select_##name(tt_selector *k, int64_t list, int64_t max_rows);
TT_SELECTS(X)
#undef X

/* x [count][D] of candidates in any order, in the user's units, on all ranks. */
tt_err tt_selector_read_inputs(tt_selector *k, const tt_top_k_item *item, int64_t count, double *x);
#endif
