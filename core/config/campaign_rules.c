/* campaign_rules.c — rules between the options of an active-learning campaign. They are
 * checked only if the job has one of its sections. */
#include "core/config/config_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int tt_threshold_parse(const char *text, tt_threshold *out)
{
  char *end = NULL;
  *out = (tt_threshold){0};
  if (!*text) return 1;
  out->given = 1;
  out->is_quantile = *text == 'q';
  if (out->is_quantile) text++;
  if (strspn(text, "0123456789.+-eE") != strlen(text)) return 0; /* no inf, nan, 0x1p3 */
  out->value = strtod(text, &end);
  if (end == text || *end || !isfinite(out->value)) return 0;
  return !out->is_quantile || (out->value >= 0.0 && out->value <= 1.0);
}

int tt_is_campaign_section(const char *name)
{
  static const char *const section[] = {"campaign", "train_when", "pool", "score",
                                        "select",   "label",      "stop"};
  for (size_t i = 0; i < sizeof section / sizeof *section; i++)
    if (!strcmp(section[i], name)) return 1;
  return 0;
}

int tt_config_is_campaign(const tt_config_reader *r)
{
  for (int i = 0; i < TT_OPTION_COUNT; i++)
    if (tt_is_campaign_section(tt_option_table[i].section) &&
        (r->job[i].given || r->section[i].given))
      return 1;
  return 0;
}

#define AT(name_) (&r->job[TT_OPTION_##name_])

/* Whether pool.inputs has its default, which in a CSV file means the columns of data.inputs. */
static int pool_has_columns_of_data(const tt_config *c)
{
  static const char *const end[] = {".csv", ".tsv", ".csv.gz", ".tsv.gz"};
  for (size_t i = 0; i < sizeof end / sizeof *end; i++)
    if (tt_text_ends_in(c->pool_file, end[i])) return !strcmp(c->pool_inputs, "x");
  return 0;
}

tt_err tt_config_pool_is_data(const tt_config *c, int *same)
{
  struct stat pool, data;
  const char *a = c->pool_inputs, *b = c->data_inputs;
  a += strspn(a, "/");
  b += strspn(b, "/");
  *same = 0;
  if (!*c->pool_file || (strcmp(a, b) && !pool_has_columns_of_data(c))) return TT_OK;
  int missing = stat(c->pool_file, &pool) || stat(c->data_file, &data);
  if (missing && errno != ENOENT)
    return TT_FAIL(IO, "%s or %s cannot be read: %s", c->pool_file, c->data_file, strerror(errno));
  *same = missing ? !strcmp(c->pool_file, c->data_file)
                  : pool.st_dev == data.st_dev && pool.st_ino == data.st_ino;
  return TT_OK;
}

/* 1 if the split uses all rows, as far as the configuration shows. */
static int split_uses_all_rows(const tt_config *c)
{
  double used = c->data_split_train + c->data_split_validation + c->data_split_test;
  return !*c->data_split_column && used > 1.0 - 1e-9;
}

/* Every {word} of a command must be a placeholder that tutti replaces. ${word} is for a shell.
 *   known  the placeholders, each as {word} */
static void check_placeholders(tt_config_reader *r, const tt_source_location *location,
                               const char *option, const tt_text_list *command, const char *known)
{
  for (int64_t i = 0; i < command->count; i++)
    for (const char *p = strchr(command->value[i], '{'); p; p = strchr(p + 1, '{')) {
      char word[64];
      int n = (int)strspn(p + 1, "abcdefghijklmnopqrstuvwxyz_");
      if (!n || n > 60 || p[n + 1] != '}' || (p > command->value[i] && p[-1] == '$')) continue;
      snprintf(word, sizeof word, "%.*s", n + 2, p);
      if (!strstr(known, word))
        tt_config_error(r, location,
                        "%s: '%s' is not one of its placeholders: %s; put other text in braces "
                        "into a script",
                        option, word, known);
    }
}

static void check_pool(tt_config_reader *r)
{
  const tt_config *c = r->cfg;
  static const tt_source_location start = {.line = 1, .column = 1};
  int file = *c->pool_file != '\0', command = c->pool_command.count > 0, is_data = 0;
  if (AT(pool_file)->bad || AT(pool_command)->bad) return;
  if (!file && !command)
    tt_config_error(r, &start,
                    "pool.file is missing: HDF5 file with the candidates; or give pool.command");
  check_placeholders(r, AT(pool_command), "pool.command", &c->pool_command,
                     "{output}, {model}, {round}, {chunk}, {seed}");
  if (file && command)
    tt_config_error(r, AT(pool_command), "pool.file and pool.command are both given; keep one");
  if (command && *c->pool_exclude)
    tt_config_error(
        r, AT(pool_exclude),
        "pool.exclude needs pool.file; with pool.command, the command must leave out these rows");
  if (file && split_uses_all_rows(c) && !tt_config_pool_is_data(c, &is_data) && is_data)
    tt_config_error(
        r, AT(pool_file),
        "pool.file: '%s' is also data.file, so the candidates are the rows that data.split "
        "does not use, but train %g + validation %g + test %g use all rows",
        c->pool_file, c->data_split_train, c->data_split_validation, c->data_split_test);
}

/* The score must be computable from the output of every ensemble. */
static void check_score(tt_config_reader *r)
{
  static const tt_source_location start = {.line = 1, .column = 1};
  const tt_source_location *location =
      AT(score_acquisition)->given ? AT(score_acquisition) : &start;
  char fitting[TT_REASON_SIZE];
  if (AT(score_acquisition)->bad) return;
  for (int64_t k = 0; k < r->cfg->ensembles; k++) {
    tt_output output = tt_ensemble_output(&r->cfg->ensemble[k]);
    if (tt_acquisition_supports((tt_acquisition)r->cfg->score_acquisition, output)) continue;
    tt_acquisition_list_supported(output, fitting, sizeof fitting);
    tt_config_error(r, location,
                    "score.acquisition: %s does not fit ensembles[%" PRId64
                    "], which has output %s; choose %s",
                    tt_choice_acquisition[r->cfg->score_acquisition], r->cfg->ensemble[k].number,
                    tt_choice_output[output], fitting);
  }
}

static int all_zero(const tt_real_list *list)
{
  for (int64_t i = 0; i < list->count; i++)
    if (list->value[i] > 0.0) return 0;
  return list->count > 0;
}

/* Compare the number of weights with the targets of an ensemble. An ensemble that names no target
 * has all columns of the data; their number is not known here. */
static void check_target_weights(tt_config_reader *r)
{
  const tt_config *c = r->cfg;
  int64_t given = c->score_target_weights.count;
  if (c->score_target_reduction != TT_TARGET_REDUCTION_weighted || AT(score_target_weights)->bad)
    return;
  if (!given)
    tt_config_error(r, AT(score_target_reduction),
                    "score.target_reduction: weighted needs score.target_weights");
  if (all_zero(&c->score_target_weights))
    tt_config_error(r, AT(score_target_weights),
                    "score.target_weights are all 0: no target would be used");
  for (int64_t k = 0; given && k < c->ensembles; k++) {
    int64_t has = *c->ensemble[k].target ? 1 : c->ensemble[k].targets.count;
    if (!has || has == given) continue;
    tt_config_error(r, AT(score_target_weights),
                    "score.target_weights has length %" PRId64
                    ", but the number of targets of ensembles[%" PRId64 "] is %" PRId64,
                    given, c->ensemble[k].number, has);
  }
}

static void check_weights(tt_config_reader *r)
{
  const tt_config *c = r->cfg;
  if (AT(score_weights)->bad) return;
  if (c->score_ensemble_reduction == TT_ENSEMBLE_REDUCTION_weighted && !c->score_weights.count)
    tt_config_error(r, AT(score_ensemble_reduction),
                    "score.ensemble_reduction: weighted needs score.weights");
  if (c->score_weights.count && c->score_weights.count != tt_config_ensembles(c))
    tt_config_error(r, AT(score_weights),
                    "score.weights has length %" PRId64 ", but the number of ensembles is %" PRId64,
                    c->score_weights.count, tt_config_ensembles(c));
  if (all_zero(&c->score_weights))
    tt_config_error(r, AT(score_weights), "score.weights are all 0: no ensemble would be used");
}

static void check_threshold(tt_config_reader *r, int row, const char *text, tt_threshold *out)
{
  char path[TT_OPTION_PATH_SIZE], shown[TT_PRINTABLE_SIZE];
  if (r->job[row].bad || tt_threshold_parse(text, out)) return;
  *out = (tt_threshold){0};
  tt_option_path(&tt_option_table[row], -1, path);
  tt_printable(text, shown);
  tt_config_error(r, &r->job[row], "%s: '%s': write a score like 0.05, or a quantile from q0 to q1",
                  path, shown);
}

static void check_select(tt_config_reader *r)
{
  const tt_config *c = r->cfg;
  tt_threshold lower = {0}, upper = {0};
  check_threshold(r, TT_OPTION_select_lower, c->select_lower, &lower);
  check_threshold(r, TT_OPTION_select_upper, c->select_upper, &upper);
  if (lower.given && upper.given && lower.is_quantile == upper.is_quantile &&
      lower.value >= upper.value)
    tt_config_error(r, AT(select_upper),
                    "select.upper: %s is not above select.lower: %s; there would be no candidates",
                    c->select_upper, c->select_lower);
  if (lower.is_quantile && c->stop_accurate_fraction < 1.0)
    tt_config_error(r, AT(stop_accurate_fraction),
                    "stop.accurate_fraction: %g; with select.lower: %s the accurate fraction is %g "
                    "in every round; "
                    "write select.lower as a score",
                    c->stop_accurate_fraction, c->select_lower, lower.value);
  if (c->select_prefilter >= 0 && c->select_prefilter < c->select_batch &&
      !AT(select_prefilter)->bad && !AT(select_batch)->bad)
    tt_config_error(r, AT(select_prefilter),
                    "select.prefilter %" PRId64 " is below select.batch %" PRId64,
                    c->select_prefilter, c->select_batch);
}

/* New labels are split into training and validation rows only if the initial data are. */
static void check_validation(tt_config_reader *r, int has_validation)
{
  double part = r->cfg->label_validation_fraction;
  if (AT(label_validation_fraction)->bad) return;
  if (part > 0.0 && !has_validation)
    tt_config_error(r, AT(label_validation_fraction),
                    "label.validation_fraction: %g, but the initial data have no validation rows; "
                    "give data.split.validation above 0",
                    part);
  if (part >= 1.0)
    tt_config_error(r, AT(label_validation_fraction),
                    "label.validation_fraction: 1: no new label would be used for training");
}

/* The path of the directory is part of a line #SBATCH --output of the jobs. There a control
 * character would end the line, and sbatch itself interprets quotation marks and backslashes. */
static void check_label_jobs(tt_config_reader *r)
{
  static const tt_source_location start = {.line = 1, .column = 1};
  const tt_source_location *location = AT(campaign_directory);
  char shown[TT_PRINTABLE_SIZE];
  const char *c = r->cfg->campaign_directory;
  while (*c && (unsigned char)*c >= 0x20 && !strchr("\"\\\x7f", *c)) c++;
  if (r->cfg->label_mode != TT_LABEL_slurm || !*c || location->bad) return;
  tt_printable(r->cfg->campaign_directory, shown);
  tt_config_error(r, location->given ? location : &start,
                  "campaign.directory: '%s': with label.mode: slurm the path must not have %s; "
                  "choose another directory",
                  shown,
                  *c == '"'    ? "a quotation mark"
                  : *c == '\\' ? "a backslash"
                               : "a control character");
}

static void check_label(tt_config_reader *r)
{
  const tt_config *c = r->cfg;
  static const tt_source_location start = {.line = 1, .column = 1};
  const tt_source_location *location = AT(label_mode)->given ? AT(label_mode) : &start;
  int runs_command = c->label_mode == TT_LABEL_command || c->label_mode == TT_LABEL_slurm;
  if (AT(label_mode)->bad) return;
  check_placeholders(r, AT(label_command), "label.command", &c->label_command, "{input}, {output}");
  if (runs_command && !c->label_command.count && !AT(label_command)->bad)
    tt_config_error(r, location,
                    "label.mode: %s needs label.command, e.g. [./label, '{input}', '{output}']",
                    tt_choice_label[c->label_mode]);
  if (c->label_mode == TT_LABEL_hidden && !*c->pool_labels)
    tt_config_error(r, location,
                    "label.mode: hidden needs pool.labels, the dataset with the labels");
  if (c->label_mode == TT_LABEL_slurm && !*c->label_script)
    tt_config_error(r, location, "label.mode: slurm needs label.script, a file with #SBATCH lines");
  check_label_jobs(r);
}

static void check_stop(tt_config_reader *r, int has_test)
{
  const tt_config *c = r->cfg;
  const char *fix = "which need test rows; give data.split.test above 0";
  if (!has_test && c->stop_plateau_rounds > 0)
    tt_config_error(r, AT(stop_plateau_rounds), "stop.plateau_rounds uses errors, %s", fix);
  if (!has_test && c->stop_change > 0.0)
    tt_config_error(r, AT(stop_change), "stop.change uses predictions, %s", fix);
  if (c->stop_error > 0.0 && !*c->pool_file)
    tt_config_error(r, AT(stop_error),
                    "stop.error draws rows of pool.file, which is the same in all rounds");
  for (int64_t k = 0; c->stop_error > 0.0 && k < c->ensembles; k++)
    if (tt_output_is_class(tt_ensemble_output(&c->ensemble[k])))
      tt_config_error(r, AT(stop_error),
                      "stop.error is an rmse, but ensembles[%" PRId64 "] predicts classes",
                      c->ensemble[k].number);
  if (c->stop_accurate_fraction < 1.0 && !*c->select_lower)
    tt_config_error(r, AT(stop_accurate_fraction),
                    "stop.accurate_fraction: %g counts the candidates below select.lower; give "
                    "select.lower too",
                    c->stop_accurate_fraction);
}

/* Options that new labels have no values for. */
static void check_data(tt_config_reader *r)
{
  const tt_config *c = r->cfg;
  if (*c->data_weights)
    tt_config_error(r, AT(data_weights),
                    "data.weights cannot be used in a campaign: new labels have no weights");
  if (c->data_targets_pca)
    tt_config_error(r, AT(data_targets_pca),
                    "data.targets_pca is not available in a campaign: each round would have other "
                    "components");
  if (*c->data_sigma && c->label_mode == TT_LABEL_hidden && c->label_sigma < 0.0)
    tt_config_error(r, AT(data_sigma),
                    "data.sigma with label.mode: hidden needs label.sigma: hidden labels have no "
                    "error bars");
  if (*c->data_sigma && c->campaign_warm_start == TT_WARM_START_params)
    tt_config_error(r, AT(data_sigma),
                    "data.sigma and campaign.warm_start: params cannot be used together; use none");
  for (int64_t k = 0; k < c->ensembles; k++)
    if (c->ensemble[k].rows && *c->ensemble[k].rows)
      tt_config_error(r, &r->own[k][TT_ENSEMBLE_OPTION_rows],
                      "ensembles[%" PRId64
                      "].rows cannot be used in a campaign: new labels belong to no selection",
                      c->ensemble[k].number);
}

/* Labels that come one by one have no first round, and hidden ones are all there at once. */
static void check_mode(tt_config_reader *r)
{
  const tt_config *c = r->cfg;
  if (c->campaign_mode != TT_CAMPAIGN_MODE_asynchronous) return;
  if (c->label_mode == TT_LABEL_hidden)
    tt_config_error(r, AT(campaign_mode),
                    "campaign.mode: asynchronous and label.mode: hidden cannot be used together: "
                    "hidden labels are all there at once; use campaign.mode: rounds");
  if (c->stop_error > 0.0)
    tt_config_error(r, AT(stop_error),
                    "stop.error draws its rows in the first round and cannot be used with "
                    "campaign.mode: asynchronous; use another rule of section stop, or "
                    "campaign.mode: rounds");
}

/* Heads are not trained members. */
static void check_warm(tt_config_reader *r)
{
  const tt_config *c = r->cfg;
  const char *how = tt_choice_warm_start[c->campaign_warm_start];
  for (int64_t k = 0; k < c->ensembles && c->campaign_warm_start != TT_WARM_START_none; k++) {
    if (c->ensemble[k].model_heads > 1)
      tt_config_error(r, AT(campaign_warm_start),
                      "campaign.warm_start: %s: ensembles[%" PRId64 "] has model.heads: %" PRId64
                      ", and heads cannot be trained further as members; use none",
                      how, c->ensemble[k].number, c->ensemble[k].model_heads);
  }
}

void tt_config_check_campaign(tt_config_reader *r, int has_test, int has_validation)
{
  check_pool(r);
  check_score(r);
  check_target_weights(r);
  check_weights(r);
  check_select(r);
  check_label(r);
  check_validation(r, has_validation);
  check_stop(r, has_test);
  check_data(r);
  check_warm(r);
  check_mode(r);
  tt_config_check_unused(r);
}
