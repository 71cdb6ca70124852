/* row_ids.h — the ids that rows have in the data of the user (data.id). Floor 1. */
#ifndef TT_ROW_IDS_H
#define TT_ROW_IDS_H
#include "core/base/err.h"

#include <stdint.h>
TT_BEGIN_C

/* Texts, or whole numbers if all ids are whole numbers. Zeroed: no ids. */
typedef struct tt_row_ids {
  int64_t rows;
  char **text;     /* [rows] as in the data, owned; NULL: whole numbers */
  int64_t *number; /* [rows] owned; NULL: texts */
} tt_row_ids;

void tt_row_ids_free(tt_row_ids *ids); /* accepts a zeroed struct */

/* Texts that are all whole numbers as programs write them ("17", "-3", not "017") become numbers.
 * Errors: MEM. */
tt_err tt_row_ids_simplify(tt_row_ids *ids);

/* Find two rows with the same id, a < b; *b = -1: all ids are different. Errors: MEM. */
tt_err tt_row_ids_find_equal(const tt_row_ids *ids, int64_t *a, int64_t *b);

/* The id of a row for messages, " (id 'x17')"; "" without ids. Returns text. */
const char *tt_row_ids_show(const tt_row_ids *ids, int64_t row, char *text, int64_t capacity);
TT_END_C
#endif
