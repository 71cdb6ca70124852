/* test_library.c — tutti.h: a model in memory is the model of the file, and threads that share a
 * model, open models and make errors do not disturb each other. */
#include "io/model/model_file.h"
#include "src/api/tutti.h"
#include "tests/support/made_up.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

enum { ROWS = 21, COLUMNS = 2 * MADE_UP_K, CELLS = ROWS * COLUMNS, THREADS = 6, CALLS = 40 };

/* Everything that two ensembles of MADE_UP_K columns predict for ROWS rows. */
typedef struct results {
  double mean[CELLS], total[CELLS], aleatoric[CELLS], epistemic[CELLS], quantile[2 * CELLS];
  double slope[4][CELLS * MADE_UP_INPUTS];
} results;

typedef struct file {
  char *bytes;
  int64_t size;
} file;

static double x[ROWS * MADE_UP_INPUTS];

/* Write a model file and read its bytes. */
static file make_model(const char *path)
{
  const int64_t hidden[] = {17, 5};
  file f = {0};
  tt_provenance provenance = made_up_provenance(comm);
  tt_trained_ensemble *m = made_up_committee(7, hidden, 2, TT_OUTPUT_mean_variance);
  const tt_trained_ensembles only = {.count = 1, .at = &m};
  tt_model_shard all = {{0, 7}, m->w};
  TT_CHECK_OK(tt_model_write(comm, path, &only, &all, &provenance));
  tt_trained_ensemble_destroy(&m);
  for (int i = 0; i < ROWS * MADE_UP_INPUTS; i++) x[i] = 3.0 * (double)made_up_number(900 + i);
  FILE *in = fopen(path, "rb");
  TT_CHECK(in != NULL, ==, 1);
  fseek(in, 0, SEEK_END);
  f.size = ftell(in);
  rewind(in);
  TT_CHECK_OK(TT_ALLOC(f.bytes, f.size));
  TT_CHECK(fread(f.bytes, 1, (size_t)f.size, in), ==, (size_t)f.size);
  fclose(in);
  return f;
}

/* Returns 0 on success. */
static int compute(const tutti_model *model, int threads, results *out)
{
  const double level[] = {0.1, 0.8};
  tutti_prediction all = {.size = sizeof all,
                          .mean = out->mean,
                          .total = out->total,
                          .aleatoric = out->aleatoric,
                          .epistemic = out->epistemic,
                          .mean_gradient = out->slope[0],
                          .total_gradient = out->slope[1],
                          .aleatoric_gradient = out->slope[2],
                          .epistemic_gradient = out->slope[3],
                          .quantiles = 2,
                          .probability = level,
                          .quantile = out->quantile};
  memset(out, 0, sizeof *out);
  return tutti_predict(model, ROWS, x, threads, &all);
}

static int same(const results *a, const results *b) { return !memcmp(a, b, sizeof *a); }

TT_TEST (memory_is_the_file) {
  static results from_file, from_memory;
  tutti_model *model = NULL;
  file f = make_model(at("model.h5"));
  TT_CHECK(tutti_open(at("model.h5"), &model), ==, 0);
  TT_CHECK(compute(model, 1, &from_file), ==, 0);
  tutti_close(&model);
  TT_CHECK(tutti_open_memory(f.bytes, f.size, &model), ==, 0);
  memset(f.bytes, 0x5A, (size_t)f.size); /* the model does not use them any more */
  TT_CHECK(tutti_columns(model), ==, COLUMNS);
  TT_CHECK(compute(model, 1, &from_memory), ==, 0);
  TT_CHECK(same(&from_file, &from_memory), ==, 1);
  TT_CHECK(isfinite(from_file.slope[1][5]), ==, 1);
  tutti_close(&model);
  tt_free(f.bytes);
}

/* A member alone has the mean of that member, no spread of members, and slopes of its own. */
TT_TEST (a_member_alone) {
  static double every[64 * CELLS], mean[CELLS], epistemic[CELLS], slope[2][MADE_UP_INPUTS * CELLS];
  tutti_model *model = NULL, *one = NULL;
  file f = make_model(at("member.h5"));
  TT_CHECK(tutti_open(at("member.h5"), &model), ==, 0);
  int64_t members = tutti_members(model), width = tutti_member_columns(model);
  TT_CHECK(members * ROWS * width <= 64 * CELLS, ==, 1);
  const tutti_prediction all = {
      .size = sizeof all, .member_mean = every, .mean_gradient = slope[0]};
  const tutti_prediction alone = {
      .size = sizeof alone, .mean = mean, .epistemic = epistemic, .mean_gradient = slope[1]};
  TT_CHECK(tutti_predict(model, ROWS, x, 1, &all), ==, 0);
  TT_CHECK(tutti_open_member(at("member.h5"), 2, &one), ==, 0);
  TT_CHECK(tutti_members(one), ==, members);
  TT_CHECK(tutti_predict(one, ROWS, x, 1, &alone), ==, 0);
  for (int64_t r = 0; r < ROWS; r++) {
    TT_CHECK(fabs(mean[r * COLUMNS] - every[(2 * ROWS + r) * width]), <, 1e-5);
    TT_CHECK(epistemic[r * COLUMNS], ==, 0.0);
  }
  TT_CHECK(memcmp(slope[0], slope[1], sizeof slope[0]) != 0, ==, 1);
  tutti_close(&one);
  TT_CHECK(tutti_open_member(at("member.h5"), members, &one), ==, 64);
  TT_CHECK(tutti_open_member(at("member.h5"), -1, &one), ==, 64);
  TT_CHECK(tutti_open_member(at("member.h5"), 1, &one), ==, 64);
  TT_CHECK_HAS(tutti_error(), "member 1 diverged in training");
  TT_CHECK(one == NULL, ==, 1);
  tutti_close(&model);
  tt_free(f.bytes);
}

/* Few rows and many rows take different ways through the library. */
TT_TEST (rows_alone_have_the_bits_of_all_rows) {
  static results all;
  static double part[4][CELLS];
  const tutti_prediction some = {.size = sizeof some,
                                 .mean = part[0],
                                 .total = part[1],
                                 .aleatoric = part[2],
                                 .epistemic = part[3]};
  tutti_model *model = NULL;
  file f = make_model(at("rows.h5"));
  TT_CHECK(tutti_open_memory(f.bytes, f.size, &model), ==, 0);
  TT_CHECK(compute(model, 1, &all), ==, 0);
  for (int64_t rows = 1; rows <= ROWS; rows++)
    for (int64_t first = 0; first + rows <= ROWS; first += rows) {
      TT_CHECK(tutti_predict(model, rows, x + first * MADE_UP_INPUTS, 1, &some), ==, 0);
      const double *want[] = {all.mean, all.total, all.aleatoric, all.epistemic};
      for (int p = 0; p < 4; p++)
        TT_CHECK(
            memcmp(part[p], want[p] + first * COLUMNS, (size_t)(rows * COLUMNS) * sizeof *part[p]),
            ==, 0);
    }
  tutti_close(&model);
  tt_free(f.bytes);
}

static void refuse(const void *bytes, int64_t size, const char *reason)
{
  tutti_model *model = NULL;
  TT_CHECK(tutti_open_memory(bytes, size, &model), ==, 65);
  TT_CHECK(model == NULL, ==, 1);
  TT_CHECK_HAS(tutti_error(), "the model in memory");
  TT_CHECK_HAS(tutti_error(), reason);
}

TT_TEST (damaged_memory_is_refused) {
  file f = make_model(at("whole.h5"));
  refuse(NULL, 0, "is empty");
  refuse(f.bytes, 0, "is empty");
  refuse("data: {file: x.h5}", 18, "is not an HDF5 file");
  refuse(f.bytes, f.size / 2, "truncated");
  refuse(f.bytes, f.size - 1, "truncated");
  refuse(f.bytes, 60, "");
  tt_free(f.bytes);
}

static void refuse_call(int code, const char *reason)
{
  TT_CHECK(code, ==, 64);
  TT_CHECK_HAS(tutti_error(), reason);
}

/* What a program does that ignores the error of tutti_open, or miscounts its rows. */
TT_TEST (calls_without_sense_are_refused) {
  double row[MADE_UP_INPUTS] = {0.0}, out[COLUMNS * MADE_UP_INPUTS];
  const tutti_prediction mean = {.size = sizeof mean, .mean = out};
  const tutti_prediction slope = {.size = sizeof slope, .mean_gradient = out};
  tutti_model *model = NULL, *again = NULL;
  tutti_workspace *work = NULL;
  TT_CHECK(tutti_open("none.h5", &model), ==, 66);
  TT_CHECK(tutti_inputs(model) + tutti_columns(model) + tutti_members(model), ==, 0);
  TT_CHECK(tutti_member_columns(model) + tutti_levels(model) + tutti_has_classes(model), ==, 0);
  TT_CHECK(tutti_input_name(model, 0) || tutti_column_label(model, 0), ==, 0);
  TT_CHECK(tutti_input_levels(model, 0), ==, 0);
  TT_CHECK(tutti_input_level(model, 0, 0) == NULL && isnan(tutti_level(model, 0)), ==, 1);
  refuse_call(tutti_predict(model, 1, row, 1, &mean), "the model is NULL");
  refuse_call(tutti_workspace_create(model, 1, &work), "the model is NULL");
  tutti_close(&model);
  file f = make_model(at("calls.h5"));
  TT_CHECK(tutti_open_memory(f.bytes, f.size, &model), ==, 0);
  refuse_call(tutti_predict(model, -3, row, 1, &mean), "rows is -3");
  refuse_call(tutti_predict(model, -3, row, 1, &slope), "rows is -3");
  refuse_call(tutti_predict(model, 1, NULL, 1, &mean), "x is NULL");
  refuse_call(tutti_predict(model, 1, row, 1, NULL), "out is NULL");
  refuse_call(tutti_workspace_create(model, 1, NULL), "out is NULL");
  tutti_prediction all = {.quantiles = 2, .quantile = out};
  refuse_call(tutti_predict(model, 1, row, 1, &all), "size is 0");
  all.size = sizeof all + 8;
  refuse_call(tutti_predict(model, 1, row, 1, &all), "set it to sizeof(tutti_prediction)");
  all.size = sizeof all;
  refuse_call(tutti_predict(model, 1, row, 1, &all), "probability is NULL");
  all.quantiles = -1;
  refuse_call(tutti_predict(model, 1, row, 1, &all), "quantiles is -1");
  TT_CHECK(tutti_open_memory(f.bytes, f.size, &again), ==, 0);
  TT_CHECK(tutti_workspace_create(again, 1, &work), ==, 0);
  all = (tutti_prediction){.size = sizeof all, .workspace = work, .mean = out};
  refuse_call(tutti_predict(model, 1, row, 1, &all), "of another model");
  tutti_workspace_destroy(&work);
  tutti_workspace_destroy(&work);
  tutti_workspace_destroy(NULL);
  tutti_close(&again);
  TT_CHECK(tutti_predict(model, 0, NULL, 1, &mean), ==, 0);
  TT_CHECK(tutti_predict(model, 0, NULL, 1, &slope), ==, 0);
  TT_CHECK(strlen(tutti_error()), ==, 0u);
  tutti_close(&model);
  tutti_close(NULL);
  refuse_call(tutti_open(NULL, &model), "file is NULL");
  refuse_call(tutti_open("none.h5", NULL), "out is NULL");
  refuse_call(tutti_open_memory(NULL, 5, &model), "bytes is NULL");
  refuse_call(tutti_train(NULL, NULL, 0), "job is NULL");
  refuse_call(tutti_train("job.yaml", NULL, 1), "set is NULL");
  tt_free(f.bytes);
}

typedef struct user {
  const tutti_model *model;
  const file *f;
  const results *want;
  int number, failures;
} user;

/* Its error must be its own: the text names the value that only this thread has given. */
static int provoke_error(const user *u)
{
  double row[MADE_UP_INPUTS] = {0.0}, mean[COLUMNS];
  char wanted[64];
  row[u->number % MADE_UP_INPUTS] = u->number % 2 ? INFINITY : -INFINITY;
  snprintf(wanted, sizeof wanted, "column %d (feature_%d) is %s", u->number % MADE_UP_INPUTS,
           u->number % MADE_UP_INPUTS, u->number % 2 ? "inf" : "-inf");
  const tutti_prediction out = {.size = sizeof out, .mean = mean};
  int code = tutti_predict(u->model, 1, row, 1, &out);
  return code == 65 && strstr(tutti_error(), wanted) != NULL;
}

static void *use_model(void *argument)
{
  user *u = argument;
  results *got = malloc(sizeof *got);
  for (int i = 0; got && i < CALLS; i++) {
    tutti_model *own = NULL;
    u->failures += !provoke_error(u);
    u->failures += compute(u->model, 1, got) || !same(got, u->want);
    if (i % 8 != u->number) continue;
    u->failures += tutti_open_memory(u->f->bytes, u->f->size, &own) || compute(own, 1, got) ||
                   !same(got, u->want);
    tutti_close(&own);
  }
  free(got);
  return NULL;
}

TT_TEST (threads_share_a_model) {
  static results want, two;
  tutti_model *model = NULL;
  pthread_t thread[THREADS];
  user users[THREADS];
  file f = make_model(at("shared.h5"));
  TT_CHECK(tutti_open(at("shared.h5"), &model), ==, 0);
  TT_CHECK(compute(model, 1, &want), ==, 0);
  TT_CHECK(compute(model, 2, &two), ==, 0);
  TT_CHECK(same(&want, &two), ==, 1);
  for (int t = 0; t < THREADS; t++) {
    users[t] = (user){model, &f, &want, t, 0};
    TT_CHECK(pthread_create(&thread[t], NULL, use_model, &users[t]), ==, 0);
  }
  for (int t = 0; t < THREADS; t++) {
    pthread_join(thread[t], NULL);
    TT_CHECK(users[t].failures, ==, 0);
  }
  tutti_close(&model);
  tt_free(f.bytes);
}
