/* checkpoint.h — checkpoints: one new file per generation, verified before the rename.
 *
 * The file is ckpt-gNNNNNN.h5 in the run directory. A generation is written under a unique
 * temporary name, closed, read back and compared by every rank, synced, and only then renamed, with
 * a vote after each step; then all but the newest `keep` generations are removed. If the program is
 * killed at any time, the directory contains the last complete generation. Each member has a
 * checksum; the layout does not depend on the number of ranks. */
#ifndef TT_CHECKPOINT_H
#define TT_CHECKPOINT_H
#include "core/model/state.h"
#include "mpi/comm.h"

/* The members of one cohort in a checkpoint. */
typedef struct tt_ckpt_shard {
  int64_t members; /* G of the whole cohort */
  tt_state *mine;  /* this rank's slice */
} tt_ckpt_shard;

/* Identity of a run; a checkpoint of another run is refused. */
typedef struct tt_run_id {
  uint64_t result_hash; /* tt_config_result_hash */
  uint64_t data;        /* tt_dataset.hash */
  char arithmetic[256]; /* tt_engine_info.arithmetic of its cohorts, "a; b" */
  char incarnation[96]; /* job.restart.host.random of this start of the program */
} tt_run_id;

/* Collective. Make this start the owner of the directory: create it if missing, write the owner
 * file with this incarnation and run, remove temporary files of earlier starts. A later start
 * becomes the owner in the same way; the earlier start then publishes nothing any more (the fence,
 * io/files/owner.h). So whatever can refuse a start is checked before. Fills id->incarnation, which
 * rank 0 creates. End it with tt_ckpt_release_local.
 *
 * A start of the same run takes the directory from one that is running. Any other start is refused
 * and writes nothing, if the owner may be running: it has not recorded its end, and its process
 * exists or is on another machine (there only a start before a requeue of the same Slurm job has
 * surely ended).
 *   any_device  another `arithmetic` is the same run
 *   restart     1 = this start drops earlier results: it is refused like one of another run
 * Errors: CANTCREAT (also: a rank does not see the files of rank 0), DATA (in use), MEM, STOPPED
 * (another start claims the directory at the same time). */
tt_err tt_ckpt_claim(tt_comm *c, const char *directory, int any_device, int restart, tt_run_id *id);

/* End of the run: this process writes nothing more to the directory. Its owner file stays; rank 0
 * adds that it has ended. */
void tt_ckpt_release_local(const tt_comm *c, const char *directory);

/* Whether a start owns the directory that may be running, as seen from outside. Local. */
int tt_ckpt_may_be_running_local(const char *directory);

/* Remove the temporary files of earlier owners from a directory inside a claimed one; it may be
 * missing. Local. Errors: IO, STOPPED. */
tt_err tt_ckpt_remove_temporaries_local(const char *directory);

/* The same at the end of a run, when this start writes no file any more: a start that was killed
 * after the claim of this one may have left a temporary file since. On one rank. Errors are not
 * reported; tt_err_last() stays. */
void tt_ckpt_clean_up_local(const char *directory);

/* Collective. The error of a start that has claimed the directory: STOPPED with the new owner if
 * another start has taken the directory over since, because any error may then be the work of that
 * start; otherwise `e` with its message. */
tt_err tt_ckpt_explain(tt_comm *c, const char *directory, tt_err e);

/* Collective. Write generation `generation` from every rank's slices and make it the newest.
 *   directory   NULL: a file in memory without data (tt_h5_create)
 *   generation  from 1 on
 *   keep        generations to keep, >= 1
 *   shard       [shards] one for each cohort of the job, in the same order on all ranks
 * On error every rank gets the same tt_err and the previous generation is still the newest.
 * Errors: IO, MEM, STOPPED (another incarnation owns the directory). */
tt_err tt_ckpt_write(tt_comm *c, const char *directory, const tt_run_id *id, int64_t generation,
                     int64_t keep, int64_t shards, const tt_ckpt_shard *shard);

/* The same, while training goes on. begin creates the file; then a thread of each rank writes and
 * verifies the slices of this rank, without MPI; end makes the file the newest generation. If the
 * program is killed between begin and end, the previous generation is the newest. Only where all
 * ranks are on one node (tt_h5_defer).
 *   shard  [shards] must stay allocated until end, and the states unchanged until the thread has
 *          ended: whoever changes one calls tt_ckpt_wait_local before
 *   out    NULL on error
 * Errors: as tt_ckpt_write; those of the thread are returned by end, which votes. */
typedef struct tt_ckpt_writing tt_ckpt_writing;
tt_err tt_ckpt_begin(tt_comm *c, const char *directory, const tt_run_id *id, int64_t generation,
                     int64_t shards, const tt_ckpt_shard *shard, tt_ckpt_writing **out);
tt_err tt_ckpt_end(tt_ckpt_writing **w, int64_t keep); /* waits for the thread; accepts NULL */

/* Whether the thread of this rank has ended; wait until it has. wait accepts NULL. Local. */
int tt_ckpt_is_written_local(const tt_ckpt_writing *w);
void tt_ckpt_wait_local(tt_ckpt_writing *w);

/* Bytes of the buffers in which values of the shards are written and read back, at most. Local. */
int64_t tt_ckpt_buffer_bytes_local(int64_t shards);

/* Seconds from begin to the end of the thread of this rank, which must have ended. Local. */
double tt_ckpt_seconds_local(const tt_ckpt_writing *w);

/* Collective. Load the newest generation that every rank can read and verify into the states of
 * `shard` [shards] (created by tt_state_create for this rank's slices). Changes no file: a start
 * reads before it claims the directory, and again after, in case the last owner has written a newer
 * generation meanwhile.
 *   any_device  accept another `arithmetic`
 *   newest      number of the newest file, at first 0; a later call reads newer files only
 *   generation  at first 0; stays if there is no (newer) checkpoint
 * The log names each rejected generation. Errors: DATA (no checkpoint can be used, or they belong
 * to another configuration, data set or arithmetic: the message says which and what to do), IO
 * (the disk gives none; they were removed between two calls), MEM. */
tt_err tt_ckpt_read(tt_comm *c, const char *directory, const tt_run_id *id, int any_device,
                    int64_t shards, const tt_ckpt_shard *shard, int64_t *newest,
                    int64_t *generation);

/* Collective. Remove all checkpoints, before a run that starts from the beginning. Errors: IO,
 * STOPPED. */
tt_err tt_ckpt_remove_all(tt_comm *c, const char *directory);
#endif
