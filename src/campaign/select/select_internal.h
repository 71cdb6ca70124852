/* select_internal.h — declarations shared by the files of stage select. Collective unless the name
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
  float *score;  /* [lists][rows of a piece] */
  tt_trust_window window;
  int64_t trust_count[TT_TRUST_COUNT]; /* candidates of all ranks on each side of the window */
  int64_t count, capacity;
  tt_top_k_item *selected;    /* [capacity] in the order selected; the same on all ranks */
  tt_used_rows selected_rows; /* rows of `selected`, ascending */
} tt_selector;

/* Open the scores and check that they belong to this pool. Close the selector also after an error.
 */
tt_err tt_selector_open(tt_comm *c, const tt_select_args *s, tt_selector *k);
void tt_selector_close(tt_selector *k);

/* One pass over the scores of this rank: calls `visit` for every candidate that has a score, in
 * ascending order. max_score: the largest over the lists; list_score: that of `list`, may be NaN.
 * Errors: DATA (a candidate that was queried before has a score), IO. */
typedef void (*tt_score_visitor)(void *dst, int64_t row, float max_score, float list_score);
tt_err tt_selector_scan_local(tt_selector *k, int64_t list, tt_score_visitor visit, void *dst);

/* Set window and trust_count, and accurate, candidate, failed, lower and upper of `round`. */
tt_err tt_select_trust_window(tt_selector *k, tt_round *round);
/* Median of the candidates' scores in `list`; NaN without candidates. */
tt_err tt_selector_median(tt_selector *k, int64_t list, double *out);

/* A ranking of the candidates by a key. */
typedef struct tt_ranking tt_ranking;
struct tt_ranking {
  int64_t list;
  uint64_t (*key)(const tt_ranking *w, int64_t row, float list_score);
  int whole_pool; /* 1 = rows outside the window and without a score in `list` too */
  double temperature;
  const tt_select_args *s;
};
/* The candidates with the largest keys among those not selected yet, best first, at most max_rows.
 * *best: on all ranks; owner: the caller. */
tt_err tt_select_top_k(tt_selector *k, const tt_ranking *ranking, int64_t max_rows,
                       tt_top_k_item **best, int64_t *count);
uint64_t tt_score_key(const tt_ranking *w, int64_t row, float list_score);

/* Append to k->selected, which must have room for `count` more. Local. Errors: none. */
void tt_selector_add_local(tt_selector *k, const tt_top_k_item *item, int64_t count);

/* The methods: append at most max_rows candidates, selected by the scores of `list`. */
#define X(name, options) tt_err tt_select_##name(tt_selector *k, int64_t list, int64_t max_rows);
TT_SELECTS(X)
#undef X

/* Move the candidates whose inputs are those of an earlier one, or of a selected row, to the end;
 * otherwise the order stays. *distinct: the number of the others. */
tt_err tt_selector_distinct_first(tt_selector *k, tt_top_k_item *item, int64_t count,
                                  int64_t *distinct);

/* Read the inputs of candidates in any order: x [count][D] in the user's units, on all ranks. */
tt_err tt_selector_read_inputs(tt_selector *k, const tt_top_k_item *item, int64_t count, double *x);
#endif
