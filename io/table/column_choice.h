/* column_choice.h — which columns of a table the user means: names, patterns and exclusions. */
#ifndef TT_COLUMN_CHOICE_H
#define TT_COLUMN_CHOICE_H
#include "core/base/err.h"

#include <stdint.h>

/* Names of the columns of a file, as they are: names may be empty or occur twice. Borrowed. */
typedef struct tt_column_names {
  const char *file; /* for messages */
  int64_t count;
  char *const *name;        /* [count] */
  const char *const *group; /* [count] array that the column belongs to, or NULL; NULL: no arrays */
} tt_column_names;

/* What one option chooses. */
typedef struct tt_column_request {
  const char *option;    /* name for messages: "data.inputs" */
  const char *list;      /* items, separated by commas, quoted as in CSV */
  const uint8_t *in_use; /* [count] 1 = a pattern does not match this column; NULL: none */
} tt_column_request;

/* Choose columns. An item is the name of a column, the name of an array (all its columns), a
 * pattern with * ? or [...] as in the shell, or ! and one of these, which excludes columns. If all
 * items are exclusions, the others are chosen from all columns. Columns come in the order of the
 * items, those of one pattern in the order of the file. A pattern skips columns without a name.
 *   column  [*count] owner: the caller, tt_free
 * Local. Errors: USAGE (an item is empty, a quote is not closed), DATA (an item matches nothing:
 * the message has the nearest name; a chosen name occurs twice; nothing is left), MEM. */
tt_err tt_columns_choose(const tt_column_names *in, const tt_column_request *want, int64_t **column,
                         int64_t *count);

/* Set in_use[k] = 1 for the columns that an item of the list names without a pattern. Errors: as
 * above, but an item that names nothing is ignored. */
tt_err tt_columns_mark_named(const tt_column_names *in, const char *option, const char *list,
                             uint8_t *in_use);

/* Whether the list has more than one item, a pattern or an exclusion. */
int tt_column_list_is_pattern(const char *list);

/* Whether an item of the list names this text or matches it; exclusions are ignored. Used to find
 * what a list may refer to. */
int tt_column_list_matches(const char *list, const char *name);
#endif
