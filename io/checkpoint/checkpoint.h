/* checkpoint.h — checkpoints: one new file per generation, verified before it counts. Floor 3.
 *
 * ckpt-gNNNNNN.h5 in the run directory. A generation is written under a unique temporary name,
 * closed, read back and compared by every rank, voted, synced, and only then renamed; after that
 * all but the newest `keep` are removed. Killed at any instant, the directory holds the last whole
 * generation. Members carry checksums; the layout holds no rank. */
#ifndef TT_CHECKPOINT_H
#define TT_CHECKPOINT_H
#include "core/model/state.h"
#include "mpi/comm.h"

/* The members of one cohort in a checkpoint. */
typedef struct tt_ckpt_shard {
  int64_t members; /* G of the whole cohort */
  tt_state *mine;  /* this rank's slice */
} tt_ckpt_shard;

/* What ties a checkpoint to its run. */
typedef struct tt_run_id {
  uint64_t result_hash; /* tt_config_result_hash */
  uint64_t data;        /* tt_dataset.hash */
  char arithmetic[256]; /* tt_engine_info.arithmetic of its cohorts, "a; b" */
  char incarnation[96]; /* job.restart.host.random of this start of the program: the fence */
} tt_run_id;

/* Collective. Take the directory: creates it if missing, writes the owner file with our
 * incarnation, removes what dead starts left half-written. A later incarnation takes it over; the
 * earlier then fails its next commit (the fence). Fills id->incarnation (rank 0 makes it).
 * Errors: CANTCREAT. */
tt_err tt_ckpt_claim(tt_comm *c, const char *directory, tt_run_id *id);

/* Is the directory still ours? Local. Errors: STOPPED (another incarnation owns it now), IO. */
tt_err tt_ckpt_check_owner_local(const char *directory, const char *incarnation);

/* Collective. Write generation `generation` from every rank's slices and make it the newest.
 *   generation  from 1 on
 *   keep        generations to keep, >= 1
 *   part        [parts] one for each cohort of the job, in the same order on all ranks
 * On error every rank gets the same tt_err and the previous generation is still the newest.
 * Errors: IO, MEM, STOPPED (another incarnation owns the directory now). */
tt_err tt_ckpt_write(tt_comm *c, const char *directory, const tt_run_id *id, int64_t generation,
                     int64_t keep, int64_t shards, const tt_ckpt_shard *shard);

/* Collective. Load the newest generation that every rank can read and verify into the states of
 * `part` [parts] (made by tt_state_create for this rank's slices).
 *   generation  0 if there is no checkpoint at all
 *   any_device  accept another `arithmetic`
 * Rejected generations are named in the log. Errors: DATA (checkpoints are there, none is good; or
 * they belong to another configuration, data set or arithmetic: the message says which and what to
 * do), MEM. */
tt_err tt_ckpt_read(tt_comm *c, const char *directory, const tt_run_id *id, int any_device,
                    int64_t shards, const tt_ckpt_shard *shard, int64_t *generation);

/* ---- The last generation of a run that has ended, whichever run it was: for members that go on
 * from it (src/train/warm_start.h). Local. ---- */
typedef struct tt_ckpt_last tt_ckpt_last;

/* Errors: NOINPUT (there is none), DATA (damaged; an older one would be another moment), IO, MEM.
 */
tt_err tt_ckpt_last_open_local(const char *directory, tt_ckpt_last **out);
void tt_ckpt_last_close_local(tt_ckpt_last **l); /* accepts NULL */

/* Where the members of `cohort` stand, which are `members`: epoch, status, hash [members].
 * Errors: DATA (damaged, another number of members), MEM. */
tt_err tt_ckpt_last_progress_local(tt_ckpt_last *l, int64_t cohort, int64_t members, int32_t *epoch,
                                   int8_t *status, uint64_t *hash);

/* Members `which` of `cohort`, verified by their checksums; owner: the caller.
 * Errors: DATA (damaged), MEM. */
tt_err tt_ckpt_last_read_local(tt_ckpt_last *l, int64_t cohort, tt_slice which, tt_state **out);

/* Collective. Remove all checkpoints, temporary files and the owner file (a run that starts anew,
 * or after the results are safe). Errors: IO. */
tt_err tt_ckpt_remove_all(tt_comm *c, const char *directory);
#endif
