/* diagnostics.h — what is wrong with the way a program was started, each with its fix. Floor 4;
 * local. */
#ifndef TT_FINDINGS_H
#define TT_FINDINGS_H
#include "src/host/resources.h"

enum { TT_FINDING_ROOM = 2048 };

typedef struct tt_finding {
  char who[48]; /* the first ranks that have it, "0, 1, 2"; "" = all of them together */
  int ranks;    /* how many have it */
  char text[TT_FINDING_ROOM];
} tt_finding;

typedef struct tt_findings {
  int64_t count, room;
  tt_finding *all; /* [room] */
} tt_findings;

/* Room for `room` different findings. Owner: the caller, tt_findings_destroy. Errors: MEM. */
tt_err tt_findings_create(int64_t room, tt_findings **out);
void tt_findings_destroy(tt_findings **f);

/* Rank `rank` (-1: all together) has this; ranks with the same words are listed together. Ranks
 * must come in ascending order for one text. What does not fit is dropped. */
void tt_findings_add(tt_findings *f, int rank, const char *text);

/* What a survey shows: ranks without a device, two on one GPU, no GPU, too few cores, different
 * engines. At most 4 findings a rank and one for all. */
void tt_findings_survey(tt_findings *f, const tt_survey *s, const tt_wish *wish);

/* The list for people, numbered, on standard output; "nothing is wrong" if it is empty. */
void tt_findings_print(const tt_findings *f);
#endif
