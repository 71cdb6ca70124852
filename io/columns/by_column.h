/* by_column.h — options that choose a value for each column of the data: a word for all columns, or
 * a mapping from names and patterns to words (the kind BYCOLUMN of options.def). */
#ifndef TT_BY_COLUMN_H
#define TT_BY_COLUMN_H
#include "core/model/dataset.h"

/* One such option of a configuration. */
typedef struct tt_by_column {
  const char *option;         /* name for messages: "data.normalize" */
  const char *text;           /* its value in tt_config; NULL or "": otherwise, for all columns */
  const char *const *choices; /* names, ends in NULL */
  int otherwise;              /* choice of the columns that a mapping does not name */
} tt_by_column;

/* Choose for the columns of both lists; `b` may be NULL. A name has priority over a pattern, and an
 * earlier pattern over a later one.
 *   file  for messages;  to_a [a->count], to_b [b->count]
 * Local. Errors: DATA (a name or pattern without a column: the message has the nearest name and all
 * names; a name that occurs twice), MEM. */
tt_err tt_by_column_resolve(const tt_by_column *o, const char *file, const tt_columns *a,
                            const tt_columns *b, int8_t *to_a, int8_t *to_b);

/* 1 if the value is a mapping. */
int tt_by_column_is_mapping(const char *text);
#endif
