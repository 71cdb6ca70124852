/* ids.c — the ids of rows (data.id), and the values of `by`; see data.h and data_internal.h. */
#include "io/data/data_internal.h"

#include "core/base/list.h"
#include "core/base/mem.h"
#include "core/groups/by_groups.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum { CHUNK_ROWS = 4096, PLACE = TT_ERR_MESSAGE_SIZE / 3 };

/* The column of ids in an open file. Texts are listed while they are read: the value of a row is
 * then its place in the list. */
typedef struct id_column {
  tt_source source;
  tt_source_matrix m;
  tt_levels texts;
  const char *name, *option;
} id_column;

static tt_err open_column(const char *file, const tt_table_format *format, id_column *c)
{
  const tt_source_role role = {c->option, TT_CELL_UNUSED, NULL, 1};
  tt_table *t;
  TT_TRY(tt_source_open_local(file, format, &c->source));
  TT_TRY(tt_source_table_local(&c->source, &t));
  TT_TRY(tt_source_matrix_open_local(&c->source, &role, c->name, &c->m));
  if (c->m.columns != 1)
    return TT_FAIL(DATA, "%s: %s: '%s' is %" PRId64 " columns; give the name of one", file,
                   c->option, c->name, c->m.columns);
  c->texts.lists = 1;
  return tt_table_use_levels_local(t, c->m.from[0], &c->texts);
}

static void close_column(id_column *c)
{
  tt_levels_free(&c->texts);
  tt_source_matrix_free(&c->m);
  tt_source_close_local(&c->source);
}

static tt_err bad_id(const id_column *c, int64_t row, const char *what, const char *cure)
{
  char place[PLACE];
  tt_source_place_local(&c->source, &c->m, row, 0, c->name, place, sizeof place);
  return TT_FAIL(DATA, "%s: %s; %s", place, what, cure);
}

/* Values of rows [first, first + count): places in the list of texts, or whole numbers; into the
 * entries of `ids` from `offset` on. */
static tt_err take_values(id_column *c, int64_t first, int64_t count, const double *value,
                          int64_t offset, tt_row_ids *ids)
{
  char what[96];
  int is_id = !strcmp(c->option, "data.id");
  for (int64_t i = 0; i < count; i++) {
    if (isnan(value[i])) {
      snprintf(what, sizeof what, "the %s is missing (%s)", is_id ? "id" : "value", c->option);
      return bad_id(c, first + i, what,
                    is_id ? "give each row an id, or leave the column out"
                          : "give the row one, or leave it out");
    }
    if (c->texts.count) {
      char **src = &c->texts.text[(int64_t)value[i]];
      ids->text[offset + i] = *src;
      *src = NULL;
    } else if (fabs(value[i]) > 9007199254740992.0 || value[i] != floor(value[i])) {
      snprintf(what, sizeof what, "%.17g is no %s (%s)", value[i], is_id ? "id" : "group",
               c->option);
      return bad_id(c, first + i, what, "give texts, or whole numbers up to 2^53");
    } else {
      ids->number[offset + i] = (int64_t)value[i];
    }
  }
  return TT_OK;
}

static tt_err read_values(id_column *c, tt_row_ids *ids)
{
  double *value = NULL;
  TT_TRY(TT_ALLOC(value, CHUNK_ROWS));
  tt_err e = TT_OK;
  for (int64_t first = 0; !e && first < ids->rows; first += CHUNK_ROWS) {
    int64_t count = ids->rows - first < CHUNK_ROWS ? ids->rows - first : CHUNK_ROWS;
    e = tt_source_matrix_read_local(&c->source, &c->m, first, count, value);
    if (!e && !ids->text && !ids->number)
      e = c->texts.count ? TT_ALLOC(ids->text, ids->rows) : TT_ALLOC(ids->number, ids->rows);
    if (!e) e = take_values(c, first, count, value, first, ids);
  }
  tt_free(value);
  return e;
}

static tt_err check_different(const id_column *c, const tt_row_ids *ids)
{
  char what[700], shown[96], place[512];
  int64_t a, b;
  TT_TRY(tt_row_ids_find_equal(ids, &a, &b));
  if (b < 0) return TT_OK;
  tt_source_place_local(&c->source, &c->m, a, 0, c->name, place, sizeof place);
  snprintf(what, sizeof what, "another row has the same id%s: %s",
           tt_row_ids_show(ids, b, shown, sizeof shown), place);
  return bad_id(c, b, what,
                "each row has an id of its own (data.id); data.split.group is for rows that belong "
                "together");
}

tt_err tt_data_read_ids_local(const char *file, const tt_table_format *format, const char *column,
                              int64_t rows, tt_row_ids *out)
{
  id_column c = {.name = column, .option = "data.id"};
  *out = (tt_row_ids){0};
  tt_err e = open_column(file, format, &c);
  if (!e && c.m.rows != rows)
    e = TT_FAIL(DATA, "%s: '%s' (data.id) has %" PRId64 " rows, the inputs have %" PRId64, file,
                column, c.m.rows, rows);
  if (!e) out->rows = rows;
  if (!e) e = read_values(&c, out);
  if (!e) e = tt_row_ids_simplify(out);
  if (!e) e = check_different(&c, out);
  close_column(&c);
  if (e) tt_row_ids_free(out);
  return e;
}

/* Read them in the order of the caller: rows near each other are parsed together only if they
 * follow each other. */
static tt_err read_some(id_column *c, int64_t count, const int64_t *row, char **text)
{
  char number[32];
  double value;
  for (int64_t i = 0; i < count; i++) {
    tt_row_ids one = {0};
    TT_TRY(tt_source_matrix_read_local(&c->source, &c->m, row[i], 1, &value));
    int is_text = c->texts.count > 0;
    if (is_text) one.text = &text[i];
    int64_t whole = 0;
    if (!is_text) one.number = &whole;
    TT_TRY(take_values(c, row[i], 1, &value, 0, &one));
    snprintf(number, sizeof number, "%" PRId64, whole);
    if (!is_text) TT_TRY(tt_text_set(&text[i], number));
  }
  return TT_OK;
}

tt_err tt_data_read_some_ids_local(const char *file, const tt_table_format *format,
                                   const char *column, int64_t count, const int64_t *row,
                                   char **text)
{
  id_column c = {.name = column, .option = "data.id"};
  tt_err e = open_column(file, format, &c);
  if (!e) e = read_some(&c, count, row, text);
  close_column(&c);
  return e;
}

tt_err tt_data_job_ids_local(const tt_config *cfg, const tt_row_marks *marks, int64_t rows,
                             tt_row_ids *out)
{
  tt_table_format format = tt_data_format(cfg);
  format.marks = marks;
  if (!cfg->data_id || !*cfg->data_id) return TT_OK;
  return tt_data_read_ids_local(cfg->data_file, &format, cfg->data_id, rows, out);
}

/* Values of `by` */

/* A hash table of the names in `out`. */
typedef struct name_table {
  int64_t slots;    /* a power of two */
  int64_t capacity; /* of out->name */
  uint32_t *slot;   /* [slots] number of a name + 1; 0: empty */
  tt_by_values *out;
} name_table;

static uint64_t slot_of(const name_table *t, const char *name)
{
  return XXH3_64bits(name, strlen(name)) & (uint64_t)(t->slots - 1);
}

static tt_err grow(name_table *t)
{
  tt_by_values *v = t->out;
  TT_TRY(TT_GROW(v->name, v->count, 1, t->capacity));
  if (2 * v->count < t->slots) return TT_OK;
  t->slots = t->slots ? 2 * t->slots : 128;
  tt_free(t->slot);
  TT_TRY(TT_ALLOC(t->slot, t->slots));
  for (int64_t i = 0; i < v->count; i++) {
    uint64_t s = slot_of(t, v->name[i]);
    while (t->slot[s]) s = (s + 1) & (uint64_t)(t->slots - 1);
    t->slot[s] = (uint32_t)i + 1;
  }
  return TT_OK;
}

static tt_err find_name(name_table *t, const char *name, int32_t *number)
{
  TT_TRY(grow(t));
  tt_by_values *v = t->out;
  uint64_t s = slot_of(t, name);
  for (; t->slot[s]; s = (s + 1) & (uint64_t)(t->slots - 1))
    if (!strcmp(v->name[t->slot[s] - 1], name)) return *number = (int32_t)t->slot[s] - 1, TT_OK;
  TT_TRY(tt_text_set(&v->name[v->count], name));
  t->slot[s] = (uint32_t)++v->count;
  *number = (int32_t)v->count - 1;
  return TT_OK;
}

/* Name of the group of a row: its value, or the list of its values in several columns.
 *   ids   [columns] values of the rows of a chunk
 *   list  memory for the name, freed by the caller; the name is valid until the next call */
static tt_err name_row(int64_t columns, const tt_row_ids *ids, int64_t i, char **list,
                       const char **name)
{
  static _Thread_local char number[TT_BY_NUMBER_SIZE];
  tt_free(*list);
  for (int64_t k = 0; k < columns; k++) {
    if (ids[k].text) {
      *name = tt_by_name(ids[k].text[i], number);
    } else {
      snprintf(number, sizeof number, "%" PRId64, ids[k].number[i]);
      *name = number;
    }
    if (columns > 1) TT_TRY(tt_list_add(list, *name));
  }
  if (columns > 1) *name = *list;
  return TT_OK;
}

static tt_err read_chunk(id_column *c, int64_t first, int64_t count, double *value, tt_row_ids *ids)
{
  TT_TRY(tt_source_matrix_read_local(&c->source, &c->m, first, count, value));
  *ids = (tt_row_ids){.rows = count};
  TT_TRY(c->texts.count ? TT_ALLOC(ids->text, count) : TT_ALLOC(ids->number, count));
  return take_values(c, first, count, value, 0, ids);
}

static tt_err read_names(id_column *column, int64_t columns, tt_row_ids *ids, name_table *t)
{
  double *value = NULL;
  char *list = NULL;
  const char *name = "";
  tt_err e = TT_ALLOC(value, CHUNK_ROWS);
  for (int64_t first = 0; !e && first < t->out->rows; first += CHUNK_ROWS) {
    int64_t n = t->out->rows - first < CHUNK_ROWS ? t->out->rows - first : CHUNK_ROWS;
    for (int64_t k = 0; !e && k < columns; k++)
      e = read_chunk(&column[k], first, n, value, &ids[k]);
    for (int64_t i = 0; !e && i < n; i++) {
      e = name_row(columns, ids, i, &list, &name);
      if (!e) e = find_name(t, name, &t->out->number[first + i]);
    }
    for (int64_t k = 0; k < columns; k++) tt_row_ids_free(&ids[k]);
  }
  tt_free_all(&value, &list);
  return e;
}

tt_err tt_by_values_read_local(const char *file, const tt_table_format *format,
                               const tt_text_list *by, int64_t rows, tt_by_values *out)
{
  id_column *column = NULL;
  tt_row_ids *ids = NULL;
  name_table t = {.out = out};
  *out = (tt_by_values){.rows = rows};
  tt_err e = TT_ALLOC(column, by->count);
  if (!e) e = TT_ALLOC(ids, by->count);
  if (!e) e = TT_ALLOC(out->number, rows);
  for (int64_t k = 0; !e && k < by->count; k++) {
    column[k] = (id_column){.name = by->value[k], .option = "by"};
    e = open_column(file, format, &column[k]);
    if (!e && column[k].m.rows != rows)
      e = TT_FAIL(DATA, "%s: '%s' (by) has %" PRId64 " rows, the inputs have %" PRId64, file,
                  by->value[k], column[k].m.rows, rows);
  }
  if (!e) e = read_names(column, by->count, ids, &t);
  for (int64_t k = 0; column && k < by->count; k++) close_column(&column[k]);
  tt_free_all(&column, &ids, &t.slot);
  if (e) tt_by_values_free(out);
  return e;
}

void tt_by_values_free(tt_by_values *v)
{
  for (int64_t i = 0; v->name && i < v->count; i++) tt_free(v->name[i]);
  tt_free_all(&v->name, &v->number);
}

tt_err tt_data_add_ids(tt_comm *c, const tt_config *cfg, const tt_row_marks *marks, tt_dataset *d)
{
  return tt_agree(c,
                  tt_comm_is_root(c) ? tt_data_job_ids_local(cfg, marks, d->rows, &d->ids) : TT_OK);
}
