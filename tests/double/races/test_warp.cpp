/* test_warp.cpp — the barriers of the warp path, one by one: training gives the same bits in every
 * order of threads, and a missing barrier changes them or is a race. */
#include "cuda/common/engine_internal.cuh"
#include "tests/support/plain_model.h"

#include <cstring>
#include <string>
#include <vector>

/* Every __syncwarp of the path can be left out. */
namespace
{
struct site {
  std::string file;
  int line;
};
} // namespace
static std::vector<site> sites; /* that lanes have reached */
static int omitted = -1;        /* the one that is left out; -1: none */
static void instrumented_syncwarp(const char *file, int line)
{
  size_t at = 0;
  while (at < sites.size() && (sites[at].line != line || sites[at].file != file)) at++;
  if (at == sites.size()) sites.push_back({file, line});
  if ((int)at != omitted) __syncwarp();
}
#define __syncwarp() instrumented_syncwarp(__FILE__, __LINE__)
#include "cuda/warp/warp.cu"
#undef __syncwarp

#include "core/model/state.h"
#include "tests/double/rig.h"

enum { ROWS = 180, INPUTS = 5, MEMBERS = 6, EPOCHS = 4 };

static void fill_rows(tt_dataset *d)
{
  for (int64_t r = 0; r < ROWS; r++) {
    float sum = 0.0f;
    for (int64_t i = 0; i < INPUTS; i++) {
      d->x[r * INPUTS + i] = sinf((float)(7 * r + 3 * i));
      sum += d->x[r * INPUTS + i] * (float)(i - 2);
    }
    for (int64_t k = 0; k < 2; k++) d->y[r * 2 + k] = sinf(sum + (float)k);
    d->split[r] = (int8_t)(r % 4 == 3 ? TT_VALIDATION : TT_TRAIN);
  }
}

/* 5-4-18-2: layers that are distributed by unit and by input, with and without groups of lanes.
 * More members than warps of a block, some clipped, one that stops early; batches in pieces, orders
 * longer than the part computed ahead. */
namespace
{
struct problem {
  tt_cohort c = {};
  tt_ensemble ensemble = {};
  int32_t column[2] = {1, 0};
  tt_member member[MEMBERS] = {};
  tt_dataset *d = nullptr;

  explicit problem(int64_t batch, tt_activation activation = TT_ACT_tanh)
  {
    const int64_t hidden[] = {4, 18};
    TT_CHECK_OK(tt_model_plain(INPUTS, 2, hidden, 2, activation, TT_OUTPUT_mean, &c.model));
    TT_CHECK_OK(tt_dataset_create(ROWS, INPUTS, 2, 0, &d));
    fill_rows(d);
    c.optimizer = TT_OPT_adam;
    c.batch_size = batch;
    c.resample = TT_RESAMPLE_bootstrap;
    c.max_epochs = EPOCHS;
    c.ensembles = 1;
    c.ensemble = &ensemble;
    c.members = MEMBERS;
    c.member = member;
    ensemble.members = MEMBERS;
    ensemble.targets = 2;
    ensemble.column = column;
    for (int i = 0; i < MEMBERS; i++) {
      member[i].index = i;
      member[i].stream = (uint64_t)i;
      tt_hyper &h = member[i].hyper;
      h = {};
      h.learning_rate = 1e-2f;
      h.beta1 = 0.9f;
      h.beta2 = 0.999f;
      h.epsilon = 1e-8f;
      h.clip_norm = i % 2 ? 0.1f : 0.0f;
      h.patience = i == 4;
      h.epochs = EPOCHS;
      h.init_scale = 1.0f;
    }
  }
  ~problem() { tt_dataset_destroy(&d); }
};
} // namespace

/* Hash of all states and losses after training in calls of 5 steps by that path. */
static uint64_t train_all(const problem &p, const schedule &s,
                          const tt_cuda_path *path = &tt_cuda_warp)
{
  tt_engine *e = nullptr;
  tt_state *state = nullptr;
  tt_progress at;
  std::vector<double> loss(MEMBERS);
  tt_resources use = {};
  use.path = TT_GPU_PATH_warp;
  use_schedule(s);
  TT_CHECK_OK(tt_engine_cuda.create(&p.c, {0, MEMBERS}, &use, &e));
  e->path = path;
  TT_CHECK_OK(tt_engine_cuda.set_data(e, p.d, nullptr));
  warp_host::of(e)->units = 1; /* so that a warp has several members */
  TT_CHECK_OK(tt_engine_cuda.init(e));
  do TT_CHECK_OK(tt_engine_cuda.train(e, 5, &at));
  while (at.training > 0);
  TT_CHECK_OK(tt_engine_cuda.evaluate(e, TT_VALIDATION, loss.data()));
  TT_CHECK_OK(tt_state_create({0, MEMBERS}, tt_cohort_state_shape(&p.c), &state));
  TT_CHECK_OK(tt_engine_cuda.save(e, {0, MEMBERS}, state));
  uint64_t hash = hash_of(loss);
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) {
    tt_state_field field = tt_state_get(state, f);
    const char *from = static_cast<const char *>(field.data);
    std::vector<char> bytes(from, from + MEMBERS * field.bytes * field.length);
    hash = 31 * hash + hash_of(bytes);
  }
  tt_state_destroy(&state);
  tt_engine_cuda.destroy(&e);
  tt_double_reset();
  return hash;
}

TT_TEST (training_gives_the_same_bits_in_every_schedule) {
  for (int64_t batch : {20, 50, 135}) {
    problem p(batch);
    uint64_t right = train_all(p, schedules[0]);
    for (const schedule &s : schedules) TT_CHECK(train_all(p, s), ==, right);
  }
}

/* Without one of its barriers the path gives other bits in some schedule, or the double aborts it.
 */
static bool is_seen(const problem &p, int barrier, uint64_t right)
{
  std::string said = output_of_aborted([&] {
    omitted = barrier;
    for (const schedule &s : schedules)
      if (train_all(p, s) != right) _exit(1);
  });
  return !said.empty();
}

/* Barriers that only the check of races misses (race.cpp): it is not compiled in where the address
 * sanitizer is. */
#ifdef __SANITIZE_THREAD__
enum { BARRIERS_OF_RACES_ALONE = 0 };
#else
enum { BARRIERS_OF_RACES_ALONE = 1 };
#endif

TT_TEST (every_barrier_is_needed) {
  problem p(50);
  uint64_t right = train_all(p, schedules[0]);
  int missed = 0;
  TT_CHECK((int)sites.size(), >, 0);
  for (size_t k = 0; k < sites.size(); k++) {
    bool seen = is_seen(p, (int)k, right);
    if (!seen) fprintf(stderr, "%s:%d is not missed\n", sites[k].file.c_str(), sites[k].line);
    missed += !seen;
  }
  TT_CHECK(missed, <=, BARRIERS_OF_RACES_ALONE);
}

/* The warp path with the kernels for any formulas. */
namespace
{
struct general_path : warp_path {
  static tt_err launch(tt_engine *e, const tt_fused_data<plan> *d, const tt_member_queue &queue,
                       int64_t steps)
  {
    constexpr train_kernels general = kernels_with<tt_warp_any_formulas>();
    tt_warp_args args = {e->view, d->plan, (int32_t)steps, queue, TT_VALIDATION, nullptr};
    return launch_kernel(e, general.rows[two_rows_per_lane(&d->plan)], d->units, args);
  }
};
} // namespace
static const tt_cuda_path general = tt_fused_path<general_path>::make("warp", arithmetic, evaluate);

/* Law: the kernels for some formulas alone give the bits of those for any. Some members are
 * clipped, one stops early; setting 1 has weighted rows, a schedule and the other terms of the
 * optimizer, and a member that diverges. */
TT_TEST (kernels_for_some_formulas_give_the_bits_of_the_general_ones) {
  for (int setting = 0; setting < 2; setting++)
    for (int64_t batch : {20, 50, 135}) {
      problem p(batch, TT_ACT_relu);
      if (setting) {
        TT_CHECK_OK(TT_ALLOC(p.d->weight, ROWS));
        for (int64_t r = 0; r < ROWS; r++) p.d->weight[r] = 0.5f + (float)(r % 5) / 4.0f;
        p.c.schedule = TT_SCHEDULE_cosine;
        p.c.resample = TT_RESAMPLE_none;
        for (int i = 0; i < MEMBERS; i++) {
          p.member[i].hyper.l2 = 0.01f * (float)i;
          p.member[i].hyper.warmup = 1.5f;
          p.member[i].hyper.schedule_min = 0.1f;
        }
        p.member[3].hyper.learning_rate = 1e30f;
      }
      TT_CHECK(train_all(p, schedules[0]), ==, train_all(p, schedules[0], &general));
    }
}

/* A cohort has the kernels for relu, mse and adam if and only if it has these three rows of the
 * tables. */
TT_TEST (each_cohort_has_kernels_of_its_formulas) {
  tt_cuda_state v = {};
  tt_warp_plan plan = {};
  int special = 0;
  for (int k = 0; k < TT_ACT_COUNT * TT_LOSS_COUNT * TT_OPT_COUNT; k++) {
    v.activation = (tt_activation)(k % TT_ACT_COUNT);
    v.loss = (tt_loss)(k / TT_ACT_COUNT % TT_LOSS_COUNT);
    v.optimizer = (tt_optimizer)(k / TT_ACT_COUNT / TT_LOSS_COUNT);
    for (int two = 0; two < 2; two++) {
      plan.rows = two ? TT_WARP_MAX_ROWS : TT_WARP_LANES;
      warp_kernel fixed = two ? warp_train<relu_mse_adam, 2> : warp_train<relu_mse_adam, 1>;
      warp_kernel any =
          two ? warp_train<tt_warp_any_formulas, 2> : warp_train<tt_warp_any_formulas, 1>;
      int fits = v.activation == TT_ACT_relu && v.loss == TT_LOSS_mse && v.optimizer == TT_OPT_adam;
      TT_CHECK(train_kernel(v, &plan) == (fits ? fixed : any), ==, 1);
      special += fits;
    }
  }
  TT_CHECK(special, ==, 2);
}

/* A call of train copies the members that train without waiting, and waits once, for its report. */
TT_TEST (a_call_of_a_fused_path_waits_once) {
  for (tt_gpu_path path : {TT_GPU_PATH_warp, TT_GPU_PATH_block, TT_GPU_PATH_cluster}) {
    problem p(50);
    tt_engine *e = nullptr;
    tt_progress at;
    tt_resources use = {};
    use.path = path;
    TT_CHECK_OK(tt_engine_cuda.create(&p.c, {0, MEMBERS}, &use, &e));
    TT_CHECK_OK(tt_engine_cuda.set_data(e, p.d, nullptr));
    TT_CHECK_OK(tt_engine_cuda.init(e));
    for (int call = 0; call < 2; call++) {
      int64_t before = tt_double_count().waits;
      TT_CHECK_OK(tt_engine_cuda.train(e, 2, &at));
      TT_CHECK(at.training, ==, MEMBERS);
      TT_CHECK(at.member_steps, ==, 2 * MEMBERS);
      TT_CHECK(tt_double_count().waits - before, ==, 1);
    }
    tt_engine_cuda.destroy(&e);
  }
}

/* After the end of all members, those of a state that is loaded train. */
TT_TEST (members_of_a_loaded_state_train) {
  problem p(50);
  tt_engine *e = nullptr;
  tt_state *fresh = nullptr;
  tt_progress at;
  tt_resources use = {};
  use.path = TT_GPU_PATH_warp;
  TT_CHECK_OK(tt_state_create({0, MEMBERS}, tt_cohort_state_shape(&p.c), &fresh));
  TT_CHECK_OK(tt_engine_cuda.create(&p.c, {0, MEMBERS}, &use, &e));
  TT_CHECK_OK(tt_engine_cuda.set_data(e, p.d, nullptr));
  TT_CHECK_OK(tt_engine_cuda.init(e));
  TT_CHECK_OK(tt_engine_cuda.save(e, {0, MEMBERS}, fresh));
  TT_CHECK_OK(tt_engine_cuda.train(e, 1000, &at));
  TT_CHECK(at.training, ==, 0);
  TT_CHECK_OK(tt_engine_cuda.load(e, {1, 2}, fresh));
  TT_CHECK_OK(tt_engine_cuda.train(e, 2, &at));
  TT_CHECK(at.training, ==, 2);
  TT_CHECK(at.member_steps, ==, 4);
  tt_state_destroy(&fresh);
  tt_engine_cuda.destroy(&e);
}

/* The paths that keep slots in shared memory take as many as the row of the optimizer says. */
TT_TEST (an_optimizer_has_the_slots_of_its_row) {
  for (int kind = 0; kind < TT_OPT_COUNT; kind++) {
    int slots = tt_optimizer_slots((tt_optimizer)kind), got = 0;
    tt_cuda_with_optimizer((tt_optimizer)kind,
                           [&](auto optimizer) { got = decltype(optimizer)::SLOTS; });
    TT_CHECK(got, ==, slots <= TT_MAX_FUSED_SLOTS ? slots : 0);
  }
}

TT_SUITE(open_device, close_device)
