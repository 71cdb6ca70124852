/* levels.c — see levels.h. */
#include "io/table/levels.h"

#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/formulas/categories.h"
#include "io/table/table_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Place of the text in sorted[], or where it belongs. */
static int64_t search(const tt_levels *l, const char *text, int *found)
{
  int64_t low = 0, high = l->count;
  *found = 0;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    int order = strcmp(l->text[l->sorted[middle]], text);
    if (order == 0) return *found = 1, middle;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static tt_err insert(tt_levels *l, const char *text, int64_t position)
{
  int64_t capacity = l->capacity;
  TT_TRY(TT_GROW(l->text, l->count, 1, capacity));
  TT_TRY(TT_GROW(l->sorted, l->count, 1, l->capacity));
  TT_TRY(tt_text_set(&l->text[l->count], text));
  memmove(l->sorted + position + 1, l->sorted + position,
          (size_t)(l->count - position) * sizeof *l->sorted);
  l->sorted[position] = l->count++;
  return TT_OK;
}

tt_err tt_levels_find(tt_levels *l, char *text, int64_t *number)
{
  int found;
  tt_text_make_printable(text, "");
  *number = l->count;
  if (l->lists) return insert(l, text, l->count);
  int64_t position = search(l, text, &found);
  *number = found ? l->sorted[position] : -1;
  if (found || !l->learns || l->count >= TT_MAX_LEVELS) return TT_OK;
  *number = l->count;
  return insert(l, text, position);
}

tt_err tt_levels_add(tt_levels *l, const char *text)
{
  int found;
  int64_t position = search(l, text, &found);
  return insert(l, text, position);
}

int tt_levels_parse_numbers(const tt_levels *l, char decimal, double *value)
{
  for (int64_t k = 0; k < l->count; k++) {
    const char *after = tt_number_parse(l->text[k], decimal, &value[k]);
    if (!after || *after || !isfinite(value[k])) return 0;
  }
  return 1;
}

int tt_levels_text_is_missing(const char *text)
{
  static const char *const usual[] = {"",    "NA",   "N/A",  "n/a",  "#N/A", "<NA>", "NaN", "nan",
                                      "NAN", "-nan", "null", "NULL", "None", "none", "-",   "?"};
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
    if (!strcmp(text, usual[i])) return 1;
  return 0;
}

tt_err tt_levels_unknown_error(const tt_levels *l, const char *place, const char *text)
{
  char shown[64], known[512] = "";
  snprintf(shown, sizeof shown, "%s", text);
  tt_text_make_printable(shown, "");
  if (l->learns)
    return TT_FAIL(
        DATA,
        "%s: '%s': the column has more than %d levels (data.categories); is it an amount "
        "or a name of rows?",
        place, shown, TT_MAX_LEVELS);
  for (int64_t k = 0; k < l->count; k++) {
    const char *level = l->text[l->sorted[k]];
    if (strlen(known) + strlen(level) + 8 >= sizeof known) break;
    tt_text_append(known, sizeof known, ", ", level);
  }
  if (l->are_classes)
    return TT_FAIL(DATA, "%s: '%s' is none of the classes (%s); data.classes lists them", place,
                   shown, known);
  return TT_FAIL(DATA,
                 "%s: '%s' is no level of the training rows (%s); data.categories: zeros accepts "
                 "other levels",
                 place, shown, known);
}

tt_err tt_levels_encode(tt_levels *l, const char *place, char *text, double *code)
{
  const tt_levels one = {.count = 1, .text = &text};
  int64_t number;
  *code = NAN;
  if (tt_levels_text_is_missing(text)) return TT_OK;
  if (l->are_numbers) {
    if (tt_levels_parse_numbers(&one, '.', code)) return TT_OK;
    return TT_FAIL(DATA, "%s: '%s' is not a number, as the levels of the training rows are", place,
                   text);
  }
  TT_TRY(tt_levels_find(l, text, &number));
  *code = (double)number;
  return number >= 0 || l->zeros ? TT_OK : tt_levels_unknown_error(l, place, text);
}

void tt_levels_free(tt_levels *l)
{
  for (int64_t k = 0; l->text && k < l->count; k++) tt_free(l->text[k]);
  tt_free_all(&l->text, &l->sorted);
  l->count = l->capacity = 0;
}
