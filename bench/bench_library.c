/* bench_library.c — time of predictions through the library: one row at a time, and many rows.
 *
 *   bench_library MODEL.h5 [ROWS]
 *
 * One line of JSON: microseconds of a call for one row (with the three standard deviations, and of
 * tutti_gradient), as the median and the fastest of batches of calls; rows per second of one call
 * with ROWS rows (default 1000000), on one thread, also per second of processor time, and on all
 * cores. Run it on an idle machine. */
#include "src/api/tutti.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BATCHES = 201, CALLS = 200, ROWS_IN_TURN = 64 };

static double seconds_of(clockid_t clock)
{
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void fail(void)
{
  fprintf(stderr, "bench_library: %s\n", tutti_error());
  exit(1);
}

/* Uniform in [-2, 2], the same in every run. */
static double *make_rows(int64_t rows, int64_t inputs)
{
  uint64_t state = 1;
  double *x = malloc((size_t)(rows * inputs) * sizeof *x);
  for (int64_t i = 0; x && i < rows * inputs; i++) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    x[i] = 4.0 * (double)(state >> 11) * 0x1p-53 - 2.0;
  }
  return x;
}

typedef int call(const tutti_model *model, int64_t rows, const double *x, int threads, double *mean,
                 double *total, double *aleatoric, double *epistemic);

/* Microseconds of a call for one row: *median and *least of the batches. */
static void time_one_row(const tutti_model *model, call *function, const double *x, double *out,
                         int64_t cells, double *median, double *least)
{
  static double batch[BATCHES];
  int64_t inputs = tutti_inputs(model);
  for (int b = 0; b < BATCHES; b++) {
    double start = seconds_of(CLOCK_MONOTONIC);
    for (int i = 0; i < CALLS; i++)
      if (function(model, 1, x + i % ROWS_IN_TURN * inputs, 1, out, out + cells, out + 2 * cells,
                   out + 3 * cells))
        fail();
    batch[b] = (seconds_of(CLOCK_MONOTONIC) - start) / CALLS * 1e6;
  }
  qsort(batch, BATCHES, sizeof *batch, by_value);
  *median = batch[BATCHES / 2];
  *least = batch[0];
}

/* Rows per second by a clock: of the wall, or of the processor time of all threads. */
static double rows_per_second(const tutti_model *model, int64_t rows, const double *x, int threads,
                              clockid_t clock, double *out)
{
  double best = 0.0;
  int64_t cells = rows * tutti_columns(model);
  for (int i = 0; i < 3; i++) {
    double start = seconds_of(clock);
    if (tutti_predict(model, rows, x, threads, out, out + cells, out + 2 * cells, out + 3 * cells))
      fail();
    double speed = (double)rows / (seconds_of(clock) - start);
    best = speed > best ? speed : best;
  }
  return best;
}

int main(int argc, char **argv)
{
  tutti_model *model = NULL;
  int64_t rows = argc > 2 ? atoll(argv[2]) : 1000000;
  if (argc < 2 || rows < ROWS_IN_TURN) {
    fprintf(stderr, "bench_library MODEL.h5 [ROWS >= %d]\n", ROWS_IN_TURN);
    return 64;
  }
  if (tutti_open(argv[1], &model)) fail();
  int64_t inputs = tutti_inputs(model), columns = tutti_columns(model);
  double *x = make_rows(rows, inputs), predict[2], gradient[2];
  double *out = malloc((size_t)((rows + inputs) * 4 * columns) * sizeof *out);
  if (!x || !out) return 71;
  time_one_row(model, tutti_predict, x, out, columns, &predict[0], &predict[1]);
  time_one_row(model, tutti_gradient, x, out, columns * inputs, &gradient[0], &gradient[1]);
  printf("{\"version\": \"%s\", \"model\": \"%s\", \"members\": %lld, \"inputs\": %lld, "
         "\"columns\": %lld, \"row_us\": %.2f, \"row_us_least\": %.2f, \"gradient_us\": %.2f, "
         "\"gradient_us_least\": %.2f, \"rows\": %lld, ",
         tutti_version(), argv[1], (long long)tutti_members(model), (long long)inputs,
         (long long)columns, predict[0], predict[1], gradient[0], gradient[1], (long long)rows);
  double one = rows_per_second(model, rows, x, 1, CLOCK_MONOTONIC, out);
  double cpu = rows_per_second(model, rows, x, 1, CLOCK_PROCESS_CPUTIME_ID, out);
  printf("\"rows_per_s_1_thread\": %.4g, \"rows_per_cpu_s\": %.4g, \"rows_per_s\": %.4g}\n", one,
         cpu, rows_per_second(model, rows, x, 0, CLOCK_MONOTONIC, out));
  free(x);
  free(out);
  tutti_close(&model);
  return 0;
}
