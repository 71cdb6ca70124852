/* known_inputs.h — a set of rows of inputs, which tells whether another row has the same inputs.
 * Local. */
#ifndef TT_KNOWN_INPUTS_H
#define TT_KNOWN_INPUTS_H
#include "core/columns/net_inputs.h"

typedef struct tt_known_inputs tt_known_inputs;

/* An empty set.
 *   rows  the most rows that will be added
 *   net   levels of the inputs, borrowed; NULL: all are amounts
 * Owner: the caller. Errors: MEM. */
tt_err tt_known_inputs_create(int64_t inputs, int64_t rows, const tt_net_inputs *net,
                              tt_known_inputs **out);
void tt_known_inputs_destroy(tt_known_inputs **k); /* accepts NULL */

/* add: x [D] in the user's units, unless a row with the same inputs is there.
 * find: the `id` of the row with the same inputs, -1 = there is none.
 * 0 and -0 are the same, and all NaN. A text that is no level has the value -1, as other texts
 * have: such rows are the same only if their number `row` is the same too.
 *   id  0 or more */
void tt_known_inputs_add(tt_known_inputs *k, int64_t id, int64_t row, const double *x);
int64_t tt_known_inputs_find(tt_known_inputs *k, int64_t row, const double *x);
#endif
