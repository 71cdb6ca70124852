/* test_cohort.c — laws of the cohort: who its members are, which rows they see in which order, and
 * which jobs are refused. */
#include "base/mem.h"
#include "check.h"
#include "spec/cohort.h"
#include "spec/committee.h"

#include <math.h>
#include <string.h>

/* ---- orders of an epoch ---- */

enum { LABELLED = 90 };

/* times[r]: how often row r comes up in one epoch. */
static int64_t tally(const tt_cohort *c, const tt_member *m, int64_t epoch, int *times)
{
  tt_order o = tt_order_make(c, m, 0, LABELLED, epoch);
  int64_t rows = tt_cohort_epoch_rows(c, LABELLED);
  memset(times, 0, LABELLED * sizeof *times);
  for (int64_t s = 0; s < rows; s++) {
    uint32_t r = tt_order_at(&o, (uint32_t)s);
    TT_CHECK((int)r, <, LABELLED);
    times[r]++;
  }
  return rows;
}

/* Every epoch of a member has the same rows, whatever the resampling, in another order. */
TT_TEST(a_member_keeps_its_rows_over_the_epochs)
{
  for (int resample = 0; resample < TT_RESAMPLE_COUNT; resample++)
    for (int batches = 0; batches < TT_BATCHES_COUNT; batches++) {
      tt_cohort c = {.resample = (tt_resample)resample, .seed = 1, .subsample = 0.4};
      tt_member a = {.stream = 1ull << 32, .hyper.batches = batches}, b = a;
      int own = resample == TT_RESAMPLE_bootstrap || resample == TT_RESAMPLE_subsample;
      b.stream++;
      int first[LABELLED], later[LABELLED], others[LABELLED], most = 0;
      int64_t rows = tally(&c, &a, 0, first);
      tally(&c, &a, 5, later);
      tally(&c, &b, 0, others);
      TT_CHECK(memcmp(first, later, sizeof first), ==, 0);
      TT_CHECK(memcmp(first, others, sizeof first) != 0, ==, own);
      for (int r = 0; r < LABELLED; r++) most = first[r] > most ? first[r] : most;
      if (resample == TT_RESAMPLE_bootstrap) TT_CHECK(most, >, 1);
      else TT_CHECK(most, ==, 1);
      TT_CHECK(rows, ==, resample == TT_RESAMPLE_subsample ? 36 : LABELLED);
    }
}

static int64_t equal_places(const tt_order *a, const tt_order *b)
{
  int64_t same = 0;
  for (uint32_t s = 0; s < LABELLED; s++) same += tt_order_at(a, s) == tt_order_at(b, s);
  return same;
}

TT_TEST(batches_are_own_or_shared)
{
  for (int batches = 0; batches < TT_BATCHES_COUNT; batches++) {
    tt_cohort c = {.seed = 1};
    tt_member a = {.stream = 1ull << 32, .hyper.batches = batches};
    tt_member b = {.stream = 9ull << 32 | 1, .hyper.batches = batches};
    tt_order of_a = tt_order_make(&c, &a, 0, LABELLED, 0), of_b = tt_order_make(&c, &b, 0, LABELLED, 0);
    tt_order next = tt_order_make(&c, &a, 0, LABELLED, 1);
    if (batches == TT_BATCHES_shared) TT_CHECK(equal_places(&of_a, &of_b), ==, LABELLED);
    else TT_CHECK(equal_places(&of_a, &of_b), <=, 8);
    TT_CHECK(equal_places(&of_a, &next), <=, 8);
  }
}

TT_TEST(a_subsample_is_never_empty)
{
  tt_cohort c = {.resample = TT_RESAMPLE_subsample, .subsample = 0.0};
  TT_CHECK(tt_cohort_epoch_rows(&c, 10), ==, 1);
  c.subsample = 0.25;
  TT_CHECK(tt_cohort_epoch_rows(&c, 10), ==, 3);
  c.subsample = 1.0;
  TT_CHECK(tt_cohort_epoch_rows(&c, 10), ==, 10);
  TT_CHECK(tt_cohort_epoch_rows(&c, 0), ==, 0);
}

/* ---- cohort ---- */

static tt_columns named(const char *a, const char *b, const char *c)
{
  const char *names[] = {a, b, c};
  tt_columns out;
  TT_CHECK_OK(tt_columns_create(3, &out));
  for (int i = 0; i < 3; i++) TT_CHECK_OK(tt_text_set(&out.name[i], names[i]));
  return out;
}

/* The cohort of a job with these ensembles; NULL and *e on an error. */
static tt_cohort *cohort(const char *ensembles, tt_err *e)
{
  char text[1024];
  tt_config *cfg = NULL;
  tt_cohort *c = NULL;
  int64_t bytes = snprintf(text, sizeof text,
                           "data: {file: a.h5}\nmodel: {hidden: [3], output: mean}\n"
                           "train: {learning_rate: 0.25, epochs: 9, patience: 4, l2: 0.5}\n"
                           "run: {seed: 77}\nensembles: %s\n", ensembles);
  tt_columns target = named("load", "gain", "cost");
  TT_CHECK_OK(tt_config_parse("job.yaml", text, bytes, NULL, 0, &cfg));
  *e = tt_cohort_create(cfg, 4, &target, &c);
  TT_CHECK(*e == TT_OK, ==, c != NULL);
  tt_config_destroy(&cfg);
  tt_columns_free(&target);
  return c;
}

TT_TEST(a_cohort_holds_all_ensembles)
{
  tt_err e;
  tt_cohort *c = cohort("[{name: one, target: cost, members: 3},"
                        " {name: two, target: load, members: 2, train: {learning_rate: 0.5}}]", &e);
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

TT_TEST(streams_come_from_the_name_of_the_ensemble)
{
  tt_err e;
  tt_cohort *a = cohort("[{name: one, target: cost, members: 3}]", &e);
  tt_cohort *b = cohort("[{name: zero, target: load, members: 7},"
                        " {name: one, target: cost, members: 5}]", &e);
  for (int i = 0; i < 3; i++) TT_CHECK(a->member[i].stream, ==, b->member[7 + i].stream);
  tt_cohort_destroy(&a);
  tt_cohort_destroy(&b);
}

TT_TEST(an_ensemble_without_targets_learns_all)
{
  tt_err e;
  tt_cohort *c = cohort("[{name: one}, {name: two, targets: [cost, load, gain]}]", &e);
  TT_CHECK(c->model.targets, ==, 3);
  TT_CHECK(c->model.outputs, ==, 3);
  const int32_t want[] = {0, 1, 2, 2, 0, 1};
  for (int i = 0; i < 6; i++) TT_CHECK(c->ensemble[i / 3].column[i % 3], ==, want[i]);
  tt_cohort_destroy(&c);
}

static void refused(const char *ensembles, const char *first, const char *second)
{
  tt_err e;
  TT_CHECK(cohort(ensembles, &e) == NULL, ==, 1);
  TT_CHECK((int)e, ==, TT_E_CONFIG);
  TT_CHECK_HAS(tt_err_last(), first);
  TT_CHECK_HAS(tt_err_last(), second);
}

TT_TEST(cohorts_that_cannot_be_are_refused)
{
  refused("[{name: one, target: laod}]", "ensemble one: target 'laod'", "load, gain, cost");
  refused("[{name: one, targets: [cost, tost]}]", "'tost'", "load, gain, cost");
  refused("[{name: one, targets: [cost, cost]}]", "'cost' is named twice", "ensemble one");
  refused("[{name: one, target: cost}, {name: two}]", "2 different shapes", "");
}

TT_TEST(a_committee_knows_its_cohort)
{
  tt_err e;
  tt_cohort *c = cohort("[{name: one, target: cost}, {name: two, target: gain}]", &e);
  tt_dataset *d = NULL;
  tt_committee *k = NULL;
  TT_CHECK_OK(tt_dataset_create(1, 4, 3, 0, &d));
  d->scaler.y_mean[2] = 5.5;
  TT_CHECK_OK(tt_text_set(&d->target.name[2], "cost"));
  TT_CHECK_OK(tt_committee_from_cohort(c, d, &k));
  TT_CHECK(tt_committee_columns(k), ==, 2);
  TT_CHECK(k->members, ==, 10);
  TT_CHECK(k->ensemble[1].first, ==, 5);
  TT_CHECK(k->ensemble[1].column[0], ==, 1);
  TT_CHECK(strcmp(k->ensemble[1].name, "two"), ==, 0);
  TT_CHECK(strcmp(k->target.name[2], "cost"), ==, 0);
  TT_CHECK(k->scaler.y_mean[2], ==, 5.5);
  TT_CHECK(k->model.params, ==, c->model.params);
  tt_committee_destroy(&k);
  tt_dataset_destroy(&d);
  tt_cohort_destroy(&c);
}

static int nothing_is_left(void **state)
{
  (void)state;
  if (tt_mem_balance()) fprintf(stderr, "%d blocks not freed\n", (int)tt_mem_balance());
  return tt_mem_balance() != 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_member_keeps_its_rows_over_the_epochs),
      cmocka_unit_test(batches_are_own_or_shared),
      cmocka_unit_test(a_subsample_is_never_empty),
      cmocka_unit_test(a_cohort_holds_all_ensembles),
      cmocka_unit_test(streams_come_from_the_name_of_the_ensemble),
      cmocka_unit_test(an_ensemble_without_targets_learns_all),
      cmocka_unit_test(cohorts_that_cannot_be_are_refused),
      cmocka_unit_test(a_committee_knows_its_cohort),
  };
  return cmocka_run_group_tests(tests, NULL, nothing_is_left);
}
