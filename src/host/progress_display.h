/* progress_display.h — how far a run is: a line in a log, a bar on a terminal. Floor 4. */
#ifndef TT_PROGRESS_DISPLAY_H
#define TT_PROGRESS_DISPLAY_H
#include "core/engine/engine.h"
#include "mpi/comm.h"

typedef struct tt_progress_meter {
  double started, last_printed;       /* clock of the start and of the last line */
  int64_t steps, steps_at_last_print; /* member-steps of all ranks so far, and at the last line */
  int64_t restarts;                   /* diverged members that began again since the start */
  double fraction_at_start;           /* part of the work done at the start: a resumed run */
} tt_progress_meter;

/* Collective. Add up the ranks' progress into *all (the quartiles become medians over ranks). */
tt_err tt_progress_merge(tt_comm *c, const tt_progress *mine, tt_progress *all);

/* Member-steps per second since the start, 0 before anything is known; seconds left of `epochs` if
 * the slowest member goes on as it did, -1 before. Local. */
double tt_progress_meter_rate(const tt_progress_meter *m);
double tt_progress_meter_eta(const tt_progress_meter *m, const tt_progress *all, int64_t epochs);

/* At `epoch` of `epochs` of the members furthest behind. */
void tt_progress_meter_start(tt_progress_meter *m, int64_t epochs, int64_t epoch);

/* Rank 0 speaks when its interval is over (30 s in a log, 0.2 s on a terminal) or `now` is set. One
 * line: "epoch 12/200  training 97  stopped 2  diverged 1  restarted 3  loss 0.11 0.12 0.15  5.1e5
 * member-steps/s ETA 1:23". Local. */
void tt_progress_meter_print_local(tt_progress_meter *m, const tt_comm *c, const tt_progress *all,
                                   int64_t epochs, int now);
#endif
