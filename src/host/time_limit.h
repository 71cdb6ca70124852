/* time_limit.h — deadline of a run: run.max_time, or shortly before the end of the Slurm job. */
#ifndef TT_TIME_LIMIT_H
#define TT_TIME_LIMIT_H
#include "mpi/comm.h"

typedef struct tt_time_limit {
  double end;        /* seconds, tt_monotonic_seconds; <= 0 = no limit */
  double left;       /* seconds from the start of the run to the end of the Slurm job; 0 = no job */
  double least;      /* seconds, run.stop_margin or its default */
  double checkpoint; /* estimate of the seconds that a checkpoint takes */
  double margin;     /* seconds before `end` at which to stop */
  double logged;     /* the margin that the log says */
} tt_time_limit;

/* Seconds before the end of a Slurm job at which a run stops: time for three checkpoints (one that
 * is being written, the last one, and one for a slow disk), but not more than a third of the job;
 * and never less than `least`.
 *   left        seconds, as in tt_time_limit
 *   least       seconds; what a person has set may be more than a third of the job
 *   checkpoint  seconds */
double tt_time_limit_margin(double left, double least, double checkpoint);

/* Collective. With max_time > 0 the limit is `started` + max_time. Otherwise (auto) rank 0 asks
 * Slurm for the end of the job, and the deadline is tt_time_limit_margin before it. `margin` is the
 * least margin (auto, <= 0: one minute, or a tenth of the remaining time if that is less than ten
 * minutes). Outside a job there is no limit. An unknown end of the job is a warning, not an error.
 */
void tt_time_limit_begin(tt_comm *c, double max_time, double margin, double started,
                         tt_time_limit *out);

/* Record the duration of a checkpoint. If it is more than the estimate, it becomes the estimate at
 * once; if it is less, the estimate moves half the way to it, so a single slow checkpoint does not
 * count for the whole run. If the margin changes by a tenth or more, the log says so. Local. */
void tt_time_limit_record_checkpoint_local(tt_time_limit *l, double seconds);

/* Deadline for tt_stop_agreed; <= 0 = none. Local. */
double tt_time_limit_deadline_local(const tt_time_limit *l);
#endif
