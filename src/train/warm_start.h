/* warm_start.h — initial weights of the members from an earlier run.
 *
 * Weights apply to normalized inputs and targets. If the training rows have changed since, so have
 * the means and standard deviations, and the same weights predict other values in the user's units;
 * the difference shrinks with the number of rows. */
#ifndef TT_WARM_START_H
#define TT_WARM_START_H
#include "src/train/shard/shard.h"

/* The earlier run. Members are matched by ensemble name and member number; members that are missing
 * or diverged in the earlier run start with random weights. */
typedef struct tt_warm_start {
  tt_warm how;           /* TT_WARM_START_none: the other fields are ignored */
  const char *directory; /* run.directory of it: model.h5, for optimizer a checkpoint */
  double shrink, perturb;
  int64_t round; /* >= 1; selects the noise of shrink_perturb */
} tt_warm_start;

/* The earlier run in memory; NULL = none. */
typedef struct tt_warm_source tt_warm_source;

/* Collective. Read model.h5 on all ranks, with optimizer also the status of its members from the
 * last checkpoint. Errors: NOINPUT, DATA (damaged; members that still train; snapshots instead of
 * members), MEM. */
tt_err tt_warm_open(tt_comm *c, const tt_warm_start *w, tt_warm_source **out);
void tt_warm_close(tt_warm_source **s); /* accepts NULL */

/* Hash of `how`, its parameters and the weights (not of the bytes of the files): part of the result
 * hash of a run. 0 for NULL. */
uint64_t tt_warm_source_hash(const tt_warm_source *s);
/* Collective. Open, hash, close. Errors: of tt_warm_open. */
tt_err tt_warm_hash(tt_comm *c, const tt_warm_start *w, uint64_t *out);

/* Match the members of a loaded job with those of the earlier run; call it before
 * tt_shards_create_local. With optimizer the epochs of a member become the epochs already trained
 * plus train.epochs. Local, the same on all ranks.
 * Errors: DATA (other network shape or other targets; the message names both), CONFIG (too many
 * epochs for the counter), MEM. */
tt_err tt_warm_match_local(tt_warm_source *s, tt_job *job);

/* Collective. Replace the initial weights in the engines of the shards, before the first step of a
 * run without checkpoint; does nothing for NULL.
 *   params          the weights that the earlier run predicts with
 *   shrink_perturb  shrink * (weights of params) + perturb * (random initial weights of `round`),
 *                   Ash & Adams 2020
 *   optimizer       the last weights with optimizer state, counters and history; training continues
 *                   for train.epochs more epochs. Best weights and patience are reset, because the
 *                   data differ. Needs a constant schedule. A restarted member
 *                   (train.on_diverged) trains as many epochs in total as the other members
 *
 * Errors: DATA (another optimizer; a checkpoint of another run), IO, MEM, of the engine. */
tt_err tt_warm_apply(tt_comm *c, const tt_warm_source *s, tt_shards *shards);

/* The copy that optimizer makes of one member: from index i of `src` to index j of `dst`, a newly
 * created state with at least as many epochs. Local. */
void tt_warm_resume_member_local(const tt_state *src, int64_t i, tt_state *dst, int64_t j);
#endif
