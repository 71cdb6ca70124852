/* select.c — see select.h. */
#include "src/campaign/select/select_internal.h"

#include "core/base/mem.h"

#include <math.h>

enum { MAX_BATCHES = 128, MAX_DISTINCT_ROWS = 200000 }; /* read to find different inputs */

/* Methods */

static uint64_t gumbel_key(const tt_ranking *w, int64_t row, float list_score)
{
  return tt_sortable_f64(tt_gumbel_score((double)list_score, w->temperature,
                                         (uint64_t)w->s->cfg->run_seed, w->s->round, w->list, row));
}

static uint64_t random_key(const tt_ranking *w, int64_t row, float list_score)
{
  (void)list_score;
  return tt_random_key((uint64_t)w->s->cfg->run_seed, w->s->round, row);
}

/* The best candidates with different inputs, among the first MAX_BATCHES batches. */
static tt_err select_top_k(tt_selector *k, const tt_ranking *ranking, int64_t max_queries)
{
  tt_top_k_item *best = NULL;
  int64_t count = 0, distinct = 0, most = max_queries;
  tt_err e = TT_OK;
  for (int64_t batches = 1; !e && batches <= MAX_BATCHES; batches *= 2, most *= 2) {
    tt_free(best);
    e = tt_select_top_k(k, ranking, most, &best, &count);
    if (!e) e = tt_selector_distinct_first(k, best, count, &distinct);
    if (distinct >= max_queries || count < most || most > MAX_DISTINCT_ROWS) break;
  }
  if (!e) tt_selector_add_local(k, best, distinct < max_queries ? distinct : max_queries);
  tt_free(best);
  return e;
}

tt_err tt_select_top(tt_selector *k, int64_t list, int64_t max_queries)
{
  const tt_ranking ranking = {.list = list, .key = tt_score_key, .s = k->s};
  return select_top_k(k, &ranking, max_queries);
}

tt_err tt_select_stochastic(tt_selector *k, int64_t list, int64_t max_queries)
{
  double median = 0.0;
  tt_err e = tt_selector_median(k, list, &median);
  if (e) return e;
  double unit = isfinite(median) && median != 0.0 ? fabs(median) : 1.0;
  tt_ranking ranking = {.list = list,
                        .key = gumbel_key,
                        .temperature = k->s->cfg->select_temperature * unit,
                        .s = k->s};
  return select_top_k(k, &ranking, max_queries);
}

static tt_err select_by_method(tt_selector *k, int64_t list, int64_t max_queries)
{
  const tt_config *cfg = k->s->cfg;
  /* Queries at random are the baseline of the others: uniform, without distances. */
  int uniform = cfg->score_acquisition == TT_ACQUISITION_random;
  int method = cfg->select_method;
  if (uniform && method == TT_SELECT_penalty) method = TT_SELECT_top;
  switch ((tt_select_method)method) {
#define X(name, options)                                                                           \
  case TT_SELECT_##name: return tt_select_##name(k, list, max_queries);
    TT_SELECTS(X)
#undef X
  case TT_SELECT_COUNT: break;
  }
  return TT_FAIL(INTERNAL, "select.method %d", (int)k->s->cfg->select_method);
}

/* The batch */

/* Each list selects its quota in turn. If a list has too few scores for its quota, the other lists
 * fill the rest. */
static tt_err select_quotas(tt_selector *k, const int64_t *quota)
{
  tt_err e = TT_OK;
  for (int64_t l = 0; l < k->lists && !e; l++)
    if (quota[l] > 0) e = select_by_method(k, l, quota[l]);
  for (int64_t l = 0; l < k->lists && !e && k->lists > 1 && k->count < k->capacity; l++)
    e = select_by_method(k, l, k->capacity - k->count);
  return e;
}

/* Draw the random rows first, so that they come from the whole pool. */
static tt_err select_batch(tt_selector *k, int64_t *random)
{
  const tt_config *cfg = k->s->cfg;
  int64_t *quota = NULL;
  const double *weight = k->lists > 1 && cfg->score_weights.count ? cfg->score_weights.value : NULL;
  tt_ranking random_ranking = {.key = random_key, .whole_pool = 1, .s = k->s};
  int64_t batch = k->capacity - k->s->drawn;
  int64_t random_count =
      k->s->drawn + (int64_t)floor(cfg->select_random_fraction * (double)batch + 0.5);
  tt_err e = random_count > 0 ? select_top_k(k, &random_ranking, random_count) : TT_OK;
  *random = k->count;
  if (!e) e = tt_agree(k->c, TT_ALLOC(quota, k->lists));
  if (!e) e = tt_agree(k->c, tt_apportion(k->capacity - k->count, k->lists, weight, quota));
  if (!e) e = select_quotas(k, quota);
  tt_free(quota);
  return e;
}

/* k->selected begins with the `random` rows; *out has the rows selected by score first. */
static tt_err make_query_batch(tt_selector *k, int64_t random, tt_queries **out)
{
  tt_queries *p = NULL;
  tt_err e = tt_agree(k->c, tt_queries_create(k->count, k->s->scaler->inputs, &p));
  if (!e) {
    tt_top_k_item *item = k->selected;
    for (int64_t i = 0; i < k->count; i++) {
      int drawn = i >= k->count - random;
      const tt_top_k_item *chosen = &item[drawn ? i - (k->count - random) : i + random];
      p->row[i] = chosen->row;
      p->score[i] = drawn ? NAN : chosen->score;
      p->random[i] = (int8_t)drawn;
    }
    for (int64_t i = 0; i < k->count; i++) item[i] = (tt_top_k_item){.row = p->row[i]};
    e = tt_selector_read_inputs(k, item, k->count, p->x);
  }
  if (e) tt_queries_destroy(&p);
  *out = p;
  return e;
}

tt_err tt_select_queries(tt_comm *c, const tt_select_args *s, tt_round *round, tt_queries **out)
{
  tt_selector k;
  int64_t random = 0;
  *out = NULL;
  tt_err e = tt_selector_open(c, s, &k);
  if (!e) e = tt_select_trust_window(&k, round);
  if (!e && k.trust_count[TT_TRUST_CANDIDATE] > 0 && k.capacity > 0) e = select_batch(&k, &random);
  if (!e) e = make_query_batch(&k, random, out);
  tt_selector_close(&k);
  return e;
}

tt_err tt_select_window_only(tt_comm *c, const tt_select_args *s, tt_round *round)
{
  tt_selector k;
  tt_err e = tt_selector_open(c, s, &k);
  if (!e) e = tt_select_trust_window(&k, round);
  tt_selector_close(&k);
  return e;
}
