/* warm.h — members that begin with the weights of an earlier run. Floor 4. */
#ifndef TT_WARM_H
#define TT_WARM_H
#include "run/crew.h"

/* Where they come from. Members are matched by ensemble name and number; those that the earlier run
 * did not have, or that had diverged, begin anew. */
typedef struct tt_warm_start {
  tt_warm how;           /* TT_WARM_none: everything below is ignored */
  const char *directory; /* of the earlier run: its model.h5, for optimizer its last checkpoint */
  double shrink, perturb;
} tt_warm_start;

/* Hash of `how`, its numbers and the files it reads: part of what ties a checkpoint to its run; 0
 * for none. Collective. Errors: NOINPUT, IO. */
tt_err tt_warm_hash(tt_comm *c, const tt_warm_start *w, uint64_t *out);

/* Collective. Put the weights into the crews' engines, in place of initial ones, before the first
 * step of a run without checkpoint.
 *   params          the weights that the earlier run would predict with
 *   shrink_perturb  shrink * those + perturb * new initial weights (Ash & Adams 2020)
 *   optimizer       the last weights with the optimiser's state and counters: members go on, for
 *                   train.epochs more epochs; needs train.schedule: constant and warmup 0
 * Errors: NOINPUT, DATA (another network shape, inputs or targets: both are named), MEM, of the
 * engine. */
tt_err tt_warm_begin(tt_comm *c, const tt_warm_start *w, const tt_job *job, tt_crews *crews);
#endif
