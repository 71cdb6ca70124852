/* select.c — see select.h. */
#include "src/campaign/select/select_internal.h"

#include "core/base/mem.h"

#include <math.h>

/* ---- methods ---- */

static uint64_t key_of_gumbel(const tt_wish *w, int64_t row, float own)
{
  return tt_order_f64(tt_gumbel_value((double)own, w->temperature, (uint64_t)w->s->cfg->run_seed,
                                      w->s->round, w->list, row));
}

static uint64_t key_of_draw(const tt_wish *w, int64_t row, float own)
{
  (void)own;
  return tt_draw_key((uint64_t)w->s->cfg->run_seed, w->s->round, row);
}

static tt_err choose_best(tt_chooser *k, const tt_wish *wish, int64_t most)
{
  tt_ranked *best = NULL;
  int64_t count = 0;
  tt_err e = tt_select_best(k, wish, most, &best, &count);
  if (!e) tt_choose_add_local(k, best, count);
  tt_free(best);
  return e;
}

static tt_err choose_top(tt_chooser *k, int64_t list, int64_t most)
{
  return choose_best(k, &(tt_wish){.list = list, .key = tt_key_of_score, .s = k->s}, most);
}

static tt_err choose_stochastic(tt_chooser *k, int64_t list, int64_t most)
{
  double median = 0.0;
  tt_err e = tt_select_median(k, list, &median);
  if (e) return e;
  double unit = isfinite(median) && median != 0.0 ? fabs(median) : 1.0;
  tt_wish wish = {.list = list,
                  .key = key_of_gumbel,
                  .temperature = k->s->cfg->select_temperature * unit,
                  .s = k->s};
  return choose_best(k, &wish, most);
}

static tt_err choose_by_score(tt_chooser *k, int64_t list, int64_t most)
{
  switch ((tt_select)k->s->cfg->select_method) {
  case TT_SELECT_top: return choose_top(k, list, most);
  case TT_SELECT_stochastic: return choose_stochastic(k, list, most);
  case TT_SELECT_kcenter:
  case TT_SELECT_penalty: return tt_choose_apart(k, list, most);
  case TT_SELECT_COUNT: break;
  }
  return TT_FAIL(INTERNAL, "select.method %d", (int)k->s->cfg->select_method);
}

/* ---- the batch ---- */

/* Each list chooses its part in turn; what one could not fill, for want of scores of its own, goes
 * to whoever can. */
static tt_err choose_parts(tt_chooser *k, const int64_t *part)
{
  tt_err e = TT_OK;
  for (int64_t l = 0; l < k->lists && !e; l++)
    if (part[l] > 0) e = choose_by_score(k, l, part[l]);
  for (int64_t l = 0; l < k->lists && !e && k->lists > 1 && k->count < k->room; l++)
    e = choose_by_score(k, l, k->room - k->count);
  return e;
}

/* Random ones first, so that they are of the whole pool. */
static tt_err choose(tt_chooser *k, int64_t *random)
{
  const tt_config *cfg = k->s->cfg;
  int64_t *part = NULL;
  const double *weight = k->lists > 1 && cfg->score_weights.count ? cfg->score_weights.value : NULL;
  tt_wish draw = {.key = key_of_draw, .whole_pool = 1, .s = k->s};
  int64_t wanted = (int64_t)floor(cfg->select_random * (double)k->room + 0.5);
  tt_err e = wanted > 0 ? choose_best(k, &draw, wanted) : TT_OK;
  *random = k->count;
  if (!e) e = tt_agree(k->c, TT_ALLOC(part, k->lists));
  if (!e) e = tt_agree(k->c, tt_parts(k->room - k->count, k->lists, weight, part));
  if (!e) e = choose_parts(k, part);
  tt_free(part);
  return e;
}

/* By score first, then the `random` ones that were chosen before them. */
static tt_err make_picks(tt_chooser *k, int64_t random, tt_picks **out)
{
  tt_picks *p = NULL;
  tt_err e = tt_agree(k->c, tt_picks_create(k->count, k->s->scaler->inputs, &p));
  if (!e) {
    tt_ranked *item = k->chosen;
    for (int64_t i = 0; i < k->count; i++) {
      int drawn = i >= k->count - random;
      const tt_ranked *from = &item[drawn ? i - (k->count - random) : i + random];
      p->row[i] = from->row;
      p->score[i] = drawn ? NAN : from->score;
      p->random[i] = (int8_t)drawn;
    }
    for (int64_t i = 0; i < k->count; i++)
      item[i] = (tt_ranked){.row = p->row[i]};
    e = tt_select_inputs(k, item, k->count, p->x);
  }
  if (e) tt_picks_destroy(&p);
  *out = p;
  return e;
}

tt_err tt_select_picks(tt_comm *c, const tt_selection *s, tt_round *round, tt_picks **out)
{
  tt_chooser k;
  int64_t random = 0;
  *out = NULL;
  tt_err e = tt_chooser_open(c, s, &k);
  if (!e) e = tt_choose_window(&k, round);
  if (!e && k.trusted[TT_CANDIDATE] > 0 && k.room > 0) e = choose(&k, &random);
  if (!e) e = make_picks(&k, random, out);
  tt_chooser_close(&k);
  return e;
}

tt_err tt_select_window(tt_comm *c, const tt_selection *s, tt_round *round)
{
  tt_chooser k;
  tt_err e = tt_chooser_open(c, s, &k);
  if (!e) e = tt_choose_window(&k, round);
  tt_chooser_close(&k);
  return e;
}
