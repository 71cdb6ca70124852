/* plan_time.h — `tutti plan`: how long training takes on the CPU, from the constants of the machine
 * (src/timing). Local. */
#ifndef TT_TOOLS_PLAN_TIME_H
#define TT_TOOLS_PLAN_TIME_H
#include "src/timing/machine_file.h"
#include "src/tools/plan_internal.h"

/* Seconds; NaN: not known. */
typedef struct tt_plan_time {
  double epoch, training; /* an epoch of all members, the longest rank; all epochs, at most */
  double error;           /* relative, of the estimate of a step */
  double checkpoint_bytes, checkpoint; /* a generation of all ranks; to write and compare it */
  int known;                           /* 0: this machine is not calibrated, and `why` says so */
  int threads;                         /* of a rank */
  tt_machine machine;
  char why[TT_ERR_MESSAGE_SIZE];
} tt_plan_time;

/* Errors: MEM. */
tt_err tt_plan_time_estimate(const tt_job_plan *p, int ranks, tt_plan_time *out);

void tt_plan_time_print(const tt_plan_time *t, FILE *out);
void tt_plan_time_to_json(const tt_plan_time *t, json_t **plan);
#endif
