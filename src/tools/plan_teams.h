/* plan_teams.h — `tutti plan` of members that several ranks train together. Local. */
#ifndef TT_TOOLS_PLAN_TEAMS_H
#define TT_TOOLS_PLAN_TEAMS_H
#include "core/model/cohort.h"

#include <stdio.h>

/* The slowest link that `tutti doctor --json` has measured. */
typedef struct tt_plan_link {
  double latency, bandwidth; /* seconds of a message; bytes per second */
} tt_plan_link;

/* Read it from the file that doctor has written. Errors: NOINPUT, DATA (also a file without links,
 * as doctor writes on one rank). */
tt_err tt_plan_link_read_local(const char *path, tt_plan_link *out);

/* How the ranks of a team share the members of each cohort, what it can bring at most, and what a
 * rank sends.
 *   ranks   of the largest team
 *   stages  run.stages: they share the layers in up to so many stages; 1: only the parts of a batch
 *   link    between ranks: how long the exchange of a step takes, and from which time of a step on
 *           the team is faster than one rank; NULL: not known */
void tt_plan_print_team(FILE *out, const tt_cohorts *all, int ranks, int stages,
                        const tt_plan_link *link);

/* What run.ranks_per_member and run.stages would bring where there are more ranks than members. */
void tt_plan_print_choice(FILE *out, const tt_cohorts *all, int ranks, const tt_plan_link *link);
#endif
