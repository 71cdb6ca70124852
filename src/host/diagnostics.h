/* diagnostics.h — what is wrong with the way a program was started, each with its fix. Floor 4;
 * local. */
#ifndef TT_DIAGNOSTICS_H
#define TT_DIAGNOSTICS_H
#include "src/host/resources.h"

enum { TT_DIAGNOSTIC_SIZE = 2048 };

typedef struct tt_diagnostic {
  char rank_list[48]; /* the first ranks that have it, "0, 1, 2"; "" = all of them together */
  int ranks;          /* how many have it */
  char text[TT_DIAGNOSTIC_SIZE];
} tt_diagnostic;

typedef struct tt_diagnostics {
  int64_t count, capacity;
  tt_diagnostic *all; /* [room] */
} tt_diagnostics;

/* Room for `room` different findings. Owner: the caller, tt_diagnostics_destroy. Errors: MEM. */
tt_err tt_diagnostics_create(int64_t capacity, tt_diagnostics **out);
void tt_diagnostics_destroy(tt_diagnostics **f);

/* Rank `rank` (-1: all together) has this; ranks with the same words are listed together. Ranks
 * must come in ascending order for one text. What does not fit is dropped. */
void tt_diagnostics_add(tt_diagnostics *f, int rank, const char *text);

/* What a survey shows: ranks without a device, two on one GPU, no GPU, too few cores, different
 * engines. At most 4 findings a rank and one for all. */
void tt_diagnostics_check_inventory(tt_diagnostics *f, const tt_inventory *s,
                                    const tt_resource_request *request);

/* The list for people, numbered, on standard output; "nothing is wrong" if it is empty. */
void tt_diagnostics_print(const tt_diagnostics *f);
#endif
