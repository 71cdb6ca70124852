/* score_window.c — scores in a stream, and what they say of the pool: see select_internal.h. */
#include "src/campaign/select/select_internal.h"

#include "core/base/mem.h"
#include "src/host/watchdog.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { PIECE = 1 << 16 }; /* candidates read at once */

static tt_err open_local(tt_chooser *k)
{
  const tt_selection *s = k->s;
  int64_t first = tt_pool_first(s->pool), rows = tt_pool_rows(s->pool);
  int64_t lists = s->cfg->score_combine == TT_JOIN_quota ? s->ensembles : 1;
  TT_TRY(tt_scores_open_local(s->scores, &k->file));
  int64_t has = tt_scores_rows(k->file), from = tt_scores_first(k->file);
  if (has != rows || from != first)
    return TT_FAIL(DATA,
                   "%s has scores of %" PRId64 " candidates from number %" PRId64
                   " on, but the pool has %" PRId64 " from %" PRId64
                   " on: the pool was scored anew or changed; score it again",
                   s->scores, has, from, rows, first);
  if (tt_scores_lists(k->file) != lists)
    return TT_FAIL(DATA,
                   "%s has %" PRId64 " scores for each candidate, score.combine: %s needs %" PRId64
                   "; score the pool again",
                   s->scores, tt_scores_lists(k->file), tt_choice_join[s->cfg->score_combine],
                   lists);
  k->lists = lists;
  TT_TRY(tt_plan_slice(rows, tt_comm_ranks(k->c), tt_comm_rank(k->c), &k->mine));
  k->mine.first += first;
  k->room = s->most < rows ? s->most : rows;
  if (k->room < 0) k->room = 0;
  TT_TRY(TT_ALLOC(k->score, lists * (k->mine.count < PIECE ? k->mine.count : PIECE)));
  TT_TRY(TT_ALLOC(k->chosen, k->room));
  return TT_ALLOC(k->got.row, k->room);
}

tt_err tt_chooser_open(tt_comm *c, const tt_selection *s, tt_chooser *k)
{
  *k = (tt_chooser){.c = c, .s = s};
  return tt_agree(c, open_local(k));
}

void tt_chooser_close(tt_chooser *k)
{
  tt_scores_close_local(&k->file);
  tt_free(k->score);
  tt_free(k->chosen);
  tt_free(k->got.row);
  *k = (tt_chooser){0};
}

/* Nobody asks twice, even if the scores are of another round. */
static tt_err check_taken(const tt_chooser *k, int64_t first, int64_t count)
{
  const tt_taken *taken = k->s->taken;
  int64_t end = tt_taken_below(taken, first + count);
  for (int64_t i = tt_taken_below(taken, first); i < end; i++)
    for (int64_t l = 0; l < k->lists; l++)
      if (!isnan(k->score[l * count + taken->row[i] - first]))
        return TT_FAIL(DATA,
                       "%s has a score of candidate %" PRId64
                       ", which is taken: the scores are of another round; score the pool again",
                       k->s->scores, taken->row[i]);
  return TT_OK;
}

static void see_piece(const tt_chooser *k, tt_slice piece, int64_t list, tt_see see, void *to)
{
  for (int64_t i = 0; i < piece.count; i++) {
    float joint = k->score[i];
    for (int64_t l = 1; l < k->lists; l++)
      joint = fmaxf(joint, k->score[l * piece.count + i]); /* of a number and a NaN: the number */
    if (!isnan(joint)) see(to, piece.first + i, joint, k->score[list * piece.count + i]);
  }
}

tt_err tt_select_pass_local(tt_chooser *k, int64_t list, tt_see see, void *to)
{
  int64_t end = k->mine.first + k->mine.count;
  tt_slice piece = {.first = k->mine.first};
  for (; piece.first < end; piece.first += piece.count) {
    piece.count = end - piece.first < PIECE ? end - piece.first : PIECE;
    for (int64_t l = 0; l < k->lists; l++)
      TT_TRY(
          tt_scores_read_local(k->file, l, piece.first, piece.count, k->score + l * piece.count));
    TT_TRY(check_taken(k, piece.first, piece.count));
    see_piece(k, piece, list, see, to);
    tt_watchdog_alive_local("select");
  }
  return TT_OK;
}

/* ---- order statistics ---- */

enum { QUANTILES = 2 };
typedef struct order_pass {
  const tt_chooser *k;
  int count;
  tt_order_search find[QUANTILES];
  int64_t *bin; /* [count][TT_ORDER_BINS] */
} order_pass;

static void see_joint(void *to, int64_t row, float joint, float own)
{
  order_pass *p = to;
  (void)row, (void)own;
  for (int i = 0; i < p->count; i++)
    tt_order_count(&p->find[i], joint, p->bin + (int64_t)i * TT_ORDER_BINS);
}

static void see_candidate(void *to, int64_t row, float joint, float own)
{
  order_pass *p = to;
  (void)row;
  if (!isnan(own) && tt_window_of(&p->k->window, joint) == TT_CANDIDATE)
    tt_order_count(&p->find[0], own, p->bin);
}

/* The ranks of the quantiles among all that the first pass counted; 0 = there is none. */
static int set_ranks(order_pass *p, const double *q)
{
  int64_t n = 0;
  for (int64_t i = 0; i < TT_ORDER_BINS; i++)
    n += p->bin[i];
  for (int i = 0; i < p->count && n > 0; i++) {
    int64_t rank = tt_quantile_rank(q[i], n);
    p->find[i].rank = rank < n ? rank : n - 1;
  }
  return n > 0;
}

/* Quantile 1 lies just above the largest score, so that none reaches it. */
static double value_of(const tt_order_search *s, double q)
{
  float v = tt_f32_of_order(s->known);
  return (double)(q >= 1.0 ? nextafterf(v, INFINITY) : v);
}

/* p->count quantiles q -> out, of the scores that `see` counts; NaN if it counts none. */
static tt_err find_quantiles(order_pass *p, tt_chooser *k, int64_t list, tt_see see,
                             const double *q, double *out)
{
  int64_t bins = (int64_t)p->count * TT_ORDER_BINS;
  p->k = k;
  for (int i = 0; i < p->count; i++)
    out[i] = NAN;
  tt_err e = tt_agree(k->c, TT_ALLOC(p->bin, bins));
  int some = 1;
  for (int pass = 0; pass < TT_ORDER_PASSES && !e && some; pass++) {
    memset(p->bin, 0, (size_t)bins * sizeof *p->bin);
    e = tt_agree(k->c, tt_select_pass_local(k, list, see, p));
    if (e) break;
    tt_sum_i64(k->c, p->bin, bins);
    if (pass == 0) some = set_ranks(p, q);
    for (int i = 0; i < p->count && some; i++)
      tt_order_narrow(&p->find[i], p->bin + (int64_t)i * TT_ORDER_BINS);
  }
  for (int i = 0; i < p->count && !e && some; i++)
    out[i] = value_of(&p->find[i], q[i]);
  tt_free(p->bin);
  return e;
}

tt_err tt_select_median(tt_chooser *k, int64_t list, double *out)
{
  double half = 0.5;
  order_pass p = {.count = 1};
  return find_quantiles(&p, k, list, see_candidate, &half, out);
}

/* ---- the window ---- */

static void see_trust(void *to, int64_t row, float joint, float own)
{
  tt_chooser *k = to;
  (void)row, (void)own;
  k->trusted[tt_window_of(&k->window, joint)]++;
}

tt_err tt_choose_window(tt_chooser *k, tt_round *round)
{
  tt_threshold given[QUANTILES] = {{0}};
  double *threshold[QUANTILES] = {&k->window.lower, &k->window.upper};
  double q[QUANTILES], value[QUANTILES];
  order_pass p = {.count = 0};
  tt_err e = TT_OK;
  tt_threshold_parse(k->s->cfg->select_lower, &given[0]);
  tt_threshold_parse(k->s->cfg->select_upper, &given[1]);
  for (int i = 0; i < QUANTILES; i++) {
    *threshold[i] = given[i].given ? given[i].value : NAN;
    if (given[i].given && given[i].is_quantile) q[p.count++] = given[i].value;
  }
  if (p.count > 0) e = find_quantiles(&p, k, 0, see_joint, q, value);
  for (int i = 0, at = 0; i < QUANTILES && !e; i++)
    if (given[i].given && given[i].is_quantile) *threshold[i] = value[at++];
  if (!e) e = tt_agree(k->c, tt_select_pass_local(k, 0, see_trust, k));
  if (e) return e;
  tt_sum_i64(k->c, k->trusted, TT_TRUSTS);
  round->accurate = k->trusted[TT_ACCURATE];
  round->candidate = k->trusted[TT_CANDIDATE];
  round->failed = k->trusted[TT_FAILED];
  round->lower = k->window.lower;
  round->upper = k->window.upper;
  return TT_OK;
}
