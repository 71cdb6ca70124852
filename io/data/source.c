/* source.c — see source.h. */
#include "io/data/source.h"

#include "core/base/mem.h"
#include "io/data/h5_table.h"
#include "io/data/raw_data.h"
#include "io/table/column_choice.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

tt_err tt_source_open_local(const char *file, const tt_table_format *format, tt_source *out)
{
  *out = (tt_source){0};
  return tt_table_is_table(file) || (format && format->any_name)
             ? tt_table_open_local(file, format, &out->table)
             : tt_h5_open_local(file, &out->h5);
}

void tt_source_close_local(tt_source *s)
{
  tt_table_close_local(&s->table);
  tt_h5_close_local(&s->h5);
}

const char *tt_source_file_name(const tt_source *s)
{
  return s->h5 ? tt_h5_file_name(s->h5) : s->table->file;
}

static int has_column(const tt_table *t, const char *name)
{
  for (int64_t k = 0; k < t->columns; k++)
    if (!strcmp(t->name[k], name) || (t->group && t->group[k] && !strcmp(t->group[k], name)))
      return 1;
  return 0;
}

int tt_source_has_local(const tt_source *s, const char *name)
{
  return s->h5 ? tt_h5_has_local(s->h5, name) : has_column(s->table, name);
}

tt_err tt_source_table_local(tt_source *s, tt_table **out)
{
  if (!s->table) TT_TRY(tt_h5_table_open_local(s->h5, &s->table));
  *out = s->table;
  return TT_OK;
}

tt_err tt_source_is_by_column_local(tt_source *s, const char *path, int *out)
{
  tt_table *t;
  *out = !s->h5;
  if (!s->h5 || tt_h5_has_local(s->h5, path)) return TT_OK;
  TT_TRY(tt_source_table_local(s, &t));
  *out = tt_column_list_is_pattern(path) || has_column(t, path);
  return TT_OK;
}

static tt_column_names names_of(const tt_table *t)
{
  return (tt_column_names){
      .file = t->file, .count = t->columns, .name = t->name, .group = t->group};
}

/* All columns of a matrix have the same rows. */
static tt_err check_rows(const tt_table *t, const char *role, const tt_source_matrix *m)
{
  for (int64_t k = 1; k < m->columns; k++)
    if (t->rows[m->from[k]] != t->rows[m->from[0]])
      return TT_FAIL(DATA,
                     "%s: %s: %s '%s' has %" PRId64 " rows, but '%s' has %" PRId64
                     "; all columns must have the same rows",
                     t->file, role, t->noun, t->name[m->from[0]], t->rows[m->from[0]],
                     t->name[m->from[k]], t->rows[m->from[k]]);
  return TT_OK;
}

static tt_err open_columns(tt_table *t, const tt_source_role *role, const char *path,
                           tt_source_matrix *m)
{
  const tt_column_names names = names_of(t);
  const tt_column_request want = {role->name, path, role->in_use};
  *m = (tt_source_matrix){.path = path, .bytes = sizeof(double)};
  tt_err e = tt_columns_choose(&names, &want, &m->from, &m->columns);
  for (int64_t k = 0; !e && role->kind != TT_CELL_UNUSED && k < m->columns; k++)
    e = tt_table_use_local(t, m->from[k], role->kind);
  if (!e) e = check_rows(t, role->name, m);
  if (!e) m->rows = t->rows[m->from[0]];
  if (e) tt_source_matrix_free(m);
  return e;
}

tt_err tt_source_dataset_open_local(tt_h5_reader *r, const char *role, const char *path,
                                    tt_source_matrix *out)
{
  tt_h5_info info;
  const char *file = tt_h5_file_name(r);
  TT_TRY(tt_h5_dataset_info_local(r, path, &info));
  if (info.kind != TT_H5_FLOAT && info.kind != TT_H5_INTEGER)
    return TT_FAIL(DATA, "%s: dataset '%s' (%s) does not hold numbers but %s", file, path, role,
                   info.kind == TT_H5_TEXT ? "text" : "another type");
  if (info.ndims < 1 || info.ndims > 2)
    return TT_FAIL(DATA, "%s: dataset '%s' (%s) has %d axes; it must have rows x columns, or rows",
                   file, path, role, info.ndims);
  *out = (tt_source_matrix){.path = path,
                            .rows = info.dims[0],
                            .columns = info.ndims == 2 ? info.dims[1] : 1,
                            .bytes = info.bytes};
  if (out->columns < 1)
    return TT_FAIL(DATA, "%s: dataset '%s' (%s) has no columns", file, path, role);
  return TT_OK;
}

tt_err tt_source_matrix_open_local(tt_source *s, const tt_source_role *role, const char *path,
                                   tt_source_matrix *out)
{
  tt_table *t;
  int by_column = role->by_column;
  if (!by_column) TT_TRY(tt_source_is_by_column_local(s, path, &by_column));
  if (!by_column) return tt_source_dataset_open_local(s->h5, role->name, path, out);
  TT_TRY(tt_source_table_local(s, &t));
  return open_columns(t, role, path, out);
}

static _Atomic int64_t bytes_read;
int64_t tt_data_bytes_read_local(void) { return bytes_read; }

void tt_source_matrix_free(tt_source_matrix *m) { tt_free(m->from); }

tt_err tt_source_matrix_read_local(const tt_source *s, const tt_source_matrix *m, int64_t first,
                                   int64_t count, double *value)
{
  if (!m->from && count == 0) return TT_OK;
  TT_TRY(m->from ? tt_table_read_local(s->table, first, count, m->columns, m->from, value)
                 : tt_h5_read_rows_local(s->h5, m->path, TT_H5_F64, first, count, value));
  bytes_read += count * m->columns * m->bytes;
  return TT_OK;
}

tt_err tt_source_column_open_local(tt_source *s, const char *role, tt_cell_kind kind,
                                   const char *path, int64_t rows, tt_source_matrix *out)
{
  const tt_source_role use = {role, kind, NULL, 0};
  TT_TRY(tt_source_matrix_open_local(s, &use, path, out));
  if (out->columns == 1 && out->rows == rows) return TT_OK;
  tt_source_matrix_free(out);
  return TT_FAIL(DATA,
                 "%s: dataset '%s' (%s) is %" PRId64 " x %" PRId64 "; it must have one value for "
                 "each of the %" PRId64 " rows",
                 tt_source_file_name(s), path, role, out->rows, out->columns, rows);
}

tt_err tt_source_column_read_local(tt_source *s, const char *role, tt_cell_kind kind,
                                   const char *path, int64_t rows, double *value)
{
  tt_source_matrix m;
  TT_TRY(tt_source_column_open_local(s, role, kind, path, rows, &m));
  tt_err e = tt_source_matrix_read_local(s, &m, 0, rows, value);
  tt_source_matrix_free(&m);
  return e;
}

void tt_row_place(const char *file, const char *path, int64_t row, int64_t column, const char *name,
                  char *text, int64_t capacity)
{
  snprintf(text, (size_t)capacity, "%s: dataset '%s', row %" PRId64 ", column %" PRId64 "%s%s%s",
           file, path, row, column, name ? " ('" : "", name ? name : "", name ? "')" : "");
}

const char *tt_source_place_local(const tt_source *s, const tt_source_matrix *m, int64_t row,
                                  int64_t column, const char *name, char *text, int64_t capacity)
{
  size_t size = (size_t)capacity;
  if (m->from) {
    tt_table_place_local(s->table, row, text, capacity);
    size_t used = strlen(text);
    snprintf(text + used, size - used, ": %s '%s'", s->table->noun,
             s->table->name[m->from[column]]);
  } else {
    tt_row_place(tt_h5_file_name(s->h5), m->path, row, column, name, text, capacity);
  }
  return text;
}
