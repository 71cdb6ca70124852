/* row_ids.c — see row_ids.h. */
#include "core/columns/row_ids.h"

#include "core/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tt_row_ids_free(tt_row_ids *ids)
{
  for (int64_t i = 0; ids->text && i < ids->rows; i++) tt_free(ids->text[i]);
  tt_free_all(&ids->text, &ids->number);
  ids->rows = 0;
}

static int is_whole_number(const char *text, int64_t *value)
{
  char again[24];
  *value = strtoll(text, NULL, 10);
  snprintf(again, sizeof again, "%" PRId64, *value);
  return !strcmp(again, text);
}

tt_err tt_row_ids_simplify(tt_row_ids *ids)
{
  int64_t value;
  if (!ids->text) return TT_OK;
  for (int64_t i = 0; i < ids->rows; i++)
    if (!is_whole_number(ids->text[i], &value)) return TT_OK;
  TT_TRY(TT_ALLOC(ids->number, ids->rows));
  for (int64_t i = 0; i < ids->rows; i++) {
    is_whole_number(ids->text[i], &ids->number[i]);
    tt_free(ids->text[i]);
  }
  tt_free(ids->text);
  return TT_OK;
}

typedef struct placed_id {
  const char *text;
  int64_t number, row;
} placed_id;

static int compare_ids(const void *a, const void *b)
{
  const placed_id *x = a, *y = b;
  int order =
      x->text ? strcmp(x->text, y->text) : (x->number > y->number) - (x->number < y->number);
  return order ? order : (x->row > y->row) - (x->row < y->row);
}

tt_err tt_row_ids_find_equal(const tt_row_ids *ids, int64_t *a, int64_t *b)
{
  placed_id *sorted = NULL;
  *a = *b = -1;
  TT_TRY(TT_ALLOC(sorted, ids->rows));
  for (int64_t i = 0; i < ids->rows; i++)
    sorted[i] = (placed_id){ids->text ? ids->text[i] : NULL, ids->number ? ids->number[i] : 0, i};
  qsort(sorted, (size_t)ids->rows, sizeof *sorted, compare_ids);
  for (int64_t i = 1; i < ids->rows; i++) {
    const placed_id *x = &sorted[i - 1], *y = &sorted[i];
    int equal = x->text ? !strcmp(x->text, y->text) : x->number == y->number;
    if (equal && (*b < 0 || y->row < *b)) *a = x->row, *b = y->row;
  }
  tt_free(sorted);
  return TT_OK;
}

const char *tt_row_ids_show(const tt_row_ids *ids, int64_t row, char *text, int64_t capacity)
{
  text[0] = '\0';
  if (row < ids->rows && ids->text)
    snprintf(text, (size_t)capacity, " (id '%s')", ids->text[row]);
  else if (row < ids->rows)
    snprintf(text, (size_t)capacity, " (id %" PRId64 ")", ids->number[row]);
  return text;
}
