/* ids.c — the ids of rows (data.id), and columns that look like ids; see data.h and
 * data_internal.h. */
#include "io/data/data_internal.h"

#include "core/base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { CHUNK_ROWS = 4096, LEAST_ROWS = 10, PLACE = TT_ERR_MESSAGE_SIZE / 3 };

/* The column of ids in an open file. Texts are listed while they are read: the value of a row is
 * then its place in the list. */
typedef struct id_column {
  tt_source source;
  tt_source_matrix m;
  tt_levels texts;
  const char *name;
} id_column;

static tt_err open_column(const char *file, const tt_table_format *format, id_column *c)
{
  const tt_source_role role = {"data.id", TT_CELL_UNUSED, NULL, 1};
  tt_table *t;
  TT_TRY(tt_source_open_local(file, format, &c->source));
  TT_TRY(tt_source_table_local(&c->source, &t));
  TT_TRY(tt_source_matrix_open_local(&c->source, &role, c->name, &c->m));
  if (c->m.columns != 1)
    return TT_FAIL(DATA, "%s: data.id: '%s' is %" PRId64 " columns; give the name of one", file,
                   c->name, c->m.columns);
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
  for (int64_t i = 0; i < count; i++) {
    if (isnan(value[i]))
      return bad_id(c, first + i, "the id is missing (data.id)",
                    "give each row an id, or leave the column out");
    if (c->texts.count) {
      char **src = &c->texts.text[(int64_t)value[i]];
      ids->text[offset + i] = *src;
      *src = NULL;
    } else if (fabs(value[i]) > 9007199254740992.0 || value[i] != floor(value[i])) {
      snprintf(what, sizeof what, "%.17g is no id (data.id)", value[i]);
      return bad_id(c, first + i, what, "ids are texts, or whole numbers up to 2^53");
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
  id_column c = {.name = column};
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
  id_column c = {.name = column};
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

/* Columns that look like ids */

/* Collective. */
static tt_err find_like_ids(tt_comm *c, const tt_fit_rows *x, tt_dataset *d)
{
  tt_whole_columns whole = {0};
  double *own = NULL, *all = NULL;
  int root = tt_comm_is_root(c);
  if (root) tt_data_pick_whole(x->count, x->columns, x->own, &whole);
  tt_bcast(c, &whole, sizeof whole);
  tt_err e = TT_ALLOC(own, whole.columns ? x->count : 0);
  if (!e) e = TT_ALLOC(all, root && whole.columns ? d->rows : 0);
  e = tt_agree(c, e);
  for (int64_t k = 0; !e && k < whole.columns; k++) {
    for (int64_t i = 0; i < x->count; i++) own[i] = x->own[i * x->columns + whole.column[k]];
    tt_gatherv(c, own, x->count * (int64_t)sizeof *own, all, NULL);
    if (root && d->like_ids < 0 && tt_are_different_whole_numbers(d->rows, all))
      d->like_ids = whole.column[k];
  }
  tt_free_all(&own, &all);
  return e;
}

tt_err tt_data_add_ids(tt_comm *c, const tt_config *cfg, const tt_row_marks *marks,
                       const tt_fit_rows *x, tt_dataset *d)
{
  tt_err e = tt_comm_is_root(c) ? tt_data_job_ids_local(cfg, marks, d->rows, &d->ids) : TT_OK;
  e = tt_agree(c, e);
  return e ? e : find_like_ids(c, x, d);
}

void tt_data_pick_whole(int64_t count, int64_t inputs, const double *x, tt_whole_columns *out)
{
  double value[256];
  int64_t n = count < 256 ? count : 256;
  out->columns = 0;
  for (int64_t k = 0; n >= LEAST_ROWS && k < inputs && out->columns < TT_MAX_WHOLE; k++) {
    for (int64_t i = 0; i < n; i++) value[i] = x[i * inputs + k];
    if (tt_are_different_whole_numbers(n, value)) out->column[out->columns++] = k;
  }
}
