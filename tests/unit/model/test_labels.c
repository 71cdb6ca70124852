/* test_labels.c — the number of classes and of epochs that a cohort finds in the rows of a data set,
 * also where `tutti plan` has read the labels alone, or only counted the rows. */
#include "tests/support/check.h"

#include "core/base/mem.h"
#include "core/model/cohort.h"

#include <string.h>

enum { ROWS = 12 };

/* Two columns: classes 0 to 3, classes 0 and 1; the split of the rows is not known. */
static tt_dataset *labels(void)
{
  tt_dataset *d = NULL;
  TT_CHECK_OK(tt_dataset_create(ROWS, 1, 2, 0, &d));
  for (int r = 0; r < ROWS; r++) {
    d->y[2 * r] = (float)(r % 4);
    d->y[2 * r + 1] = (float)(r % 2);
  }
  tt_free(d->split);
  return d;
}

/* Options that need validation rows, or a number of training rows, are not checked then. */
TT_TEST (classes_are_counted_without_the_split) {
  static const char job[] =
      "data: {file: a.h5}\n"
      "ensembles: [{name: a, target: load, train: {loss: cross_entropy, patience: 3}},\n"
      "            {name: b, target: gain, train: {resample: kfold, folds: 100}}]\n"
      "combine: {method: greedy}\n";
  tt_config *cfg = NULL;
  tt_cohorts all = {0};
  tt_columns target = {0};
  tt_dataset *d = labels();
  TT_CHECK_OK(tt_columns_create(2, &target));
  TT_CHECK_OK(tt_text_set(&target.name[0], "load"));
  TT_CHECK_OK(tt_text_set(&target.name[1], "gain"));
  TT_CHECK_OK(tt_config_parse("job.yaml", job, (int64_t)strlen(job), NULL, 0, &cfg));
  TT_CHECK_OK(tt_cohorts_create(cfg, 4, &target, d, &all));
  TT_CHECK(all.count, ==, 2);
  TT_CHECK(all.at[0]->model.outputs, ==, 4);
  tt_cohorts_destroy(&all);
  tt_config_destroy(&cfg);
  tt_columns_free(&target);
  tt_dataset_destroy(&d);
}

/* Epochs of a job without train.epochs whose table has `rows` rows, of which `known` says whether
 * their split is; without, 4 of 5 are for training. */
static int64_t epochs_of_rows(int64_t rows, int known, const char *loss)
{
  char text[128];
  int bytes = snprintf(text, sizeof text,
                       "data: {file: a.h5}\nensembles: [{name: a}]\ntrain: {loss: %s}\n", loss);
  tt_config *cfg = NULL;
  tt_dataset *d = NULL;
  tt_cohorts all = {0};
  tt_columns target = {0};
  TT_CHECK_OK(tt_columns_create(1, &target));
  TT_CHECK_OK(tt_config_parse("job.yaml", text, bytes, NULL, 0, &cfg));
  TT_CHECK_OK(tt_dataset_create(rows, 1, 1, 0, &d));
  for (int64_t r = 0; r < rows; r++) d->split[r] = r % 5 ? TT_TRAIN : TT_TEST;
  if (!known) tt_free(d->split);
  TT_CHECK_OK(tt_cohorts_create(cfg, 1, &target, d, &all));
  int64_t epochs = all.at[0]->max_epochs;
  TT_CHECK((int64_t)all.at[0]->member[4].hyper.epochs, ==, epochs);
  tt_cohorts_destroy(&all);
  tt_dataset_destroy(&d);
  tt_columns_free(&target);
  tt_config_destroy(&cfg);
  return epochs;
}

TT_TEST (epochs_follow_from_the_training_rows) {
  for (int known = 0; known < 2; known++) {
    TT_CHECK(epochs_of_rows(5, known, "mse"), ==, 2000);
    TT_CHECK(epochs_of_rows(400, known, "mse"), ==, 2000);
    TT_CHECK(epochs_of_rows(1000, known, "mse"), ==, 800);
    TT_CHECK(epochs_of_rows(8000, known, "mse"), ==, 100);
    TT_CHECK(epochs_of_rows(50000, known, "mse"), ==, 100);
    TT_CHECK(epochs_of_rows(1000, known, "poisson"), ==, 800);
    TT_CHECK(epochs_of_rows(1000, known, "cross_entropy"), ==, 100);
    TT_CHECK(epochs_of_rows(1000, known, "bce"), ==, 100);
  }
}
