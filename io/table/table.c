/* table.c — see table.h. */
#include "io/table/table_internal.h"

#include "core/base/mem.h"
#include "core/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int is_csv(const char *file)
{
  return tt_text_ends_in(file, ".csv") || tt_text_ends_in(file, ".tsv") ||
         tt_text_ends_in(file, ".csv.gz") || tt_text_ends_in(file, ".tsv.gz");
}

int tt_table_is_table(const char *file)
{
  return is_csv(file) || tt_text_ends_in(file, ".npy") || tt_text_ends_in(file, ".npz");
}

static tt_err open_kind(const char *file, const tt_table_format *format, tt_table *t)
{
  TT_TRY(tt_text_set(&t->file, file));
  t->noun = "column";
  if (tt_text_ends_in(file, ".npy")) return tt_npy_table_open_local(t);
  if (tt_text_ends_in(file, ".npz")) return tt_npz_table_open_local(t);
  return tt_csv_table_open_local(format, t);
}

tt_err tt_table_open_local(const char *file, const tt_table_format *format, tt_table **out)
{
  static const tt_table_format usual;
  tt_table *t = NULL;
  TT_TRY(TT_ALLOC(t, 1));
  tt_err e = open_kind(file, format ? format : &usual, t);
  if (e) tt_table_close_local(&t);
  *out = t;
  return e;
}

void tt_table_close_local(tt_table **t)
{
  if (!*t) return;
  if ((*t)->own) (*t)->close((*t)->own);
  for (int64_t k = 0; (*t)->name && k < (*t)->columns; k++) tt_free((*t)->name[k]);
  tt_free((*t)->marks.mark);
  tt_free_all(&(*t)->file, &(*t)->name, &(*t)->group, &(*t)->rows, &(*t)->hidden, &(*t)->levels, t);
}

tt_err tt_table_find(const tt_table *t, const char *name, int64_t *column)
{
  *column = -1;
  for (int64_t k = 0; k < t->columns; k++) {
    if (strcmp(t->name[k], name)) continue;
    if (*column >= 0)
      return TT_FAIL(
          DATA, "%s: columns %" PRId64 " and %" PRId64 " are both named '%s'; rename one of them",
          t->file, *column + 1, k + 1, name);
    *column = k;
  }
  return TT_OK;
}

tt_err tt_table_use_local(tt_table *t, int64_t column, tt_cell_kind kind)
{
  int is_class = t->levels && t->levels[column] && t->levels[column]->are_classes;
  if (is_class && kind != TT_CELL_LEVEL) return TT_OK; /* announced before, as what it is */
  if (tt_text_is_utf8(t->name[column])) return t->use(t, column, kind);
  return TT_FAIL(DATA, "%s: the name of column %" PRId64 " is not UTF-8; " TT_TO_UTF8, t->file,
                 column + 1);
}

tt_err tt_table_use_levels_local(tt_table *t, int64_t column, tt_levels *levels)
{
  if (!t->levels) TT_TRY(TT_ALLOC(t->levels, t->columns));
  t->levels[column] = levels;
  return tt_table_use_local(t, column, levels->are_numbers ? TT_CELL_LABEL : TT_CELL_LEVEL);
}

tt_err tt_table_read_local(tt_table *t, int64_t first, int64_t count, int64_t n,
                           const int64_t *column, double *value)
{
  for (int64_t k = 0; k < n; k++)
    if (first < 0 || count < 0 || first > t->rows[column[k]] - count)
      return TT_FAIL(
          DATA, "%s: rows %" PRId64 " to %" PRId64 " are out of range: %s '%s' has %" PRId64,
          t->file, first, first + count - 1, t->noun, t->name[column[k]], t->rows[column[k]]);
  return count ? t->read(t, first, count, n, column, value) : TT_OK;
}

const char *tt_table_place_local(tt_table *t, int64_t row, char *text, int64_t capacity)
{
  snprintf(text, (size_t)capacity, "%s: row %" PRId64 " (from 0)", t->file, row);
  if (t->place) t->place(t, row, text, capacity);
  return text;
}

void tt_table_write_cell(const char *text, FILE *out)
{
  int quoted = text[strcspn(text, ",\";\t\r\n# ")] != '\0';
  if (quoted) fputc('"', out);
  for (; *text; text++) {
    if (*text == '"') fputc('"', out);
    fputc(*text, out);
  }
  if (quoted) fputc('"', out);
}
