/* weigh.h — `tutti weigh`: member weights from a score of each member that another program gives,
 * for example the error of a simulation that runs with this member alone. */
#ifndef TT_WEIGH_H
#define TT_WEIGH_H
#include "io/table/table.h"
#include "mpi/comm.h"

/* In each ensemble, with the value of the option --value:
 * name, meaning */
#define TT_WEIGH_METHODS(X)                                                                        \
  X(top_k, "weight 1 for the members with the best VALUE scores, 0 for the others")                \
  X(threshold, "weight 1 for the members whose score is VALUE or better, 0 for the others")        \
  X(boltzmann, "weight exp(-|score - best score| / VALUE), as combine.method: weights")
typedef enum tt_weigh_method {
#define X(name, ...) TT_WEIGH_##name,
  TT_WEIGH_METHODS(X)
#undef X
      TT_WEIGH_METHOD_COUNT
} tt_weigh_method;

typedef struct tt_weigh_options {
  const char *model, *scores; /* files: the second is a table with columns member and score */
  const char *output;
  const char *method, *value, *better; /* as given: better is lower or higher; NULL: not given */
  tt_table_format format;
  int force;
} tt_weigh_options;

/* Collective. Write the model with other member weights; everything else in it stays. Every member
 * that did not diverge needs one score; an infinitely bad one gives it weight 0. Errors: USAGE (an
 * option), NOINPUT, DATA (a member that is missing, unknown or named twice, a score that is
 * missing: all of them, with file and line; an ensemble would have no member), CANTCREAT, IO, MEM.
 */
tt_err tt_weigh(tt_comm *c, const tt_weigh_options *o);
#endif
