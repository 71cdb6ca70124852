/* group_scores.h — how the scores of the groups of `by` are distributed, from results.h5. Local. */
#ifndef TT_GROUP_SCORES_H
#define TT_GROUP_SCORES_H
#include "core/base/err.h"

/* Whether a results.h5 has groups; 0 also if there is no such file. */
int tt_group_scores_exist(const char *file);
/* Some lines of text about each column: quartiles, the best and worst groups, a histogram; never
 * a line for each group. Owner of *text: the caller, free. Errors: DATA, IO, MEM. */
tt_err tt_group_scores_text(const char *file, char **text);
#endif
