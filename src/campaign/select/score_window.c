/* score_window.c — passes over the scores: quantiles and the trust window; see select_internal.h.
 */
#include "src/campaign/select/select_internal.h"

#include "core/base/mem.h"
#include "src/host/watchdog.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { PIECE_ROWS = 1 << 16 }; /* candidates read at once */

static tt_err open_local(tt_selector *k)
{
  const tt_select_args *s = k->s;
  int64_t first = tt_pool_first(s->pool), rows = tt_pool_rows(s->pool);
  int quota = s->cfg->score_ensemble_reduction == TT_ENSEMBLE_REDUCTION_quota;
  int64_t lists = quota ? tt_config_ensembles(s->cfg) : 1;
  TT_TRY(tt_pool_scores_open_local(s->scores, &k->file));
  if (k->file->rows != rows || k->file->first != first)
    return TT_FAIL(DATA,
                   "%s has scores of %" PRId64 " candidates from number %" PRId64
                   " on, but the pool has %" PRId64 " from %" PRId64
                   " on: the pool has changed; score it again",
                   s->scores, k->file->rows, k->file->first, rows, first);
  if (k->file->lists != lists)
    return TT_FAIL(DATA,
                   "%s has %" PRId64
                   " scores for each candidate, but score.ensemble_reduction: %s needs %" PRId64
                   "; score the pool again",
                   s->scores, k->file->lists,
                   tt_choice_ensemble_reduction[s->cfg->score_ensemble_reduction], lists);
  k->lists = lists;
  TT_TRY(tt_partition_even(rows, tt_comm_ranks(k->c), tt_comm_rank(k->c), &k->mine));
  k->mine.first += first;
  k->capacity = s->max_queries + s->drawn < rows ? s->max_queries + s->drawn : rows;
  if (k->capacity < 0) k->capacity = 0;
  TT_TRY(TT_ALLOC(k->score, lists * (k->mine.count < PIECE_ROWS ? k->mine.count : PIECE_ROWS)));
  TT_TRY(TT_ALLOC(k->selected, k->capacity));
  return TT_ALLOC(k->selected_rows.row, k->capacity);
}

tt_err tt_selector_open(tt_comm *c, const tt_select_args *s, tt_selector *k)
{
  *k = (tt_selector){.c = c, .s = s};
  return tt_agree(c, open_local(k));
}

void tt_selector_close(tt_selector *k)
{
  tt_pool_scores_close_local(&k->file);
  tt_free_all(&k->score, &k->selected, &k->selected_rows.row);
  *k = (tt_selector){0};
}

/* No candidate is queried twice, even if the scores are of another round. */
static tt_err check_used_rows(const tt_selector *k, int64_t first, int64_t count)
{
  const tt_used_rows *used_rows = k->s->used_rows;
  int64_t end = tt_used_rows_below(used_rows, first + count);
  for (int64_t i = tt_used_rows_below(used_rows, first); i < end; i++)
    for (int64_t l = 0; l < k->lists; l++)
      if (!isnan(k->score[l * count + used_rows->row[i] - first]))
        return TT_FAIL(DATA,
                       "%s has a score of candidate %" PRId64
                       ", which was queried before: the scores are of another round; score the "
                       "pool again",
                       k->s->scores, used_rows->row[i]);
  return TT_OK;
}

static void visit_chunk(const tt_selector *k, tt_slice chunk, int64_t list, tt_score_visitor visit,
                        void *dst)
{
  for (int64_t i = 0; i < chunk.count; i++) {
    float max_score = k->score[i];
    for (int64_t l = 1; l < k->lists; l++)
      max_score =
          fmaxf(max_score, k->score[l * chunk.count + i]); /* of a number and a NaN: the number */
    if (!isnan(max_score)) visit(dst, chunk.first + i, max_score, k->score[list * chunk.count + i]);
  }
}

tt_err tt_selector_scan_local(tt_selector *k, int64_t list, tt_score_visitor visit, void *dst)
{
  int64_t end = k->mine.first + k->mine.count;
  tt_slice chunk = {.first = k->mine.first};
  for (; chunk.first < end; chunk.first += chunk.count) {
    chunk.count = end - chunk.first < PIECE_ROWS ? end - chunk.first : PIECE_ROWS;
    for (int64_t l = 0; l < k->lists; l++)
      TT_TRY(tt_pool_scores_read_local(k->file, l, chunk.first, chunk.count,
                                       k->score + l * chunk.count));
    TT_TRY(check_used_rows(k, chunk.first, chunk.count));
    visit_chunk(k, chunk, list, visit, dst);
    tt_watchdog_heartbeat_local("select");
  }
  return TT_OK;
}

/* Order statistics */

enum { QUANTILES = 2 };
typedef struct quantile_pass {
  const tt_selector *k;
  int count;
  tt_radix_select find[QUANTILES];
  int64_t *bin; /* [count][TT_RADIX_BINS] */
} quantile_pass;

static void count_for_quantile(void *dst, int64_t row, float max_score, float list_score)
{
  quantile_pass *p = dst;
  (void)row, (void)list_score;
  for (int i = 0; i < p->count; i++)
    tt_radix_select_count(&p->find[i], max_score, p->bin + (int64_t)i * TT_RADIX_BINS);
}

static void count_candidate(void *dst, int64_t row, float max_score, float list_score)
{
  quantile_pass *p = dst;
  (void)row;
  if (!isnan(list_score) &&
      tt_trust_window_classify(&p->k->window, max_score) == TT_TRUST_CANDIDATE)
    tt_radix_select_count(&p->find[0], list_score, p->bin);
}

/* Set the ranks of the quantiles among the scores that the first pass counted. Returns 0 if it
 * counted none. */
static int set_target_ranks(quantile_pass *p, const double *q)
{
  int64_t n = 0;
  for (int64_t i = 0; i < TT_RADIX_BINS; i++) n += p->bin[i];
  for (int i = 0; i < p->count && n > 0; i++) {
    int64_t rank = tt_quantile_rank(q[i], n);
    p->find[i].rank = rank < n ? rank : n - 1;
  }
  return n > 0;
}

/* Quantile 1 is the next float above the largest score, so that no score reaches it. */
static double quantile_value(const tt_radix_select *s, double q)
{
  float v = tt_f32_of_sortable(s->known);
  return (double)(q >= 1.0 ? nextafterf(v, INFINITY) : v);
}

/* Compute p->count quantiles q of the scores that `visit` counts; out is NaN if it counts none. */
static tt_err find_quantiles(quantile_pass *p, tt_selector *k, int64_t list, tt_score_visitor visit,
                             const double *q, double *out)
{
  int64_t bins = (int64_t)p->count * TT_RADIX_BINS;
  p->k = k;
  for (int i = 0; i < p->count; i++) out[i] = NAN;
  tt_err e = tt_agree(k->c, TT_ALLOC(p->bin, bins));
  int some = 1;
  for (int pass = 0; pass < TT_RADIX_PASSES && !e && some; pass++) {
    memset(p->bin, 0, (size_t)bins * sizeof *p->bin);
    e = tt_agree(k->c, tt_selector_scan_local(k, list, visit, p));
    if (e) break;
    tt_allreduce_sum_i64(k->c, p->bin, bins);
    if (pass == 0) some = set_target_ranks(p, q);
    for (int i = 0; i < p->count && some; i++)
      tt_radix_select_narrow(&p->find[i], p->bin + (int64_t)i * TT_RADIX_BINS);
  }
  for (int i = 0; i < p->count && !e && some; i++) out[i] = quantile_value(&p->find[i], q[i]);
  tt_free(p->bin);
  return e;
}

tt_err tt_selector_median(tt_selector *k, int64_t list, double *out)
{
  double half = 0.5;
  quantile_pass p = {.count = 1};
  return find_quantiles(&p, k, list, count_candidate, &half, out);
}

/* The trust window */

static void count_trust_level(void *dst, int64_t row, float max_score, float list_score)
{
  tt_selector *k = dst;
  (void)row, (void)list_score;
  k->trust_count[tt_trust_window_classify(&k->window, max_score)]++;
}

tt_err tt_select_trust_window(tt_selector *k, tt_round *round)
{
  tt_threshold given[QUANTILES] = {{0}};
  double *threshold[QUANTILES] = {&k->window.lower, &k->window.upper};
  double q[QUANTILES], value[QUANTILES];
  quantile_pass p = {.count = 0};
  tt_err e = TT_OK;
  tt_threshold_parse(k->s->cfg->select_lower, &given[0]);
  tt_threshold_parse(k->s->cfg->select_upper, &given[1]);
  for (int i = 0; i < QUANTILES; i++) {
    *threshold[i] = given[i].given ? given[i].value : NAN;
    if (given[i].given && given[i].is_quantile) q[p.count++] = given[i].value;
  }
  if (p.count > 0) e = find_quantiles(&p, k, 0, count_for_quantile, q, value);
  for (int i = 0, at = 0; i < QUANTILES && !e; i++)
    if (given[i].given && given[i].is_quantile) *threshold[i] = value[at++];
  if (!e) e = tt_agree(k->c, tt_selector_scan_local(k, 0, count_trust_level, k));
  if (e) return e;
  tt_allreduce_sum_i64(k->c, k->trust_count, TT_TRUST_COUNT);
  round->accurate = k->trust_count[TT_TRUST_ACCURATE];
  round->candidate = k->trust_count[TT_TRUST_CANDIDATE];
  round->failed = k->trust_count[TT_TRUST_FAILED];
  round->lower = k->window.lower;
  round->upper = k->window.upper;
  return TT_OK;
}
