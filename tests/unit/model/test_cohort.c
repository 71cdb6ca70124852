/* test_cohort.c — laws of the cohort: its members, the rows and the order in which they see them,
 * and invalid jobs. */
#include "core/base/mem.h"
#include "core/model/cohort.h"
#include "core/model/trained_ensemble.h"
#include "tests/support/check.h"
#include "tests/support/trained.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* orders of an epoch */

enum { LABELED = 90 };

/* times[r]: how often row r occurs in one epoch. */
static int64_t tally(const tt_cohort *c, const tt_member *m, int64_t epoch, int *times)
{
  tt_sampler o = tt_member_sampler(c, m, 0, LABELED, epoch);
  int64_t rows = tt_cohort_epoch_rows(c, LABELED);
  memset(times, 0, LABELED * sizeof *times);
  for (int64_t s = 0; s < rows; s++) {
    uint32_t r = tt_sampler_at(&o, (uint32_t)s);
    TT_CHECK((int)r, <, LABELED);
    times[r]++;
  }
  return rows;
}

/* Every epoch of a member has the same rows, whatever the resampling, in another order. */
TT_TEST (a_member_keeps_its_rows_over_the_epochs) {
  for (int resample = 0; resample < TT_RESAMPLE_COUNT; resample++) {
    tt_cohort c = {.resample = (tt_resample)resample, .seed = 1, .subsample = 0.4};
    tt_member a = {.stream = 1ull << 32}, b = a;
    int own = resample == TT_RESAMPLE_bootstrap || resample == TT_RESAMPLE_subsample;
    b.stream++;
    int first[LABELED], later[LABELED], others[LABELED], most = 0;
    int64_t rows = tally(&c, &a, 0, first);
    tally(&c, &a, 5, later);
    tally(&c, &b, 0, others);
    TT_CHECK(memcmp(first, later, sizeof first), ==, 0);
    TT_CHECK(memcmp(first, others, sizeof first) != 0, ==, own);
    for (int r = 0; r < LABELED; r++) most = first[r] > most ? first[r] : most;
    if (resample == TT_RESAMPLE_bootstrap)
      TT_CHECK(most, >, 1);
    else
      TT_CHECK(most, ==, 1);
    TT_CHECK(rows, ==, resample == TT_RESAMPLE_subsample ? 36 : LABELED);
  }
}

/* The rows that a member has seen are the rows of its epochs. */
TT_TEST (a_member_has_seen_the_rows_of_its_epochs) {
  for (int resample = 0; resample < TT_RESAMPLE_COUNT; resample++)
    for (int32_t attempt = 0; attempt < 2; attempt++) {
      tt_cohort c = {
          .resample = (tt_resample)resample, .seed = 1, .subsample = 0.4, .retry_reseed = 1};
      tt_member m = {.stream = 1ull << 32};
      int8_t seen[LABELED];
      int times[LABELED] = {0}, all = 0;
      tt_sampler o = tt_member_sampler(&c, &m, attempt, LABELED, 3);
      for (int64_t s = 0; s < tt_cohort_epoch_rows(&c, LABELED); s++)
        times[tt_sampler_at(&o, (uint32_t)s)]++;
      tt_member_row_mask(&c, &m, attempt, LABELED, seen);
      for (int r = 0; r < LABELED; r++) {
        TT_CHECK((int)seen[r], ==, times[r] > 0);
        all += seen[r];
      }
      if (resample == TT_RESAMPLE_bootstrap) TT_CHECK(abs(all - 57), <, 15); /* 1 - 1/e of them */
    }
}

static int64_t equal_places(const tt_sampler *a, const tt_sampler *b)
{
  int64_t same = 0;
  for (uint32_t s = 0; s < LABELED; s++) same += tt_sampler_at(a, s) == tt_sampler_at(b, s);
  return same;
}

TT_TEST (members_and_epochs_have_orders_of_their_own) {
  tt_cohort c = {.seed = 1};
  tt_member a = {.stream = 1ull << 32}, b = {.stream = 9ull << 32 | 1};
  tt_sampler of_a = tt_member_sampler(&c, &a, 0, LABELED, 0),
             of_b = tt_member_sampler(&c, &b, 0, LABELED, 0),
             next = tt_member_sampler(&c, &a, 0, LABELED, 1);
  TT_CHECK(equal_places(&of_a, &of_b), <=, 8);
  TT_CHECK(equal_places(&of_a, &next), <=, 8);
}

TT_TEST (a_subsample_is_never_empty) {
  tt_cohort c = {.resample = TT_RESAMPLE_subsample, .subsample = 0.0};
  TT_CHECK(tt_cohort_epoch_rows(&c, 10), ==, 1);
  c.subsample = 0.25;
  TT_CHECK(tt_cohort_epoch_rows(&c, 10), ==, 3);
  c.subsample = 1.0;
  TT_CHECK(tt_cohort_epoch_rows(&c, 10), ==, 10);
  TT_CHECK(tt_cohort_epoch_rows(&c, 0), ==, 0);
}

/* cohort */

static tt_columns named(const char *a, const char *b, const char *c)
{
  const char *names[] = {a, b, c};
  tt_columns out;
  TT_CHECK_OK(tt_columns_create(3, &out));
  for (int i = 0; i < 3; i++) TT_CHECK_OK(tt_text_set(&out.name[i], names[i]));
  return out;
}

/* The only cohort of a job with these ensembles; NULL and *e on an error. */
static tt_cohort *cohort(const char *ensembles, tt_err *e)
{
  char text[1024];
  tt_config *cfg = NULL;
  tt_cohort *c = NULL;
  tt_cohorts all = {0};
  int64_t bytes = snprintf(text, sizeof text,
                           "data: {file: a.h5}\nmodel: {hidden: [3], output: mean}\n"
                           "train: {learning_rate: 0.25, epochs: 9, patience: 4, l2: 0.5}\n"
                           "run: {seed: 77}\nensembles: %s\n",
                           ensembles);
  tt_columns target = named("load", "gain", "cost");
  TT_CHECK_OK(tt_config_parse("job.yaml", text, bytes, NULL, 0, &cfg));
  *e = tt_cohorts_create(cfg, 4, &target, NULL, &all);
  TT_CHECK(all.count, ==, *e ? 0 : 1);
  if (!*e) {
    c = all.at[0];
    all.at[0] = NULL;
  }
  tt_cohorts_destroy(&all);
  tt_config_destroy(&cfg);
  tt_columns_free(&target);
  return c;
}

TT_TEST (a_cohort_holds_all_ensembles) {
  tt_err e;
  tt_cohort *c = cohort("[{name: one, target: cost, members: 3},"
                        " {name: two, target: load, members: 2, train: {learning_rate: 0.5}}]",
                        &e);
  TT_CHECK(c->members, ==, 5);
  TT_CHECK(c->ensembles, ==, 2);
  TT_CHECK(c->seed, ==, 77u);
  TT_CHECK(c->max_epochs, ==, 9);
  TT_CHECK(c->model.params, ==, 4 * 3 + 3 + 3 + 1);
  TT_CHECK(c->ensemble[0].column[0], ==, 2);
  TT_CHECK(c->ensemble[1].column[0], ==, 0);
  TT_CHECK(c->ensemble[1].first, ==, 3);
  for (int i = 0; i < 5; i++) {
    const tt_member *m = &c->member[i];
    TT_CHECK(m->ensemble, ==, i / 3);
    TT_CHECK(m->index, ==, i % 3);
    TT_CHECK(m->hyper.learning_rate, ==, i < 3 ? 0.25f : 0.5f);
    TT_CHECK(m->hyper.l2, ==, 0.5f);
    TT_CHECK(m->hyper.patience, ==, 4);
    TT_CHECK(m->hyper.epochs, ==, 9);
    for (int j = 0; j < i; j++) TT_CHECK(m->stream, !=, c->member[j].stream);
  }
  tt_cohort_destroy(&c);
  tt_cohort_destroy(&c);
}

TT_TEST (streams_come_from_the_name_of_the_ensemble) {
  tt_err e;
  tt_cohort *a = cohort("[{name: one, target: cost, members: 3}]", &e);
  tt_cohort *b = cohort("[{name: zero, target: load, members: 7},"
                        " {name: one, target: cost, members: 5}]",
                        &e);
  for (int i = 0; i < 3; i++) TT_CHECK(a->member[i].stream, ==, b->member[7 + i].stream);
  tt_cohort_destroy(&a);
  tt_cohort_destroy(&b);
}

TT_TEST (an_ensemble_without_targets_learns_all) {
  tt_err e;
  tt_cohort *c = cohort("[{name: one}, {name: two, targets: [cost, load, gain]}]", &e);
  TT_CHECK(c->model.targets, ==, 3);
  TT_CHECK(c->model.outputs, ==, 3);
  const int32_t want[] = {0, 1, 2, 2, 0, 1};
  for (int i = 0; i < 6; i++) TT_CHECK(c->ensemble[i / 3].column[i % 3], ==, want[i]);
  tt_cohort_destroy(&c);
}

/* sweeps */

static tt_hyper hyper_of(const tt_cohort *c, int64_t i) { return c->member[i].hyper; }

/* Every kind of sweep, for options of every type: values are in range and depend on the member
 * alone. */
TT_TEST (a_swept_value_depends_on_the_member_alone) {
  static const char swept[] =
      "train: {schedule: step}, sweep: {learning_rate: {log_uniform: [1e-5, 1e-1]},"
      " l2: {uniform: [0.25, 0.5]}, epochs: {uniform: [3, 6]}, schedule_step: {log_uniform: [1, "
      "100]},"
      " beta1: {choice: [0.5, 0.75, 0.9]}}";
  char alone[512], among[512], later[512];
  tt_err e;
  snprintf(alone, sizeof alone, "[{name: one, target: cost, members: 200, %s}]", swept);
  snprintf(among, sizeof among,
           "[{name: zero, target: gain, train: {schedule: step}},"
           " {name: one, target: load, members: 300, %s}]",
           swept);
  snprintf(later, sizeof later, "[{name: one, target: cost, first_member: 150, members: 50, %s}]",
           swept);
  tt_cohort *a = cohort(alone, &e), *b = cohort(among, &e), *c = cohort(later, &e);
  int small = 0, seen[7] = {0};
  for (int64_t i = 0; i < 200; i++) {
    tt_hyper h = hyper_of(a, i), same = hyper_of(b, 5 + i);
    TT_CHECK(memcmp(&h, &same, sizeof h), ==, 0);
    if (i >= 150) same = hyper_of(c, i - 150);
    TT_CHECK(memcmp(&h, &same, sizeof h), ==, 0);
    TT_CHECK(h.learning_rate >= 1e-5f && h.learning_rate <= 1e-1f, ==, 1);
    TT_CHECK(h.l2 >= 0.25f && h.l2 <= 0.5f, ==, 1);
    TT_CHECK(h.epochs >= 3 && h.epochs <= 6, ==, 1);
    TT_CHECK(h.schedule_step >= 1 && h.schedule_step <= 100, ==, 1);
    TT_CHECK(h.beta1 == 0.5f || h.beta1 == 0.75f || h.beta1 == 0.9f, ==, 1);
    small += h.learning_rate < 1e-3f;
    seen[h.epochs]++;
  }
  TT_CHECK(small, >, 75); /* of 200 values, about half, because the draw is logarithmic */
  TT_CHECK(small, <, 125);
  for (int i = 3; i < 7; i++) TT_CHECK(seen[i], >, 25);
  TT_CHECK(a->max_epochs, ==, 6);
  tt_cohort_destroy(&a);
  tt_cohort_destroy(&b);
  tt_cohort_destroy(&c);
}

TT_TEST (grids_combine_and_lists_go_one_by_one) {
  static const float l2[] = {0.5f, 0.0f, 0.25f};
  tt_err e;
  tt_cohort *c = cohort(
      "[{name: one, target: cost, members: 12,"
      " sweep: {l2: {grid: [0.5, 0, 0.25]}, patience: {list: [9, 8, 7, 6, 5, 4, 3, 2, 1, 2, 3, 4]},"
      " epochs: {grid: [3, 4]}}}]",
      &e);
  for (int i = 0; i < 12; i++) {
    tt_hyper h = hyper_of(c, i);
    TT_CHECK(h.l2, ==, l2[i / 2 % 3]);
    TT_CHECK(h.epochs, ==, 3 + i % 2);
    TT_CHECK(h.patience, ==, i < 9 ? 9 - i : i - 7);
  }
  tt_cohort *part = cohort("[{name: one, target: cost, first_member: 7, members: 2,"
                           " sweep: {l2: {grid: [0.5, 0, 0.25]}, epochs: {grid: [3, 4]}}}]",
                           &e);
  for (int i = 0; i < 2; i++) TT_CHECK(hyper_of(part, i).l2, ==, hyper_of(c, 7 + i).l2);
  for (int i = 0; i < 2; i++) TT_CHECK(hyper_of(part, i).epochs, ==, hyper_of(c, 7 + i).epochs);
  tt_cohort_destroy(&part);
  tt_cohort_destroy(&c);
}

TT_TEST (a_job_may_train_some_members_of_an_ensemble) {
  tt_err e;
  tt_cohort *all = cohort("[{name: one, target: cost, members: 9}]", &e);
  tt_cohort *part = cohort("[{name: one, target: cost, first_member: 4, members: 3}]", &e);
  for (int i = 0; i < 3; i++) {
    TT_CHECK(part->member[i].stream, ==, all->member[4 + i].stream);
    TT_CHECK(part->member[i].index, ==, 4 + i);
  }
  tt_cohort_destroy(&all);
  tt_cohort_destroy(&part);
}

/* several cohorts */

/* Which options separate cohorts and which are per member: every row of the table. */
TT_TEST (ensembles_that_differ_in_more_than_members_part) {
  static const struct {
    const char *own;
    int64_t cohorts;
  } job[] = {{"train: {learning_rate: 2, l2: 1, epochs: 3, dropout: 0.5}", 1},
             {"model: {hidden: [4]}", 2},
             {"model: {activation: tanh}", 2},
             {"model: {layer_norm: true}", 2},
             {"train: {batch_size: 3}", 2},
             {"train: {optimizer: adamw}", 2},
             {"train: {loss: mae}", 2},
             {"train: {resample: bootstrap}", 2},
             {"train: {on_diverged: {retries: 1}}", 2},
             {"members: 3, first_member: 9", 1},
             {"targets: [load, gain]", 2}};
  for (size_t i = 0; i < sizeof job / sizeof *job; i++) {
    char text[1024];
    tt_config *cfg = NULL;
    tt_cohorts all = {0};
    tt_columns target = named("load", "gain", "cost");
    const char *y = strstr(job[i].own, "targets") ? "" : "target: gain, ";
    int64_t bytes = snprintf(text, sizeof text,
                             "data: {file: a.h5}\nensembles: [{name: a, target: load}, "
                             "{name: b, %s%s}, {name: c, target: cost}]",
                             y, job[i].own);
    TT_CHECK_OK(tt_config_parse("job.yaml", text, bytes, NULL, 0, &cfg));
    TT_CHECK_OK(tt_cohorts_create(cfg, 4, &target, NULL, &all));
    TT_CHECK(all.count, ==, job[i].cohorts);
    TT_CHECK(all.at[0]->ensembles, ==, 4 - job[i].cohorts);
    TT_CHECK(strcmp(all.at[0]->ensemble[3 - job[i].cohorts].name, "c"), ==, 0);
    tt_cohorts_destroy(&all);
    tt_config_destroy(&cfg);
    tt_columns_free(&target);
  }
}

/* what depends on the samples */

enum { ROWS = 40 };

/* Three target columns: classes 0 to 3, classes 0 to 1, and labels in every other row. */
static tt_dataset *labels(void)
{
  tt_dataset *d = NULL;
  TT_CHECK_OK(tt_dataset_create(ROWS, 4, 3, 0, &d));
  TT_CHECK_OK(TT_ALLOC(d->selected, ROWS));
  d->selections = 1;
  for (int r = 0; r < ROWS; r++) {
    d->y[3 * r] = (float)(r % 4);
    d->y[3 * r + 1] = (float)(r % 2);
    d->y[3 * r + 2] = r % 2 ? NAN : 1.0f;
    d->selected[r] = r < 10;
    d->split[r] = r % 10 == 9 ? TT_VALIDATION : TT_TRAIN;
  }
  return d;
}

static tt_err with_labels(const char *ensembles, tt_cohorts *all)
{
  char text[1024];
  tt_config *cfg = NULL;
  tt_dataset *d = labels();
  tt_columns target = named("load", "gain", "cost");
  int64_t bytes = snprintf(text, sizeof text, "data: {file: a.h5}\nensembles: %s\n", ensembles);
  TT_CHECK_OK(tt_config_parse("job.yaml", text, bytes, NULL, 0, &cfg));
  tt_err e = tt_cohorts_create(cfg, 4, &target, d, all);
  tt_config_destroy(&cfg);
  tt_columns_free(&target);
  tt_dataset_destroy(&d);
  return e;
}

TT_TEST (classes_are_counted_in_the_labels) {
  tt_cohorts all = {0};
  TT_CHECK_OK(with_labels("[{name: a, target: load, train: {loss: cross_entropy}},"
                          " {name: b, target: gain, train: {loss: cross_entropy}},"
                          " {name: c, targets: [gain, load], train: {loss: cross_entropy}},"
                          " {name: d, target: gain, model: {classes: 4},"
                          "  train: {loss: cross_entropy}}]",
                          &all));
  TT_CHECK(all.count, ==, 3); /* a and d have four classes each */
  TT_CHECK(all.at[0]->ensembles, ==, 2);
  TT_CHECK(all.at[0]->model.outputs, ==, 4);
  TT_CHECK(all.at[1]->model.outputs, ==, 2);
  TT_CHECK(all.at[2]->model.outputs, ==, 8);
  tt_cohorts_destroy(&all);
}

/* Training rows of an ensemble: those of `rows` that have a label. Test rows: all. */
TT_TEST (an_ensemble_trains_on_its_rows) {
  tt_cohorts all = {0};
  tt_dataset *d = labels();
  TT_CHECK_OK(with_labels("[{name: a, target: load}, {name: b, target: cost, rows: some},"
                          " {name: c, target: load, rows: some}]",
                          &all));
  static const int64_t want[3][2] = {{36, 4}, {5, 0}, {9, 1}};
  for (int row_set = 0; row_set < 3; row_set++)
    for (int which = 0; which < 2; which++) {
      int32_t *row = NULL;
      int64_t rows = 0;
      TT_CHECK_OK(tt_cohort_rows(all.at[0], d, row_set, (tt_split)which, &row, &rows));
      TT_CHECK(rows, ==, want[row_set][which]);
      for (int64_t i = 0; row_set && i < rows; i++) TT_CHECK(row[i], <, 10);
      tt_free(row);
    }
  tt_cohorts_destroy(&all);
  TT_CHECK((int)with_labels("[{name: b, target: cost, rows: some,"
                            " train: {resample: kfold, folds: 6}}]",
                            &all),
           ==, TT_E_CONFIG);
  TT_CHECK_HAS(tt_err_last(), "ensemble b: train.folds is 6, but there are 5 rows to train on");
  tt_dataset_destroy(&d);
}

/* Options that use validation rows are rejected if an ensemble has none. */
TT_TEST (patience_needs_validation_rows) {
  tt_cohorts all = {0};
  TT_CHECK((int)with_labels("[{name: a, target: load, train: {patience: 3}},"
                            " {name: b, target: cost, rows: some, train: {patience: 3}}]",
                            &all),
           ==, TT_E_CONFIG);
  TT_CHECK_HAS(tt_err_last(), "ensemble b: train.patience needs validation rows, but there is");
  TT_CHECK((int)with_labels("[{name: c, target: cost}]\ncombine: {method: greedy}\n", &all), ==,
           TT_E_CONFIG);
  TT_CHECK_HAS(tt_err_last(), "ensemble c: combine.method needs validation rows");
  TT_CHECK_OK(with_labels("[{name: d, target: cost, rows: some,"
                          " train: {patience: 3, resample: kfold, folds: 2}}]",
                          &all));
  tt_cohorts_destroy(&all);
}

/* With kfold every training row is a validation row in one row set and a training row in the
 * others; additional rows change no assignment. */
TT_TEST (folds_partition_the_training_rows) {
  enum { FOLDS = 3, MANY = 60 };
  int32_t column = 0;
  int8_t fold[MANY];
  tt_ensemble e = {.members = 5, .targets = 1, .column = &column, .selection = -1};
  tt_cohort c = {
      .resample = TT_RESAMPLE_kfold, .folds = FOLDS, .seed = 3, .ensembles = 1, .ensemble = &e};
  TT_CHECK(tt_cohort_row_sets(&c), ==, FOLDS);
  TT_CHECK(tt_member_row_set(&c, &(tt_member){.index = 4}), ==, 1);
  for (int64_t rows = MANY; rows >= MANY / 2; rows -= MANY / 2) {
    int trained[MANY] = {0}, validated[MANY] = {0};
    tt_dataset *d = NULL;
    TT_CHECK_OK(tt_dataset_create(rows, 1, 1, 0, &d));
    for (int64_t r = 0; r < rows; r++) d->split[r] = r % 7 == 3 ? TT_TEST : TT_TRAIN;
    for (int64_t row_set = 0; row_set < FOLDS; row_set++)
      for (int which = 0; which < 2; which++) {
        int32_t *row = NULL;
        int64_t n = 0;
        TT_CHECK_OK(tt_cohort_rows(&c, d, row_set, (tt_split)which, &row, &n));
        for (int64_t i = 0; i < n; i++) (which ? validated : trained)[row[i]]++;
        for (int64_t i = 0; which && i < n; i++) {
          if (rows < MANY) TT_CHECK((int64_t)fold[row[i]], ==, row_set);
          fold[row[i]] = (int8_t)row_set;
        }
        tt_free(row);
      }
    for (int64_t r = 0; r < rows; r++) {
      TT_CHECK(trained[r], ==, r % 7 == 3 ? 0 : FOLDS - 1);
      TT_CHECK(validated[r], ==, r % 7 == 3 ? 0 : 1);
    }
    tt_dataset_destroy(&d);
  }
}

static void refused(const char *ensembles, const char *first, const char *second)
{
  tt_err e;
  TT_CHECK(cohort(ensembles, &e) == NULL, ==, 1);
  TT_CHECK((int)e, ==, TT_E_CONFIG);
  TT_CHECK_HAS(tt_err_last(), first);
  TT_CHECK_HAS(tt_err_last(), second);
}

TT_TEST (invalid_cohorts_are_rejected) {
  refused("[{name: one, target: laod}]", "ensemble one: target 'laod'", "load, gain, cost");
  refused("[{name: one, targets: [cost, tost]}]", "'tost'", "load, gain, cost");
  refused("[{name: one, targets: [cost, cost]}]", "'cost' is named twice", "ensemble one");
}

TT_TEST (a_trained_ensemble_finds_its_cohort) {
  tt_err e;
  tt_cohort *c = cohort("[{name: one, target: cost}, {name: two, target: gain}]", &e);
  tt_dataset *d = NULL;
  tt_trained_ensemble *k = NULL;
  TT_CHECK_OK(tt_dataset_create(1, 4, 3, 0, &d));
  d->scaler.y_mean[2] = 5.5;
  TT_CHECK_OK(tt_text_set(&d->target.name[2], "cost"));
  TT_CHECK_OK(trained_from_cohort(c, d, &k));
  TT_CHECK(tt_trained_ensemble_columns(k), ==, 2);
  TT_CHECK(k->members, ==, 10);
  TT_CHECK(k->ensemble[1].first, ==, 5);
  TT_CHECK(k->ensemble[1].column[0], ==, 1);
  TT_CHECK(strcmp(k->ensemble[1].name, "two"), ==, 0);
  TT_CHECK(strcmp(k->target.name[2], "cost"), ==, 0);
  TT_CHECK(k->scaler.y_mean[2], ==, 5.5);
  TT_CHECK(k->model.params, ==, c->model.params);
  tt_trained_ensemble_destroy(&k);
  tt_dataset_destroy(&d);
  tt_cohort_destroy(&c);
}
