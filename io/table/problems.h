/* problems.h — all that is wrong in a table, in one message. All functions are local. */
#ifndef TT_PROBLEMS_H
#define TT_PROBLEMS_H
#include "core/base/err.h"

#include <stdint.h>

/* One cell or row. Texts are borrowed; characters that are not printable become '?'. */
typedef struct tt_problem {
  const char *place;  /* "t.csv:17: column 'a'" or "t.h5: dataset 'x', row 3, column 0" */
  int64_t number;     /* its line or row, for the list of further ones */
  const char *column; /* NULL: the whole row */
  const char *text;   /* of the cell; NULL: not shown */
  const char *what;   /* "is not a number" */
  const char *cure;   /* problems of a column with the same cure are told together */
  const char *option; /* of section data that accepts the cells, with the value for this column:
                         missing, categories, dates, inputs (it is left out), decimal; or NULL */
  const char *value;
} tt_problem;

typedef struct tt_problems tt_problems;
/* Owner: the caller, tt_problems_destroy (accepts NULL). Errors: MEM.
 *   rows  of the table */
tt_err tt_problems_create(int64_t rows, tt_problems **out);
void tt_problems_destroy(tt_problems **p);
void tt_problems_add(tt_problems *p, const tt_problem *one);

/* OK if there is none, else DATA: a line for each column and cure, with the first place, further
 * rows (TT_PROBLEM_EXAMPLES) and their number, and the line of YAML that accepts them. */
enum { TT_PROBLEM_EXAMPLES = 20 };
tt_err tt_problems_error(const tt_problems *p);
#endif
