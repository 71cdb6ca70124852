/* test_layered.c — law: with all options of members, the layered path computes the same as the cpu
 * engine, with the same bits in every order of threads; the other paths too, for the options that
 * they support. */
#include "cuda/plan/layered_sizes.h"
#include "tests/double/runtime/double.h"
#include "tests/support/problem.h"
#include "tests/support/trained.h"

enum { ROWS = 70, INPUTS = 5, EACH = 4, EPOCHS = 4, BATCH = 9 };

/* A network and the options that differ from the usual ones. */
typedef struct feature_case {
  const char *name; /* "front: " and the rows of a front, or any text */
  tt_loss loss;
  tt_optimizer optimizer;
  tt_schedule schedule;
  int64_t width[2];
  int norm, residual;
  void (*set)(problem *p, tt_hyper *h, int64_t i); /* of member i */
  int64_t parts;                                   /* of a batch; 0: small batches without parts */
} feature_case;

static void nothing(problem *p, tt_hyper *h, int64_t i) { (void)p, (void)h, (void)i; }

static void folds(problem *p, tt_hyper *h, int64_t i)
{
  p->c.resample = TT_RESAMPLE_kfold;
  p->c.average = TT_AVERAGE_swa;
  h->average_start = (int32_t)(i % 3);
  h->patience = 2;
}

static void drop(problem *p, tt_hyper *h, int64_t i)
{
  (void)p;
  h->dropout = i % 3 ? 0.3f : 0.0f;
  h->clip_norm = i % 2 ? 0.3f : 0.0f;
}

static void everything(problem *p, tt_hyper *h, int64_t i)
{
  drop(p, h, i);
  h->label_noise = i % 3 == 1 ? 0.1f : 0.0f;
}

static void pull(problem *p, tt_hyper *h, int64_t i)
{
  p->c.average = TT_AVERAGE_ema;
  h->average_start = (int32_t)(i % 2);
  h->average_decay = 0.9f;
  h->warmup = i % 3 ? 1.5f : 0.0f;
  h->weight_decay = 0.01f;
}

static void plateau(problem *p, tt_hyper *h, int64_t i)
{
  (void)p;
  h->schedule_gamma = 0.3f;
  h->schedule_step = (int32_t)(i % 2);
  h->schedule_min = 0.01f;
  h->min_delta = 0.5f;
  h->momentum = 0.5f;
  h->beta2 = 0.9f;
}

static void patient(problem *p, tt_hyper *h, int64_t i)
{
  (void)p;
  h->patience = 1;
  h->epochs = EPOCHS - (int32_t)(i % 2);
}

static const feature_case feature_cases[] = {
    {"kfold, swa", TT_LOSS_mse, TT_OPT_adam, TT_SCHEDULE_cosine, {6, 0}, 0, 0, folds, 0},
    {"quantile", TT_LOSS_quantile, TT_OPT_adam, TT_SCHEDULE_constant, {6, 0}, 0, 0, drop, 0},
    {"entropy", TT_LOSS_cross_entropy, TT_OPT_sgd, TT_SCHEDULE_step, {6, 0}, 0, 0, nothing, 0},
    {"huber", TT_LOSS_huber, TT_OPT_sgd, TT_SCHEDULE_multistep, {6, 5}, 0, 0, nothing, 0},
    {"nll", TT_LOSS_gaussian_nll, TT_OPT_adam, TT_SCHEDULE_exponential, {6, 5}, 0, 0, patient, 0},
    {"poisson", TT_LOSS_poisson, TT_OPT_adamw, TT_SCHEDULE_one_cycle, {6, 5}, 0, 0, nothing, 0},
    {"bce", TT_LOSS_bce, TT_OPT_rmsprop, TT_SCHEDULE_reduce_on_plateau, {6, 5}, 0, 0, plateau, 0},
    {"mae", TT_LOSS_mae, TT_OPT_adam, TT_SCHEDULE_cosine_restarts, {6, 5}, 0, 0, nothing, 0},
    {"dropout", TT_LOSS_gaussian_nll, TT_OPT_adam, TT_SCHEDULE_constant, {7, 18}, 0, 0, drop, 0},
    {"layer_norm", TT_LOSS_mse, TT_OPT_adam, TT_SCHEDULE_constant, {6, 7}, 1, 0, nothing, 0},
    {"residual", TT_LOSS_mse, TT_OPT_adam, TT_SCHEDULE_constant, {18, 18}, 0, 1, nothing, 0},
    {"all layers", TT_LOSS_mse, TT_OPT_adam, TT_SCHEDULE_constant, {18, 18}, 1, 1, everything, 0},
    {"amsgrad", TT_LOSS_mse, TT_OPT_amsgrad, TT_SCHEDULE_one_cycle, {6, 0}, 0, 0, pull, 0},
    {"parts", TT_LOSS_gaussian_nll, TT_OPT_adam, TT_SCHEDULE_constant, {7, 18}, 0, 0, drop, 3},
    {"parts, norm", TT_LOSS_mse, TT_OPT_adam, TT_SCHEDULE_constant, {18, 18}, 1, 1, everything, 2},
    {"parts, ema", TT_LOSS_mse, TT_OPT_amsgrad, TT_SCHEDULE_one_cycle, {6, 0}, 0, 0, pull, 5},
    {"parts, folds", TT_LOSS_huber, TT_OPT_adam, TT_SCHEDULE_cosine, {6, 0}, 0, 0, folds, 3},
    {"parts, patience",
     TT_LOSS_mae,
     TT_OPT_sgd,
     TT_SCHEDULE_cosine_restarts,
     {6, 5},
     0,
     0,
     patient,
     2},
    {"front: conv 4 2,group_norm 2,dropout,residual 2,conv 6 3,conv 4 3,pool max 2 stride 1",
     TT_LOSS_gaussian_nll,
     TT_OPT_adam,
     TT_SCHEDULE_constant,
     {6, 0},
     1,
     0,
     drop,
     0},
    {"front: residual 1,group_norm 1,conv 3 3 stride 2,residual 2,dropout,conv 3 1 groups 3",
     TT_LOSS_mse,
     TT_OPT_adam,
     TT_SCHEDULE_cosine,
     {6, 5},
     0,
     0,
     drop,
     3},
    {"front: conv 17 3 dilation 2,conv 16 9,pool mean 2,conv 3 2,global_mean",
     TT_LOSS_huber,
     TT_OPT_adam,
     TT_SCHEDULE_cosine,
     {6, 0},
     0,
     0,
     folds,
     0},
};
enum { FEATURE_CASES = sizeof feature_cases / sizeof *feature_cases };

/* Labels that are valid for the loss. */
static void label(problem *p)
{
  for (int64_t k = 0; k < ROWS * p->d->targets; k++) {
    float *y = &p->d->y[k];
    if (p->c.loss == TT_LOSS_cross_entropy) *y = *y < -0.3f ? 0.0f : *y < 0.3f ? 1.0f : 2.0f;
    if (p->c.loss == TT_LOSS_bce) *y = *y > 0.0f ? 1.0f : 0.0f;
    if (p->c.loss == TT_LOSS_poisson) *y = *y > 0.0f ? 2.0f : 1.0f;
  }
}

static problem make(const feature_case *a)
{
  static const double level[] = {0.1, 0.5, 0.9};
  static const int64_t profile[] = {1, INPUTS};
  tt_front front = {0};
  tt_front_fault fault = {0};
  int possible = 1, has_front = strncmp(a->name, "front: ", 7) == 0;
  tt_output output = tt_loss_output_head(a->loss);
  tt_model_shape shape = {.inputs = INPUTS,
                          .targets = 1,
                          .hidden = a->width,
                          .layers = a->width[1] ? 2 : 1,
                          .activation = TT_ACT_tanh,
                          .output = output,
                          .layer_norm = a->norm,
                          .residual = a->residual,
                          .levels = 3,
                          .level = level,
                          .front = &front};
  int64_t ensembles = has_front ? 1 : 2; /* fronts take most of the time */
  problem p =
      problem_make(ROWS, INPUTS, 2, ensembles, EACH, a->width, 1, TT_ACT_tanh, TT_OUTPUT_mean);
  const tt_front_shape from = {.dims = 1, .size = profile, .activation = TT_ACT_tanh};
  if (has_front) TT_CHECK_OK(tt_front_read(a->name + 7, &from, &front, &possible, &fault));
  TT_CHECK(possible, ==, 1);
  TT_CHECK_OK(tt_model_lay_out(&shape, &p.c.model));
  p.c.loss = a->loss;
  p.c.huber_delta = 0.3f;
  p.c.nll_beta = 0.5f;
  p.c.optimizer = a->optimizer;
  p.c.schedule = a->schedule;
  p.c.schedule_options = (tt_schedule_options){2, {1, 3}, 2.0f, 0.3f};
  p.c.batch_size = a->parts || has_front ? 35 : BATCH;
  p.c.parts = a->parts ? a->parts : 1;
  p.c.max_epochs = has_front ? 3 : EPOCHS;
  p.c.retries = 2;
  p.c.retry_reseed = 1;
  label(&p);
  for (int64_t i = 0; i < p.c.members; i++) {
    tt_hyper *h = &p.c.member[i].hyper;
    h->epochs = (int32_t)p.c.max_epochs;
    h->schedule_gamma = 0.5f;
    h->schedule_step = 2;
    a->set(&p, h, i % EACH);
  }
  return p;
}

/* Train in calls of `steps` steps; the second member is in its second attempt. */
static tt_state *trained(problem *p, way variant, int64_t steps)
{
  problem_start(p, variant, everyone(p));
  tt_state *s = problem_state(p, everyone(p));
  TT_FIELD(s, attempt)[1] = 1;
  TT_FIELD(s, lr_factor)[1] = 0.5f;
  tt_member_init_weights(&p->c, &p->c.member[1], 1, TT_FIELD(s, weights) + s->params);
  TT_CHECK_OK(variant.ops->load(p->engine, everyone(p), s));
  tt_state_destroy(&s);
  problem_finish(p, steps);
  s = problem_state(p, everyone(p));
  problem_stop(p);
  return s;
}

static double value_of(const tt_state_field *f, int64_t i)
{
  switch (f->type) {
  case TT_TYPE_float: return (double)((const float *)f->data)[i];
  case TT_TYPE_double: return ((const double *)f->data)[i];
  case TT_TYPE_int8_t: return (double)((const int8_t *)f->data)[i];
  case TT_TYPE_int32_t: return (double)((const int32_t *)f->data)[i];
  default: return (double)((const int64_t *)f->data)[i];
  }
}

static void check_states_close(const char *name, const tt_state *want, const tt_state *got)
{
  for (int f = 0; f < TT_STATE_FIELD_COUNT; f++) {
    tt_state_field a = tt_state_get(want, f), b = tt_state_get(got, f);
    for (int64_t i = 0; i < want->count * a.length; i++) {
      double x = value_of(&a, i), y = value_of(&b, i), apart = fabs(x - y);
      if ((isnan(x) && isnan(y)) || x == y) continue;
      if (!(apart <= 2e-5 * (1.0 + fabs(x))))
        fprintf(stderr, "%s: %s of member %d\n", name, a.name, (int)(i / a.length));
      TT_CHECK(apart, <=, 2e-5 * (1.0 + fabs(x)));
    }
  }
}

static void check_engine(const feature_case *a, problem *p, way variant, const tt_state *want,
                         tt_state **before)
{
  char what[128];
  snprintf(what, sizeof what, "%s, %s", a->name, variant.name);
  tt_state *got = trained(p, variant, 7);
  check_states_close(what, want, got);
  for (int64_t i = 0; *before && variant.schedule && i < p->c.members; i++)
    same_member(*before, got, i, what);
  tt_state_destroy(before);
  *before = got;
}

/* 1 gather and first layer, 2 products forward, 1 last layer and loss, 2 products backward, 2 launches
 * with the gradients of 3 layers and of 1, 1 optimizer. */
enum { OPERATIONS_OF_A_STEP = 9 };

/* Operations of the largest graph so far, when an epoch has been trained. */
static int64_t largest_graph(int64_t members, int64_t batch, int64_t parts)
{
  static const int64_t width[3] = {20, 20, 20};
  way layered = {"layered", &tt_engine_cuda, {.threads = 1, .path = TT_GPU_PATH_layered}, 0, 0, 1};
  problem p = problem_make(ROWS, 18, 1, 1, members, width, 3, TT_ACT_relu, TT_OUTPUT_mean);
  p.c.batch_size = batch;
  p.c.parts = parts;
  p.c.max_epochs = 1;
  for (int64_t i = 0; i < members; i++) p.c.member[i].hyper.epochs = 1;
  tt_state *s = problem_run(&p, layered, everyone(&p), 1000);
  tt_state_destroy(&s);
  problem_free(&p);
  return tt_double_count().largest_graph;
}

/* The first test: it looks at the largest graph so far. */
TT_TEST (operations_of_a_step_do_not_depend_on_the_members) {
  /* 32 steps would have more operations than the double allows a graph; so has one of 64 parts */
  for (int64_t members = 1; members <= 9; members += 8)
    TT_CHECK(largest_graph(members, 1, 1), ==, 16 * OPERATIONS_OF_A_STEP);
  TT_CHECK(largest_graph(1, 20, 64), ==, 16 * OPERATIONS_OF_A_STEP);
}

TT_TEST (every_option_agrees_with_the_cpu) {
  way plain = {"generic", &tt_engine_cpu, {.threads = 1, .simd = TT_SIMD_generic}, 0, 0, 1};
  for (int k = 0; k < FEATURE_CASES; k++) {
    problem p = make(&feature_cases[k]);
    tt_state *want = trained(&p, plain, 1000), *before = NULL;
    for (const way *w = every_way(); w->name; w++) {
      int layered = w->use.path == TT_GPU_PATH_layered, resting = 1 + k % 2;
      if (!suits(*w, &p.c) || (layered ? w->schedule == resting : !takes(*w, k))) continue;
      if (!layered) tt_state_destroy(&before);
      check_engine(&feature_cases[k], &p, *w, want, &before);
    }
    tt_state_destroy(&before);
    tt_state_destroy(&want);
    problem_free(&p);
  }
}

/* More positions of a channel than a block has threads. */
TT_TEST (a_long_profile_agrees_with_the_cpu) {
  const int64_t profile[] = {1, 601};
  way plain = {"generic", &tt_engine_cpu, {.threads = 1, .simd = TT_SIMD_generic}, 0, 0, 1};
  way layered = {"layered", &tt_engine_cuda, {.threads = 1, .path = TT_GPU_PATH_layered}, 0, 0, 1};
  problem p = problem_make(20, 601, 1, 1, 1, NULL, 0, TT_ACT_tanh, TT_OUTPUT_mean);
  tt_model_shape shape = usual_shape(601, 1, NULL, 0, TT_ACT_tanh, TT_OUTPUT_mean);
  tt_front f;
  tt_front_fault fault;
  int possible;
  const tt_front_shape from = {.dims = 1, .size = profile, .activation = TT_ACT_tanh};
  TT_CHECK_OK(tt_front_read("conv 2 3,group_norm 1,conv 2 5 stride 2,pool max 3,pool mean 100",
                            &from, &f, &possible, &fault));
  shape.front = &f;
  TT_CHECK_OK(tt_model_lay_out(&shape, &p.c.model));
  tt_state *want = problem_run(&p, plain, everyone(&p), 100);
  tt_state *got = problem_run(&p, layered, everyone(&p), 100);
  check_states_close("long profile", want, got);
  tt_state_destroy(&want);
  tt_state_destroy(&got);
  problem_free(&p);
}

/* Parts change most arrays of the path, and nothing else that the engine allocates. */
TT_TEST (memory_is_that_of_the_table) {
  way layered = {"layered", &tt_engine_cuda, {.threads = 1, .path = TT_GPU_PATH_layered}, 0, 0, 1};
  for (int k = 0; k < FEATURE_CASES; k++) {
    int64_t rest[2], least = INT64_MAX;
    for (int64_t parts = 1; parts <= 2; parts++) {
      problem p = make(&feature_cases[k]);
      tt_engine_info info;
      p.c.batch_size = 60;
      p.c.parts = parts;
      problem_start(&p, layered, everyone(&p));
      TT_CHECK_OK(layered.ops->info(p.engine, &info));
      tt_layered_sizes s = tt_layered_sizes_of(&p.c, everyone(&p), ROWS, 0, 0);
      int64_t bytes = tt_layered_bytes(&s, &p.c.model);
      rest[parts - 1] = info.device_bytes - bytes;
      TT_CHECK(bytes, <, least);
      least = bytes;
      problem_free(&p);
    }
    TT_CHECK(rest[0], ==, rest[1]);
  }
}

/* predictions */

static tt_trained_ensemble *committee_of(const problem *p)
{
  tt_trained_ensemble *c = NULL;
  TT_CHECK_OK(trained_create(&p->c.model, p->c.ensembles, p->c.members, &c));
  c->variance_floor = p->c.variance_floor;
  for (int64_t e = 0; e < c->ensembles; e++)
    c->ensemble[e] = (tt_ensemble){.first = e * EACH, .members = EACH, .targets = 1};
  for (int64_t m = 0; m < p->c.members; m++) {
    float *w = c->w + m * c->model.params;
    tt_member_init_weights(&p->c, &p->c.member[m], 0, w);
    for (int64_t i = 0; i < c->model.params; i++) w[i] *= 1.0f + 0.1f * (float)(i % 7);
    c->weight[m] = m % 3 ? 1.0 : 0.25;
  }
  return c;
}

static void close(const char *what, const double *want, const double *got, int64_t n)
{
  for (int64_t i = 0; i < n; i++) {
    if (!(fabs(want[i] - got[i]) <= 1e-5 * (1.0 + fabs(want[i])))) fprintf(stderr, "%s\n", what);
    TT_CHECK(fabs(want[i] - got[i]), <=, 1e-5 * (1.0 + fabs(want[i])));
  }
}

static void predict_by(const tt_trained_ensemble *c, way variant, const float *x, tt_moments *dst,
                       double *each)
{
  int64_t n = c->members * 2 * tt_trained_ensemble_width(c) * ROWS;
  float *out = NULL;
  TT_CHECK_OK(TT_ALLOC(out, n));
  follow_schedule(variant);
  TT_CHECK_OK(variant.ops->predict(c, &variant.use, ROWS, x, dst, out));
  for (int64_t i = 0; i < n; i++) each[i] = (double)out[i];
  tt_free(out);
}

TT_TEST (predictions_have_all_quantities) {
  way cpu = {"generic", &tt_engine_cpu, {.threads = 1, .simd = TT_SIMD_generic}, 0, 0, 1};
  for (int k = 0; k < FEATURE_CASES; k++) {
    way cuda = {"cuda", &tt_engine_cuda, {.threads = 1, .path = TT_GPU_PATH_auto}, k % SCHEDULES, 0,
                1};
    problem p = make(&feature_cases[k]);
    tt_trained_ensemble *c = committee_of(&p);
    int64_t columns = tt_trained_ensemble_columns(c),
            n = c->members * 2 * tt_trained_ensemble_width(c) * ROWS;
    tt_moments *want = NULL, *got = NULL;
    double *each[2] = {NULL, NULL};
    for (int j = 0; j < 2; j++) TT_CHECK_OK(TT_ALLOC(each[j], n));
    TT_CHECK_OK(tt_moments_create(ROWS, columns, &want));
    TT_CHECK_OK(tt_moments_create(ROWS, columns, &got));
    predict_by(c, cpu, p.d->x, want, each[0]);
    predict_by(c, cuda, p.d->x, got, each[1]);
    close(feature_cases[k].name, each[0], each[1], n);
    close(feature_cases[k].name, want->weight, got->weight, columns);
    close(feature_cases[k].name, want->mean, got->mean, ROWS * columns);
    close(feature_cases[k].name, want->between, got->between, ROWS * columns);
    close(feature_cases[k].name, want->within, got->within, ROWS * columns);
    for (int j = 0; j < 2; j++) tt_free(each[j]);
    tt_moments_destroy(&want);
    tt_moments_destroy(&got);
    tt_trained_ensemble_destroy(&c);
    problem_free(&p);
  }
}

/* A GPU without clusters adds the parts of a channel in the same order. */
TT_TEST (clusters_change_no_bit_of_a_front) {
  static const char name[] = "front: conv 4 3,batch_norm,conv 3 2,batch_norm,group_norm 1";
  static const feature_case a = {
      name, TT_LOSS_mse, TT_OPT_adam, TT_SCHEDULE_constant, {6, 0}, 0, 0, drop, 0};
  way layered = {"layered", &tt_engine_cuda, {.threads = 1, .path = TT_GPU_PATH_layered}, 0, 0, 1};
  problem p = make(&a);
  tt_state *clusters = trained(&p, layered, 1000);
  tt_double_set_gpu(80, 108, 163 * 1024);
  tt_state *blocks = trained(&p, layered, 1000);
  tt_double_set_gpu(90, 132, 227 * 1024);
  for (int64_t i = 0; i < p.c.members; i++) same_member(clusters, blocks, i, "clusters");
  tt_state_destroy(&blocks);
  tt_state_destroy(&clusters);
  problem_free(&p);
}
