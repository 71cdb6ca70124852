/* progress_display.h — progress of a run: lines in a log, one updated line on a terminal. */
#ifndef TT_PROGRESS_DISPLAY_H
#define TT_PROGRESS_DISPLAY_H
#include "core/engine/engine.h"
#include "mpi/comm.h"

typedef struct tt_progress_meter {
  double started, last_printed;       /* seconds, tt_monotonic_seconds */
  int64_t steps, steps_at_last_print; /* member-steps of all ranks: in total, at the last line */
  int64_t restarts;                   /* restarts of diverged members */
  int64_t lines;                      /* printed so far */
  double fraction_at_start;           /* of the work, above 0 for a resumed run */
} tt_progress_meter;

/* Collective. Sum the progress of all ranks into *all; each loss quartile becomes the median of the
 * ranks' quartiles. Errors: MEM. */
tt_err tt_progress_merge(tt_comm *c, const tt_progress *mine, tt_progress *all);

/* Member-steps per second since the start, 0 = not known yet. Seconds left until all members have
 * done `epochs` epochs, extrapolated from the slowest member; -1 = not known yet. Local. */
double tt_progress_meter_rate(const tt_progress_meter *m);
double tt_progress_meter_eta(const tt_progress_meter *m, const tt_progress *all, int64_t epochs);

/* Start the clock at this progress. Local. */
void tt_progress_meter_start(tt_progress_meter *m, const tt_progress *all, int64_t epochs);

enum { TT_PROGRESS_COLUMNS = 73 }; /* 80 without "tutti: " */

/* One line: epoch of the slowest member, quartiles of the training losses, seconds left (< 0 = not
 * known), numbers of members that are not 0, member-steps per second. What does not fit into
 * TT_PROGRESS_COLUMNS is left out, the last first. Local.
 * "epoch 12/200, loss 0.11 0.12 0.15, ETA 1:23, 97 training, 3 stopped early, 51k steps/s" */
void tt_progress_text_local(const tt_progress *all, int64_t epochs, int64_t restarts, double left,
                            double rate, char text[TT_PROGRESS_COLUMNS + 1]);

/* Seconds between two lines, `elapsed` seconds after the start: 0.2 s on a terminal; in a log 30 s,
 * or 1 % of the time so far if that is longer, so that 100 hours are 600 lines. Local. */
double tt_progress_interval(double elapsed, int is_terminal);

/* Print one line on rank 0 if tt_progress_interval has passed since the last one, or if `now` is
 * set; above the first line, what its numbers are. Local. */
void tt_progress_meter_print_local(tt_progress_meter *m, const tt_comm *c, const tt_progress *all,
                                   int64_t epochs, int now);
#endif
