/* test_memory.c — law: if any allocation fails, the call returns MEM, sets no output and leaks
 * nothing. Every allocation of each scenario fails once. */
#include "tests/support/problem.h"
#include "tests/support/trained.h"

#include "core/model/trained_ensemble.h"

#include <stdlib.h>

static int64_t allowed = -1; /* allocations until the first failure; -1: none fails */

/* Replaces the function of the C library in this program and the engines that it opens. */
__attribute__((visibility("default"))) void *aligned_alloc(size_t alignment, size_t bytes)
{
  void *block = NULL;
  if (!allowed) return NULL;
  if (allowed > 0) allowed--;
  return posix_memalign(&block, alignment, bytes) ? NULL : block;
}

static void starve(const char *name, tt_err (*scenario)(void *), void *context)
{
  int64_t before = tt_mem_live_blocks(), failures = 0;
  for (;; failures++) {
    allowed = failures;
    tt_err e = scenario(context);
    allowed = -1;
    TT_CHECK(tt_mem_live_blocks(), ==, before);
    if (e == TT_OK) break;
    TT_CHECK((int)e, ==, TT_E_MEM);
    TT_CHECK(failures, <, 1000);
  }
  fprintf(stderr, "  %-10s failed at each of %d allocations\n", name, (int)failures);
  TT_CHECK(failures, >, 0);
}

/* The same for the memory of the device. */
static void starve_device(const char *name, tt_err (*scenario)(void *), void *context)
{
#ifdef TT_CUDA_DOUBLE
  int64_t buffers = tt_double_count().buffers, failures = 0;
  for (tt_err e = TT_E_MEM; e; failures++) {
    tt_double_fail_alloc(failures + 1);
    e = scenario(context);
    tt_double_fail_alloc(0);
    TT_CHECK(tt_double_count().buffers, ==, buffers);
    if (e) TT_CHECK((int)e, ==, TT_E_MEM);
    TT_CHECK(failures, <, 1000);
  }
  fprintf(stderr, "  %-10s failed at each of %d allocations of the device\n", name,
          (int)failures - 1);
  TT_CHECK(failures, >, 1);
#endif
  (void)name, (void)scenario, (void)context;
}

static tt_err datasets(void *context)
{
  tt_dataset *d = NULL;
  tt_columns copy = {0};
  tt_scaler scales = {0};
  int32_t *row = NULL;
  int64_t count;
  const int32_t column = 0;
  (void)context;
  tt_err e = tt_dataset_create(5, 2, 2, 1, &d);
  if (!e) e = tt_columns_copy(&d->target, &copy);
  if (!e) e = tt_scaler_copy(&d->scaler, &scales);
  if (!e) e = tt_dataset_rows(d, TT_TRAIN, (tt_slice){0, 0}, &column, 1, &row, &count);
  tt_free(row);
  tt_columns_free(&copy);
  tt_scaler_free(&scales);
  tt_dataset_destroy(&d);
  return e;
}

static tt_err states(void *context)
{
  tt_state *s = NULL;
  tt_moments *m = NULL;
  (void)context;
  tt_err e = tt_state_create((tt_slice){0, 3}, (tt_state_shape){7, 2, 4, 0}, &s);
  if (!e) e = tt_moments_create(4, 2, &m);
  tt_state_destroy(&s);
  tt_moments_destroy(&m);
  return e;
}

/* A job, parsed by tt_config_parse. */
static tt_err cohorts(void *context)
{
  tt_cohorts all = {0};
  tt_columns target = {0};
  tt_err e = tt_columns_create(2, &target);
  if (!e) e = tt_cohorts_create(context, 3, &target, NULL, &all);
  tt_cohorts_destroy(&all);
  tt_columns_free(&target);
  return e;
}

/* A job file read, and written out. */
static tt_err jobs(void *context)
{
  tt_config *cfg = NULL;
  char *text = NULL;
  tt_err e = tt_config_parse("job.yaml", context, (int64_t)strlen(context), NULL, 0, &cfg);
  if (!e) e = tt_config_to_yaml(cfg, &text);
  tt_free(text);
  tt_config_destroy(&cfg);
  return e;
}

/* Parts of a batch, for another engine. */
static tt_err some_parts(problem *p, tt_engine *engine)
{
  float *sum[TT_MAX_PART_SUMS];
  double loss[TT_MAX_PART_SUMS];
  int training;
  if (p->c.parts == 1) return TT_OK;
  return p->by.ops->team->partial(engine, 0, (tt_slice){1, 3}, &training, sum, loss);
}

static tt_err engines(void *context)
{
  problem *p = context;
  tt_progress progress;
  tt_engine *engine = NULL;
  tt_err e = p->by.ops->create(&p->c, everyone(p), &p->by.use, &engine);
  if (!e) e = p->by.ops->set_data(engine, p->d, NULL);
  if (!e) e = p->by.ops->init(engine);
  if (!e) e = p->by.ops->train(engine, 3, &progress);
  if (!e) e = some_parts(p, engine);
  p->by.ops->destroy(&engine);
  return e;
}

static tt_err predictions(void *context)
{
  problem *p = context;
  tt_trained_ensemble *c = NULL;
  tt_moments *m = NULL;
  float x[6] = {0};
  tt_err e = trained_from_cohort(&p->c, p->d, &c);
  if (!e) e = tt_moments_create(2, tt_trained_ensemble_columns(c), &m);
  if (!e) e = p->by.ops->predict(c, &p->by.use, 2, x, m, NULL);
  tt_moments_destroy(&m);
  tt_trained_ensemble_destroy(&c);
  return e;
}

TT_TEST (data_and_states_survive_failed_allocations) {
  starve("data set", datasets, NULL);
  starve("state", states, NULL);
}

TT_TEST (jobs_survive_failed_allocations) {
  static char text[] =
      "data: {file: d.h5}\nensembles:\n"
      "- {name: a, targets: [y0, y1], train: {epochs: 3}, rows: some,\n"
      "   sweep: {l2: {uniform: [0, 1]}, beta1: {choice: [0, 0.5]}}}\n"
      "- {name: b, model: {hidden: [3], quantiles: [0.5]}, train: {loss: quantile}}\n";
  starve("job", jobs, text);
}

TT_TEST (cohorts_survive_failed_allocations) {
  const char *text = "data: {file: a.h5}\nensembles: [{name: one, members: 2}, {name: two}]\n";
  tt_config *cfg = NULL;
  TT_CHECK_OK(tt_config_parse("job.yaml", text, (int64_t)strlen(text), NULL, 0, &cfg));
  starve("cohort", cohorts, cfg);
  tt_config_destroy(&cfg);
}

/* All features that allocate memory, if the engine has them. */
static void enrich(problem *p, const int64_t *hidden)
{
  tt_cohort plain = p->c;
  tt_model_shape shape = usual_shape(3, 1, hidden, 2, TT_ACT_relu, TT_OUTPUT_mean_variance);
  shape.layer_norm = shape.residual = 1;
  p->c.resample = TT_RESAMPLE_kfold;
  p->c.average = TT_AVERAGE_ema;
  p->c.parts = 4;
  TT_CHECK_OK(tt_model_lay_out(&shape, &p->c.model));
  if (!can(p->by, &p->c)) {
    p->c = plain;
    return;
  }
  for (int64_t i = 0; i < p->c.members; i++) {
    tt_hyper *h = &p->c.member[i].hyper;
    h->dropout = 0.1f;
    h->clip_norm = 1.0f;
  }
}

/* Networks with a front of three inputs, if the engine trains them. */
static void put_front(problem *p)
{
  const int64_t profile[] = {1, 3};
  const tt_front_shape from = {.dims = 1, .size = profile, .activation = TT_ACT_silu};
  tt_cohort plain = p->c;
  tt_front f;
  tt_front_fault fault;
  int possible;
  tt_model_shape shape = usual_shape(3, 1, NULL, 0, TT_ACT_relu, TT_OUTPUT_mean_variance);
  TT_CHECK_OK(tt_front_read("residual 2,conv 4 3,conv 1 3,dropout,conv 2 3,group_norm 2", &from, &f,
                            &possible, &fault));
  shape.front = &f;
  TT_CHECK_OK(tt_model_lay_out(&shape, &p->c.model));
  if (!can(p->by, &p->c)) {
    p->c = plain;
    tt_front_destroy(&f);
  }
  for (int64_t i = 0; i < p->c.members && p->c.model.front.layers; i++)
    p->c.member[i].hyper.dropout = 0.1f;
}

TT_TEST (engines_survive_failed_allocations) {
  way variant[MAX_WAYS];
  const int64_t hidden[] = {5, 5};
  for (int i = 0, n = ways(variant); i < n; i++) {
    problem p = problem_make(30, 3, 2, 2, 2, hidden, 2, TT_ACT_relu, TT_OUTPUT_mean_variance);
    for (int e = 0; e < 2; e++) TT_CHECK_OK(tt_text_set(&p.c.ensemble[e].name, e ? "b" : "a"));
    p.by = variant[i];
    p.by.use.threads = 2;
    if (i % 3 == 2)
      put_front(&p);
    else if (i % 2)
      enrich(&p, hidden);
    starve("engine", engines, &p);
    starve("prediction", predictions, &p);
    starve_device("engine", engines, &p);
    starve_device("prediction", predictions, &p);
    for (int e = 0; e < 2; e++) tt_free(p.c.ensemble[e].name);
    problem_free(&p);
  }
}

/* Impossible sizes are rejected before any allocation. */
TT_TEST (impossible_sizes_are_rejected) {
  double *block = NULL;
  TT_CHECK((int)TT_ALLOC(block, INT64_MAX / 4), ==, TT_E_MEM);
  TT_CHECK((int)TT_ALLOC(block, -1), ==, TT_E_MEM);
  TT_CHECK(block == NULL, ==, 1);
  TT_CHECK_OK(TT_ALLOC(block, 0));
  tt_free(block);
  tt_free(block);
}
