/* problem.h — small training problems in memory, and the engines every law runs over. A test
 * changes fields between problem_make and problem_start. */
#ifndef TT_PROBLEM_H
#define TT_PROBLEM_H
#include "core/base/mem.h"
#include "core/engine/engine.h"
#include "cuda/plan/cluster_plan.h"
#include "cuda/plan/path.h"
#include "cuda/plan/warp_plan.h"
#include "src/cpu/kernels/kernels.h"
#include "tests/support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef TT_CUDA_DOUBLE
#include "tests/double/runtime/double.h"
enum { DOUBLE = 1, SCHEDULES = TT_DOUBLE_RANDOM + 1 };
#else
enum { DOUBLE = 0, SCHEDULES = 1 };
#endif

/* Orders of threads that a law tries. Under the address sanitizer one is enough, because all access
 * the same memory; then the paths run the cases of a law in turn. */
#ifdef __SANITIZE_ADDRESS__
enum { SANITIZED = 1, ORDERS = 1 };
#else
enum { SANITIZED = 0, ORDERS = SCHEDULES };
#endif

enum { MAX_WAYS = TT_SIMD_COUNT + SCHEDULES * TT_GPU_PATH_COUNT };

/* One way to run: an engine and its options; on the double also an order of threads. */
typedef struct way {
  const char *name;
  const tt_engine_ops *ops;
  tt_resources use;
  int schedule;
  int turn, turns; /* its index among the ways that run the cases of a law in turn */
} way;

static inline int cpu_ways(way *out)
{
  int n = 0;
  for (int simd = TT_SIMD_avx512; simd < TT_SIMD_COUNT; simd++) {
    const tt_kernels *k;
    if (!tt_kernels_get((tt_simd)simd, &k))
      out[n++] = (way){k->name, &tt_engine_cpu, {.threads = 1, .simd = (tt_simd)simd}, 0, 0, 1};
  }
  for (int i = 0; i < n; i++) out[i].turn = i, out[i].turns = n;
  return n;
}

/* Returns 1 if the first GPU supports a path. */
static inline int has(const tt_engine_ops *cuda, int path)
{
  tt_device_info gpu = {0};
  TT_CHECK_OK(cuda->describe(0, &gpu));
  return gpu.capability >= tt_path_min_capability((tt_gpu_path)path);
}

/* All paths, on the double in every order of threads. */
static inline int cuda_ways(const tt_engine_ops *cuda, way *out)
{
#define X(path, ...) {"cuda " #path, "cuda " #path ", reverse", "cuda " #path ", random"},
  static const char *const name[TT_GPU_PATH_COUNT][3] = {{"cuda", "cuda, reverse", "cuda, random"},
                                                         TT_GPU_PATHS(X)};
#undef X
  int devices = 0, n = 0;
  TT_CHECK_OK(cuda->count(&devices));
  for (int path = TT_GPU_PATH_auto + 1; devices && path < TT_GPU_PATH_COUNT; path++)
    for (int schedule = 0; schedule < ORDERS && has(cuda, path); schedule++)
      out[n++] = (way){name[path][schedule],
                       cuda,
                       {.threads = 1, .path = (tt_gpu_path)path},
                       schedule,
                       ORDERS == 1 ? path % SCHEDULES : schedule,
                       SCHEDULES};
  return n;
}

/* Every engine of the table that has a device here: the cpu engine once per instruction set this
 * processor has, the cuda engine once per path. On the double, the cuda engine only. The
 * environment variable TUTTI_TEST_ENGINE names the only engine to be tested; the program is skipped
 * (exit status 77) if this engine has no device. */
static inline int ways(way *out)
{
#ifdef TT_CUDA_DOUBLE
  return cuda_ways(&tt_engine_cuda, out);
#else
  const char *only = getenv("TUTTI_TEST_ENGINE");
  int n = 0;
  for (int i = 0; tt_engines[i]; i++)
    if (!only || !strcmp(only, tt_engines[i]->name))
      n += tt_engines[i] == &tt_engine_cpu ? cpu_ways(out + n) : cuda_ways(tt_engines[i], out + n);
  if (only && !n) {
    printf("skipped: no GPU: the %s engine has no device here\n", only);
    exit(77);
  }
  return n;
#endif
}

/* The same as a list that ends with a way without a name. */
static inline const way *every_way(void)
{
  static way all[MAX_WAYS + 1];
  if (!all->name) ways(all);
  return all;
}

/* The ways of the cuda engine with tensor cores: the paths that have them, in each precision but
 * fp32, on the double each in a different order of threads. */
static inline int tensor_ways(way *out)
{
#define X(path, automatic, fused, precision, ...)                                                  \
  {TT_PRECISION_##precision, {NULL, "cuda tf32 " #path}},
  static const struct {
    tt_precision most;
    const char *name[TT_PRECISION_COUNT];
  } paths[TT_GPU_PATH_COUNT] = {{TT_PRECISION_fp32, {NULL}}, TT_GPU_PATHS(X)};
#undef X
  way all[MAX_WAYS];
  int n = 0, from = ways(all);
  for (int i = 0; i < from; i++)
    for (int p = TT_PRECISION_tf32; p < TT_PRECISION_COUNT; p++) {
      int path = (int)all[i].use.path;
      if (all[i].ops == &tt_engine_cpu || p > (int)paths[path].most) continue;
      if ((p + path - TT_GPU_PATH_block) % SCHEDULES != all[i].schedule) continue;
      out[n] = all[i];
      out[n].name = paths[path].name[p];
      out[n++].use.precision = (tt_precision)p;
    }
  return n;
}

/* Returns 1 if a way trains members with these options: the fused paths only some, the cluster path
 * none whose groups of rows its blocks cannot share. */
static inline int can(way variant, const tt_cohort *c)
{
  tt_cluster_plan cluster;
  tt_path_context h200 = {.shared_bytes = 227 * 1024};
  if (variant.ops == &tt_engine_cpu) return 1;
  if (variant.use.path == TT_GPU_PATH_layered) return 1;
  if (tt_cohort_needs_layered(c)) return 0;
  return variant.use.path != TT_GPU_PATH_cluster || tt_cluster_plan_choose(c, &h200, &cluster);
}

/* The same for members of these shapes: the warp path trains small ones only. */
static inline int suits(way variant, const tt_cohort *c)
{
  tt_warp_plan plan;
  char why[128];
  if (variant.ops == &tt_engine_cpu || variant.use.path != TT_GPU_PATH_warp) return can(variant, c);
  return can(variant, c) && tt_warp_plan_make(c, 96 * 1024, &plan, why, sizeof why);
}

/* The double is slow: its orders of threads run the cases of a law in turn. */
static inline int takes(way variant, int number) { return number % SCHEDULES == variant.schedule; }

/* For laws of many cases: the instruction sets of the cpu engine run them in turn as well. */
static inline int has_turn(way variant, int number)
{
  return number % variant.turns == variant.turn;
}

static inline void follow_schedule(way variant)
{
#ifdef TT_CUDA_DOUBLE
  tt_double_set_schedule((tt_double_order)variant.schedule, 1);
  tt_double_set_blocks((tt_double_order)variant.schedule, 1);
#endif
  (void)variant;
}

typedef struct problem {
  tt_cohort c;
  tt_dataset *d;
  tt_replay replay;
  tt_engine *engine;
  way by;
} problem;

/* A smooth function of the inputs with a little noise: the same for every call. */
static inline float made_up(const float *x, int64_t inputs, int64_t target, int64_t row)
{
  float s = 0.0f;
  for (int64_t i = 0; i < inputs; i++) s += x[i] * (float)((i + target) % 3 - 1) + x[i] * x[0];
  return sinf(s) +
         0.1f * tt_uniform(tt_random(99, 1, TT_PURPOSE_INIT, 7, (uint32_t)row).v[target % 4]);
}

static inline void fill_data(tt_dataset *d)
{
  for (int64_t r = 0; r < d->rows; r++) {
    for (int64_t i = 0; i < d->inputs; i++)
      d->x[r * d->inputs + i] =
          2.0f * tt_uniform(tt_random(98, 2, TT_PURPOSE_INIT, (uint32_t)i, (uint32_t)r).v[0]) -
          1.0f;
    for (int64_t t = 0; t < d->targets; t++)
      d->y[r * d->targets + t] = made_up(d->x + r * d->inputs, d->inputs, t, r);
    d->split[r] = r % 5 == 3 ? TT_VALIDATION : r % 5 == 4 ? TT_TEST : TT_TRAIN;
  }
}

static inline tt_hyper usual_hyper(void)
{
  return (tt_hyper){.learning_rate = 1e-2f,
                    .beta1 = 0.9f,
                    .beta2 = 0.999f,
                    .epsilon = 1e-8f,
                    .epochs = 6,
                    .init_scale = 1.0f};
}

/* A network with this output, of three levels or classes. */
static inline tt_model_shape usual_shape(int64_t inputs, int64_t targets, const int64_t *hidden,
                                         int64_t layers, tt_activation activation, tt_output output)
{
  static const double level[] = {0.125, 0.5, 0.875};
  return (tt_model_shape){.inputs = inputs,
                          .targets = targets,
                          .hidden = hidden,
                          .layers = layers,
                          .activation = activation,
                          .output = output,
                          .levels = 3,
                          .level = level};
}

/* The first loss of the table that trains this output. */
static inline tt_loss usual_loss(tt_output output)
{
  int loss = 0;
  while (tt_loss_output_head((tt_loss)loss) != output) loss++;
  return (tt_loss)loss;
}

/* Labels of the kind that an output needs: one of three classes, 0 or 1, a count or another number
 * of at least 0. */
static inline void fit_labels(tt_dataset *d, tt_output output)
{
  for (int64_t i = 0; i < d->rows * d->targets; i++) {
    float y = d->y[i];
    if (output == TT_OUTPUT_softmax) d->y[i] = y < -0.25f ? 0.0f : y < 0.5f ? 1.0f : 2.0f;
    if (output == TT_OUTPUT_sigmoid) d->y[i] = y < 0.125f ? 0.0f : 1.0f;
    if (tt_output_labels(output) == TT_LABEL_TYPE_count) d->y[i] = floorf(2.0f + 2.0f * y);
  }
}

/* Factors on the learning rate of the layers, some of them 0; k chooses which. */
static inline void set_rates(tt_model *m, int k)
{
  static const double choice[] = {0.0, 0.5, 0.0, 1.0, 2.0};
  double rate[64 + TT_MAX_LAYERS];
  int all = tt_model_all_layers(m);
  TT_CHECK(all, <=, 64 + TT_MAX_LAYERS);
  for (int l = 0; l < all; l++) rate[l] = l == all - 1 ? 0.5 : choice[(l + k) % 5];
  TT_CHECK_OK(tt_model_set_rates(0, rate, all, m));
}

/* `ensembles` ensembles of `each` members that learn target column e % targets. */
static inline problem problem_make(int64_t rows, int64_t inputs, int64_t targets, int64_t ensembles,
                                   int64_t each, const int64_t *hidden, int64_t layers,
                                   tt_activation activation, tt_output output)
{
  problem p = {0};
  TT_CHECK_OK(tt_dataset_create(rows, inputs, targets, 0, &p.d));
  fill_data(p.d);
  fit_labels(p.d, output);
  tt_model_shape shape = usual_shape(inputs, 1, hidden, layers, activation, output);
  TT_CHECK_OK(tt_model_lay_out(&shape, &p.c.model));
  p.c.loss = usual_loss(output);
  p.c.variance_floor = 1e-6f;
  p.c.huber_delta = 0.25f;
  p.c.nll_beta = 0.5f;
  p.c.optimizer = TT_OPT_adam;
  p.c.batch_size = 20;
  p.c.parts = 1;
  p.c.subsample = 0.7;
  p.c.folds = 3;
  p.c.retry_lr_scale = 1.0f;
  p.c.retry_reseed = 1;
  p.c.seed = 5;
  p.c.max_epochs = 6;
  p.c.ensembles = ensembles;
  p.c.members = ensembles * each;
  TT_CHECK_OK(TT_ALLOC(p.c.ensemble, ensembles));
  TT_CHECK_OK(TT_ALLOC(p.c.member, p.c.members));
  for (int64_t e = 0; e < ensembles; e++) {
    tt_ensemble *dst = &p.c.ensemble[e];
    *dst = (tt_ensemble){
        .first = e * each, .members = each, .targets = 1, .key = (uint32_t)e + 7, .selection = -1};
    TT_CHECK_OK(TT_ALLOC(dst->column, 1));
    dst->column[0] = (int32_t)(e % targets);
    for (int64_t i = 0; i < each; i++)
      p.c.member[e * each + i] = (tt_member){.ensemble = (int32_t)e,
                                             .index = (int32_t)i,
                                             .stream = (uint64_t)dst->key << 32 | (uint32_t)i,
                                             .hyper = usual_hyper()};
  }
  return p;
}

static inline void problem_start(problem *p, way variant, tt_slice slice)
{
  p->by = variant;
  follow_schedule(variant);
  TT_CHECK_OK(variant.ops->create(&p->c, slice, &variant.use, &p->engine));
  TT_CHECK_OK(variant.ops->set_data(p->engine, p->d, p->replay.order ? &p->replay : NULL));
  TT_CHECK_OK(variant.ops->init(p->engine));
}

static inline tt_slice everyone(const problem *p) { return (tt_slice){0, p->c.members}; }

static inline void problem_stop(problem *p)
{
  if (p->engine) p->by.ops->destroy(&p->engine);
}

static inline void problem_free(problem *p)
{
  problem_stop(p);
  for (int64_t e = 0; e < p->c.ensembles; e++) tt_free(p->c.ensemble[e].column);
  tt_front_destroy(&p->c.model.front);
  tt_free(p->c.ensemble);
  tt_free(p->c.member);
  tt_dataset_destroy(&p->d);
}

/* Train to the end in calls of `steps` steps. */
static inline tt_progress problem_finish(problem *p, int64_t steps)
{
  tt_progress progress = {0};
  do TT_CHECK_OK(p->by.ops->train(p->engine, steps, &progress));
  while (progress.training > 0);
  return progress;
}

/* The state of `slice`; owned by the caller. */
static inline tt_state *problem_state(problem *p, tt_slice slice)
{
  tt_state *s = NULL;
  TT_CHECK_OK(tt_state_create(slice, tt_cohort_state_shape(&p->c), &s));
  TT_CHECK_OK(p->by.ops->save(p->engine, slice, s));
  return s;
}

/* Start, train to the end, give the state back. */
static inline tt_state *problem_run(problem *p, way variant, tt_slice slice, int64_t steps)
{
  problem_start(p, variant, slice);
  problem_finish(p, steps);
  tt_state *s = problem_state(p, slice);
  problem_stop(p);
  return s;
}

/* Member `i` of the cohort has the same bits in both states. */
static inline void same_member(const tt_state *a, const tt_state *b, int64_t i, const char *what)
{
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) {
    tt_state_field x = tt_state_get(a, f), y = tt_state_get(b, f);
    size_t bytes = (size_t)(x.bytes * x.length);
    const char *u = (const char *)x.data + (size_t)(i - a->first) * bytes;
    const char *v = (const char *)y.data + (size_t)(i - b->first) * bytes;
    if (memcmp(u, v, bytes)) {
      fprintf(stderr, "%s: member %d differs in %s\n", what, (int)i, x.name);
      fail();
    }
  }
}
#endif
