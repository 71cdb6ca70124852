/* time_limit.h — deadline of a run: run.max_time, or shortly before the end of the Slurm job. */
#ifndef TT_TIME_LIMIT_H
#define TT_TIME_LIMIT_H
#include "mpi/comm.h"

typedef struct tt_time_limit {
  double end;    /* seconds, tt_monotonic_seconds; <= 0 = no limit */
  double margin; /* seconds before `end` at which to stop */
} tt_time_limit;

/* Collective. With max_time > 0 the limit is `started` + max_time. Otherwise (auto) rank 0 asks
 * Slurm for the end of the job, and the deadline is `margin` seconds before it (auto, <= 0: one
 * minute, or a tenth of the remaining time if that is less than ten minutes). Outside a job there
 * is no limit. An unknown end of the job is a warning, not an error. */
void tt_time_limit_begin(tt_comm *c, double max_time, double margin, double started,
                         tt_time_limit *out);

/* Record the duration of a checkpoint. If it is more than a quarter of the margin, the
 * margin becomes at least 3 * seconds + 30. Local. */
void tt_time_limit_record_checkpoint_local(tt_time_limit *l, double seconds);

/* Deadline for tt_stop_agreed; <= 0 = none. Local. */
double tt_time_limit_deadline_local(const tt_time_limit *l);
#endif
