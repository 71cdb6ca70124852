/* test_continue.c — law of warm starts with the optimizer state: N epochs, and N more in another
 * run on the same rows with the same seed, equal 2 N epochs in one run. Bit-identical, on every
 * path of every engine; only best weights and patience are reset. */
#include "src/train/warm_start.h"
#include "tests/support/problem.h"

enum { ROWS = 40, EPOCHS = 2, EACH = 3 };

static problem make(int number, int epochs)
{
  const int64_t hidden[] = {5};
  problem p = problem_make(ROWS, 3, 2, 2, EACH, hidden, 1, TT_ACT_tanh, TT_OUTPUT_mean_variance);
  p.c.optimizer = (tt_optimizer)(number % 4);
  p.c.average = (tt_weight_average)(number % TT_AVERAGE_COUNT);
  p.c.max_epochs = epochs;
  for (int64_t m = 0; m < p.c.members; m++) {
    tt_hyper *h = &p.c.member[m].hyper;
    h->momentum = 0.5f;
    h->learning_rate = 2e-3f;
    h->epochs = epochs;
    h->average_decay = 0.8f;
    h->dropout = number % 2 ? 0.1f : 0.0f;
    h->patience = 1;
  }
  return p;
}

static const int carried[] = {TT_STATE_FIELD_weights, TT_STATE_FIELD_slots,
                              TT_STATE_FIELD_step,    TT_STATE_FIELD_epoch,
                              TT_STATE_FIELD_average, TT_STATE_FIELD_averaged,
                              TT_STATE_FIELD_status,  TT_STATE_FIELD_loss_train};

static void same_carried(const tt_state *want, const tt_state *got, const char *way)
{
  for (size_t f = 0; f < sizeof carried / sizeof *carried; f++) {
    tt_state_field a = tt_state_get(want, carried[f]), b = tt_state_get(got, carried[f]);
    size_t bytes = (size_t)(a.bytes * a.length * want->count);
    if (memcmp(a.data, b.data, bytes)) fprintf(stderr, "%s: %s differs\n", way, a.name);
    TT_CHECK(memcmp(a.data, b.data, bytes), ==, 0);
  }
}

/* Patience must not end either run, so there are no validation rows. */
static void no_validation(problem *p)
{
  for (int64_t r = 0; r < p->d->rows; r++)
    if (p->d->split[r] == TT_VALIDATION) p->d->split[r] = TT_TRAIN;
}

static void check(int number, way variant)
{
  problem whole = make(number, 2 * EPOCHS), half = make(number, EPOCHS);
  no_validation(&whole);
  no_validation(&half);
  if (suits(variant, &whole.c)) {
    tt_state *want = problem_run(&whole, variant, everyone(&whole), 7);
    tt_state *first = problem_run(&half, variant, everyone(&half), 1000), *begin = NULL;
    TT_CHECK_OK(tt_state_create(everyone(&whole), tt_cohort_state_shape(&whole.c), &begin));
    for (int64_t m = 0; m < whole.c.members; m++) tt_warm_resume_member_local(first, m, begin, m);
    problem_start(&whole, variant, everyone(&whole));
    TT_CHECK_OK(variant.ops->load(whole.engine, everyone(&whole), begin));
    problem_finish(&whole, 5);
    tt_state *got = problem_state(&whole, everyone(&whole));
    same_carried(want, got, variant.name);
    tt_state_destroy(&want);
    tt_state_destroy(&first);
    tt_state_destroy(&begin);
    tt_state_destroy(&got);
  }
  problem_free(&whole);
  problem_free(&half);
}

TT_TEST (two_runs_equal_one) {
  way way[MAX_WAYS];
  int n = ways(way);
  for (int i = 0; i < n; i++)
    for (int number = 0; number < 12; number++)
      if (has_turn(way[i], number)) check(number, way[i]);
}

/* With validation rows: patience counts from the second start, and the best weights are those of
 * the second run. */
TT_TEST (best_weights_and_patience_are_reset) {
  way way[MAX_WAYS];
  int n = ways(way);
  for (int i = 0; i < n; i++) {
    problem half = make(0, EPOCHS), whole = make(0, 2 * EPOCHS);
    if (suits(way[i], &whole.c)) {
      tt_state *first = problem_run(&half, way[i], everyone(&half), 1000), *begin = NULL;
      TT_CHECK_OK(tt_state_create(everyone(&whole), tt_cohort_state_shape(&whole.c), &begin));
      for (int64_t m = 0; m < whole.c.members; m++) tt_warm_resume_member_local(first, m, begin, m);
      problem_start(&whole, way[i], everyone(&whole));
      TT_CHECK_OK(way[i].ops->load(whole.engine, everyone(&whole), begin));
      problem_finish(&whole, 1000);
      tt_state *got = problem_state(&whole, everyone(&whole));
      for (int64_t m = 0; m < whole.c.members; m++) {
        TT_CHECK(TT_FIELD(got, epoch)[m], >, TT_FIELD(first, epoch)[m]);
        TT_CHECK(TT_FIELD(got, best_epoch)[m], >=, TT_FIELD(first, epoch)[m]);
      }
      tt_state_destroy(&first);
      tt_state_destroy(&begin);
      tt_state_destroy(&got);
    }
    problem_free(&whole);
    problem_free(&half);
  }
}
