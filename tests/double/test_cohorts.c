/* test_cohorts.c — members of several shapes on one GPU, as a rank with several cohorts has them:
 * each trains as it does alone. More members than a GPU trains at a time, and kinds of GPUs. */
#include "tests/support/problem.h"

#include <stdio.h>

enum { MEMBERS = 3, SHAPES = 2, CROWD = 29, NETS = 4 };

/* Shapes that share a kernel of every fused path; the second needs less shared memory. */
static const int64_t hidden[SHAPES] = {16, 9};

static problem make(int shape)
{
  return problem_make(60, 3, 1, 1, MEMBERS, &hidden[shape], 1, TT_ACT_tanh, TT_OUTPUT_mean);
}

TT_TEST (shapes_train_in_turn_as_they_do_alone) {
  way all[MAX_WAYS];
  for (int n = ways(all), w = 0; w < n; w++) {
    const way variant = all[w];
    problem p[SHAPES];
    tt_progress progress = {0};
    for (int k = 0; k < SHAPES; k++) p[k] = make(k);
    for (int k = 0; k < SHAPES; k++) problem_start(&p[k], variant, everyone(&p[k]));
    for (int k = 0; k < SHAPES; k++) TT_CHECK_OK(variant.ops->train(p[k].engine, 2, &progress));
    for (int k = 0; k < SHAPES; k++) problem_finish(&p[k], 4);
    for (int k = 0; k < SHAPES; k++) {
      tt_state *got = problem_state(&p[k], everyone(&p[k]));
      problem_stop(&p[k]);
      tt_state *want = problem_run(&p[k], variant, everyone(&p[k]), 6);
      for (int64_t i = 0; i < MEMBERS; i++) same_member(want, got, i, variant.name);
      tt_state_destroy(&got);
      tt_state_destroy(&want);
      problem_free(&p[k]);
    }
  }
  tt_double_reset();
}

static int64_t uploaded_by_start(problem *p, way variant)
{
  int64_t before = tt_double_count().uploaded;
  problem_start(p, variant, everyone(p));
  return tt_double_count().uploaded - before;
}

TT_TEST (cohorts_share_one_copy_of_the_data_set) {
  enum { COHORTS = 3 };
  const way variant = {"cuda", &tt_engine_cuda, {.path = TT_GPU_PATH_layered}, 0, 0, 1};
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
    int64_t alone = uploaded_by_start(&p[0], variant);
    for (int k = 1; k < COHORTS; k++) TT_CHECK(uploaded_by_start(&p[k], variant), ==, alone - data);
    TT_CHECK(uploaded_by_start(&other, variant), ==, alone); /* other data */
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
  const way variant = {"cuda", &tt_engine_cuda, {.path = TT_GPU_PATH_block}, 0, 0, 1};
  problem p = make(0);
  int64_t before = tt_double_count().allocations, bytes = tt_double_count().bytes;
  problem_start(&p, variant, everyone(&p));
  int64_t calls = tt_double_count().allocations - before;
  problem_stop(&p);
  for (int64_t n = 1; n <= calls; n++) {
    tt_double_fail_alloc(n);
    tt_err e = variant.ops->create(&p.c, everyone(&p), &variant.use, &p.engine);
    if (!e) e = variant.ops->set_data(p.engine, p.d, NULL);
    TT_CHECK((int)e, ==, TT_E_MEM);
    problem_stop(&p);
    TT_CHECK(tt_double_count().bytes, ==, bytes);
    tt_double_reset();
  }
  problem_free(&p);
}

/* Members on a GPU with few units: one diverges, one ends early, their number is no multiple of
 * the units. */
static problem make_crowd(void)
{
  const int64_t width = 5;
  problem p = problem_make(60, 3, 1, 1, CROWD, &width, 1, TT_ACT_tanh, TT_OUTPUT_mean);
  p.c.max_epochs = 2;
  for (int64_t i = 0; i < CROWD; i++) p.c.member[i].hyper.epochs = i == 3 ? 1 : 2;
  p.c.member[7].hyper.learning_rate = 1e30f;
  return p;
}

/* The state of a crowd after `calls` calls of 4 steps; *launches: those of the last call. */
static tt_state *run_crowd(problem *p, way variant, int calls, int64_t *launches)
{
  tt_progress progress = {0};
  problem_start(p, variant, everyone(p));
  for (int k = 0; k < calls; k++) {
    int64_t before = tt_double_count().kernels;
    TT_CHECK_OK(variant.ops->train(p->engine, 4, &progress));
    *launches = tt_double_count().kernels - before;
  }
  tt_state *s = problem_state(p, everyone(p));
  problem_stop(p);
  return s;
}

static void train_in_chunks(problem *p, way variant, int calls)
{
  int64_t together = 0, chunks = 0;
  tt_double_set_gpu(90, 132, 99 * 1024);
  tt_state *want = run_crowd(p, variant, calls, &together);
  /* so many that portions save a tenth of the time */
  int multiprocessors = variant.use.path == TT_GPU_PATH_cluster ? 3 : 1;
  tt_double_set_gpu(90, multiprocessors, 99 * 1024);
  tt_state *got = run_crowd(p, variant, calls, &chunks);
  fprintf(stderr, "  %s: %d launches, %d\n", variant.name, (int)together, (int)chunks);
  TT_CHECK(calls > 1 || chunks > together + 1, ==, 1);
  for (int64_t i = 0; i < CROWD; i++) same_member(want, got, i, variant.name);
  tt_state_destroy(&want);
  tt_state_destroy(&got);
  tt_double_reset();
}

/* Portions of the steps of a member, in several launches, change no bit: neither after one call, in
 * which each member makes its steps, nor after all calls (launch_plan.h). */
TT_TEST (more_members_than_units_train_in_chunks) {
  way all[MAX_WAYS];
  for (int n = ways(all), w = 0; w < n; w++) {
    problem p = make_crowd();
    for (int calls = 1; calls < 5 && all[w].use.path != TT_GPU_PATH_layered; calls += 3)
      train_in_chunks(&p, all[w], calls);
    problem_free(&p);
  }
}

/* Compute capability, multiprocessors and shared memory of a block: CUDA C++ Programming Guide,
 * "Technical Specifications per Compute Capability". The path that auto takes for two members of
 * each net. */
typedef struct gpu {
  const char *name;
  int capability, multiprocessors, shared;
  const char *path[NETS];
} gpu;
static const gpu gpus[] = {
    {"A100", 80, 108, 163 * 1024, {"warp", "block", "block", "block"}},
    {"A40", 86, 84, 99 * 1024, {"warp", "block", "block", "layered"}},
    {"L40", 89, 142, 99 * 1024, {"warp", "block", "block", "layered"}},
    {"B200", 100, 148, 227 * 1024, {"warp", "cluster", "cluster", "block"}},
    {"RTX 5090", 120, 170, 99 * 1024, {"warp", "cluster", "block", "layered"}},
};
/* Inputs, width, hidden layers, batch. */
static const int64_t net[NETS][4] = {
    {4, 16, 1, 64}, {8, 32, 2, 128}, {8, 64, 2, 128}, {8, 160, 2, 32}};

static problem make_net(int k)
{
  const int64_t width[] = {net[k][1], net[k][1]};
  problem p = problem_make(200, net[k][0], 1, 1, 2, width, net[k][2], TT_ACT_relu, TT_OUTPUT_mean);
  p.c.batch_size = net[k][3];
  return p;
}

static void trains_on(const gpu *on, int k)
{
  const way variant = {"auto", &tt_engine_cuda, {.path = TT_GPU_PATH_auto}, 0, 0, 1};
  tt_engine_info info;
  tt_progress progress = {0};
  char path[32];
  problem p = make_net(k);
  snprintf(path, sizeof path, ", %s path: ", on->path[k]);
  tt_double_set_gpu(on->capability, on->multiprocessors, on->shared);
  problem_start(&p, variant, everyone(&p));
  TT_CHECK_OK(variant.ops->info(p.engine, &info));
  fprintf(stderr, "  %s%s\n", on->name, info.device + strcspn(info.device, ","));
  TT_CHECK_HAS(info.device, path);
  TT_CHECK_OK(variant.ops->train(p.engine, 2, &progress));
  TT_CHECK(progress.training, ==, 2);
  problem_free(&p);
  tt_double_reset();
}

/* The double refuses launches with more shared memory than the GPU has. */
TT_TEST (every_kind_of_gpu_has_a_path_that_fits) {
  for (size_t g = 0; g < sizeof gpus / sizeof *gpus; g++)
    for (int k = 0; k < NETS; k++) trains_on(&gpus[g], k);
}

static void refused_on(const gpu *on, int k, tt_gpu_path path, const char *why)
{
  const tt_resources use = {.path = path};
  problem p = make_net(k);
  tt_double_set_gpu(on->capability, on->multiprocessors, on->shared);
  TT_CHECK((int)tt_engine_cuda.create(&p.c, everyone(&p), &use, &p.engine), ==, TT_E_UNAVAILABLE);
  TT_CHECK_HAS(tt_err_last(), why);
  problem_free(&p);
  tt_double_reset();
}

TT_TEST (a_path_that_does_not_fit_is_refused) {
  refused_on(&gpus[1], 3, TT_GPU_PATH_block, "KiB of shared memory, a block has 99");
  refused_on(&gpus[4], 3, TT_GPU_PATH_cluster, "KiB of shared memory, a block has 99");
  refused_on(&gpus[1], 1, TT_GPU_PATH_cluster, "capability 9.0 or newer, this one has 8.6");
}

static void check_arithmetic(int capability, tt_gpu_path path, tt_precision precision,
                             const char *text)
{
  const way variant = {
      text, &tt_engine_cuda, {.threads = 1, .path = path, .precision = precision}, 0, 0, 1};
  tt_engine_info info;
  problem p = make_net(2);
  tt_double_set_gpu(capability, 132, 99 * 1024);
  problem_start(&p, variant, everyone(&p));
  TT_CHECK_OK(variant.ops->info(p.engine, &info));
  TT_CHECK_HAS(info.arithmetic, text);
  problem_free(&p);
  tt_double_reset();
}

/* The text decides whether a run resumes. */
TT_TEST (with_tensor_cores_the_kind_of_gpu_is_part_of_the_arithmetic) {
  check_arithmetic(80, TT_GPU_PATH_layered, TT_PRECISION_fp32, "cuda fp32 layered");
  check_arithmetic(80, TT_GPU_PATH_layered, TT_PRECISION_tf32, "cuda tf32 sm80 layered");
  check_arithmetic(120, TT_GPU_PATH_layered, TT_PRECISION_tf32, "cuda tf32 sm120 layered");
  check_arithmetic(90, TT_GPU_PATH_block, TT_PRECISION_fp32, "cuda fp32 block c");
  check_arithmetic(90, TT_GPU_PATH_block, TT_PRECISION_tf32, "cuda tf32 sm90 block c");
}

TT_SUITE(NULL, NULL)
