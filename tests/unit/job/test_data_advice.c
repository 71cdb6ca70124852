/* test_data_advice.c — inputs that are constant or equal, and too few rows, are reported with their
 * names; good data are not. */
#include "core/base/mem.h"
#include "src/job/data_advice.h"
#include "tests/support/check.h"

#include <math.h>
#include <string.h>

enum { ROWS = 20, INPUTS = 4 };
static char one[] = "one";
static int32_t column = 0;

/* Inputs a to d with different values; rows 18 and 19 are for validation. */
static tt_dataset *make_of(int64_t targets)
{
  static const char *const name[] = {"a", "b", "c", "d"};
  tt_dataset *d = NULL;
  TT_CHECK_OK(tt_dataset_create(ROWS, INPUTS, targets, 0, &d));
  for (int64_t r = 0; r < ROWS; r++) {
    d->split[r] = r < 18 ? TT_TRAIN : TT_VALIDATION;
    for (int64_t k = 0; k < targets; k++) d->y[r * targets + k] = (float)(r + k);
    for (int64_t k = 0; k < INPUTS; k++) d->x[r * INPUTS + k] = (float)((r * (k + 2)) % 7);
  }
  for (int64_t k = 0; k < INPUTS; k++) TT_CHECK_OK(tt_text_set(&d->input.name[k], name[k]));
  return d;
}

static tt_dataset *make(void) { return make_of(1); }

static tt_data_advice find(const tt_dataset *d, int64_t params)
{
  tt_ensemble e = {.name = one, .members = 1, .targets = 1, .column = &column, .selection = -1};
  tt_cohort c = {.ensembles = 1, .ensemble = &e, .model.params = params};
  tt_cohort *cohort = &c;
  const tt_cohorts all = {1, &cohort};
  tt_data_advice a;
  TT_CHECK_OK(tt_data_advice_find(d, &all, &a));
  return a;
}

TT_TEST (usual_data_need_no_advice) {
  tt_dataset *d = make();
  tt_data_advice a = find(d, 1000);
  TT_CHECK(a.count, ==, 0);
  tt_dataset_destroy(&d);
}

TT_TEST (inputs_without_information_are_named) {
  tt_dataset *d = make();
  for (int64_t r = 0; r < 18; r++) {
    d->x[r * INPUTS + 1] = 3.0f;
    d->x[r * INPUTS + 3] = d->x[r * INPUTS];
  }
  tt_data_advice a = find(d, 10);
  TT_CHECK(a.count, ==, 2);
  TT_CHECK_HAS(a.text[0], "inputs with one value in all training rows: b. ");
  TT_CHECK_HAS(a.text[1], "inputs with the same values in all training rows: a = d. ");
  d->x[17 * INPUTS + 1] = d->x[17 * INPUTS + 3] = 8.0f;
  a = find(d, 10);
  TT_CHECK(a.count, ==, 0);
  tt_dataset_destroy(&d);
}

TT_TEST (a_target_without_variation_is_named) {
  tt_dataset *d = make_of(2);
  for (int64_t r = 0; r < ROWS; r++) d->y[2 * r] = 5.0f, d->y[2 * r + 1] = (float)r;
  TT_CHECK_OK(tt_text_set(&d->target.name[0], "flux"));
  tt_data_advice a = find(d, 10);
  TT_CHECK(a.count, ==, 1);
  TT_CHECK_HAS(a.text[0], "targets with one value in all training rows: flux. ");
  d->y[2 * 19] = NAN;
  d->y[2 * 3] = 6.0f;
  a = find(d, 10);
  TT_CHECK(a.count, ==, 0);
  tt_dataset_destroy(&d);
}

TT_TEST (an_indicator_without_gaps_is_named) {
  tt_dataset *d = make();
  for (int64_t r = 0; r < ROWS; r++) d->x[r * INPUTS + 1] = 0.0f;
  d->scaler.net.at[1].kind = TT_NET_INPUT_missing;
  tt_data_advice a = find(d, 10);
  TT_CHECK(a.count, ==, 1);
  TT_CHECK_HAS(a.text[0], "data.missing: indicator has no effect on inputs that no training row "
                          "lacks: b. ");
  tt_dataset_destroy(&d);
}

TT_TEST (rows_that_lack_a_target_are_named) {
  tt_dataset *d = make_of(2);
  int32_t both[] = {0, 1};
  tt_ensemble e = {.name = one, .members = 1, .targets = 2, .column = both, .selection = -1};
  tt_cohort c = {.ensembles = 1, .ensemble = &e, .model.params = 9};
  tt_cohort *cohort = &c;
  const tt_cohorts all = {1, &cohort};
  tt_data_advice a;
  d->y[2 * 3] = d->y[2 * 5 + 1] = NAN;
  d->y[2 * 18] = NAN; /* for validation */
  TT_CHECK_OK(tt_data_advice_find(d, &all, &a));
  TT_CHECK(a.count, ==, 1);
  TT_CHECK_HAS(a.text[0], "are left out: one (2 rows). With data.partial_labels: use they train");
  d->partial_labels = 1;
  TT_CHECK_OK(tt_data_advice_find(d, &all, &a));
  TT_CHECK(a.count, ==, 0);
  tt_dataset_destroy(&d);
}

TT_TEST (few_rows_without_validation_are_named) {
  tt_dataset *d = make();
  d->split[18] = d->split[19] = TT_TEST;
  tt_data_advice a = find(d, 19);
  TT_CHECK(a.count, ==, 1);
  TT_CHECK_HAS(a.text[0], "no validation rows: one (18 rows, 19 weights). ");
  a = find(d, 18);
  TT_CHECK(a.count, ==, 0);
  tt_dataset_destroy(&d);
}
