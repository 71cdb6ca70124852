/* heads.h — several members from one trained member: its output layers, each with the layers before
 * it (Lee et al., "Why M heads are better than one", 2015). */
#ifndef TT_HEADS_H
#define TT_HEADS_H
#include "core/model/cohort.h"
TT_BEGIN_C

/* Turn the S = tt_cohort_expansion(c) heads of each trained member of `mine` into members, so that
 * metrics and files treat them as members: head s of member m becomes member m * S + s, with the
 * index, stream and hyper-parameters of m, and tt_member.head = s + 1.
 *   cohort  all members of c, expanded; one head
 *   state   the members of `mine`, expanded: no optimizer slots; the weights of a head, and the
 *           losses and the status of m
 * Owner of both: the caller. Local. Errors: MEM. */
tt_err tt_heads_expand(const tt_cohort *c, const tt_state *mine, tt_cohort **cohort,
                       tt_state **state);
TT_END_C
#endif
