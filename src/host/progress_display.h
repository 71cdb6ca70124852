/* progress_display.h — progress of a run: lines in a log, one updated line on a terminal. */
#ifndef TT_PROGRESS_DISPLAY_H
#define TT_PROGRESS_DISPLAY_H
#include "core/engine/engine.h"
#include "mpi/comm.h"

typedef struct tt_progress_meter {
  double started, last_printed;       /* seconds, tt_monotonic_seconds */
  int64_t steps, steps_at_last_print; /* member-steps of all ranks: in total, at the last line */
  int64_t restarts;                   /* restarts of diverged members */
  double fraction_at_start;           /* of all epochs, above 0 for a resumed run */
} tt_progress_meter;

/* Collective. Sum the progress of all ranks into *all; each loss quartile becomes the median of the
 * ranks' quartiles. Errors: MEM. */
tt_err tt_progress_merge(tt_comm *c, const tt_progress *mine, tt_progress *all);

/* Member-steps per second since the start, 0 = not known yet. Seconds left until all members have
 * done `epochs` epochs, extrapolated from the slowest member; -1 = not known yet. Local. */
double tt_progress_meter_rate(const tt_progress_meter *m);
double tt_progress_meter_eta(const tt_progress_meter *m, const tt_progress *all, int64_t epochs);

/* Start the clock; the slowest members are at `epoch` of `epochs`. Local. */
void tt_progress_meter_start(tt_progress_meter *m, int64_t epochs, int64_t epoch);

/* Print one line on rank 0, at most every 30 s in a log and every 0.2 s on a terminal, or if `now`
 * is set: "epoch 12/200  training 97  stopped 2  diverged 1  restarted 3  loss 0.11 0.12
 * 0.15  5.1e5 member-steps/s ETA 1:23". Local. */
void tt_progress_meter_print_local(tt_progress_meter *m, const tt_comm *c, const tt_progress *all,
                                   int64_t epochs, int now);
#endif
