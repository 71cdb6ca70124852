/* unused_rules.c — options of a campaign that have no effect because of another option. */
#include "core/config/config_internal.h"

#include <string.h>

typedef struct dependency {
  int row, by; /* the option, and the option that decides whether it is used */
  int used;
} dependency;

enum { MAX_DEPENDENCIES = 32 };

#define AT(name_) TT_OPTION_##name_

/* score.acquisition: random and label.mode: hidden are for tests: options for other acquisitions
 * and label modes may stay in the job file, so they count as used. */
static int list_dependencies(const tt_config *c, dependency dependencies[MAX_DEPENDENCIES])
{
  const unsigned score = tt_acquisition_needs((tt_acquisition)c->score_acquisition),
                 select = tt_select_options[c->select_method];
  const int random = !score, hidden = c->label_mode == TT_LABEL_hidden;
  const int slurm = c->label_mode == TT_LABEL_slurm;
  const int called = c->label_mode == TT_LABEL_command || slurm;
  const int beside = c->campaign_mode == TT_CAMPAIGN_MODE_asynchronous;
  const int needs_weights = c->score_ensemble_reduction == TT_ENSEMBLE_REDUCTION_weighted ||
                            c->score_ensemble_reduction == TT_ENSEMBLE_REDUCTION_quota;
  const dependency all[] = {
      {AT(pool_labels), AT(label_mode), hidden},
      {AT(pool_chunks), AT(pool_command), c->pool_command.count > 0},
      {AT(score_target_weights), AT(score_target_reduction),
       c->score_target_reduction == TT_TARGET_REDUCTION_weighted},
      {AT(score_weights), AT(score_ensemble_reduction), needs_weights},
      {AT(score_floor), AT(score_acquisition), random || score & TT_NEEDS_FLOOR},
      {AT(score_goal), AT(score_acquisition), random || score & TT_NEEDS_GOAL},
      {AT(score_kappa), AT(score_acquisition), random || score & TT_NEEDS_KAPPA},
      {AT(select_prefilter), AT(select_method), (select & TT_SELECT_PREFILTER) != 0},
      {AT(select_length_scale), AT(select_method), (select & TT_SELECT_LENGTH) != 0},
      {AT(select_temperature), AT(select_method), (select & TT_SELECT_TEMPERATURE) != 0},
      {AT(label_command), AT(label_mode), called || hidden},
      {AT(label_concurrency), AT(label_mode), called || hidden || beside},
      {AT(label_ahead), AT(campaign_mode), beside},
      {AT(train_when_labels), AT(campaign_mode), beside},
      {AT(train_when_share), AT(campaign_mode), beside},
      {AT(train_when_wait), AT(campaign_mode), beside},
      {AT(label_timeout), AT(label_mode), called || hidden},
      {AT(label_retries), AT(label_mode), called || hidden || c->label_mode == TT_LABEL_ask},
      {AT(label_sigma), AT(data_sigma), *c->data_sigma != '\0'},
      {AT(label_script), AT(label_mode), slurm || hidden},
      {AT(stop_accurate_rounds), AT(select_lower), *c->select_lower != '\0'},
      {AT(stop_plateau_delta), AT(stop_plateau_rounds), c->stop_plateau_rounds > 0},
      {AT(stop_error_rows), AT(stop_error), c->stop_error > 0.0},
      {AT(stop_change_rounds), AT(stop_change), c->stop_change > 0.0}};
  _Static_assert(sizeof all / sizeof *all <= MAX_DEPENDENCIES, "MAX_DEPENDENCIES is too small");
  memcpy(dependencies, all, sizeof all);
  return (int)(sizeof all / sizeof *all);
}

static int is_default(const tt_option *o, const tt_config *c)
{
  tt_config defaults = {0};
  int same = !tt_config_defaults(o, 1, &defaults) && tt_value_equal(o, c, &defaults);
  tt_value_free(o, &defaults);
  return same;
}

static void report_unused(tt_config_reader *r, const dependency *dependencies)
{
  const tt_option *needed = &tt_option_table[dependencies->by];
  char path[TT_OPTION_PATH_SIZE], other[TT_OPTION_PATH_SIZE], origin[TT_OPTION_PATH_SIZE],
      value[TT_PRINTABLE_SIZE] = "";
  tt_option_path(&tt_option_table[dependencies->row], -1, path);
  tt_option_path(needed, -1, other);
  FILE *f = fmemopen(value, sizeof value - 1, "w");
  if (f && tt_value_is_empty(needed, r->cfg)) fputs("not given", f);
  if (f && !tt_value_is_empty(needed, r->cfg)) tt_value_write(needed, r->cfg, f);
  if (f) fclose(f);
  tt_config_error(r, &r->job[dependencies->row],
                  "%s has no effect with %s: %s (%s); remove the former or change the latter", path,
                  other, value, tt_location_text(&r->job[dependencies->by], origin));
}

void tt_config_check_unused(tt_config_reader *r)
{
  dependency dependencies[MAX_DEPENDENCIES];
  int n = list_dependencies(r->cfg, dependencies);
  for (int i = 0; i < n; i++) {
    const tt_source_location *location = &r->job[dependencies[i].row],
                             *by = &r->job[dependencies[i].by];
    int switched = by->set && !location->set;
    if (dependencies[i].used || !location->given || location->bad || by->bad || switched) continue;
    if (!is_default(&tt_option_table[dependencies[i].row], r->cfg))
      report_unused(r, &dependencies[i]);
  }
}

tt_err tt_config_reset_unused(tt_config_reader *r)
{
  dependency dependencies[MAX_DEPENDENCIES];
  int n = list_dependencies(r->cfg, dependencies);
  for (int i = 0; r->cfg->campaign && i < n; i++) {
    const tt_option *o = &tt_option_table[dependencies[i].row];
    if (dependencies[i].used || is_default(o, r->cfg)) continue;
    tt_value_free(o, r->cfg);
    TT_TRY(tt_config_defaults(o, 1, r->cfg));
  }
  return TT_OK;
}
