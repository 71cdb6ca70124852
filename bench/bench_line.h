/* bench_line.h — one run of a workload: prepared, compared with the reference, timed, printed as a
 * line of JSON. */
#ifndef BENCH_LINE_H
#define BENCH_LINE_H
#include "bench/workload.h"
#include "core/engine/engine.h"

#include <stdio.h>

enum { BENCH_MOST_REPEATS = 101 };
#define BENCH_H200_FP32 66.9e12 /* 132 multiprocessors * 128 lanes * 2 * 1.98 GHz */

/* Engine, path, precision and threads. */
typedef struct bench_setting {
  const tt_engine_ops *ops;
  tt_resources use;
  int way, precision; /* numbers in bench_ways(ops) and bench_precisions */
  double roof;        /* peak FLOP/s of the device or of the threads, for a percentage */
} bench_setting;

/* NULL-terminated: for the cuda engine the values of TUTTI_GPU_PATH, for another engine its name. */
const char *const *bench_ways(const tt_engine_ops *ops);
extern const char *const *const bench_precisions; /* the values of run.precision */

/* Errors: USAGE (unknown, or not compiled in). */
tt_err bench_engine_find(const char *name, const tt_engine_ops **out);

typedef struct bench_run bench_run;
typedef struct bench_time {
  int64_t steps; /* of the whole ensemble */
  double seconds;
} bench_time;

/* Engine with data and weights, the losses of its first BENCH_STEPS steps, and warmed up.
 *   folder  holds reference.f8, with which the losses must agree; NULL: no comparison
 *   out     owned by the caller, also on error, bench_drop
 * Errors: UNAVAILABLE (the engine cannot train it), DATA (other losses than the reference). */
tt_err bench_prepare(const bench_workload *load, const bench_setting *set, const char *folder,
                     bench_run **out);
void bench_drop(bench_run **run);
int bench_is(const bench_run *run, const bench_setting *set);

/* Call train until the time is over. */
tt_err bench_time_steps(bench_run *run, double seconds, bench_time *out);

/* One line each. */
void bench_print_list(const tt_engine_ops *ops);
void bench_print_ready(const bench_run *run);
void bench_print_summary(const bench_run *run, int repeats, bench_time *each); /* sorts `each` */
void bench_print_time(const bench_time *t);
void bench_print_refusal(const bench_workload *load, const bench_setting *set); /* tt_err_last */
void bench_print_error(void);                                                   /* likewise */
void bench_print_done(void);
#endif
