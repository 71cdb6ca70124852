/* source.c — see source.h. */
#include "io/data/source.h"

#include "core/base/mem.h"
#include "core/model/column_choice.h"
#include "io/data/raw_data.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

tt_err tt_source_open_local(const char *file, const tt_table_format *format, tt_source *out)
{
  *out = (tt_source){0};
  return tt_table_is_table(file) ? tt_table_open_local(file, format, &out->table)
                                 : tt_h5_open_local(file, &out->h5);
}

void tt_source_close_local(tt_source *s)
{
  tt_h5_close_local(&s->h5);
  tt_table_close_local(&s->table);
}

const char *tt_source_file_name(const tt_source *s)
{
  return s->table ? s->table->file : tt_h5_file_name(s->h5);
}

int tt_source_has_local(const tt_source *s, const char *name)
{
  const tt_table *t = s->table;
  if (!t) return tt_h5_has_local(s->h5, name);
  for (int64_t k = 0; k < t->columns; k++)
    if (!strcmp(t->name[k], name) || (t->group && t->group[k] && !strcmp(t->group[k], name)))
      return 1;
  return 0;
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
  for (int64_t k = 0; !e && k < m->columns; k++) e = tt_table_use_local(t, m->from[k], role->kind);
  if (!e) e = check_rows(t, role->name, m);
  if (!e) m->rows = t->rows[m->from[0]];
  if (e) tt_source_matrix_free(m);
  return e;
}

tt_err tt_source_matrix_open_local(const tt_source *s, const tt_source_role *role, const char *path,
                                   tt_source_matrix *out)
{
  tt_h5_matrix h5;
  if (s->table) return open_columns(s->table, role, path, out);
  TT_TRY(tt_h5_matrix_open_local(s->h5, role->name, path, &h5));
  *out =
      (tt_source_matrix){.path = path, .rows = h5.rows, .columns = h5.columns, .bytes = h5.bytes};
  return TT_OK;
}

void tt_source_matrix_free(tt_source_matrix *m) { tt_free(m->from); }

tt_err tt_source_matrix_read_local(const tt_source *s, const tt_source_matrix *m, int64_t first,
                                   int64_t count, double *value)
{
  const tt_h5_matrix h5 = {m->path, m->rows, m->columns, m->bytes};
  if (!s->table) return tt_h5_matrix_read_local(s->h5, &h5, first, count, value);
  TT_TRY(tt_table_read_local(s->table, first, count, m->columns, m->from, value));
  tt_data_count_bytes_local(count * m->columns * m->bytes);
  return TT_OK;
}

void tt_source_mark_local(const tt_source *s, const char *list, uint8_t *in_use)
{
  const tt_column_names names = names_of(s->table);
  const tt_column_request want = {"", list, NULL};
  int64_t *column = NULL, count = 0;
  if (!tt_columns_choose(&names, &want, &column, &count))
    for (int64_t k = 0; k < count; k++) in_use[column[k]] = 1;
  tt_free(column);
}

void tt_row_place(const char *file, const char *path, int64_t row, int64_t column, const char *name,
                  char *text, int64_t room)
{
  snprintf(text, (size_t)room, "%s: dataset '%s', row %" PRId64 ", column %" PRId64 "%s%s%s", file,
           path, row, column, name ? " ('" : "", name ? name : "", name ? "')" : "");
}

const char *tt_source_place_local(const tt_source *s, const tt_source_matrix *m, int64_t row,
                                  int64_t column, const char *name, char *text, int64_t room)
{
  size_t size = (size_t)room;
  if (s->table) {
    tt_table_place_local(s->table, row, text, room);
    size_t used = strlen(text);
    snprintf(text + used, size - used, ": %s '%s'", s->table->noun,
             s->table->name[m->from[column]]);
  } else {
    tt_row_place(tt_h5_file_name(s->h5), m->path, row, column, name, text, room);
  }
  return text;
}
