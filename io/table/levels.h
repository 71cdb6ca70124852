/* levels.h — the different texts of a column of a table: data.categories. All functions are local.
 */
#ifndef TT_LEVELS_H
#define TT_LEVELS_H
#include "core/base/err.h"

#include <stdint.h>

/* A text has a number, 0, 1, ... */
typedef struct tt_levels {
  int lists; /* 1: texts are not compared: each is added to the list, and its number is its place */
  int learns;      /* 1: another text is added to the list; 0: it is unknown */
  int zeros;       /* 1: an unknown text is the number -1; 0: an error */
  int are_classes; /* 1: of a target (data.classes), not of an input */
  int are_numbers; /* 1: cells are read as numbers, and there are no texts */
  int64_t count, capacity;
  char **text;     /* [count] owned, by their numbers */
  int64_t *sorted; /* [count] numbers in the order of the texts */
} tt_levels;

/* Number of a text, -1: it is unknown, or there are TT_MAX_LEVELS others. Characters of the text
 * that are not printable become '?', as in the files of models. Errors: MEM. */
tt_err tt_levels_find(tt_levels *l, char *text, int64_t *number);
/* Number of a text in *code, or the number that it writes if levels are numbers; NaN: the text
 * stands for a missing value; -1: unknown, with zeros.
 *   place  for messages
 * Errors: DATA (unknown, or no number), MEM. */
tt_err tt_levels_encode(tt_levels *l, const char *place, char *text, double *code);
/* Add a text to the end of the list. Errors: MEM. */
tt_err tt_levels_add(tt_levels *l, const char *text);
/* 1 if all texts are finite numbers; value[count] receives them.
 *   decimal  '.' or ',' */
int tt_levels_parse_numbers(const tt_levels *l, char decimal, double *value);
/* Whether a text stands for a missing value, whatever data.na says. */
int tt_levels_text_is_missing(const char *text);

/* Error of a text that tt_levels_find does not know, or that is too much.
 *   place  "t.csv:17: column 'a'" */
tt_err tt_levels_unknown_error(const tt_levels *l, const char *place, const char *text);
void tt_levels_free(tt_levels *l); /* accepts a zeroed struct */
#endif
