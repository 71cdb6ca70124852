/* ckpt.h — checkpoints: one new file per generation, verified before it counts. Floor 3.
 *
 * ckpt-gNNNNNN.h5 in the run directory. A generation is written under a unique temporary name,
 * closed, read back and compared by every rank, voted, synced, and only then renamed; after that
 * all but the newest `keep` are removed. Killed at any instant, the directory holds the last whole
 * generation. Members carry checksums; the layout holds no rank. */
#ifndef TT_CKPT_H
#define TT_CKPT_H
#include "mpi/comm.h"
#include "spec/state.h"

/* What ties a checkpoint to its run. */
typedef struct tt_run_id {
  uint64_t science;     /* tt_config_science_hash */
  uint64_t data;        /* tt_dataset.hash */
  char arithmetic[64];  /* tt_engine_info.arithmetic */
  char incarnation[96]; /* job.restart.host.random of this start of the program: the fence */
} tt_run_id;

/* Collective. Take the directory: creates it if missing, writes the owner file with our
 * incarnation, removes what dead starts left half-written. A later incarnation takes it over; the
 * earlier then fails its next commit (the fence). Fills id->incarnation (rank 0 makes it).
 * Errors: CANTCREAT. */
tt_err tt_ckpt_claim(tt_comm *c, const char *directory, tt_run_id *id);

/* Collective. Write generation `generation` from every rank's slice and make it the newest.
 *   generation  from 1 on
 *   members     G of the whole cohort
 *   keep        generations to keep, >= 1
 * On error every rank gets the same tt_err and the previous generation is still the newest.
 * Errors: IO, MEM, STOPPED (another incarnation owns the directory now). */
tt_err tt_ckpt_write(tt_comm *c, const char *directory, const tt_run_id *id, int64_t generation,
                     int64_t members, int64_t keep, const tt_state *mine);

/* Collective. Load the newest generation that every rank can read and verify into *mine (made by
 * tt_state_create for this rank's slice).
 *   generation  0 if there is no checkpoint at all
 *   any_device  accept another `arithmetic`
 * Rejected generations are named in the log. Errors: DATA (checkpoints are there, none is good; or
 * they belong to another configuration, data set or arithmetic: the message says which and what to
 * do), MEM. */
tt_err tt_ckpt_read(tt_comm *c, const char *directory, const tt_run_id *id, int64_t members,
                    int any_device, tt_state *mine, int64_t *generation);

/* Collective. Remove all checkpoints, temporary files and the owner file (a run that starts anew,
 * or after the results are safe). Errors: IO. */
tt_err tt_ckpt_remove_all(tt_comm *c, const char *directory);
#endif
