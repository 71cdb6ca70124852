/* job_rules.c — what no single option can tell: missing ones, and rules between options of the
 * job (those of an ensemble: ensemble_rules.c). A rule is silent where one of its options is
 * already an error. */
#include "core/config/config_internal.h"

#include <inttypes.h>
#include <string.h>

static void missing(tt_reader *r, const tt_where *at, const tt_option *o, int64_t element)
{
  char path[TT_PATH_TEXT];
  tt_option_path(o, element, path);
  tt_fault(r, at, "%s is missing: %s", path, o->help);
}

static void check_missing(tt_reader *r)
{
  static const tt_where start = {.line = 1, .column = 1};
  const tt_where *section = &start;
  for (int i = 0; i < TT_OPTION_COUNT; i++) {
    const tt_option *o = &tt_option_table[i];
    if (i == 0 || strcmp(o->section, tt_option_table[i - 1].section) != 0) section = &r->section[i];
    if (!o->preset && !r->job[i].given) missing(r, section->given ? section : &start, o, -1);
  }
  if (!r->ensembles.given)
    tt_fault(r, &start,
             "ensembles is missing: list what to train, "
             "e.g. ensembles: [{name: all, members: 5}]");
  for (int64_t k = 0; k < r->cfg->ensembles; k++)
    for (int i = 0; i < TT_ENSEMBLE_OPTION_COUNT; i++)
      if (!tt_ensemble_option_table[i].preset && !r->own[k][i].given && !r->element[k].bad)
        missing(r, &r->element[k], &tt_ensemble_option_table[i], k);
}

static void check_precision(tt_reader *r)
{
  const tt_config *c = r->cfg;
  const tt_where *precision = &r->job[TT_AT_run_precision], *device = &r->job[TT_AT_run_device];
  char place[TT_PATH_TEXT];
  if (precision->bad || device->bad) return;
  if (c->run_precision == TT_PRECISION_fp32 || c->run_device != TT_DEVICE_cpu) return;
  tt_fault(r, precision, "run.precision: %s needs a GPU, but run.device is cpu (%s); use fp32",
           tt_choice_precision[c->run_precision], tt_origin(device, place));
}

/* Which way the rows are split; two ways at once is an error. */
static void check_split_kind(tt_reader *r)
{
  static const int lists[] = {TT_AT_data_split_train_rows, TT_AT_data_split_validation_rows,
                              TT_AT_data_split_test_rows};
  const tt_config *c = r->cfg;
  char path[TT_PATH_TEXT];
  for (int i = 0; i < 3; i++) {
    const tt_option *o = &tt_option_table[lists[i]];
    const tt_where *at = &r->job[lists[i]];
    if (tt_value_is_empty(o, c)) continue;
    tt_option_path(o, -1, path);
    if (*c->data_split_column)
      tt_fault(r, at, "%s and data.split.column are two ways to split; give one", path);
    else if (!*c->data_split_train_rows && !r->job[TT_AT_data_split_train_rows].bad)
      tt_fault(r, at, "%s needs data.split.train_rows beside it", path);
  }
}

static int split_is_bad(const tt_reader *r)
{
  for (int i = TT_AT_data_split_train; i <= TT_AT_data_split_test_rows; i++)
    if (r->job[i].bad) return 1;
  return 0;
}

/* The last of the three fractions that was written, else the first. */
static const tt_where *fraction_place(const tt_reader *r)
{
  const tt_where *at = &r->job[TT_AT_data_split_train];
  for (int i = TT_AT_data_split_train; i <= TT_AT_data_split_test; i++)
    if (r->job[i].given) at = &r->job[i];
  return at;
}

static void check_fractions(tt_reader *r)
{
  const tt_config *c = r->cfg;
  double train = c->data_split_train, sum = train + c->data_split_validation + c->data_split_test;
  if (*c->data_split_column || *c->data_split_train_rows) return;
  if (train <= 0.0)
    tt_fault(r, &r->job[TT_AT_data_split_train],
             "data.split.train is 0: there would be no row to train on");
  if (sum > 1.0 + 1e-9)
    tt_fault(r, fraction_place(r), "data.split: train %g + validation %g + test %g = %g, above 1",
             train, c->data_split_validation, c->data_split_test, sum);
}

static void check_split(tt_reader *r)
{
  if (split_is_bad(r)) return;
  check_split_kind(r);
  check_fractions(r);
}

/* Whether there are rows to validate on, as far as the configuration tells. */
static int is_validated(const tt_reader *r)
{
  const tt_config *c = r->cfg;
  if (split_is_bad(r) || *c->data_split_column) return 1;
  if (*c->data_split_train_rows) return *c->data_split_validation_rows != '\0';
  return c->data_split_validation > 0.0;
}

static void check_name(tt_reader *r, int64_t k)
{
  const char *name = r->cfg->ensemble[k].name;
  const tt_where *at = &r->own[k][TT_AT_ENSEMBLE_name];
  char shown[TT_SHOW_TEXT];
  size_t good = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
  if (!at->given || at->bad) return;
  tt_show(name, shown);
  if (name[good] || good > 64)
    tt_fault(r, at, "ensembles[%" PRId64 "].name: '%s': write 1 to 64 letters, digits and . _ -", k,
             shown);
  for (int64_t j = 0; j < k; j++) {
    if (strcmp(r->cfg->ensemble[j].name, name) != 0) continue;
    tt_fault(r, at, "ensembles[%" PRId64 "].name: '%s' is also the name of ensembles[%" PRId64 "]",
             k, shown, j);
    return;
  }
}

static void check_ensembles(tt_reader *r)
{
  int validated = is_validated(r);
  const char *cure = *r->cfg->data_split_train_rows ? "give data.split.validation_rows"
                                                    : "give data.split.validation above 0";
  for (int64_t k = 0; k < r->cfg->ensembles; k++) {
    const tt_ensemble_config *own = &r->cfg->ensemble[k];
    check_name(r, k);
    tt_config_check_ensemble(r, k, validated, cure);
    if (*own->target && own->targets.count)
      tt_fault(r, &r->own[k][TT_AT_ENSEMBLE_targets],
               "ensembles[%" PRId64 "]: target and targets are both given; keep one", k);
  }
  tt_config_check_combine(r, validated, cure);
}

/* Whether there are test rows, as far as the configuration tells. */
static int is_tested(const tt_reader *r)
{
  const tt_config *c = r->cfg;
  if (split_is_bad(r) || *c->data_split_column) return 1;
  if (*c->data_split_train_rows) return *c->data_split_test_rows != '\0';
  return c->data_split_test > 0.0;
}

void tt_config_check(tt_reader *r)
{
  check_missing(r);
  check_precision(r);
  check_split(r);
  check_ensembles(r);
  r->cfg->campaign = tt_config_is_campaign(r);
  if (r->cfg->campaign) tt_config_check_campaign(r, is_tested(r), is_validated(r));
}
