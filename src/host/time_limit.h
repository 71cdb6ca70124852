/* time_limit.h — when a run stops by itself: after run.max_time, or in time before Slurm ends the
 * job. Floor 4. */
#ifndef TT_TIME_LIMIT_H
#define TT_TIME_LIMIT_H
#include "mpi/comm.h"

typedef struct tt_time_limit {
  double end;    /* on tt_monotonic_seconds's clock, when it is over; <= 0 = never */
  double margin; /* seconds before that to stop */
} tt_time_limit;

/* Collective. With max_time > 0 the limit is so long after `started`. Otherwise (auto) rank 0 asks
 * Slurm how long the job still has, and the limit is `reserve` seconds before its end (auto, < 0: a
 * minute or a tenth of what is left); outside a job there is none. Not to know the end of a job is
 * a warning, not an error. */
void tt_time_limit_begin(tt_comm *c, double max_time, double margin, double started,
                         tt_time_limit *out);

/* A checkpoint took so long: reserve at least three times that and half a minute. Local. */
void tt_time_limit_record_checkpoint_local(tt_time_limit *l, double seconds);

/* When to stop, for tt_stop_agreed; <= 0 = never. Local. */
double tt_time_limit_deadline_local(const tt_time_limit *l);
#endif
