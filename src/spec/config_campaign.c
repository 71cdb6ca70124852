/* config_campaign.c — rules between the options of an active-learning campaign. They hold only
 * where one of its sections is given. */
#include "spec/config_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int tt_threshold_parse(const char *text, tt_threshold *out)
{
  char *end = NULL;
  *out = (tt_threshold){0};
  if (!*text) return 1;
  out->given = 1;
  out->is_quantile = *text == 'q';
  if (out->is_quantile) text++;
  if (!strchr("0123456789.+-", *text)) return 0;
  out->value = strtod(text, &end);
  if (end == text || *end || !isfinite(out->value)) return 0;
  return !out->is_quantile || (out->value >= 0.0 && out->value <= 1.0);
}

static int is_campaign_section(const char *name)
{
  static const char *const section[] = {"campaign", "pool", "score", "select", "label", "stop"};
  for (size_t i = 0; i < sizeof section / sizeof *section; i++)
    if (!strcmp(section[i], name)) return 1;
  return 0;
}

int tt_config_is_campaign(const tt_reader *r)
{
  for (int i = 0; i < TT_OPTION_COUNT; i++)
    if (is_campaign_section(tt_option_table[i].section) && (r->job[i].given || r->section[i].given))
      return 1;
  return 0;
}

#define AT(name_) (&r->job[TT_AT_##name_])

static void check_pool(tt_reader *r)
{
  const tt_config *c = r->cfg;
  static const tt_where start = {.line = 1, .column = 1};
  int file = *c->pool_file != '\0', command = c->pool_command.count > 0;
  if (AT(pool_file)->bad || AT(pool_command)->bad) return;
  if (!file && !command)
    tt_fault(r, &start,
             "pool.file is missing: HDF5 file with the candidates; or give pool.command");
  if (file && command)
    tt_fault(r, AT(pool_command), "pool.file and pool.command are both given; keep one");
  if (command && *c->pool_exclude)
    tt_fault(r, AT(pool_exclude), "pool.exclude needs pool.file; a command leaves rows out itself");
}

static void check_weights(tt_reader *r)
{
  const tt_config *c = r->cfg;
  if (c->score_targets == TT_OVER_weighted && !c->score_target_weights.count)
    tt_fault(r, AT(score_targets), "score.targets: weighted needs score.target_weights");
  if (c->score_combine == TT_JOIN_weighted && !c->score_weights.count)
    tt_fault(r, AT(score_combine), "score.combine: weighted needs score.weights");
  if (c->score_weights.count && c->score_weights.count != c->ensembles)
    tt_fault(r, AT(score_weights),
             "score.weights has %" PRId64 " numbers, but there are %" PRId64 " ensembles",
             c->score_weights.count, c->ensembles);
  for (int64_t i = 0; i < c->score_weights.count; i++)
    if (c->score_weights.value[i] > 0.0) return;
  if (c->score_weights.count)
    tt_fault(r, AT(score_weights), "score.weights are all 0: no ensemble would count");
}

static void check_threshold(tt_reader *r, int row, const char *text, tt_threshold *out)
{
  char path[TT_PATH_TEXT], shown[TT_SHOW_TEXT];
  if (r->job[row].bad || tt_threshold_parse(text, out)) return;
  *out = (tt_threshold){0};
  tt_option_path(&tt_option_table[row], -1, path);
  tt_show(text, shown);
  tt_fault(r, &r->job[row], "%s: '%s': write a score like 0.05, or a quantile from q0 to q1", path,
           shown);
}

static void check_select(tt_reader *r)
{
  const tt_config *c = r->cfg;
  tt_threshold lower = {0}, upper = {0};
  check_threshold(r, TT_AT_select_lower, c->select_lower, &lower);
  check_threshold(r, TT_AT_select_upper, c->select_upper, &upper);
  if (lower.given && upper.given && lower.is_quantile == upper.is_quantile &&
      lower.value > upper.value)
    tt_fault(r, AT(select_upper), "select.upper %s is below select.lower %s", c->select_upper,
             c->select_lower);
  if (c->select_prefilter >= 0 && c->select_prefilter < c->select_batch &&
      !AT(select_prefilter)->bad && !AT(select_batch)->bad)
    tt_fault(r, AT(select_prefilter), "select.prefilter %" PRId64 " is below select.batch %" PRId64,
             c->select_prefilter, c->select_batch);
}

static void check_label(tt_reader *r)
{
  const tt_config *c = r->cfg;
  static const tt_where start = {.line = 1, .column = 1};
  const tt_where *at = AT(label_mode)->given ? AT(label_mode) : &start;
  int called = c->label_mode == TT_LABEL_command || c->label_mode == TT_LABEL_slurm;
  if (AT(label_mode)->bad) return;
  if (called && !c->label_command.count && !AT(label_command)->bad)
    tt_fault(r, at, "label.mode: %s needs label.command, as [./label, '{input}', '{output}']",
             tt_choice_label[c->label_mode]);
  if (c->label_mode == TT_LABEL_hidden && !*c->pool_labels)
    tt_fault(r, at, "label.mode: hidden needs pool.labels, the dataset that holds them");
  if (c->label_mode == TT_LABEL_slurm && !*c->label_script)
    tt_fault(r, at, "label.mode: slurm needs label.script, a file with #SBATCH lines");
}

static void check_stop(tt_reader *r, int tested)
{
  const tt_config *c = r->cfg;
  const char *cure = "which are measured on the test rows: give data.split.test above 0";
  if (!tested && c->stop_plateau_rounds > 0)
    tt_fault(r, AT(stop_plateau_rounds), "stop.plateau_rounds looks at errors, %s", cure);
  if (!tested && c->stop_change > 0.0)
    tt_fault(r, AT(stop_change), "stop.change looks at predictions, %s", cure);
  if (AT(stop_accurate)->given && !*c->select_lower)
    tt_fault(r, AT(stop_accurate),
             "stop.accurate counts the candidates below select.lower: give that too");
}

/* What a growing data set has no place for. */
static void check_data(tt_reader *r)
{
  const tt_config *c = r->cfg;
  if (*c->data_weights)
    tt_fault(r, AT(data_weights), "data.weights: new labels have no weights; not in a campaign");
  for (int64_t k = 0; k < c->ensembles; k++)
    if (c->ensemble[k].rows && *c->ensemble[k].rows)
      tt_fault(r, &r->own[k][TT_AT_ENSEMBLE_rows],
               "ensembles[%" PRId64 "].rows: new labels belong to no selection; not in a campaign",
               k);
}

/* Moments that go on need a step size that goes on. */
static void check_warm(tt_reader *r)
{
  const tt_config *c = r->cfg;
  if (c->campaign_warm_start != TT_WARM_optimizer) return;
  for (int64_t k = 0; k < c->ensembles; k++)
    if (c->ensemble[k].train_schedule != TT_SCHEDULE_constant ||
        c->ensemble[k].train_warmup > 0.0) {
      tt_fault(r, AT(campaign_warm_start),
               "campaign.warm_start: optimizer needs train.schedule: "
               "constant and train.warmup: 0, but ensembles[%" PRId64 "] has others; use params",
               k);
      return;
    }
}

void tt_config_check_campaign(tt_reader *r, int tested)
{
  check_pool(r);
  check_weights(r);
  check_select(r);
  check_label(r);
  check_stop(r, tested);
  check_data(r);
  check_warm(r);
}
