/* test_advice.c — advice is given where results need attention, with the names, and only there. */
#include "core/model/state.h"
#include "src/score/advice.h"
#include "tests/support/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MEMBERS = 4, EPOCHS = 100, COLUMNS = 3, ROWS = 1 };

/* Results of two ensembles, "one" with target a and "two" with targets b and c, of two members
 * each, with nothing to say about them. */
typedef struct results {
  char *owner[MEMBERS], *ensemble[COLUMNS], *target[COLUMNS];
  float loss[MEMBERS * EPOCHS];
  double status[MEMBERS], epochs_done[MEMBERS], test_rows[COLUMNS];
  double level, calibration[COLUMNS], aleatoric[ROWS * COLUMNS];
  double nll[MEMBERS * COLUMNS], rmse[COLUMNS], baseline[TT_BASELINE_COUNT][COLUMNS];
  tt_results k;
  tt_sentences found;
} results;

static char one[] = "one", two[] = "two", a[] = "a", b[] = "b", c[] = "c";

/* A validation loss that falls to its end in the first `epochs`. */
static void fall(results *r, int member, double epochs)
{
  for (int e = 0; e < EPOCHS; e++)
    r->loss[member * EPOCHS + e] = (float)(1.0 + fmax(0.0, 1.0 - e / epochs));
}

static void make(results *r)
{
  char *owner[] = {one, one, two, two}, *ensemble[] = {one, two, two}, *target[] = {a, b, c};
  *r = (results){.level = 0.9};
  for (int m = 0; m < MEMBERS; m++) {
    r->owner[m] = owner[m];
    r->status[m] = TT_STATUS_finished;
    r->epochs_done[m] = EPOCHS;
    for (int i = 0; i < COLUMNS; i++) r->nll[m * COLUMNS + i] = 1.0;
    fall(r, m, 40);
  }
  for (int i = 0; i < COLUMNS; i++) {
    r->ensemble[i] = ensemble[i];
    r->target[i] = target[i];
    r->calibration[i] = 0.88;
    r->test_rows[i] = 100;
    r->aleatoric[i] = 0.5;
    r->rmse[i] = 1.0;
    for (int k = 0; k < TT_BASELINE_COUNT; k++) r->baseline[k][i] = k ? 0.95 : 3.0;
  }
  r->k = (tt_results){.members = MEMBERS,
                      .epochs = EPOCHS,
                      .columns = COLUMNS,
                      .rows = ROWS,
                      .owner = r->owner,
                      .ensemble = r->ensemble,
                      .target = r->target,
                      .loss_validation = r->loss,
                      .test.aleatoric = r->aleatoric,
                      .levels = 1,
                      .level = &r->level,
                      .calibration = r->calibration,
                      .status = r->status,
                      .epochs_done = r->epochs_done,
                      .test_rows = r->test_rows,
                      .targets = COLUMNS,
                      .target_name = r->target};
  r->k.rmse = r->rmse;
  for (int k = 0; k < TT_BASELINE_COUNT; k++) r->k.baseline[k] = r->baseline[k];
  r->k.member_score[TT_METRIC_nll] = r->nll;
}

static int64_t find(results *r)
{
  tt_advice_find(&r->k, &r->found);
  return r->found.count;
}

static void check_begins(const char *text, const char *words)
{
  TT_CHECK(strncmp(text, words, strlen(words)), ==, 0);
}

TT_TEST (test_rows_with_inputs_of_training_rows_are_counted) {
  results r;
  make(&r);
  r.k.repeated_rows = 9;
  TT_CHECK(find(&r), ==, 0);
  r.k.seen_rows = 3;
  TT_CHECK(find(&r), ==, 1);
  check_begins(r.found.text[0], "3 validation and test rows have the inputs of a training row: ");
}

TT_TEST (good_results_get_no_advice) {
  results r;
  make(&r);
  TT_CHECK(find(&r), ==, 0);
}

/* Of 100 rows, 10 % is more than chance; the best baseline is named. */
TT_TEST (a_better_baseline_is_named) {
  results r;
  make(&r);
  r.baseline[TT_BASELINE_ridge][1] = 0.85;
  r.baseline[TT_BASELINE_gaussian_process][1] = 0.8;
  TT_CHECK(find(&r), ==, 1);
  check_begins(r.found.text[0], "two b: a Gaussian process, trained on the same rows, has a lower");
  r.test_rows[1] = 9;
  TT_CHECK(find(&r), ==, 0);
}

TT_TEST (narrow_intervals_are_reported_with_their_cause) {
  results r;
  make(&r);
  r.calibration[0] = r.calibration[1] = 0.22;
  r.calibration[2] = 0.7;
  r.aleatoric[0] = NAN;
  TT_CHECK(find(&r), ==, 2);
  check_begins(r.found.text[0], "one: the 90 % intervals hold only 22 %");
  TT_CHECK_HAS(r.found.text[0], "calibration.recalibrate: auto fits it");
  TT_CHECK_HAS(r.found.text[0], "gaussian_nll");
  check_begins(r.found.text[1], "two b, two c: the 90 % intervals hold only 22 to 70 %");
  TT_CHECK_HAS(r.found.text[1], "calibration.recalibrate: all or");
}

/* What the run already does is not recommended: the noise of "one" was fitted. */
TT_TEST (recalibration_is_not_recommended_twice) {
  for (int all = 0; all < 2; all++) {
    results r;
    make(&r);
    r.calibration[all] = 0.22;
    r.nll[0] = r.nll[COLUMNS] = NAN;
    r.k.recalibrated = all;
    TT_CHECK(find(&r), ==, 1);
    TT_CHECK_HAS(r.found.text[0], "calibration.recalibrate found too little in the validation");
  }
}

TT_TEST (overfitted_members_are_reported_with_their_losses) {
  static const struct {
    double train, validation;
    int noise, found;
  } row[] = {
      {0.1, 0.5, 0, 1}, {0.2, 0.5, 0, 0}, {0.001, 0.02, 0, 0}, {-1, 0.1, 1, 1}, {0.1, 0.5, 1, 0}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    results r;
    float train[MEMBERS * EPOCHS];
    double best[MEMBERS];
    make(&r);
    for (int m = 0; m < MEMBERS; m++) {
      best[m] = 50;
      for (int e = 0; e < EPOCHS; e++) {
        train[m * EPOCHS + e] = m < 2 ? (float)row[i].train : 1.0f;
        if (m < 2) r.loss[m * EPOCHS + e] = (float)(row[i].validation + (e < 50 ? 1 : 0));
      }
    }
    r.nll[0] = r.nll[COLUMNS] = row[i].noise ? 1.0 : NAN;
    r.k.loss_train = train;
    r.k.best_epoch = best;
    TT_CHECK(find(&r), ==, row[i].found);
    if (row[i].found) check_begins(r.found.text[0], "one: the members fit the training rows far ");
  }
}

TT_TEST (few_rows_do_not_make_narrow_intervals) {
  results r;
  make(&r);
  r.calibration[0] = r.calibration[1] = 0.7;
  r.calibration[2] = NAN;
  r.test_rows[0] = r.test_rows[1] = 10;
  TT_CHECK(find(&r), ==, 0);
}

TT_TEST (a_loss_that_falls_to_the_end_is_reported) {
  results r;
  make(&r);
  fall(&r, 2, EPOCHS);
  TT_CHECK(find(&r), ==, 0); /* one of two is not most */
  fall(&r, 3, EPOCHS);
  TT_CHECK(find(&r), ==, 1);
  check_begins(r.found.text[0], "two: the validation loss of most members was still falling");
  r.status[2] = r.status[3] = TT_STATUS_early_stopped;
  TT_CHECK(find(&r), ==, 0);
}

/* The learning rate of a cosine schedule goes to 0: the loss falls, but hardly in the last tenth. */
TT_TEST (an_annealed_loss_is_not_reported) {
  results r;
  make(&r);
  for (int m = 0; m < MEMBERS; m++)
    for (int e = 0; e < EPOCHS; e++)
      r.loss[m * EPOCHS + e] = (float)(1.0 + cos(3.14159265 * e / EPOCHS));
  TT_CHECK(find(&r), ==, 0);
}

TT_TEST (members_that_only_become_worse_are_reported) {
  results r;
  make(&r);
  for (int m = 0; m < MEMBERS; m++)
    for (int e = 2; e < EPOCHS; e++) r.loss[m * EPOCHS + e] = 3.0f + (float)e;
  for (int m = 0; m < MEMBERS; m++) r.epochs_done[m] = 30;
  TT_CHECK(find(&r), ==, 1);
  check_begins(r.found.text[0], "one, two: most members were best in their first epochs");
  for (int m = 0; m < MEMBERS; m++) r.epochs_done[m] = 10;
  TT_CHECK(find(&r), ==, 0); /* too short to tell */
}

TT_TEST (without_validation_rows_there_is_no_advice) {
  results r;
  make(&r);
  for (int i = 0; i < MEMBERS * EPOCHS; i++) r.loss[i] = NAN;
  r.k.levels = 0;
  TT_CHECK(find(&r), ==, 0);
}
