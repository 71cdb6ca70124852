/* job_rules.c — missing options, and rules between options of the job (those of an ensemble:
 * ensemble_rules.c). A rule is skipped if the value of one of its options is already an error. */
#include "core/config/config_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void report_missing(tt_config_reader *r, const tt_source_location *location,
                           const tt_option *o, int64_t element)
{
  char path[TT_OPTION_PATH_SIZE];
  tt_option_path(o, element, path);
  tt_config_error(r, location, "%s is missing: %s", path, o->help);
}

static void check_required(tt_config_reader *r)
{
  static const tt_source_location start = {.line = 1, .column = 1};
  const tt_source_location *section = &start;
  for (int i = 0; i < TT_OPTION_COUNT; i++) {
    const tt_option *o = &tt_option_table[i];
    if (i == 0 || strcmp(o->section, tt_option_table[i - 1].section) != 0) section = &r->section[i];
    if (i == TT_OPTION_data_file && r->without_data) continue;
    if (!o->default_value && !r->job[i].given)
      report_missing(r, section->given ? section : &start, o, -1);
  }
  if (!r->ensembles.given)
    tt_config_error(r, &start,
                    "ensembles is missing: list what to train, "
                    "e.g. ensembles: [{name: all, members: 5}]");
  for (int64_t k = 0; k < r->cfg->ensembles; k++)
    for (int i = 0; i < TT_ENSEMBLE_OPTION_COUNT; i++)
      if (!tt_ensemble_option_table[i].default_value && !r->own[k][i].given && !r->element[k].bad)
        report_missing(r, &r->element[k], &tt_ensemble_option_table[i], r->cfg->ensemble[k].number);
}

static void check_precision(tt_config_reader *r)
{
  const tt_config *c = r->cfg;
  const tt_source_location *precision = &r->job[TT_OPTION_run_precision],
                           *device = &r->job[TT_OPTION_run_device];
  char place[TT_OPTION_PATH_SIZE];
  if (precision->bad || device->bad) return;
  if (c->run_precision == TT_PRECISION_fp32 || c->run_device != TT_DEVICE_cpu) return;
  tt_config_error(r, precision,
                  "run.precision: %s needs a GPU, but run.device is cpu (%s); use fp32",
                  tt_choice_precision[c->run_precision], tt_location_text(device, place));
}

/* What computes with the error bars of labels. */
static void check_sigma(tt_config_reader *r)
{
  const tt_config *c = r->cfg;
  const tt_source_location *location = &r->job[TT_OPTION_data_sigma];
  const char *context = c->combine_method != TT_COMBINE_mean ? "combine.method"
                        : c->calibration_recalibrate == TT_RECALIBRATE_all
                            ? "calibration.recalibrate: all"
                        : c->calibration_conformal.count > 0 ? "calibration.conformal"
                                                             : NULL;
  if (location->bad || !*c->data_sigma) return;
  for (int64_t k = 0; k < c->ensembles; k++)
    if (!tt_loss_takes_label_variance((tt_loss)c->ensemble[k].train_loss))
      tt_config_error(r, location, "data.sigma needs train.loss: gaussian_nll or mse (ensemble %s)",
                      c->ensemble[k].name);
  if (context)
    tt_config_error(r, location,
                    "data.sigma: %s does not know the errors of the labels; remove one", context);
}

/* Components stand for all targets together, as numbers. */
static void check_components_of(tt_config_reader *r, int64_t k)
{
  const tt_ensemble_config *own = &r->cfg->ensemble[k];
  const char *why = NULL;
  if (*own->target || own->targets.count)
    why = "is for all targets together: remove `target` and `targets`";
  else if (tt_output_forecast(tt_ensemble_output(own)) != TT_FORECAST_gaussian)
    why = "needs an output mean or mean_variance, for example train.loss: gaussian_nll";
  if (why)
    tt_config_error(r, &r->job[TT_OPTION_data_targets_pca], "data.targets_pca %s (ensemble %s)",
                    why, own->name);
}

static void check_components(tt_config_reader *r)
{
  const tt_config *c = r->cfg;
  const tt_source_location *location = &r->job[TT_OPTION_data_targets_pca];
  if (location->bad || !c->data_targets_pca) return;
  for (int64_t k = 0; k < c->ensembles; k++) check_components_of(r, k);
  if (c->data_partial_labels == TT_PARTIAL_LABELS_use)
    tt_config_error(r, location,
                    "data.targets_pca needs all labels of a row, but data.partial_labels is "
                    "use; remove one");
  if (*c->train_init_from)
    tt_config_error(r, location,
                    "data.targets_pca and train.init_from cannot be used together: the components "
                    "are those of this job");
  if (*c->data_sigma)
    tt_config_error(r, location,
                    "data.targets_pca does not know the error bars of data.sigma; remove "
                    "one");
}

/* The first option that `by` cannot be used with; NULL: there is none. */
static const char *find_rival_of_by(const tt_config *c, const tt_ensemble_config *own)
{
  return *own->rows                                        ? "ensembles.rows"
         : *c->data_weights                                ? "data.weights"
         : *c->data_sigma                                  ? "data.sigma"
         : c->data_targets_pca                             ? "data.targets_pca"
         : *c->train_init_from                             ? "train.init_from"
         : own->model_heads > 1                            ? "model.heads"
         : own->train_label_noise > 0.0                    ? "train.label_noise"
         : own->train_parts > 1                            ? "train.parts"
         : c->data_partial_labels == TT_PARTIAL_LABELS_use ? "data.partial_labels: use"
                                                           : NULL;
}

static void check_by(tt_config_reader *r)
{
  const tt_config *c = r->cfg;
  const tt_source_location *location = &r->job[TT_OPTION_top_by];
  if (location->bad || !c->top_by.count || !c->ensembles) return;
  const char *rival = find_rival_of_by(c, &c->ensemble[0]);
  if (c->campaign)
    tt_config_error(r, location, "by cannot be used in a campaign");
  else if (tt_config_searches(c))
    tt_config_error(r, location,
                    "by and search cannot be used together: tune one group, or all rows, and write "
                    "the options that are found into this job");
  else if (c->ensembles > 1)
    tt_config_error(r, location,
                    "by needs one ensemble of one network; give it several targets as `targets`");
  else if (rival)
    tt_config_error(r, location, "by and %s cannot be used together; remove one", rival);
  else if (c->top_by_transfer && c->ensemble[0].train_resample != TT_RESAMPLE_none)
    tt_config_error(r, location,
                    "by_transfer and train.resample cannot be used together: rows that a member "
                    "leaves out have trained the network that it begins with; remove one");
}

/* Without parts a stage waits until all others have computed the whole batch. */
static void check_stages(tt_config_reader *r)
{
  const tt_config *c = r->cfg;
  int64_t parts = 1, stages = c->run_stages;
  for (int64_t k = 0; k < c->ensembles; k++)
    if (c->ensemble[k].train_parts > parts) parts = c->ensemble[k].train_parts;
  if (stages < 2 || parts > 1 || r->job[TT_OPTION_run_stages].bad) return;
  tt_config_error(r, &r->job[TT_OPTION_run_stages],
                  "run.stages: %" PRId64 " with 1 part: a stage would wait %.0f %% of the time for "
                  "the others; set train.parts to %" PRId64 " or more, or remove run.stages",
                  stages, 100.0 * (double)(stages - 1) / (double)stages, stages);
}

static void check_exchange(tt_config_reader *r)
{
  const tt_config *c = r->cfg;
  const tt_source_location *location = &r->job[TT_OPTION_run_exchange];
  const char *name = tt_choice_exchange[c->run_exchange];
  int is_nccl = c->run_exchange == TT_EXCHANGE_nccl;
  if (location->bad || (c->run_exchange != TT_EXCHANGE_device && !is_nccl)) return;
  if (c->run_device == TT_DEVICE_cpu)
    tt_config_error(r, location, "run.exchange: %s needs a GPU, but run.device is cpu; use host",
                    name);
  else if (is_nccl && c->run_stages > 1)
    tt_config_error(r, location,
                    "run.exchange: nccl cannot be combined with run.stages, which send and receive "
                    "in many orders at once; use device or host");
}

static void check_initial_model(tt_config_reader *r)
{
  const tt_config *c = r->cfg;
  const tt_source_location *member = &r->job[TT_OPTION_train_init_member],
                           *layers = &r->job[TT_OPTION_train_init_layers],
                           *from = &r->job[TT_OPTION_train_init_from];
  static const char only[] = "needs train.init_from: the model.h5 with the weights";
  if (*c->train_init_from && *c->data_sigma)
    tt_config_error(r, from, "train.init_from and data.sigma cannot be used together; remove one");
  if (*c->train_init_from && c->campaign)
    tt_config_error(r, from,
                    "train.init_from is for tutti train; in a campaign use campaign.warm_start");
  int transfers = c->top_by.count && c->top_by_transfer;
  if (*c->train_init_from || from->bad || transfers) return;
  if (c->train_init_member >= 0) tt_config_error(r, member, "train.init_member %s", only);
  if (c->train_init_layers >= 0) tt_config_error(r, layers, "train.init_layers %s", only);
}

/* What a search cannot do for its trials, a reason for each. */
static const char *why_no_trial(const tt_config *c, const tt_ensemble_config *own)
{
  return own->networks < 2 ? "needs two trials or more"
         : own->sweeps     ? "draws the options itself: remove `sweep`, or write it as search.space"
         : own->train_patience > 0 ? "stops trials at its rungs: remove train.patience"
         : own->train_parts > 1 || c->run_stages > 1
             ? "trains each member on one rank: remove train.parts and run.stages"
             : NULL;
}

static void check_search(tt_config_reader *r, int has_validation)
{
  enum { MOST_TRIALS = 2500 }; /* so that the resolved job is read back: less than 1 MiB */
  const tt_config *c = r->cfg;
  const tt_source_location *place = &r->job[TT_OPTION_search_preset];
  const char *why_none = c->campaign ? "is for tutti train, not for a campaign"
                         : *c->train_init_from
                             ? "begins with random weights: remove train.init_from"
                             : NULL;
  int used = r->job[TT_OPTION_search_folds].given || r->job[TT_OPTION_search_seed].given;
  for (int i = TT_OPTION_search_preset; i <= TT_OPTION_search_seed; i++)
    if (r->job[i].given && !place->given) place = &r->job[i];
  if (r->space.bad) return;
  if (!tt_config_searches(c)) {
    if (used || r->space.given)
      tt_config_error(r, used ? place : &r->space,
                      "search: give a preset, budget or time; without them there is no search");
    return;
  }
  if (c->ensembles > MOST_TRIALS)
    tt_config_error(r, place,
                    "search: %" PRId64 " trials of all ensembles; at most %d are possible",
                    c->ensembles, MOST_TRIALS);
  if (why_none) tt_config_error(r, place, "search %s", why_none);
  for (int64_t k = 0; k < c->ensembles; k++) {
    const tt_ensemble_config *own = &c->ensemble[k];
    const char *why = why_no_trial(c, own);
    if (!why && own->train_resample != TT_RESAMPLE_kfold && !has_validation)
      why = "needs folds (search.folds above 1) or validation rows";
    if (why) tt_config_error(r, place, "search %s (ensemble %s)", why, own->name);
  }
}

/* Only one of these options may be given. */
static void check_split_columns(tt_config_reader *r)
{
  static const int way[] = {TT_OPTION_data_split_column, TT_OPTION_data_split_group,
                            TT_OPTION_data_split_stratify, TT_OPTION_data_split_order};
  char path[TT_OPTION_PATH_SIZE], before[TT_OPTION_PATH_SIZE] = "";
  for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
    const tt_option *o = &tt_option_table[way[i]];
    if (tt_value_is_empty(o, r->cfg)) continue;
    tt_option_path(o, -1, path);
    if (*before)
      tt_config_error(r, &r->job[way[i]], "%s and %s are both given; keep one", path, before);
    snprintf(before, sizeof before, "%s", path);
  }
}

static int split_is_bad(const tt_config_reader *r)
{
  for (int i = TT_OPTION_data_split_train; i <= TT_OPTION_data_split_order; i++)
    if (r->job[i].bad) return 1;
  return 0;
}

/* Location of the last given fraction, or of data.split.train if none is given. */
static const tt_source_location *fraction_location(const tt_config_reader *r)
{
  const tt_source_location *location = &r->job[TT_OPTION_data_split_train];
  for (int i = TT_OPTION_data_split_train; i <= TT_OPTION_data_split_test; i++)
    if (r->job[i].given) location = &r->job[i];
  return location;
}

static void check_fractions(tt_config_reader *r)
{
  const tt_config *c = r->cfg;
  double train = c->data_split_train, sum = train + c->data_split_validation + c->data_split_test;
  if (*c->data_split_column) return;
  if (train <= 0.0)
    tt_config_error(r, &r->job[TT_OPTION_data_split_train],
                    "data.split.train is 0: there would be no training rows");
  if (sum > 1.0 + 1e-9)
    tt_config_error(r, fraction_location(r),
                    "data.split: train %g + validation %g + test %g = %g, above 1", train,
                    c->data_split_validation, c->data_split_test, sum);
}

static void check_split(tt_config_reader *r)
{
  if (split_is_bad(r)) return;
  check_split_columns(r);
  check_fractions(r);
}

/* 1 if a part of the split with this fraction has rows, as far as the configuration shows. */
static int part_has_rows(const tt_config_reader *r, double fraction)
{
  return split_is_bad(r) || *r->cfg->data_split_column || fraction > 0.0;
}

static void check_name(tt_config_reader *r, int64_t k)
{
  const char *name = r->cfg->ensemble[k].name;
  int64_t number = r->cfg->ensemble[k].number;
  const tt_source_location *location = &r->own[k][TT_ENSEMBLE_OPTION_name];
  char shown[TT_PRINTABLE_SIZE];
  size_t good = strspn(name, TT_NAME_CHARACTERS);
  if (!location->given || location->bad) return;
  tt_printable(name, shown);
  if (name[good] || good > 64)
    tt_config_error(r, location,
                    "ensembles[%" PRId64 "].name: '%s': write 1 to 64 letters, digits and . _ -",
                    number, shown);
  for (int64_t j = 0; j < k; j++) {
    if (r->cfg->ensemble[j].number == number) return;
    if (strcmp(r->cfg->ensemble[j].name, name) != 0) continue;
    tt_config_error(r, location,
                    "ensembles[%" PRId64 "].name: '%s' is also the name of ensembles[%" PRId64 "]",
                    number, shown, r->cfg->ensemble[j].number);
    return;
  }
}

static void check_ensembles(tt_config_reader *r, int has_validation)
{
  const char *fix = "give data.split.validation above 0";
  for (int64_t k = 0; k < r->cfg->ensembles; k++) {
    const tt_ensemble_config *own = &r->cfg->ensemble[k];
    check_name(r, k);
    tt_config_check_ensemble(r, k, has_validation, fix);
    tt_config_check_networks(r, k);
    if (*own->target && own->targets.count)
      tt_config_error(r, &r->own[k][TT_ENSEMBLE_OPTION_targets],
                      "ensembles[%" PRId64 "]: target and targets are both given; keep one",
                      own->number);
  }
  tt_config_check_combine(r, has_validation, fix);
}

/* Settings for developers, from the environment: docs/internals/environment.md. */
static void read_environment(tt_config_reader *r)
{
  const struct {
    const char *variable;
    const char *const *choices;
    int *to;
  } setting[] = {{"TUTTI_SIMD", tt_choice_simd, &r->cfg->simd},
                 {"TUTTI_GPU_PATH", tt_choice_gpu_kernel, &r->cfg->gpu_path}};
  for (size_t i = 0; i < sizeof setting / sizeof *setting; i++) {
    const tt_option o = {.kind = TT_KIND_NAME, .choices = setting[i].choices};
    char *text = getenv(setting[i].variable), why[TT_REASON_SIZE];
    tt_value v;
    if (!text) continue;
    const tt_yaml_scalar given = {.text = text, .length = strlen(text)};
    if (tt_value_parse(&o, &given, &v, why))
      *setting[i].to = v.word;
    else
      tt_config_error(r, &(tt_source_location){0}, "the environment variable %s: %s",
                      setting[i].variable, why);
  }
}

void tt_config_check(tt_config_reader *r)
{
  const tt_config *c = r->cfg;
  int has_validation = part_has_rows(r, c->data_split_validation);
  int has_test = part_has_rows(r, c->data_split_test);
  read_environment(r);
  check_required(r);
  check_precision(r);
  check_stages(r);
  check_exchange(r);
  check_split(r);
  check_sigma(r);
  check_components(r);
  check_ensembles(r, has_validation);
  r->cfg->campaign = tt_config_is_campaign(r);
  check_initial_model(r);
  check_search(r, has_validation);
  check_by(r);
  if (r->cfg->campaign) tt_config_check_campaign(r, has_test, has_validation);
}
