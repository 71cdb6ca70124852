/* snapshot.h — several members from one trained member. Snapshot ensembles: its weights at the ends
 * of its cycles (Huang et al., "Snapshot ensembles: train 1, get M for free", ICLR 2017). Heads:
 * its output layers, each with the layers before it (Lee et al., "Why M heads are better than one",
 * 2015). */
#ifndef TT_SNAPSHOT_H
#define TT_SNAPSHOT_H
#include "core/model/cohort.h"
TT_BEGIN_C

/* Turn the S = tt_cohort_expansion(c) snapshots or heads of each trained member of `mine` into
 * members, so that metrics and files treat them as members: number s of member m becomes member
 * m * S + s, with the index, stream and hyper-parameters of m, and tt_member.snapshot = s + 1.
 *   cohort  all members of c, expanded; method independent, one head
 *   state   the members of `mine`, expanded: no optimizer slots. Of a snapshot: its weights, the
 *           losses up to its epoch, best_loss is its validation loss; finished, or diverged if the
 *           snapshot does not exist. Of a head: its weights, and the losses and the status of m
 * Owner of both: the caller. Local. Errors: MEM. */
tt_err tt_snapshot_expand(const tt_cohort *c, const tt_state *mine, tt_cohort **cohort,
                          tt_state **state);
TT_END_C
#endif
