/* combine_rules.c — rules between combine, calibration and the outputs of the ensembles. */
#include "core/config/config_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const tt_source_location *at(const tt_config_reader *r, int row) { return &r->job[row]; }

static int has_level(const tt_real_list *levels, double level)
{
  for (int64_t i = 0; i < levels->count; i++)
    if (fabs(levels->value[i] - level) < 1e-6) return 1;
  return 0;
}

static void check_levels(tt_config_reader *r)
{
  const tt_real_list *levels = &r->cfg->calibration_conformal;
  const tt_source_location *here = at(r, TT_OPTION_calibration_conformal);
  if (levels->count > TT_MAX_CONFORMAL)
    tt_config_error(r, here, "calibration.conformal: %" PRId64 " levels; at most %d are possible",
                    levels->count, TT_MAX_CONFORMAL);
  for (int64_t i = 0; i < levels->count; i++) {
    double x = levels->value[i];
    if (x > 0.0 && x < 1.0 && (i == 0 || levels->value[i - 1] < x)) continue;
    tt_config_error(r, here, "calibration.conformal: %g: write levels between 0 and 1, ascending",
                    x);
    return;
  }
}

/* "mean, mean_variance and quantiles": the outputs with a forecast in the bit set `forecasts`. */
static const char *list_outputs(unsigned forecasts, char text[TT_REASON_SIZE])
{
  int fit[TT_OUTPUT_COUNT], count = 0;
  for (int o = 0; o < TT_OUTPUT_COUNT; o++)
    if (forecasts >> tt_output_forecast((tt_output)o) & 1u) fit[count++] = o;
  text[0] = '\0';
  for (int i = 0; i < count; i++)
    tt_text_append(text, TT_REASON_SIZE, i + 1 < count ? ", " : " and ", tt_choice_output[fit[i]]);
  return text;
}

/* Check that the output of ensemble k can be calibrated. */
static void check_output(tt_config_reader *r, int64_t k)
{
  const tt_ensemble_config *own = &r->cfg->ensemble[k];
  const tt_real_list *levels = &r->cfg->calibration_conformal;
  tt_output output = tt_ensemble_output(own);
  tt_forecast_kind forecast = tt_output_forecast(output);
  unsigned recalibrated = 1u << TT_FORECAST_gaussian,
           conformal = recalibrated | 1u << TT_FORECAST_quantiles;
  char fitting[TT_REASON_SIZE];
  if (r->cfg->calibration_recalibrate == TT_RECALIBRATE_all && !(recalibrated >> forecast & 1u))
    tt_config_error(r, at(r, TT_OPTION_calibration_recalibrate),
                    "calibration.recalibrate: all: ensembles[%" PRId64
                    "] has output %s; only %s have a variance to scale",
                    own->number, tt_choice_output[output], list_outputs(recalibrated, fitting));
  if (levels->count && !(conformal >> forecast & 1u))
    tt_config_error(r, at(r, TT_OPTION_calibration_conformal),
                    "calibration.conformal: ensembles[%" PRId64
                    "] has output %s; prediction intervals are for %s",
                    own->number, tt_choice_output[output], list_outputs(conformal, fitting));
  for (int64_t i = 0; forecast == TT_FORECAST_quantiles && i < levels->count; i++) {
    double low = 0.5 * (1.0 - levels->value[i]), high = 0.5 * (1.0 + levels->value[i]);
    if (has_level(&own->model_quantiles, low) && has_level(&own->model_quantiles, high)) continue;
    tt_config_error(r, at(r, TT_OPTION_calibration_conformal),
                    "calibration.conformal: %g needs the levels %g and %g in model.quantiles of "
                    "ensembles[%" PRId64 "]",
                    levels->value[i], low, high, own->number);
  }
}

/* Whether a search was written with a wrong value: then its folds are not known. */
static int search_is_bad(const tt_config_reader *r)
{
  int bad = 0;
  for (int i = TT_OPTION_search_preset; i <= TT_OPTION_search_seed; i++) bad |= r->job[i].bad;
  return bad;
}

/* Member weights need rows that the members did not train on. */
static void check_rows(tt_config_reader *r, int64_t k, int has_validation, const char *fix)
{
  const tt_ensemble_config *own = &r->cfg->ensemble[k];
  const tt_source_location *method = at(r, TT_OPTION_combine_method);
  int folds = tt_config_weighs_folds(r->cfg, own);
  if (r->cfg->combine_method == TT_COMBINE_mean || search_is_bad(r)) return;
  if (!folds && !has_validation)
    tt_config_error(r, method, "combine.method: %s needs validation rows; %s",
                    tt_choice_combine[r->cfg->combine_method], fix);
  if (folds && own->members < own->train_folds)
    tt_config_error(r, method,
                    "combine.unit: network with train.resample: kfold compares the networks on all "
                    "training rows: each needs as many members as train.folds, %" PRId64,
                    own->train_folds);
}

void tt_config_check_combine(tt_config_reader *r, int has_validation, const char *fix)
{
  const tt_config *c = r->cfg;
  for (int64_t k = 0; k < c->ensembles; k++) check_rows(r, k, has_validation, fix);
  if (c->calibration_recalibrate == TT_RECALIBRATE_all && !has_validation)
    tt_config_error(r, at(r, TT_OPTION_calibration_recalibrate),
                    "calibration.recalibrate: all needs validation rows; %s", fix);
  if (at(r, TT_OPTION_calibration_conformal)->bad) return;
  if (c->calibration_conformal.count && !has_validation)
    tt_config_error(r, at(r, TT_OPTION_calibration_conformal),
                    "calibration.conformal needs validation rows; %s", fix);
  check_levels(r);
  for (int64_t k = 0; k < c->ensembles; k++) check_output(r, k);
}

const char *tt_config_mean_advice(const tt_config *c, char *text, int64_t capacity)
{
  const char *name = NULL;
  char options[256] = "";
  text[0] = '\0';
  if (c->combine_method != TT_COMBINE_mean) return text;
  for (int64_t k = 0; k < c->ensembles; k++) {
    const tt_ensemble_config *own = &c->ensemble[k];
    if (!own->sweeps || own->members < 2) continue;
    if (name && strcmp(name, own->name) != 0) continue;
    for (int64_t i = 0; i < own->sweeps; i++) {
      const char *option = tt_hyper_name[own->sweep[i].hyper];
      if (strstr(options, option)) continue;
      tt_text_append(options, sizeof options, ", ", option);
      name = own->name;
    }
  }
  if (name)
    snprintf(text, (size_t)capacity,
             "ensemble %s: its prediction is the plain mean of members that differ in %s (sweep), "
             "bad ones included; this line chooses good ones by the validation rows:\n"
             "combine: {method: greedy}",
             name, options);
  return text;
}
