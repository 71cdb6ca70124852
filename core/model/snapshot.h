/* snapshot.h — snapshot ensembles: the weights a member had at the ends of its cycles become
 * members. Huang et al., "Snapshot ensembles: train 1, get M for free", ICLR 2017. Floor 1. */
#ifndef TT_SNAPSHOT_H
#define TT_SNAPSHOT_H
#include "core/model/cohort.h"
#ifdef __cplusplus
extern "C" {
#endif

/* The S = c->snapshots snapshots of each trained member of `mine` as members of their own, so that
 * scores and files need not know: snapshot s of member m is member m * S + s, with m's place,
 * stream and hyper-parameters, and tt_member.snapshot = s + 1.
 *   cohort  the members of c so numbered, method independent
 *   state   those of `mine`: no optimiser slots; weights of the snapshot, history up to its epoch,
 *           best_loss its own validation loss. Finished; diverged where the snapshot was not taken.
 * Owner of both: the caller. Local. Errors: MEM. */
tt_err tt_snapshot_expand(const tt_cohort *c, const tt_state *mine, tt_cohort **cohort,
                          tt_state **state);
#ifdef __cplusplus
}
#endif
#endif
