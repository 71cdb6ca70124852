/* training_cost.h — what training took of what was planned, and what early stopping saved. Floor 4.
 * */
#ifndef TT_TRAINING_COST_H
#define TT_TRAINING_COST_H
#include "src/train/shard.h"

typedef struct tt_training_cost {
  int64_t planned, trained; /* whole epochs of all members: asked for, and done */
  int64_t saved;            /* left to do by members that stopped early */
  int64_t steps;            /* optimiser steps of all members */
  int64_t retries;          /* new starts after divergence; `trained` is without what they lost */
} tt_training_cost;

/* Collective. From `mine` of all crews, which must have been saved. */
tt_training_cost tt_training_cost_sum(tt_comm *c, const tt_shards *all);

/* Say it, on rank 0, where there is something to say.
 *   steps, seconds  of this life of the program: for the time that early stopping saved. Local. */
void tt_training_cost_log_local(const tt_training_cost *e, int64_t steps, double seconds);
#endif
