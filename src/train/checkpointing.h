/* checkpointing.h — when a training run writes checkpoints: while it trains, and at its end. */
#ifndef TT_CHECKPOINTING_H
#define TT_CHECKPOINTING_H
#include "src/host/time_limit.h"
#include "src/train/shard/shard.h"

typedef struct tt_checkpointing {
  tt_comm *comm; /* borrowed, as are all pointers but `part` and `writing` */
  const tt_config *cfg;
  const tt_run_id *id;
  tt_shards *shards;
  tt_time_limit *limit;     /* learns how long a checkpoint takes */
  tt_ckpt_shard *part;      /* [shards] states to write to and read from checkpoints */
  tt_ckpt_writing *writing; /* a checkpoint that is written while training goes on; NULL = none */
  double time;              /* when the last checkpoint was begun, or training started */
  double waited;            /* seconds that training has waited for `writing` */
  int64_t generation;       /* the last complete checkpoint */
} tt_checkpointing;

/* Fill `part` from created shards. Owner: tt_checkpointing_close. Local. Errors: MEM. */
tt_err tt_checkpointing_create_local(tt_checkpointing *k);

/* Copy the states of all shards from the engines to `part`. Collective over the ranks of a team.
 * Errors: of the engine. */
tt_err tt_checkpointing_save_states(tt_checkpointing *k);

/* Collective; call it between two calls of tt_shards_train. Begin a checkpoint every
 * checkpoint.every seconds and end it when it is written. Training waits for the copy of the
 * states, and until the file is written only where another state is saved before (retries, teams,
 * early stopping of ensembles), where ranks are on several nodes, and where the disk takes longer
 * than run.watchdog. A failed write is repeated once, under another temporary name. Errors: of the
 * engine, of tt_ckpt_write but CANTCREAT: IO (both writes failed; the previous generation is still
 * the newest). */
tt_err tt_checkpointing_update(tt_checkpointing *k);

/* Collective. End the checkpoint that is being written, then write the present state and wait for
 * it.  must  1 = errors as of tt_checkpointing_update; 0 = that the disk failed is only logged,
 * because the outputs follow, which hold all results */
tt_err tt_checkpointing_write(tt_checkpointing *k, int must);

/* Collective. End the checkpoint that is being written, if any, and free what was created; keeps
 * the last error message. */
void tt_checkpointing_close(tt_checkpointing *k);
#endif
