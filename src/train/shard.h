/* shard.h — one cohort of the job on this rank: its members here, the engine that trains them and
 * their state. Floor 4. A rank without members of a cohort enters all its collectives. */
#ifndef TT_SHARD_H
#define TT_SHARD_H
#include "core/engine/engine.h"
#include "mpi/comm.h"
#include "src/job/job.h"

typedef struct tt_shard {
  const tt_cohort *cohort;  /* borrowed from the job */
  const tt_engine_ops *ops; /* as use and data */
  const tt_resources *use;
  const tt_dataset *data;
  tt_engine *engine;                    /* NULL where slice.count is 0 */
  tt_slice slice;                       /* this rank's members, numbers of the cohort */
  tt_state *state;                      /* their state on its way to and from files */
  tt_engine_info info;                  /* all zero without an engine */
  int64_t steps;                        /* of the next call of train */
  int64_t known_diverged;               /* members here that diverged for good, when last looked */
  tt_progress local_progress, progress; /* of this rank's members, of all */
} tt_shard;

typedef struct tt_shards {
  int64_t count;
  tt_shard *at; /* [count] one for each cohort of the job, in its order */
} tt_shards;

/* Engines with data and initial weights for this rank's members of a loaded job, dealt by
 * tt_load_balance. Local. Errors: those of the engine, MEM. */
tt_err tt_shards_create_local(const tt_job *job, int ranks, int rank, tt_shards *out);
void tt_shards_destroy(tt_shards *all); /* accepts a zeroed one */

/* The crew's state out of the engine into `state`, and back. Local. Errors: of the engine. */
tt_err tt_shard_save_local(tt_shard *shard);
tt_err tt_shard_load_local(tt_shard *shard);

/* Up to `steps` optimiser steps of each member here; fills local_progress. Local. Errors: of the
 * engine. */
tt_err tt_shard_train_local(tt_shard *shard, int64_t steps);

/* With method: snapshot, the snapshots become the members: of the job's cohorts and of the crews,
 * which give up their engines. `state` must have been saved. Local. Errors: MEM. */
tt_err tt_shards_expand_snapshots_local(tt_job *job, tt_shards *all);

/* Of all crews together: members in each state, steps of the last call; epoch_min of max_epochs and
 * the loss of the crew that is furthest behind in its epochs. Local. */
tt_progress tt_shards_total_progress(const tt_shards *all, int64_t *max_epochs);

enum { TT_ARITHMETIC_LIST_SIZE = 256 };

/* Collective. Would all ranks compute the same bits for each crew? Ranks without members of it have
 * no say.
 *   anyhow  a difference is only warned of
 *   text    the distinct arithmetics, "a; b", the same on all ranks
 * Errors: UNAVAILABLE, MEM. */
tt_err tt_shards_check_arithmetic(tt_comm *c, const tt_shards *all, int anyhow,
                                  char text[TT_ARITHMETIC_LIST_SIZE]);
#endif
