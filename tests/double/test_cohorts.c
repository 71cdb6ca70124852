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

static int64_t uploaded_by_start(problem *p, way by)
{
  int64_t before = tt_double_count().uploaded;
  problem_start(p, by, everyone(p));
  return tt_double_count().uploaded - before;
}

TT_TEST (cohorts_share_one_copy_of_the_data_set) {
  enum { COHORTS = 3 };
  const way by = {"cuda", &tt_engine_cuda, {.path = TT_GPU_PATH_layered}, 0, 0, 1};
  problem p[COHORTS], other = make(0);
  tt_dataset *own[COHORTS];
  for (int k = 0; k < COHORTS; k++) {
    p[k] = make(0);
    own[k] = p[k].d;
    p[k].d = own[0];
  }
  const tt_dataset *d = own[0];
  int64_t data = (int64_t)sizeof(float) * d->rows * (d->inputs + d->targets);
  for (int round = 0; round < 2; round++) { /* the last engine frees the copy */
    int64_t alone = uploaded_by_start(&p[0], by);
    for (int k = 1; k < COHORTS; k++) TT_CHECK(uploaded_by_start(&p[k], by), ==, alone - data);
    TT_CHECK(uploaded_by_start(&other, by), ==, alone); /* other data */
    problem_stop(&p[0]);
    problem_finish(&p[1], 4);
    tt_state *one = problem_state(&p[1], everyone(&p[1]));
    problem_stop(&p[1]);
    problem_finish(&p[2], 4);
    tt_state *two = problem_state(&p[2], everyone(&p[2]));
    problem_stop(&p[2]);
    problem_stop(&other);
    for (int64_t i = 0; i < MEMBERS; i++) same_member(one, two, i, "shared data");
    tt_state_destroy(&one);
    tt_state_destroy(&two);
  }
  for (int k = 0; k < COHORTS; k++) {
    p[k].d = own[k];
    problem_free(&p[k]);
  }
  problem_free(&other);
}

TT_TEST (a_data_set_that_does_not_fit_leaves_no_copy) {
  const way by = {"cuda", &tt_engine_cuda, {.path = TT_GPU_PATH_block}, 0, 0, 1};
  problem p = make(0);
  int64_t before = tt_double_count().allocations, bytes = tt_double_count().bytes;
  problem_start(&p, by, everyone(&p));
  int64_t calls = tt_double_count().allocations - before;
  problem_stop(&p);
  for (int64_t n = 1; n <= calls; n++) {
    tt_double_fail_alloc(n);
    tt_err e = by.ops->create(&p.c, everyone(&p), &by.use, &p.engine);
    if (!e) e = by.ops->set_data(p.engine, p.d, NULL);
    TT_CHECK((int)e, ==, TT_E_MEM);
    problem_stop(&p);
    TT_CHECK(tt_double_count().bytes, ==, bytes);
    tt_double_reset();
  }
  problem_free(&p);
}

TT_SUITE(NULL, NULL)
