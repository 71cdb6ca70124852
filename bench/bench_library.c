/* bench_library.c — time of predictions through the library: one row at a time, and many rows.
 *
 *   bench_library MODEL.h5 [ROWS]
 *
 * One line of JSON. Microseconds of a call on one thread, as the median and the fastest of batches of
 * calls, for: one row with mean and standard deviations, without and with a workspace; one row with
 * the mean and its derivatives; one row with all four and their derivatives; 64 rows with the mean
 * and its derivatives, for each row. Then rows per second of one call with ROWS rows (default
 * 1000000), on one thread, also per second of processor time, and on all cores. Run it on an idle
 * machine. */
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

/* Microseconds of a call for `rows` rows: *median and *least of the batches. */
static void time_calls(const tutti_model *model, int64_t rows, const double *x,
                       const tutti_prediction *out, double *median, double *least)
{
  static double batch[BATCHES];
  int64_t inputs = tutti_inputs(model), calls = rows > 1 ? CALLS / 8 : CALLS;
  for (int b = 0; b < BATCHES; b++) {
    double start = seconds_of(CLOCK_MONOTONIC);
    for (int64_t i = 0; i < calls; i++)
      if (tutti_predict(model, rows, x + (rows > 1 ? 0 : i % ROWS_IN_TURN * inputs), 1, out))
        fail();
    batch[b] = (seconds_of(CLOCK_MONOTONIC) - start) / (double)calls * 1e6;
  }
  qsort(batch, BATCHES, sizeof *batch, by_value);
  *median = batch[BATCHES / 2];
  *least = batch[0];
}

/* One thread.
 *   room  for all eight arrays of ROWS_IN_TURN rows */
static void print_times(const tutti_model *model, const double *x, double *capacity)
{
  int64_t cells = ROWS_IN_TURN * tutti_columns(model), slopes = cells * tutti_inputs(model);
  double *slope = capacity + 4 * cells, median, least;
  tutti_workspace *work = NULL;
  if (tutti_workspace_create(model, 1, &work)) fail();
  const tutti_prediction value = {.size = sizeof value,
                                  .mean = capacity,
                                  .total = capacity + cells,
                                  .aleatoric = capacity + 2 * cells,
                                  .epistemic = capacity + 3 * cells};
  tutti_prediction kept = value,
                   force = {.size = sizeof force, .workspace = work, .mean = capacity};
  kept.workspace = work;
  force.mean_gradient = slope;
  tutti_prediction all = kept;
  all.mean_gradient = slope, all.total_gradient = slope + slopes;
  all.aleatoric_gradient = slope + 2 * slopes, all.epistemic_gradient = slope + 3 * slopes;
  const struct {
    const char *name;
    int64_t rows;
    const tutti_prediction *out;
  } of[] = {{"row", 1, &value},
            {"row_workspace", 1, &kept},
            {"mean_gradient", 1, &force},
            {"all_gradients", 1, &all},
            {"mean_gradient_of_64", ROWS_IN_TURN, &force}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    time_calls(model, of[i].rows, x, of[i].out, &median, &least);
    printf("\"%s_us\": %.2f, \"%s_us_least\": %.2f, ", of[i].name, median / (double)of[i].rows,
           of[i].name, least / (double)of[i].rows);
  }
  tutti_workspace_destroy(&work);
}

/* Rows per second by a clock: of the wall, or of the processor time of all threads. */
static double rows_per_second(const tutti_model *model, int64_t rows, const double *x, int threads,
                              clockid_t clock, double *out)
{
  double best = 0.0;
  int64_t cells = rows * tutti_columns(model);
  const tutti_prediction all = {.size = sizeof all,
                                .mean = out,
                                .total = out + cells,
                                .aleatoric = out + 2 * cells,
                                .epistemic = out + 3 * cells};
  for (int i = 0; i < 3; i++) {
    double start = seconds_of(clock);
    if (tutti_predict(model, rows, x, threads, &all)) fail();
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
  double *x = make_rows(rows, inputs);
  double *out = malloc((size_t)((rows + ROWS_IN_TURN * (1 + inputs)) * 4 * columns) * sizeof *out);
  if (!x || !out) return 71;
  printf("{\"version\": \"%s\", \"model\": \"%s\", \"members\": %lld, \"inputs\": %lld, "
         "\"columns\": %lld, ",
         tutti_version(), argv[1], (long long)tutti_members(model), (long long)inputs,
         (long long)columns);
  print_times(model, x, out);
  printf("\"rows\": %lld, ", (long long)rows);
  double one = rows_per_second(model, rows, x, 1, CLOCK_MONOTONIC, out);
  double cpu = rows_per_second(model, rows, x, 1, CLOCK_PROCESS_CPUTIME_ID, out);
  printf("\"rows_per_s_1_thread\": %.4g, \"rows_per_cpu_s\": %.4g, \"rows_per_s\": %.4g}\n", one,
         cpu, rows_per_second(model, rows, x, 0, CLOCK_MONOTONIC, out));
  free(x);
  free(out);
  tutti_close(&model);
  return 0;
}
