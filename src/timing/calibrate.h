/* calibrate.h — `tutti doctor --calibrate`: measures the constants of a machine. Local. */
#ifndef TT_CALIBRATE_H
#define TT_CALIBRATE_H
#include "core/engine/engine.h"
#include "src/timing/machine_file.h"

/* A network whose steps are timed. */
typedef struct tt_timed_case {
  int64_t inputs, hidden[3], layers, outputs, batch;
  tt_activation activation;
  tt_optimizer optimizer;
  double dropout;
  int layer_norm;
} tt_timed_case;

/* How the time of a step is measured. */
typedef struct tt_timing {
  const tt_engine_ops *ops;
  const tt_resources *use;
  int trials;   /* of each case; the shortest counts */
  double trial; /* seconds of one of them */
} tt_timing;

/* Seconds of a step of one member on one of use->threads threads, all of which train members.
 * Errors: of the engine, MEM. */
tt_err tt_time_case(const tt_timing *t, const tt_timed_case *k, double *seconds);

/* Measure everything, about 40 cases, and the time of a file of 64 MiB in `directory`.
 * Errors: of the engine, CANTCREAT, IO, MEM. */
tt_err tt_machine_measure(const tt_timing *t, const char *directory, tt_machine *out);
#endif
