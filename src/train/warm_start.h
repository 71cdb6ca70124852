/* warm_start.h — members that begin with the weights of an earlier run. Floor 4.
 *
 * Weights belong to normalised inputs and targets: where the training rows, and with them means and
 * spreads, have changed since, the same weights predict something else in the user's units, the
 * less the more rows there are. */
#ifndef TT_WARM_START_H
#define TT_WARM_START_H
#include "src/train/shard.h"

/* Where they come from. Members are matched by ensemble name and number; those that the earlier run
 * did not have, or that had diverged, begin anew. */
typedef struct tt_warm_start {
  tt_warm how;           /* TT_WARM_START_none: everything below is ignored */
  const char *directory; /* of the earlier run: its model.h5, for optimizer its last checkpoint */
  double shrink, perturb;
  int64_t round; /* of shrink_perturb: another number, other noise; >= 1 */
} tt_warm_start;

/* The earlier run in memory; NULL stands for none. */
typedef struct tt_warm_source tt_warm_source;

/* Collective. Read its model on all ranks, with optimizer also where its members stand.
 * Errors: NOINPUT, DATA (damaged; members that had not ended; snapshots instead of members), MEM.
 */
tt_err tt_warm_open(tt_comm *c, const tt_warm_start *w, tt_warm_source **out);
void tt_warm_close(tt_warm_source **s); /* accepts NULL */

/* Hash of `how`, its numbers and what is read, the same for the same weights whatever the files
 * look like: part of what ties a checkpoint to its run. 0 for NULL. */
uint64_t tt_warm_source_hash(const tt_warm_source *s);
/* Open, hash, close. Collective. Errors: of tt_warm_open. */
tt_err tt_warm_hash(tt_comm *c, const tt_warm_start *w, uint64_t *out);

/* Find the members of a loaded job, before its crews are made. With optimizer their train.epochs
 * become those they have done and as many more. Local, the same on all ranks.
 * Errors: DATA (another network shape or other targets: both are named), CONFIG (more epochs than
 * can be counted), MEM. */
tt_err tt_warm_match_local(tt_warm_source *s, tt_job *job);

/* Collective. Put the weights into the crews' engines, in place of initial ones, before the first
 * step of a run without checkpoint; nothing happens for NULL.
 *   params          the weights that the earlier run would predict with
 *   shrink_perturb  shrink * those + perturb * initial weights of that round (Ash & Adams 2020)
 *   optimizer       the last weights with the optimiser's state, counters and history: members go
 *                   on, for train.epochs more epochs, as if they had not ended; best weights and
 *                   patience begin anew, because the data are others. Needs a constant schedule.
 *                   With train.early_stopping: ensemble or method: fusion new members count their
 * epochs from where their ensemble is; a retry (train.on_diverged) takes as many as the others have
 * had in all Errors: DATA (another optimiser; a checkpoint of another run), IO, MEM, of the engine.
 */
tt_err tt_warm_apply(tt_comm *c, const tt_warm_source *s, tt_shards *shards);

/* optimizer, of one member: member i of `from` [its place] goes on as member j of `to`, a blank
 * state with at least as many epochs. Local. */
void tt_warm_resume_member_local(const tt_state *from, int64_t i, tt_state *to, int64_t j);
#endif
