/* single_row.c — time of one row through the library, beside the exported C function and the C
 * interface of onnxruntime, in turn.
 *
 *   bench_single_row MODEL.h5 EXPORTED.so MODEL.onnx LIBONNXRUNTIME.so
 *
 * Files: tutti export MODEL.h5 --c -o model.c; cc -O3 -shared -fPIC model.c -o EXPORTED.so; tutti
 * export MODEL.h5 --onnx -o MODEL.onnx; LIBONNXRUNTIME.so is in the wheel of PyPI, e.g. pip download
 * --no-deps onnxruntime==1.32.0 and unzip. One thread each, buffers of the caller, mean and three
 * standard deviations; of tutti also the mean with its derivatives, which the others do not have.
 *
 * One line of JSON for each: microseconds of a call, median and fastest of batches of calls, and the
 * largest difference of the mean from tutti. Nothing is timed whose means differ by more than 1e-4
 * of the largest one. */
#include "src/api/tutti.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCHES = 301, CALLS = 50, ROWS = 64, PARTS = 4 };

static void fail(const char *what)
{
  fprintf(stderr, "bench_single_row: %s\n", what);
  exit(1);
}

typedef void function(void);

static function *find(const char *library, const char *name)
{
  void *loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL), *found = NULL;
  function *f;
  if (loaded) found = dlsym(loaded, name);
  if (!found) fail(dlerror());
  memcpy(&f, &found, sizeof f); /* POSIX allows it, ISO C has no conversion */
  return f;
}

/* tutti */

static tutti_model *model;
static tutti_prediction values, force;

static void call_values(const double *x)
{
  if (tutti_predict(model, 1, x, 1, &values)) fail(tutti_error());
}

static void call_force(const double *x)
{
  if (tutti_predict(model, 1, x, 1, &force)) fail(tutti_error());
}

/* The exported function */

static void (*exported)(const double *x, double *mean, double *total, double *aleatoric,
                        double *epistemic);

static void call_exported(const double *x)
{
  exported(x, values.mean, values.total, values.aleatoric, values.epistemic);
}

/* onnxruntime: its interface is a table of functions that keep their places in all versions. */

enum {
  ORT_MESSAGE = 2,
  ORT_ENVIRONMENT = 3,
  ORT_SESSION = 7,
  ORT_RUN = 9,
  ORT_OPTIONS = 10,
  ORT_INTRA_THREADS = 24,
  ORT_INTER_THREADS = 25,
  ORT_TENSOR = 49,
  ORT_MEMORY = 69,
  ORT_DOUBLE = 11,
  ORT_VERSION = 13
};
typedef struct ort_base {
  function *const *(*api)(uint32_t version);
} ort_base;

static function *const *ort;
static void *session, *input, *output[PARTS];
static double *ort_x;

static void ort_check(void *status)
{
  if (status) fail(((const char *(*)(void *))ort[ORT_MESSAGE])(status));
}

static void *ort_tensor(void *memory, double *data, int64_t columns)
{
  void *made = NULL;
  const int64_t shape[2] = {1, columns};
  ort_check(
      ((void *(*)(void *, void *, size_t, const int64_t *, size_t, int, void **))ort[ORT_TENSOR])(
          memory, data, (size_t)columns * sizeof *data, shape, 2, ORT_DOUBLE, &made));
  return made;
}

static void ort_open(const char *library, const char *file)
{
  void *environment = NULL, *options = NULL, *memory = NULL;
  double *const part[PARTS] = {values.mean, values.total, values.aleatoric, values.epistemic};
  ort = ((const ort_base *(*)(void))find(library, "OrtGetApiBase"))()->api(ORT_VERSION);
  ort_check(
      ((void *(*)(int, const char *, void **))ort[ORT_ENVIRONMENT])(3, "bench", &environment));
  ort_check(((void *(*)(void **))ort[ORT_OPTIONS])(&options));
  ort_check(((void *(*)(void *, int))ort[ORT_INTRA_THREADS])(options, 1));
  ort_check(((void *(*)(void *, int))ort[ORT_INTER_THREADS])(options, 1));
  ort_check(((void *(*)(void *, const char *, void *, void **))ort[ORT_SESSION])(
      environment, file, options, &session));
  ort_check(((void *(*)(int, int, void **))ort[ORT_MEMORY])(0, 0, &memory));
  input = ort_tensor(memory, ort_x, tutti_inputs(model));
  for (int p = 0; p < PARTS; p++) output[p] = ort_tensor(memory, part[p], tutti_columns(model));
}

static void call_ort(const double *x)
{
  static const char *const in[] = {"x"};
  static const char *const out[] = {"mean", "total", "aleatoric", "epistemic"};
  memcpy(ort_x, x, (size_t)tutti_inputs(model) * sizeof *x);
  ort_check(
      ((void *(*)(void *, void *, const char *const *, void *const *, size_t, const char *const *,
                  size_t, void **))ort[ORT_RUN])(session, NULL, in, &input, 1, out, PARTS, output));
}

/* The race */

static const struct contestant {
  const char *name;
  void (*call)(const double *x);
} contestants[] = {{"tutti", call_values},
                   {"tutti, mean and its derivatives", call_force},
                   {"exported C", call_exported},
                   {"onnxruntime", call_ort}};
enum { CONTESTANTS = sizeof contestants / sizeof *contestants };

static double microseconds(const struct contestant *c, const double *x)
{
  struct timespec from, to;
  int64_t inputs = tutti_inputs(model);
  clock_gettime(CLOCK_MONOTONIC, &from);
  for (int i = 0; i < CALLS; i++) c->call(x + i % ROWS * inputs);
  clock_gettime(CLOCK_MONOTONIC, &to);
  return ((double)(to.tv_sec - from.tv_sec) * 1e6 + (double)(to.tv_nsec - from.tv_nsec) * 1e-3) /
         CALLS;
}

static double largest_difference(const struct contestant *c, const double *x)
{
  double worst = 0.0, most = 0.0;
  for (int i = 0; i < ROWS; i++) {
    const double *row = x + i * tutti_inputs(model);
    call_values(row);
    double want = values.mean[0];
    values.mean[0] = NAN;
    c->call(row);
    worst = fmax(worst, fabs(values.mean[0] - want));
    most = fmax(most, fabs(want));
    if (isnan(values.mean[0])) worst = (double)INFINITY;
  }
  if (!(worst <= 1e-4 * most)) fail(c->name);
  return worst;
}

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
  static double batch[CONTESTANTS][BATCHES];
  if (argc != 5) {
    fprintf(stderr, "bench_single_row MODEL.h5 EXPORTED.so MODEL.onnx LIBONNXRUNTIME.so\n");
    return 64;
  }
  if (tutti_open(argv[1], &model)) fail(tutti_error());
  int64_t inputs = tutti_inputs(model), columns = tutti_columns(model);
  double *capacity =
      calloc((size_t)(columns * (PARTS + inputs) + inputs * (ROWS + 1)), sizeof *capacity);
  tutti_workspace *work = NULL;
  if (!capacity) return 71;
  if (tutti_workspace_create(model, 1, &work)) fail(tutti_error());
  values = (tutti_prediction){.size = sizeof values,
                              .workspace = work,
                              .mean = capacity,
                              .total = capacity + columns,
                              .aleatoric = capacity + 2 * columns,
                              .epistemic = capacity + 3 * columns};
  force = (tutti_prediction){.size = sizeof force,
                             .workspace = work,
                             .mean = capacity,
                             .mean_gradient = capacity + PARTS * columns};
  ort_x = force.mean_gradient + columns * inputs;
  double *x = ort_x + inputs;
  for (int64_t i = 0; i < ROWS * inputs; i++) x[i] = 2.0 * sin((double)i);
  exported = (void (*)(const double *, double *, double *, double *, double *))find(
      argv[2], "model_predict");
  ort_open(argv[4], argv[3]);
  for (int b = 0; b < BATCHES; b++)
    for (int c = 0; c < CONTESTANTS; c++) batch[c][b] = microseconds(&contestants[c], x);
  for (int c = 0; c < CONTESTANTS; c++) {
    double difference = largest_difference(&contestants[c], x);
    qsort(batch[c], BATCHES, sizeof *batch[c], by_value);
    printf("{\"program\": \"%s\", \"members\": %lld, \"inputs\": %lld, \"columns\": %lld, "
           "\"row_us\": %.2f, \"row_us_least\": %.2f, \"difference\": %.2g}\n",
           contestants[c].name, (long long)tutti_members(model), (long long)inputs,
           (long long)columns, batch[c][BATCHES / 2], batch[c][0], difference);
  }
  tutti_workspace_destroy(&work);
  tutti_close(&model);
  return 0;
}
