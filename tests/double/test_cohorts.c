/* test_cohorts.c — members of several shapes on one GPU, as a rank with several cohorts has them:
 * each trains as it does alone. */
#include "tests/support/problem.h"

enum { MEMBERS = 3, SHAPES = 2 };

/* Shapes that share a kernel of every fused path; the second needs less shared memory. */
static const int64_t hidden[SHAPES] = {16, 9};

static problem make(int shape)
{
  return problem_make(60, 3, 1, 1, MEMBERS, &hidden[shape], 1, TT_ACT_tanh, TT_OUTPUT_mean);
}

TT_TEST (shapes_train_in_turn_as_they_do_alone) {
  way all[MAX_WAYS];
  for (int n = ways(all), w = 0; w < n; w++) {
    const way by = all[w];
    problem p[SHAPES];
    tt_progress at = {0};
    for (int k = 0; k < SHAPES; k++) p[k] = make(k);
    for (int k = 0; k < SHAPES; k++) problem_start(&p[k], by, everyone(&p[k]));
    for (int k = 0; k < SHAPES; k++) TT_CHECK_OK(by.ops->train(p[k].engine, 2, &at));
    for (int k = 0; k < SHAPES; k++) problem_finish(&p[k], 4);
    for (int k = 0; k < SHAPES; k++) {
      tt_state *got = problem_state(&p[k], everyone(&p[k]));
      problem_stop(&p[k]);
      tt_state *want = problem_run(&p[k], by, everyone(&p[k]), 6);
      for (int64_t i = 0; i < MEMBERS; i++) same_member(want, got, i, by.name);
      tt_state_destroy(&got);
      tt_state_destroy(&want);
      problem_free(&p[k]);
    }
  }
  tt_double_reset();
}

TT_SUITE(NULL, NULL)
