/* test_streamed.c — law: the place of the data set changes no bit. A data set that does not fit on
 * the device stays on the host, and the layered path reads its rows from there. */
#include "tests/support/problem.h"

enum { ROWS = 840000, LABELED = 90, INPUTS = 21, MEMORY = 64 << 20 }; /* x alone: 70 MB */

/* Few rows have labels, so that the test is short: rows at both ends and between. */
static problem large(int weighted, tt_resample resample)
{
  const int64_t hidden[] = {18, 17};
  problem p = problem_make(ROWS, INPUTS, 2, 2, 3, hidden, 2, TT_ACT_tanh, TT_OUTPUT_mean);
  for (int64_t r = 0; r < ROWS; r++)
    for (int64_t t = 0; t < 2; t++)
      if (r % (ROWS / LABELED) || (r + t) % 7 == 6) p.d->y[r * 2 + t] = NAN;
  if (weighted) {
    TT_CHECK_OK(TT_ALLOC(p.d->weight, ROWS));
    for (int64_t r = 0; r < ROWS; r++) p.d->weight[r] = 0.5f + (float)(r % 5) / 4.0f;
  }
  p.c.resample = resample;
  p.c.max_epochs = 3;
  for (int64_t i = 0; i < p.c.members; i++) {
    p.c.member[i].hyper.epochs = 3 - (int32_t)(i % 2);
    p.c.member[i].hyper.clip_norm = i % 3 ? 0.0f : 0.5f;
  }
  return p;
}

static const char *device_of(problem *p)
{
  static tt_engine_info info;
  TT_CHECK_OK(p->by.ops->info(p->engine, &info));
  return info.device;
}

typedef struct outcome {
  tt_state *state;
  double loss[6];
} outcome;

static outcome run(problem *p, tt_gpu_path path, int schedule, int64_t memory, const char *told)
{
  outcome out;
  way variant = {"cuda", &tt_engine_cuda, {.threads = 2, .path = path}, schedule, 0, 1};
  tt_double_set_memory(memory);
  problem_start(p, variant, everyone(p));
  TT_CHECK_HAS(device_of(p), told);
  problem_finish(p, 7);
  TT_CHECK_OK(variant.ops->evaluate(p->engine, TT_TEST, out.loss));
  out.state = problem_state(p, everyone(p));
  problem_stop(p);
  return out;
}

static void compare_in(problem p)
{
  outcome want = run(&p, TT_GPU_PATH_layered, 0, INT64_C(1) << 33, "as TUTTI_GPU_PATH says");
  for (int k = 0; k < 4; k++) { /* streams at once, and late in any order */
    tt_double_set_lazy(k < SCHEDULES);
    outcome got = run(&p, k % 2 ? TT_GPU_PATH_auto : TT_GPU_PATH_layered, k % SCHEDULES, MEMORY,
                      "rows come from the host");
    for (int64_t m = 0; m < p.c.members; m++) {
      same_member(want.state, got.state, m, k < SCHEDULES ? "late streams" : "prompt streams");
      TT_CHECK(got.loss[m], ==, want.loss[m]);
    }
    tt_state_destroy(&got.state);
  }
  tt_double_set_lazy(0);
  tt_state_destroy(&want.state);
  problem_free(&p);
}

static void compare(int weighted, tt_resample resample) { compare_in(large(weighted, resample)); }

/* Options that use the row numbers of a batch, and its parts. */
static problem noisy(void)
{
  problem p = large(0, TT_RESAMPLE_kfold);
  p.c.batch_size = 40;
  p.c.parts = 2;
  for (int64_t i = 0; i < p.c.members; i++) {
    tt_hyper *h = &p.c.member[i].hyper;
    h->label_noise = i % 2 ? 0.1f : 0.0f;
    h->dropout = 0.2f;
  }
  return p;
}

TT_TEST (rows_from_the_host_give_the_same_bits) {
  compare(0, TT_RESAMPLE_none);
  compare(1, TT_RESAMPLE_bootstrap);
  compare(0, TT_RESAMPLE_subsample);
  compare_in(noisy());
}

/* A requested path is never replaced by another one. */
TT_TEST (a_requested_path_is_kept) {
  problem p = large(0, TT_RESAMPLE_none);
  tt_resources use = {.threads = 1, .path = TT_GPU_PATH_block};
  tt_double_set_memory(MEMORY);
  TT_CHECK_OK(tt_engine_cuda.create(&p.c, everyone(&p), &use, &p.engine));
  TT_CHECK((int)tt_engine_cuda.set_data(p.engine, p.d, NULL), ==, TT_E_MEM);
  TT_CHECK_HAS(tt_err_last(), "use more ranks");
  tt_engine_cuda.destroy(&p.engine);
  problem_free(&p);
}
