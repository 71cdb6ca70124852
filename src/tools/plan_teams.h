/* plan_teams.h — `tutti plan` of members that several ranks train together. Local. */
#ifndef TT_TOOLS_PLAN_TEAMS_H
#define TT_TOOLS_PLAN_TEAMS_H
#include "core/model/cohort.h"

#include <stdio.h>

/* How the ranks of a team share the members of each cohort, what it can bring at most, and what a
 * rank sends.
 *   ranks   of the largest team
 *   stages  1: they share the layers, 0: the parts of a batch */
void tt_plan_print_team(FILE *out, const tt_cohorts *all, int ranks, int stages);

/* What run.ranks_per_member and run.stages would bring where there are more ranks than members. */
void tt_plan_print_choice(FILE *out, const tt_cohorts *all, int ranks);
#endif
