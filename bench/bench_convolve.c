/* bench_convolve.c — convolutions of the CPU engine on one thread, by their share of the roof.
 *
 *   bench_convolve [ROWS [SECONDS [FIRST [LAST]]]]
 *
 * Layers of residual networks of images, for batches of ROWS rows (default 32): 3 x 3 and 1 x 1 with
 * 64 to 512 channels, and the 1 x 1 layers of ResNet-50. Of each, one line of JSON: GFLOP/s of the
 * result, of the gradient of the inputs and of that of the weights, by the processor time of the
 * fastest call within SECONDS (default 0.5); and the roof, multiply-adds in registers, measured
 * just before. */
#include "bench/roof.h"
#include "core/base/mem.h"
#include "core/model/model.h"
#include "src/cpu/front.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LEAST_CALLS = 3 };

/* A layer `out` channels, size x size, of `in` channels with side x side pixels. */
typedef struct layer_case {
  int in, out, size, side, stride;
} layer_case;

static const layer_case cases[] = {
    {64, 64, 3, 56, 1},    {128, 128, 3, 28, 1}, {256, 256, 3, 14, 1}, {512, 512, 3, 8, 1},
    {64, 64, 3, 8, 1},     {128, 128, 3, 8, 1},  {64, 64, 1, 56, 1},   {128, 128, 1, 28, 1},
    {256, 256, 1, 14, 1},  {512, 512, 1, 8, 1},  {64, 64, 1, 8, 1},    {64, 256, 1, 56, 1},
    {256, 64, 1, 56, 1},   {128, 512, 1, 28, 1}, {512, 128, 1, 28, 1}, {256, 1024, 1, 14, 1},
    {1024, 256, 1, 14, 1}, {512, 2048, 1, 7, 1}, {2048, 512, 1, 7, 1}, {256, 512, 1, 56, 2},
    {1024, 2048, 1, 14, 2}};

/* Of the processor, because other programs may run too. */
static double seconds_used(void)
{
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void require(tt_err e)
{
  if (!e) return;
  fprintf(stderr, "bench_convolve: %s\n", tt_err_last());
  exit(1);
}

static tt_front make_front(const layer_case *k)
{
  char row[TT_FRONT_TEXT];
  const char *const rows[] = {row};
  const int64_t size[] = {k->in, k->side, k->side};
  const tt_front_shape shape = {
      .dims = 2, .size = size, .rows = 1, .row = rows, .activation = TT_ACT_identity};
  tt_front f;
  tt_front_fault fault;
  snprintf(row, sizeof row, "conv %d %d stride %d", k->out, k->size, k->stride);
  if (!tt_front_lay_out(&shape, &f, &fault)) require(TT_FAIL(USAGE, "%s", fault.why));
  return f;
}

static float *made_up(int64_t count)
{
  float *a = NULL;
  require(TT_ALLOC(a, count));
  for (int64_t i = 0; i < count; i++) a[i] = (float)(i * 7919 % 1000) * 1e-3f - 0.5f;
  return a;
}

typedef enum work { WORK_RESULT, WORK_INPUTS, WORK_WEIGHTS, WORK_COUNT } work;

static void compute(work w, const tt_cpu_front_pass *p, float *dx, float *gradient)
{
  const int64_t channels = p->front->layer[0].channels;
  switch (w) {
  case WORK_RESULT: tt_cpu_front_forward(p, 0, 1, NULL, 0, 1); return;
  case WORK_INPUTS: tt_cpu_front_input_gradient(p, 0, dx); return;
  default: tt_cpu_front_gradient(p, 0, 0, channels, gradient); return;
  }
}

/* Seconds of the fastest call: other programs only slow it down. */
static double time_of(work w, const tt_cpu_front_pass *p, float *dx, float *gradient,
                      double seconds)
{
  double best = 1e9, first = seconds_used(), begin = first;
  for (int calls = 0; begin - first < seconds || calls < LEAST_CALLS; calls++) {
    compute(w, p, dx, gradient);
    double now = seconds_used();
    if (now - begin < best) best = now - begin;
    begin = now;
  }
  return best;
}

static void measure(const layer_case *k, int64_t rows, double seconds, const tt_kernels *kernels)
{
  static tt_model model;
  int64_t n = tt_lanes_up(rows), ld = n;
  tt_front f = make_front(k);
  float *w = made_up(f.params), *gradient = made_up(f.params);
  float *x = made_up(tt_front_values_in(f.layer) * ld),
        *dx = made_up(tt_front_values_in(f.layer) * ld);
  double flop = 2.0 * tt_front_products(f.layer) * (double)rows, rate[WORK_COUNT];
  tt_cpu_front *buffers = NULL;
  require(tt_cpu_front_create(&f, ld, 1, &buffers));
  model.front = f;
  const tt_cpu_front_pass pass = {.kernels = kernels,
                                  .model = &model,
                                  .front = &f,
                                  .buffers = buffers,
                                  .w = w,
                                  .x = x,
                                  .ld = ld,
                                  .n = n,
                                  .rows = rows};
  for (int64_t i = 0; i < f.features * ld; i++) buffers->layer[0].delta[i] = x[i % 4096];
  double roof = bench_cpu_roof(1);
  for (int i = 0; i < WORK_COUNT; i++)
    rate[i] = flop / time_of((work)i, &pass, dx, gradient, seconds);
  printf("{\"in\": %d, \"out\": %d, \"size\": %d, \"side\": %d, \"stride\": %d, \"rows\": %d, "
         "\"kernels\": "
         "\"%s\", \"gflops\": [%.1f, %.1f, %.1f], \"roof\": %.1f, \"share\": [%.2f, %.2f, %.2f]}\n",
         k->in, k->out, k->size, k->side, k->stride, (int)rows, kernels->name, rate[0] * 1e-9,
         rate[1] * 1e-9, rate[2] * 1e-9, roof * 1e-9, rate[0] / roof, rate[1] / roof,
         rate[2] / roof);
  fflush(stdout);
  tt_cpu_front_destroy(&buffers);
  tt_front_destroy(&f);
  tt_free_all(&w, &gradient, &x, &dx);
}

int main(int argc, char **argv)
{
  const tt_kernels *kernels = NULL;
  int64_t rows = argc > 1 ? atol(argv[1]) : 32;
  double seconds = argc > 2 ? atof(argv[2]) : 0.5;
  require(tt_kernels_get(TT_SIMD_auto, &kernels));
  int count = sizeof cases / sizeof *cases;
  int first = argc > 3 ? atoi(argv[3]) : 0, last = argc > 4 ? atoi(argv[4]) : count - 1;
  for (int i = first; i <= last && i < count; i++) measure(&cases[i], rows, seconds, kernels);
  return 0;
}
