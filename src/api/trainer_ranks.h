/* trainer_ranks.h — a trainer on several ranks: members are divided, rows are gathered. With one
 * rank the functions return at once. Floor 5. */
#ifndef TT_TRAINER_RANKS_H
#define TT_TRAINER_RANKS_H
#include "src/api/trainer_batch.h"

/* Collective. Set t->comm; the ranks of a communicator of the program if the options say so.
 * Errors: UNAVAILABLE, MEM. */
tt_err tt_trainer_join(const tutti_trainer_options *o, tutti_trainer *t);

/* Collective. Set t->slice, the members of this rank. Errors: CONFIG (other options on another
 * rank), MEM. */
tt_err tt_trainer_divide(tutti_trainer *t);

/* Collective. Replace the rows of a batch by those of all ranks.
 *   labels  1: y and weight count
 *   before  result of this rank so far: the ranks vote
 *   first   the first row of this rank; may be NULL
 * Errors: `before` of a rank, USAGE, MEM. */
tt_err tt_trainer_gather_rows(tutti_trainer *t, tutti_batch *b, int labels, tt_err before,
                              int64_t *first);

/* Collective. all [M][bytes] from those of the members of each rank, `mine`, which may be `all`
 * itself where there is one rank. */
void tt_trainer_gather_members(const tutti_trainer *t, const void *mine, int64_t bytes, void *all);

/* *mine: where the members of this rank leave what is gathered: `all`, or memory for `values`
 * floats a member. Local. Errors: MEM. */
tt_err tt_trainer_own_floats(tutti_trainer *t, int64_t values, float *all, float **mine);
#endif
