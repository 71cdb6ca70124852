/* calibrate.c — see calibrate.h. */
#include "src/timing/calibrate.h"

#include "core/base/clock.h"
#include "core/base/mem.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* MEMBERS: of each thread, so that no thread waits for another one at the end of a call. */
enum { MEMBERS = 4, LEAST_ROWS = 4096, EPOCHS = 1000 };

#define RELU_ADAM .activation = TT_ACT_relu, .optimizer = TT_OPT_adam

/* Networks from tiny to wide, small and large batches. */
static const tt_timed_case cases[] = {
    {4, {16}, 1, 1, 16, RELU_ADAM},
    {4, {16}, 1, 1, 64, RELU_ADAM},
    {8, {32, 32}, 2, 1, 32, RELU_ADAM},
    {8, {32, 32}, 2, 1, 256, RELU_ADAM},
    {8, {64, 64}, 2, 1, 32, RELU_ADAM},
    {8, {64, 64}, 2, 1, 256, RELU_ADAM},
    {128, {32}, 1, 2, 32, RELU_ADAM},
    {128, {32}, 1, 2, 256, RELU_ADAM},
    {64, {128, 128}, 2, 10, 32, RELU_ADAM},
    {64, {128, 128}, 2, 10, 128, RELU_ADAM},
    {16, {128, 128, 128}, 3, 1, 512, RELU_ADAM},
    {32, {256, 256}, 2, 1, 64, RELU_ADAM},
    {32, {256, 256}, 2, 1, 256, RELU_ADAM},
    {16, {512, 512}, 2, 1, 256, RELU_ADAM},
    {512, {64}, 1, 10, 64, RELU_ADAM},
};
enum { CASES = sizeof cases / sizeof *cases };

/* The case for constants of hidden units, and the one for constants of parameters. */
static const tt_timed_case units = {8, {64, 64}, 2, 1, 256, RELU_ADAM};
static const tt_timed_case weights = {64, {128, 128}, 2, 10, 16, RELU_ADAM};

static int threads_of(const tt_timing *t) { return t->use->threads < 1 ? 1 : t->use->threads; }

/* The job file of a case. */
static tt_err cohort_of(const tt_timed_case *k, int64_t members, tt_cohorts *out)
{
  static const char *const enabled[] = {"false", "true"};
  char text[1024], hidden[96] = "", *names[64] = {NULL}, name[64][8];
  tt_config *cfg = NULL;
  tt_columns target = {.count = k->outputs, .name = names};
  for (int64_t l = 0; l < k->layers; l++) {
    size_t used = strlen(hidden);
    snprintf(hidden + used, sizeof hidden - used, "%s%lld", l ? ", " : "", (long long)k->hidden[l]);
  }
  for (int64_t t = 0; t < k->outputs; t++) {
    snprintf(name[t], sizeof name[t], "y%d", (int)t);
    names[t] = name[t];
  }
  int n = snprintf(text, sizeof text,
                   "data: {file: none.h5}\nmodel: {hidden: [%s], activation: %s, layer_norm: %s}\n"
                   "ensembles: [{name: timed, members: %lld}]\n"
                   "train: {epochs: %d, patience: 0, batch_size: %lld, optimizer: %s, "
                   "learning_rate: 1e-6, dropout: %g, loss: mse}\n",
                   hidden, tt_choice_activation[k->activation], enabled[k->layer_norm],
                   (long long)members, EPOCHS, (long long)k->batch,
                   tt_choice_optimizer[k->optimizer], k->dropout);
  TT_TRY(tt_config_parse("calibration", text, n, NULL, 0, &cfg));
  tt_err e = tt_cohorts_create(cfg, k->inputs, &target, NULL, out);
  tt_config_destroy(&cfg);
  return e;
}

/* Rows in whole batches, none for validation. */
static tt_err data_of(const tt_timed_case *k, tt_dataset **out)
{
  int64_t rows = (LEAST_ROWS + k->batch - 1) / k->batch * k->batch;
  TT_TRY(tt_dataset_create(rows, k->inputs, k->outputs, 0, out));
  for (int64_t i = 0; i < rows * k->inputs; i++)
    (*out)->x[i] = (float)((i * 7919) % 1009) / 505.0f - 1.0f;
  for (int64_t i = 0; i < rows * k->outputs; i++)
    (*out)->y[i] = (float)((i * 104729) % 997) / 499.0f - 1.0f;
  return TT_OK;
}

/* Seconds of `steps` steps of every member. */
static tt_err time_steps(const tt_engine_ops *ops, tt_engine *e, int64_t steps, double *seconds)
{
  tt_progress progress;
  double begun = tt_monotonic_seconds();
  TT_TRY(ops->train(e, steps, &progress));
  *seconds = tt_monotonic_seconds() - begun;
  return TT_OK;
}

static tt_err time_engine(const tt_timing *t, tt_engine *e, double *best)
{
  const tt_engine_ops *ops = t->ops;
  int64_t steps = 1;
  double took = 0.0;
  TT_TRY(ops->init(e));
  for (; took < t->trial / 4.0; steps *= 2) TT_TRY(time_steps(ops, e, steps, &took));
  steps = (int64_t)ceil((double)(steps / 2) * t->trial / took);
  *best = INFINITY;
  for (int i = 0; i < t->trials; i++) {
    TT_TRY(ops->init(e)); /* never at the end of its epochs */
    TT_TRY(time_steps(ops, e, steps, &took));
    *best = fmin(*best, took / (double)steps);
  }
  return TT_OK;
}

tt_err tt_time_case(const tt_timing *t, const tt_timed_case *k, double *seconds)
{
  tt_cohorts all = {0};
  tt_dataset *data = NULL;
  tt_engine *engine = NULL;
  int64_t members = MEMBERS * (int64_t)threads_of(t);
  tt_err e = cohort_of(k, members, &all);
  if (!e) e = data_of(k, &data);
  if (!e) e = t->ops->create(all.at[0], (tt_slice){0, members}, t->use, &engine);
  if (!e) e = t->ops->set_data(engine, data, NULL);
  if (!e) e = time_engine(t, engine, seconds);
  if (!e) *seconds /= MEMBERS;
  t->ops->destroy(&engine);
  tt_dataset_destroy(&data);
  tt_cohorts_destroy(&all);
  return e;
}

/* The model of a case. Errors: as tt_cohorts_create. */
static tt_err count_case(const tt_timed_case *k, double count[TT_STEP_COST_COUNT])
{
  tt_cohorts all = {0};
  TT_TRY(cohort_of(k, 1, &all));
  tt_step_count(&all.at[0]->model, k->batch, 0, count);
  tt_cohorts_destroy(&all);
  return TT_OK;
}

/* The terms of all networks, and how far each case is from their sum. */
static tt_err fit_terms(const tt_timing *t, tt_machine *m)
{
  double count[CASES][TT_STEP_COST_COUNT], seconds[CASES], squares = 0.0;
  double begun = tt_monotonic_seconds(), used = (double)clock();
  for (int k = 0; k < CASES; k++) {
    TT_TRY(count_case(&cases[k], count[k]));
    TT_TRY(tt_time_case(t, &cases[k], &seconds[k]));
  }
  m->cores = ((double)clock() - used) / CLOCKS_PER_SEC / (tt_monotonic_seconds() - begun);
  tt_step_fit(CASES, TT_STEP_COST_COUNT, count[0], seconds, m->seconds.term);
  for (int k = 0; k < CASES; k++) {
    double sum = 0.0;
    for (int i = 0; i < TT_STEP_COST_COUNT; i++) sum += m->seconds.term[i] * count[k][i];
    squares += (sum / seconds[k] - 1.0) * (sum / seconds[k] - 1.0);
  }
  m->error = sqrt(squares / CASES);
  return TT_OK;
}

/* What a row of a table costs more than `plain`, by hidden unit and row, or by parameter. */
static tt_err time_difference(const tt_timing *t, double plain, const tt_timed_case *k, double per,
                              double *out)
{
  double seconds;
  TT_TRY(tt_time_case(t, k, &seconds));
  *out = (seconds - plain) / per;
  return TT_OK;
}

static tt_err time_units(const tt_timing *t, tt_step_seconds *s)
{
  tt_timed_case k = units;
  double plain, values = (double)(units.batch * (units.hidden[0] + units.hidden[1]));
  TT_TRY(tt_time_case(t, &k, &plain));
  for (int a = 0; a < TT_ACT_COUNT; a++) {
    k.activation = (tt_activation)a;
    if (a != TT_ACT_relu) TT_TRY(time_difference(t, plain, &k, values, &s->activation[a]));
  }
  k = units;
  k.dropout = 0.1;
  TT_TRY(time_difference(t, plain, &k, values, &s->dropout));
  k = units;
  k.layer_norm = 1;
  return time_difference(t, plain, &k, values, &s->layer_norm);
}

static tt_err time_optimizers(const tt_timing *t, tt_step_seconds *s)
{
  tt_timed_case k = weights;
  double plain, count[TT_STEP_COST_COUNT];
  TT_TRY(count_case(&k, count));
  TT_TRY(tt_time_case(t, &k, &plain));
  for (int o = 0; o < TT_OPT_COUNT; o++) {
    k.optimizer = (tt_optimizer)o;
    if (o != TT_OPT_adam)
      TT_TRY(time_difference(t, plain, &k, count[TT_STEP_COST_params], &s->optimizer[o]));
  }
  return TT_OK;
}

/* Write, sync and read back, as a checkpoint is. */
static int write_and_compare(int fd, char *block, char *back, size_t bytes, int blocks)
{
  int ok = 1;
  for (int i = 0; ok && i < blocks; i++) {
    memset(block, i + 1, bytes);
    ok = write(fd, block, bytes) == (ssize_t)bytes;
  }
  ok = ok && fsync(fd) == 0;
  for (int i = 0; ok && i < blocks; i++) {
    memset(block, i + 1, bytes);
    ok = pread(fd, back, bytes, (off_t)bytes * i) == (ssize_t)bytes && !memcmp(block, back, bytes);
  }
  return ok;
}

static tt_err time_file(const char *directory, double *rate)
{
  enum { BLOCK = 4 << 20, BLOCKS = 16 };
  char path[TT_ERR_MESSAGE_SIZE], *block = NULL;
  TT_TRY(TT_ALLOC(block, 2 * BLOCK));
  snprintf(path, sizeof path, "%s/tutti-calibrate-XXXXXX", directory);
  double begun = tt_monotonic_seconds();
  int fd = mkstemp(path);
  tt_err e = fd < 0 ? TT_FAIL_ERRNO(CANTCREAT, "%s: cannot be created", path) : TT_OK;
  if (!e && !write_and_compare(fd, block, block + BLOCK, BLOCK, BLOCKS))
    e = TT_FAIL_ERRNO(IO, "%s: 64 MiB cannot be written and read", path);
  *rate = (double)BLOCK * BLOCKS / (tt_monotonic_seconds() - begun);
  if (fd >= 0) {
    close(fd);
    unlink(path);
  }
  tt_free(block);
  return e;
}

tt_err tt_machine_measure(const tt_timing *t, const char *directory, tt_machine *out)
{
  tt_device_info processor;
  tt_machine m = {.threads = threads_of(t)};
  TT_TRY(t->ops->describe(0, &processor));
  snprintf(m.processor, sizeof m.processor, "%s", processor.name);
  snprintf(m.simd, sizeof m.simd, "%s", tt_choice_simd[t->use->simd]);
  snprintf(m.directory, sizeof m.directory, "%.*s", (int)sizeof m.directory - 1, directory);
  gethostname(m.host, sizeof m.host - 1);
  tt_utc_text(m.date);
  TT_TRY(fit_terms(t, &m));
  TT_TRY(time_units(t, &m.seconds));
  TT_TRY(time_optimizers(t, &m.seconds));
  TT_TRY(time_file(directory, &m.write_rate));
  *out = m;
  return TT_OK;
}
