/* diagnostics.h — problems with ranks, GPUs and cores of a start, each with its fix. All local. */
#ifndef TT_DIAGNOSTICS_H
#define TT_DIAGNOSTICS_H
#include "src/host/resources.h"

enum { TT_DIAGNOSTIC_SIZE = 2048 };

typedef struct tt_diagnostic {
  char rank_list[48]; /* the first ranks with the problem, "0, 1, 2"; "" = the ranks as a whole */
  int ranks;          /* number of ranks with the problem */
  char text[TT_DIAGNOSTIC_SIZE];
} tt_diagnostic;

typedef struct tt_diagnostics {
  int64_t count, capacity;
  tt_diagnostic *all; /* [capacity] */
} tt_diagnostics;

/* An empty list for up to `capacity` different texts. Owner: the caller, tt_diagnostics_destroy.
 * Errors: MEM. */
tt_err tt_diagnostics_create(int64_t capacity, tt_diagnostics **out);
void tt_diagnostics_destroy(tt_diagnostics **f);

/* Add a problem of `rank` (-1: of the ranks as a whole). Ranks with the same text share one entry;
 * add them in ascending order. A new text is dropped when the list is full. */
void tt_diagnostics_add(tt_diagnostics *f, int rank, const char *text);

/* Add the problems of an inventory: ranks without a device, two ranks on one GPU, no GPU, too few
 * cores, different engines. At most 4 entries per rank and one for the ranks as a whole. */
void tt_diagnostics_check_inventory(tt_diagnostics *f, const tt_inventory *s,
                                    const tt_resource_request *request);

/* Print the numbered list on standard output; "no problems found" if it is empty. */
void tt_diagnostics_print(const tt_diagnostics *f);
#endif
