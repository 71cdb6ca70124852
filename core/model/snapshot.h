/* snapshot.h — snapshot ensembles: the weights of a member at the ends of its cycles become
 * members. Huang et al., "Snapshot ensembles: train 1, get M for free", ICLR 2017. */
#ifndef TT_SNAPSHOT_H
#define TT_SNAPSHOT_H
#include "core/model/cohort.h"
TT_BEGIN_C

/* Turn the S = c->snapshots snapshots of each trained member of `mine` into members, so that
 * metrics and files treat them as members: snapshot s of member m becomes member m * S + s, with
 * the index, stream and hyper-parameters of m, and tt_member.snapshot = s + 1. cohort  all members
 * of c, expanded; method independent state   the members of `mine`, expanded: no optimiser slots;
 * weights of the snapshot, losses up to its epoch, best_loss is the validation loss of the
 * snapshot. Status finished, or diverged if the snapshot does not exist. Owner of both: the caller.
 * Local. Errors: MEM. */
tt_err tt_snapshot_expand(const tt_cohort *c, const tt_state *mine, tt_cohort **cohort,
                          tt_state **state);
TT_END_C
#endif
