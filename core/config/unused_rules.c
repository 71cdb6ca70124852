/* unused_rules.c — options of a campaign that another option leaves without effect. */
#include "core/config/config_internal.h"

#include <inttypes.h>
#include <string.h>

typedef struct tt_use {
  int row, by; /* the option, and the one that decides whether anything looks at it */
  int used;
} tt_use;

enum { MOST_USES = 32 };

#define AT(name_) TT_AT_##name_

/* A score `random` and labels that are `hidden` are for trying things out: what the file says of
 * others waits. */
static int uses(const tt_config *c, tt_use use[MOST_USES])
{
  const int by = c->score_by, select = c->select_method;
  const int random = by == TT_SCORE_random, hidden = c->label_mode == TT_LABEL_hidden;
  const int bound = by == TT_SCORE_confidence_bound;
  const int noise = c->campaign_warm_start == TT_WARM_shrink_perturb;
  const int slurm = c->label_mode == TT_LABEL_slurm;
  const int called = c->label_mode == TT_LABEL_command || slurm;
  const int joins = c->score_combine == TT_JOIN_weighted || c->score_combine == TT_JOIN_quota;
  const tt_use all[] = {
      {AT(campaign_shrink), AT(campaign_warm_start), noise},
      {AT(campaign_perturb), AT(campaign_warm_start), noise},
      {AT(pool_labels), AT(label_mode), hidden},
      {AT(pool_chunks), AT(pool_command), c->pool_command.count > 0},
      {AT(score_target_weights), AT(score_targets), c->score_targets == TT_OVER_weighted},
      {AT(score_weights), AT(score_combine), joins},
      {AT(score_floor), AT(score_by), random || by == TT_SCORE_relative_std},
      {AT(score_goal), AT(score_by), random || bound || by == TT_SCORE_expected_improvement},
      {AT(score_kappa), AT(score_by), random || bound},
      {AT(select_prefilter), AT(select_method),
       select == TT_SELECT_kcenter || select == TT_SELECT_penalty},
      {AT(select_length), AT(select_method), select == TT_SELECT_penalty},
      {AT(select_temperature), AT(select_method), select == TT_SELECT_stochastic},
      {AT(label_command), AT(label_mode), called || hidden},
      {AT(label_concurrency), AT(label_mode), called || hidden},
      {AT(label_timeout), AT(label_mode), called || hidden},
      {AT(label_retries), AT(label_mode), called || hidden},
      {AT(label_script), AT(label_mode), slurm || hidden},
      {AT(stop_accurate_rounds), AT(select_lower), *c->select_lower != '\0'},
      {AT(stop_plateau_delta), AT(stop_plateau_rounds), c->stop_plateau_rounds > 0},
      {AT(stop_change_rounds), AT(stop_change), c->stop_change > 0.0}};
  _Static_assert(sizeof all / sizeof *all <= MOST_USES, "room for all");
  memcpy(use, all, sizeof all);
  return (int)(sizeof all / sizeof *all);
}

static int is_default(const tt_option *o, const void *record)
{
  const void *field = (const char *)record + o->offset;
  tt_literal preset = {.text = o->preset, .length = strlen(o->preset)};
  char why[TT_WHY_TEXT];
  tt_value value = {0};
  switch (o->kind) {
  case TT_KIND_TEXT:
  case TT_KIND_PATH:
  case TT_KIND_TEXTLIST: return tt_value_is_empty(o, record);
  case TT_KIND_LIST: return ((const tt_int_list *)field)->count == 0;
  case TT_KIND_REALS: return ((const tt_real_list *)field)->count == 0;
  default: break;
  }
  if (!tt_value_parse(o, &preset, &value, why)) return 0;
  if (o->kind == TT_KIND_I64) return *(const int64_t *)field == value.whole;
  if (o->kind == TT_KIND_BOOL || o->kind == TT_KIND_NAME) return *(const int *)field == value.word;
  return *(const double *)field == value.real;
}

static void tell(tt_reader *r, const tt_use *use)
{
  const tt_option *by = &tt_option_table[use->by];
  char path[TT_PATH_TEXT], other[TT_PATH_TEXT], origin[TT_PATH_TEXT], value[TT_SHOW_TEXT] = "";
  tt_option_path(&tt_option_table[use->row], -1, path);
  tt_option_path(by, -1, other);
  FILE *f = fmemopen(value, sizeof value - 1, "w");
  if (f && tt_value_is_empty(by, r->cfg)) fputs("not given", f);
  if (f && !tt_value_is_empty(by, r->cfg)) tt_value_write(by, r->cfg, f);
  if (f) fclose(f);
  tt_fault(r, &r->job[use->row], "%s has no effect with %s: %s (%s); remove it, or change that",
           path, other, value, tt_origin(&r->job[use->by], origin));
}

void tt_config_check_unused(tt_reader *r)
{
  tt_use use[MOST_USES];
  int n = uses(r->cfg, use);
  for (int i = 0; i < n; i++) {
    const tt_where *at = &r->job[use[i].row], *by = &r->job[use[i].by];
    int switched = by->set && !at->set;
    if (use[i].used || !at->given || at->bad || by->bad || switched) continue;
    if (!is_default(&tt_option_table[use[i].row], r->cfg)) tell(r, &use[i]);
  }
}

tt_err tt_config_drop_unused(tt_reader *r)
{
  tt_use use[MOST_USES];
  int n = uses(r->cfg, use);
  for (int i = 0; r->cfg->campaign && i < n; i++) {
    const tt_option *o = &tt_option_table[use[i].row];
    if (use[i].used || is_default(o, r->cfg)) continue;
    tt_value_free(o, r->cfg);
    TT_TRY(tt_config_defaults(o, 1, r->cfg));
  }
  return TT_OK;
}
