/* test_trainer.c — tutti.h: a trainer that gets the batches of a job has its weights, bit for bit;
 * its state continues; every call that cannot be right is refused and changes nothing; and steps
 * allocate nothing. The double runs it too, as the GPU. */
#include "core/engine/engine.h"
#include "src/api/tutti.h"
#include "tests/embedding/allocations.h"
#include "tests/support/check.h"
#include "tests/support/ranks.h"
#include "tests/support/scratch.h"

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 20, INPUTS = 3, TARGETS = 2, BATCH = 7, MEMBERS = 3, EPOCHS = 4, BATCHES = 3 };
enum { STEPS = EPOCHS * BATCHES, OUTPUTS = 2 * TARGETS };

#ifdef TT_CUDA_DOUBLE
#define DEVICE "gpu"
static const tt_engine_ops *const engine_ops = &tt_engine_cuda;
#else
#define DEVICE "cpu"
static const tt_engine_ops *const engine_ops = &tt_engine_cpu;
#endif

static const char job[] = "model: {hidden: [9, 5], activation: silu, layer_norm: true}\n"
                          "train: {epochs: 4, batch_size: 7, loss: gaussian_nll, dropout: 0.1,\n"
                          "        schedule: cosine, warmup: 1, average: ema,\n"
                          "        clip_norm: 1, label_noise: 0.1}\n"
                          "ensembles: [{name: e, members: 3}]\n"
                          "run: {seed: 5, device: " DEVICE "}\n";
static const char plain[] = "model: {hidden: [8]}\n"
                            "train: {batch_size: 20}\n"
                            "ensembles: [{name: e, members: 3}]\n"
                            "run: {seed: 5}\n";

static float x[ROWS * INPUTS], y[ROWS * TARGETS];

static int make_rows(void **state)
{
  (void)state;
  for (int i = 0; i < ROWS * INPUTS; i++) x[i] = sinf((float)(i * i));
  for (int i = 0; i < ROWS * TARGETS; i++) y[i] = cosf((float)i);
  return 0;
}
TT_SUITE(make_rows, NULL)

static tutti_trainer_options options_of(const char *text, int64_t epoch_rows)
{
  return (tutti_trainer_options){.size = sizeof(tutti_trainer_options),
                                 .options = text,
                                 .threads = 1,
                                 .inputs = INPUTS,
                                 .targets = TARGETS,
                                 .epoch_rows = epoch_rows};
}

static tutti_trainer *make(const char *text, int64_t epoch_rows)
{
  tutti_trainer *t = NULL;
  const tutti_trainer_options o = options_of(text, epoch_rows);
  TT_CHECK(tutti_trainer_create(&o, &t), ==, 0);
  return t;
}

static tutti_batch all_rows(void)
{
  return (tutti_batch){.size = sizeof(tutti_batch), .rows = ROWS, .x = x, .y = y};
}

/* Weights of all members, [M][P]; owned by the caller. */
static float *weights_of(tutti_trainer *t)
{
  int64_t params = tutti_trainer_parameters(t);
  float *w = NULL;
  TT_CHECK_OK(TT_ALLOC(w, MEMBERS * params));
  TT_CHECK(tutti_trainer_get_weights(t, -1, w), ==, 0);
  return w;
}

static void same_weights(tutti_trainer *a, tutti_trainer *b)
{
  float *u = weights_of(a), *v = weights_of(b);
  TT_CHECK(memcmp(u, v, (size_t)(MEMBERS * tutti_trainer_parameters(a)) * sizeof *u), ==, 0);
  tt_free_all(&u, &v);
}

/* The job in an engine: its cohort, and the state at the end. */
typedef struct trained_job {
  tt_config *cfg;
  tt_dataset *data;
  tt_cohorts cohorts;
  tt_state *state;
} trained_job;

static trained_job train_job(void)
{
  trained_job j = {0};
  tt_engine *engine = NULL;
  tt_progress progress;
  const char *const set[] = {"data.file=x.h5"};
  const tt_resources use = {.threads = 1, .path = TT_GPU_PATH_layered};
  TT_CHECK_OK(tt_config_parse("job", job, (int64_t)sizeof job - 1, set, 1, &j.cfg));
  TT_CHECK_OK(tt_dataset_create(ROWS, INPUTS, TARGETS, 0, &j.data));
  memcpy(j.data->x, x, sizeof x);
  memcpy(j.data->y, y, sizeof y);
  TT_CHECK_OK(tt_cohorts_create(j.cfg, INPUTS, &j.data->target, j.data, &j.cohorts));
  tt_cohort *c = j.cohorts.at[0];
  TT_CHECK_OK(engine_ops->create(c, (tt_slice){0, MEMBERS}, &use, &engine));
  TT_CHECK_OK(engine_ops->set_data(engine, j.data, NULL));
  TT_CHECK_OK(engine_ops->init(engine));
  TT_CHECK_OK(engine_ops->train(engine, STEPS, &progress));
  TT_CHECK(progress.finished, ==, MEMBERS);
  TT_CHECK_OK(tt_state_create((tt_slice){0, MEMBERS}, tt_cohort_state_shape(c), &j.state));
  TT_CHECK_OK(engine_ops->save(engine, (tt_slice){0, MEMBERS}, j.state));
  engine_ops->destroy(&engine);
  return j;
}

static void free_job(trained_job *j)
{
  tt_state_destroy(&j->state);
  tt_cohorts_destroy(&j->cohorts);
  tt_dataset_destroy(&j->data);
  tt_config_destroy(&j->cfg);
}

/* One step with batch `step` of the job: rows index[MEMBERS][count]. */
static void step_as_job(const tt_cohort *c, tutti_trainer *t, int64_t step)
{
  int32_t index[MEMBERS * BATCH];
  double loss[MEMBERS];
  tutti_batch b = all_rows();
  int64_t first = step % BATCHES * BATCH, left = ROWS - first;
  b.count = left < BATCH ? left : BATCH;
  b.index = index;
  for (int64_t m = 0; m < MEMBERS; m++) {
    tt_sampler order = tt_member_sampler(c, &c->member[m], 0, ROWS, step / BATCHES);
    for (int64_t r = 0; r < b.count; r++)
      index[m * b.count + r] = (int32_t)tt_sampler_at(&order, (uint32_t)(first + r));
  }
  TT_CHECK(tutti_trainer_step(t, &b, loss), ==, 0);
  for (int64_t m = 0; m < MEMBERS; m++) TT_CHECK(isfinite(loss[m]), !=, 0);
}

TT_TEST (a_trainer_has_the_weights_of_the_job) {
  trained_job j = train_job();
  tutti_trainer *t = make(job, ROWS);
  const size_t size = (size_t)j.state->params * sizeof(float);
  double loss[MEMBERS];
  for (int64_t s = 0; s < STEPS; s++) step_as_job(j.cohorts.at[0], t, s);
  float *w = weights_of(t);
  TT_CHECK(memcmp(w, TT_FIELD(j.state, weights), MEMBERS * size), ==, 0);
  tutti_batch b = all_rows(); /* all members have ended */
  b.count = BATCH;
  TT_CHECK(tutti_trainer_step(t, &b, loss), ==, 0);
  for (int64_t m = 0; m < MEMBERS; m++) TT_CHECK(isnan(loss[m]), !=, 0);
  tt_free(w);
  tutti_trainer_destroy(&t);
  TT_CHECK(t == NULL, ==, 1);
  free_job(&j);
}

static void refuses_a_state_of_other_scales(void)
{
  const double mean[TARGETS] = {1.0, 2.0}, scale[TARGETS] = {1.0, 1.0};
  tutti_trainer_options o = options_of(plain, 0);
  tutti_trainer *t = NULL, *without = make(plain, 0);
  char state[1 << 15];
  o.y_mean = mean, o.y_scale = scale;
  TT_CHECK(tutti_trainer_create(&o, &t), ==, 0);
  TT_CHECK(tutti_trainer_state_bytes(t), <=, (int64_t)sizeof state);
  TT_CHECK(tutti_trainer_get_state(t, state), ==, 0);
  TT_CHECK(tutti_trainer_set_state(without, state, tutti_trainer_state_bytes(t)), ==, 65);
  tutti_trainer_destroy(&t);
  tutti_trainer_destroy(&without);
}

TT_TEST (a_state_continues) {
  trained_job j = train_job();
  tutti_trainer *whole = make(job, ROWS), *other = make(job, ROWS);
  int64_t bytes = tutti_trainer_state_bytes(whole);
  char *state = NULL;
  TT_CHECK_OK(TT_ALLOC(state, bytes));
  TT_CHECK(tutti_trainer_set_learning_rate(whole, 1, 0.003), ==, 0); /* a part of the state */
  step_as_job(j.cohorts.at[0], other, 0);
  for (int64_t s = 0; s < STEPS; s++) {
    if (s == 5) TT_CHECK(tutti_trainer_get_state(whole, state), ==, 0);
    step_as_job(j.cohorts.at[0], whole, s);
  }
  state[bytes - 3] ^= 4;
  TT_CHECK(tutti_trainer_set_state(other, state, bytes), ==, 65);
  state[bytes - 3] ^= 4;
  TT_CHECK(tutti_trainer_set_state(other, state, bytes - 1), ==, 65);
  TT_CHECK(tutti_trainer_set_state(other, state, bytes), ==, 0);
  for (int64_t s = 5; s < STEPS; s++) step_as_job(j.cohorts.at[0], other, s);
  same_weights(whole, other);
  tutti_trainer *stranger = make(plain, 0);
  TT_CHECK(tutti_trainer_set_state(stranger, state, bytes), ==, 65);
  TT_CHECK(strstr(tutti_error(), "other options") != NULL, ==, 1);
  refuses_a_state_of_other_scales();
  tt_free(state);
  tutti_trainer_destroy(&whole);
  tutti_trainer_destroy(&other);
  tutti_trainer_destroy(&stranger);
  free_job(&j);
}

/* Rows of their own for each member are those of an index. */
TT_TEST (own_rows_are_rows_of_an_index) {
  float own_x[MEMBERS * 4 * INPUTS], own_y[MEMBERS * 4 * TARGETS];
  int32_t index[MEMBERS * 4];
  tutti_trainer *a = make(plain, 0), *b = make(plain, 0);
  for (int i = 0; i < MEMBERS * 4; i++) {
    index[i] = (7 * i + 3) % ROWS;
    memcpy(own_x + i * INPUTS, x + index[i] * INPUTS, INPUTS * sizeof *x);
    memcpy(own_y + i * TARGETS, y + index[i] * TARGETS, TARGETS * sizeof *y);
  }
  tutti_batch by_index = all_rows();
  by_index.index = index;
  by_index.count = 4;
  const tutti_batch own = {
      .size = sizeof own, .rows = MEMBERS * 4, .x = own_x, .y = own_y, .own_rows = 1};
  for (int s = 0; s < 3; s++) {
    TT_CHECK(tutti_trainer_step(a, &by_index, NULL), ==, 0);
    TT_CHECK(tutti_trainer_step(b, &own, NULL), ==, 0);
  }
  same_weights(a, b);
  tutti_trainer_destroy(&a);
  tutti_trainer_destroy(&b);
}

/* The model in memory and the file predict what the members predict. */
TT_TEST (a_model_predicts_as_the_trainer) {
  const double mean[] = {1.0, 2.0, 3.0}, scale[] = {2.0, 3.0, 4.0};
  const double to[] = {-1.0, 5.0}, by[] = {10.0, 0.5};
  const char *const name[] = {"a", "b", "c"};
  tutti_trainer_options o = options_of(plain, 0);
  o.x_mean = mean, o.x_scale = scale, o.y_mean = to, o.y_scale = by;
  o.input_name = name;
  tutti_trainer *t = NULL;
  tutti_model *model = NULL, *file = NULL;
  float output[MEMBERS][ROWS][TARGETS];
  double in[ROWS * INPUTS], got[2][ROWS][TARGETS];
  const tutti_batch b = all_rows();
  TT_CHECK(tutti_trainer_create(&o, &t), ==, 0);
  TT_CHECK(tutti_trainer_step(t, &b, NULL), ==, 0);
  TT_CHECK(tutti_trainer_predict(t, ROWS, x, output[0][0]), ==, 0);
  TT_CHECK(tutti_trainer_model(t, &model), ==, 0);
  char path[2 * SCRATCH_ROOM];
  snprintf(path, sizeof path, "%s/trainer.h5", scratch);
  TT_CHECK(tutti_trainer_save(t, path), ==, 0);
  TT_CHECK(tutti_trainer_save(t, path), ==, 0);
  TT_CHECK(tutti_open(path, &file), ==, 0);
  TT_CHECK(strcmp(tutti_input_name(file, 1), "b"), ==, 0);
  for (int i = 0; i < ROWS * INPUTS; i++) in[i] = (double)x[i];
  for (int k = 0; k < 2; k++) {
    tutti_prediction p = {.size = sizeof p, .mean = got[k][0]};
    TT_CHECK(tutti_predict(k ? file : model, ROWS, in, 1, &p), ==, 0);
  }
  for (int r = 0; r < ROWS; r++)
    for (int k = 0; k < TARGETS; k++) {
      double sum = 0.0;
      for (int m = 0; m < MEMBERS; m++) sum += (double)output[m][r][k] / MEMBERS;
      TT_CHECK(fabs(got[0][r][k] - (sum * by[k] + to[k])), <=, 1e-5);
      TT_CHECK(got[1][r][k], ==, got[0][r][k]);
    }
  tutti_close(&model);
  tutti_close(&file);
  tutti_trainer_destroy(&t);
}

TT_TEST (weights_and_learning_rates_are_set) {
  tutti_trainer *t = make(plain, 0);
  int64_t params = tutti_trainer_parameters(t);
  const tutti_batch b = all_rows();
  float *start = weights_of(t);
  TT_CHECK(tutti_trainer_set_learning_rate(t, 1, 0.0), ==, 0);
  TT_CHECK(tutti_trainer_learning_rate(t, 1), ==, 0.0);
  TT_CHECK(isnan(tutti_trainer_learning_rate(t, 3)), !=, 0);
  TT_CHECK(tutti_trainer_step(t, &b, NULL), ==, 0);
  float *moved = weights_of(t);
  TT_CHECK(memcmp(start + params, moved + params, (size_t)params * sizeof *start), ==, 0);
  TT_CHECK(memcmp(start, moved, (size_t)params * sizeof *start), !=, 0);
  TT_CHECK(tutti_trainer_set_weights(t, 0, start), ==, 0);
  tt_free(moved);
  moved = weights_of(t);
  TT_CHECK(memcmp(start, moved, (size_t)params * sizeof *start), ==, 0);
  TT_CHECK(tutti_trainer_set_weights(t, -1, start), ==, 0);
  TT_CHECK(tutti_trainer_get_weights(t, 2, moved), ==, 0);
  TT_CHECK(memcmp(start + 2 * params, moved, (size_t)params * sizeof *start), ==, 0);
  TT_CHECK(tutti_trainer_reset(t, -1), ==, 64);
  TT_CHECK(tutti_trainer_reset(t, 2), ==, 0);
  tt_free(moved);
  moved = weights_of(t);
  TT_CHECK(memcmp(start + 2 * params, moved + 2 * params, (size_t)params * sizeof *start), !=, 0);
  tt_free_all(&start, &moved);
  tutti_trainer_destroy(&t);
}

/* A member whose loss is not finite stops, the others do not; it begins again after a reset. */
TT_TEST (a_diverged_member_harms_none) {
  tutti_trainer *t = make(plain, 0), *calm = make(plain, 0);
  tutti_model *model = NULL;
  const tutti_batch b = all_rows();
  double loss[MEMBERS], mean[ROWS * TARGETS], in[ROWS * INPUTS];
  TT_CHECK(tutti_trainer_set_learning_rate(t, 1, 1e30), ==, 0);
  for (int s = 0; s < 4; s++) {
    TT_CHECK(tutti_trainer_step(t, &b, loss), ==, 0);
    TT_CHECK(tutti_trainer_step(calm, &b, NULL), ==, 0);
  }
  TT_CHECK(isnan(loss[1]), !=, 0);
  float *w = weights_of(t), *v = weights_of(calm);
  TT_CHECK(memcmp(w, v, (size_t)tutti_trainer_parameters(t) * sizeof *w), ==, 0);
  TT_CHECK(tutti_trainer_model(t, &model), ==, 0);
  for (int i = 0; i < ROWS * INPUTS; i++) in[i] = (double)x[i];
  tutti_prediction p = {.size = sizeof p, .mean = mean};
  TT_CHECK(tutti_predict(model, ROWS, in, 1, &p), ==, 0);
  TT_CHECK(isfinite(mean[0]), !=, 0);
  TT_CHECK(tutti_trainer_set_learning_rate(t, -1, 1e-3), ==, 0);
  TT_CHECK(tutti_trainer_reset(t, 1), ==, 0);
  TT_CHECK(tutti_trainer_step(t, &b, loss), ==, 0);
  TT_CHECK(isfinite(loss[1]), !=, 0);
  tt_free_all(&w, &v);
  tutti_close(&model);
  tutti_trainer_destroy(&t);
  tutti_trainer_destroy(&calm);
}

#ifndef TT_CUDA_DOUBLE /* the double allocates, and has one thread */
TT_TEST (steps_allocate_nothing) {
  tutti_trainer *t = make(plain, 0);
  float output[MEMBERS * ROWS * TARGETS], slope[MEMBERS * ROWS * INPUTS];
  double loss[MEMBERS];
  const tutti_batch b = all_rows();
  int before = 0;
  for (int s = 0; s < 50; s++) {
    if (s == 1) before = allocations;
    TT_CHECK(tutti_trainer_step(t, &b, loss), ==, 0);
    TT_CHECK(tutti_trainer_forward(t, &b, output), ==, 0);
    TT_CHECK(tutti_trainer_backward(t, output, slope), ==, 0);
    TT_CHECK(tutti_trainer_update(t), ==, 0);
    TT_CHECK(tutti_trainer_predict(t, ROWS, x, output), ==, 0);
  }
  TT_CHECK(allocations, ==, before);
  tutti_trainer_destroy(&t);
}

#endif

static void refused(int code, int want, const char *why)
{
  if (code == want && strstr(tutti_error(), why)) return;
  fprintf(stderr, "%d instead of %d, '%s' is not in: %s\n", code, want, why, tutti_error());
  fail();
}

TT_TEST (bad_options_are_refused) {
  static const struct {
    const char *text;
    int code;
    const char *why;
  } bad[] = {
      {"model: {hiden: [8]}\nensembles: [{name: e, members: 1}]\n", 78, "hidden"},
      {"model: {hidden: [8]}\n", 78, "ensembles is missing"},
      {"ensembles: [{name: e, members: 1}]\ntrain: {resample: bootstrap}\n", 78, "resample"},
      {"ensembles: [{name: e, members: 1}]\ntrain: {schedule: cosine}\n", 78, "epoch_rows"},
      {"ensembles: [{name: e, members: 1}]\ntrain: {average: swa}\n", 78, "epoch_rows"},
      {"ensembles: [{name: e, members: 1}]\ntrain: {average: ema, average_start: 2}\n", 78,
       "average_start"},
      {"ensembles: [{name: e, members: 1}]\ncombine: {method: weights}\n", 78, "combine"},
      {"ensembles: [{name: e, members: 1}]\ncalibration: {conformal: [0.9]}\n", 78, "calibration"},
      {"ensembles: [{name: e, members: 1}]\ndata: {missing: mean}\n", 78, "data.missing"},
      {"by: place\nensembles: [{name: e, members: 1}]\n", 78, "by needs a data set"},
      {"ensembles: [{name: e, members: 1, target: z}]\n", 78, "target 'z'"},
      {"ensembles: [{name: e, members: 1},\n"
       "            {name: f, members: 1, model: {hidden: [3]}}]\n",
       78, "different networks"},
  };
  tutti_trainer *t = NULL;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const tutti_trainer_options o = options_of(bad[i].text, 0);
    refused(tutti_trainer_create(&o, &t), bad[i].code, bad[i].why);
    TT_CHECK(t == NULL, ==, 1);
  }
  tutti_trainer_options o = options_of(plain, 0);
  refused(tutti_trainer_create(&o, NULL), 64, "out is NULL");
  refused(tutti_trainer_create(NULL, &t), 64, "options is NULL");
  o.size = 8;
  refused(tutti_trainer_create(&o, &t), 64, "size is 8");
  o = options_of(plain, 0);
  o.inputs = 0;
  refused(tutti_trainer_create(&o, &t), 64, "0 inputs");
  const double zero[INPUTS] = {0};
  o = options_of(plain, 0);
  o.x_mean = o.x_scale = zero;
  refused(tutti_trainer_create(&o, &t), 64, "x_scale[0] is 0");
  o.x_mean = NULL;
  refused(tutti_trainer_create(&o, &t), 64, "give both");
  tutti_trainer_destroy(NULL);
  tutti_trainer_destroy(&t);
}

TT_TEST (bad_calls_are_refused_and_change_nothing) {
  tutti_trainer *t = make(plain, 0);
  float output[MEMBERS * ROWS * TARGETS], bad[ROWS * INPUTS];
  int32_t index[MEMBERS] = {0, 1, ROWS};
  float *before = weights_of(t);
  tutti_batch b = all_rows();
  refused(tutti_trainer_step(NULL, &b, NULL), 64, "trainer is NULL");
  refused(tutti_trainer_step(t, NULL, NULL), 64, "batch is NULL");
  b.size = 1;
  refused(tutti_trainer_step(t, &b, NULL), 64, "size is 1");
  b = all_rows(), b.x = NULL;
  refused(tutti_trainer_step(t, &b, NULL), 64, "x is NULL");
  b = all_rows(), b.y = NULL;
  refused(tutti_trainer_step(t, &b, NULL), 64, "y is NULL");
  b = all_rows(), b.rows = 0;
  refused(tutti_trainer_step(t, &b, NULL), 64, "rows is 0");
  b = all_rows(), b.count = ROWS + 1;
  refused(tutti_trainer_step(t, &b, NULL), 64, "count is 21");
  b = all_rows(), b.own_rows = 1;
  refused(tutti_trainer_step(t, &b, NULL), 64, "multiple of the 3");
  b = all_rows(), b.index = index, b.count = 1;
  refused(tutti_trainer_step(t, &b, NULL), 64, "of member 2, place 0, is 20");
  index[2] = -1;
  refused(tutti_trainer_step(t, &b, NULL), 64, "is -1");
  b.count = 0;
  refused(tutti_trainer_step(t, &b, NULL), 64, "at least 1");
  memcpy(bad, x, sizeof bad);
  bad[4] = INFINITY;
  b = all_rows(), b.x = bad;
  refused(tutti_trainer_step(t, &b, NULL), 65, "x[1][1] is inf");
  refused(tutti_trainer_predict(t, ROWS, bad, output), 65, "x[1][1] is inf");
  b = all_rows(), b.y = bad;
  refused(tutti_trainer_step(t, &b, NULL), 65, "y[2][0] is inf");
  b = all_rows(), b.weight = bad;
  refused(tutti_trainer_step(t, &b, NULL), 65, "weight[2] is -0.7");
  refused(tutti_trainer_update(t), 64, "tutti_trainer_backward before");
  refused(tutti_trainer_take_gradient(t, output), 64, "tutti_trainer_backward before");
  refused(tutti_trainer_backward(t, output, NULL), 64, "tutti_trainer_forward before");
  b = all_rows();
  refused(tutti_trainer_forward(t, &b, NULL), 64, "output is NULL");
  TT_CHECK(tutti_trainer_forward(t, &b, output), ==, 0);
  refused(tutti_trainer_backward(t, NULL, NULL), 64, "gradient is NULL");
  TT_CHECK(tutti_trainer_backward(t, output, NULL), ==, 0);
  refused(tutti_trainer_take_gradient(t, NULL), 64, "gradient is NULL");
  refused(tutti_trainer_step(t, &b, NULL), 64, "tutti_trainer_update before");
  refused(tutti_trainer_get_state(t, output), 64, "tutti_trainer_update first");
  refused(tutti_trainer_get_weights(t, 3, output), 64, "member 3");
  refused(tutti_trainer_set_learning_rate(t, 0, NAN), 64, "learning rate");
  refused(tutti_trainer_save(t, "/nowhere/m.h5"), 73, "/nowhere");
  float *after = weights_of(t);
  TT_CHECK(memcmp(before, after, (size_t)(MEMBERS * tutti_trainer_parameters(t)) * 4), ==, 0);
  tt_free_all(&before, &after);
  tutti_trainer_destroy(&t);
}

#ifndef TT_CUDA_DOUBLE
static void *train_alone(void *arg)
{
  const tutti_batch b = all_rows();
  tutti_trainer *t = make(plain, 0);
  for (int s = 0; s < 200; s++) TT_CHECK(tutti_trainer_step(t, &b, NULL), ==, 0);
  *(tutti_trainer **)arg = t;
  return NULL;
}

TT_TEST (threads_and_forks_have_their_own_trainers) {
  tutti_trainer *t[3] = {NULL};
  pthread_t thread[2];
  for (int i = 0; i < 2; i++) TT_CHECK(pthread_create(&thread[i], NULL, train_alone, &t[i]), ==, 0);
  for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
  train_alone(&t[2]);
  same_weights(t[0], t[1]);
  same_weights(t[0], t[2]);
  pid_t child = fork();
  if (child == 0) {
    const tutti_batch b = all_rows();
    _exit(tutti_trainer_step(t[0], &b, NULL));
  }
  int status = -1;
  TT_CHECK(waitpid(child, &status, 0), ==, child);
  TT_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, ==, 1);
  for (int i = 0; i < 3; i++) tutti_trainer_destroy(&t[i]);
}
#endif
