/* shard.h — the members of one cohort on this rank, their engine and their state. A rank without
 * members of a cohort still takes part in all its collective calls. */
#ifndef TT_SHARD_H
#define TT_SHARD_H
#include "core/engine/engine.h"
#include "io/checkpoint/checkpoint.h"
#include "mpi/team.h"
#include "src/job/job.h"

/* Members that several ranks train together (team_training.h). Rank 0 of the team has them in its
 * shard, for files and gathers; the shards of its other ranks are empty. The engine of each rank
 * has its segment of the slots, best weights and averages. */
typedef struct tt_shard_team {
  tt_team *ranks;    /* borrowed */
  int stages;        /* the ranks share the layers in up to so many stages; 0: only the parts */
  tt_slice slice;    /* the members of the team, numbered within the cohort */
  tt_engine *engine; /* that of the shard on rank 0 */
  tt_state *state;   /* that of the shard on rank 0; else of one member, with the segment */
  int outdated;      /* rank 0: its state has changed, the other ranks do not have it yet */
  int incomplete;    /* rank 0: its state lacks what the other ranks have updated */
  int on_device;     /* the ranks exchange memory of their devices (tt_resources.device_exchange) */
  struct tt_team_buffers *buffers; /* of team_training.c */
} tt_shard_team;

typedef struct tt_shard {
  const tt_cohort *cohort;  /* borrowed from the job */
  const tt_engine_ops *ops; /* borrowed, as are use and data */
  const tt_resources *use;
  const tt_dataset *data;
  tt_engine *engine;       /* NULL without members */
  tt_slice slice;          /* this rank's members, numbered within the cohort */
  tt_state *state;         /* copy of the state in the engine, for files and gathers */
  tt_ckpt_writing *reader; /* reads `state` on its own thread, borrowed; NULL = none */
  tt_shard_team team;      /* all zero: each member has one rank */
  tt_engine_info info;     /* all zero without members */
  int held;                /* 1: its members wait, and do not count as training */
  int64_t steps;           /* of the next call of train, see tt_shards_train */
  int64_t known_diverged;  /* diverged members here after the last tt_retry_diverged_local */
  double verify_time;      /* when the next step is verified (src/train/verify.h) */
  int64_t verified;        /* members tried for this so far */
  int verify_misses;       /* steps in a row that were not those of the CPU */
  tt_progress local_progress, progress; /* of this rank's members; of all ranks */
} tt_shard;

typedef struct tt_shards {
  int64_t count;
  tt_shard *at; /* [count] one for each cohort of the job, in its order */
} tt_shards;

/* Number of training rows, by which the members are distributed. Local. */
int64_t tt_shard_training_rows(const tt_dataset *d);

/* Create an engine with data and initial weights for this rank's members of each cohort of a loaded
 * job; tt_load_balance distributes the members over `ranks` ranks or teams.
 *   rank  of this rank, or of its team
 *   team  the ranks that train members together, borrowed; NULL: each rank alone. Members of a
 *         cohort without parts then train on rank 0 of the team
 *   stages  the ranks of a team share the layers of a member in up to so many stages, and the ranks
 *           of a stage the parts of a batch; 0: all ranks share the parts
 * Local. Errors: of the engine, UNAVAILABLE (it cannot share members), MEM. */
tt_err tt_shards_create_local(const tt_job *job, int ranks, int rank, tt_team *team, int stages,
                              tt_shards *out);
void tt_shards_destroy(tt_shards *all); /* accepts a zeroed one */

/* Destroy the engines; the states stay. Call tt_shard_save_local before. Local. */
void tt_shards_release_engines_local(tt_shards *all);

/* Destroy the engine of `shard`, and create *out: one shard with the same members and team for
 * `cohort`, a borrowed variant of the shard's. Local. Errors: as tt_shards_create_local. */
tt_err tt_shard_replace_local(const tt_job *job, const tt_cohort *cohort, tt_shard *shard,
                              tt_shards *out);

/* Copy the state of the members from the engine to shard->state, and back. With a team, call
 * tt_team_collect before the first one. save waits for shard->reader: all code that changes
 * shard->state comes after a save. Local. Errors: of the engine, of load: MEM. */
tt_err tt_shard_save_local(tt_shard *shard);
tt_err tt_shard_load_local(tt_shard *shard);

/* Create the engine of the shard again, with its state: after a change of its cohort. Not with a
 * team. Local. Errors: of the engine. */
tt_err tt_shard_restart_local(tt_shard *shard);

/* Train each member for up to `steps` optimizer steps; fills local_progress. With a
 * team, steps must be 0: see tt_team_train. Local. Errors: of the engine. */
tt_err tt_shard_train_local(tt_shard *shard, int64_t steps);

/* With model.heads, make every head a member, in the cohorts of the job and in the shards. Call
 * tt_shards_release_engines_local before. Local. Errors: MEM. */
tt_err tt_shards_expand_heads_local(tt_job *job, tt_shards *all);

/* Sums over all shards: members with each status, steps of the last call. epoch_min, *max_epochs
 * and loss are those of the shard with the smallest fraction epoch_min / max_epochs. Local. */
tt_progress tt_shards_total_progress(const tt_shards *all, int64_t *max_epochs);

enum { TT_ARITHMETIC_LIST_SIZE = 256 };

/* Collective. Check for each cohort that all ranks with members of it use the same arithmetic, so
 * that they compute the same bits.
 *   warn_only  a difference is a warning, not an error
 *   text       the distinct arithmetics, "a; b", the same on all ranks
 * Errors: UNAVAILABLE, MEM. */
tt_err tt_shards_check_arithmetic(tt_comm *c, const tt_shards *all, int warn_only,
                                  char text[TT_ARITHMETIC_LIST_SIZE]);
#endif
