/* training_cost.h — epochs and steps planned and trained, epochs saved by early stopping. */
#ifndef TT_TRAINING_COST_H
#define TT_TRAINING_COST_H
#include "src/train/shard/shard.h"

typedef struct tt_training_cost {
  int64_t planned, trained; /* member-epochs: requested; completed */
  int64_t saved;            /* member-epochs skipped by early stopping */
  int64_t steps;            /* optimizer steps of all members */
  int64_t retries;          /* restarts after divergence; `trained` excludes the discarded epochs */
} tt_training_cost;

/* Collective. Sum over all members. Call tt_shard_save_local on every shard before. */
tt_training_cost tt_training_cost_sum(tt_comm *c, const tt_shards *all);

/* Log restarts and saved epochs on rank 0; nothing if both are 0. Local.
 *   steps, seconds  of this start of the program, to estimate the saved time */
void tt_training_cost_log_local(const tt_training_cost *e, int64_t steps, double seconds);
#endif
