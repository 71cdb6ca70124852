/* time_estimate.h — how long a job takes, from its first steps. Local. */
#ifndef TT_TIME_ESTIMATE_H
#define TT_TIME_ESTIMATE_H
#include "src/train/shard/shard.h"

typedef struct tt_time_estimate {
  double reading;     /* seconds until the first step */
  double training;    /* of all epochs; a member that stopped early has done all of its epochs */
  double outputs;     /* of postprocessing, scores and files */
  double first, done; /* when the clock of this training began to count; fraction done by then */
  double others;      /* seconds that trainings before this one have taken (by_transfer) */
} tt_time_estimate;

/* Call this after each round of training on one rank, `seconds` after its begin. *enough becomes 1
 * when the first steps tell how long all take; then the time of this training was added.
 * Errors: of tt_shard_save_local. */
tt_err tt_time_estimate_update(tt_time_estimate *t, tt_shards *all, const tt_progress *progress,
                               double seconds, int *enough);
#endif
