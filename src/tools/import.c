/* import.c — see import.h. */
#include "src/tools/import.h"

#include "core/base/csv.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "io/data/data.h"
#include "io/hdf5/files.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Columns of the table that form one dataset, x or y. */
typedef struct column_selection {
  int64_t count;
  int64_t *column; /* [count] indices of columns of the table */
  double *value;   /* [rows][count] */
  tt_columns names;
} column_selection;

enum { CELL_OK, CELL_TEXT, CELL_EMPTY, CELL_INFINITE, CELL_NAN };

static int read_number(const char *cell, double *v)
{
  char *end;
  *v = NAN;
  if (!*cell) return CELL_EMPTY;
  *v = strtod(cell, &end);
  if (*end || strpbrk(cell, "xX(")) return CELL_TEXT; /* strtod accepts hexadecimal and nan(...) */
  return isnan(*v) ? CELL_NAN : isinf(*v) ? CELL_INFINITE : CELL_OK;
}

static tt_err bad_cell(const char *file, int64_t line, const char *column, const char *cell,
                       int kind, int target)
{
  static const char *const what[] = {
      [CELL_TEXT] = "is not a number",
      [CELL_EMPTY] = "is empty",
      [CELL_INFINITE] = "is not a finite number",
      [CELL_NAN] = "is not a number",
  };
  const char *cure = target ? "leave the cell empty for an unlabelled target"
                            : "every input must be given: correct the cell or remove the row; or "
                              "train on the table itself, data: {file: TABLE, missing: mean}";
  if (kind == CELL_TEXT && strchr(cell, ','))
    cure = "write decimals with a point; or train on the table itself, "
           "data: {file: TABLE, decimal: comma}";
  else if (kind == CELL_TEXT && !target)
    cure = "correct the cell; or, if the values are levels, train on the table itself, "
           "data: {file: TABLE, categories: ...}";
  return TT_FAIL(DATA, "%s:%" PRId64 ": column '%s': '%.60s' %s; %s", file, line, column, cell,
                 what[kind], cure);
}

/* Parse the selected columns; the first cell that is not valid is the error. */
static tt_err parse_cells(const tt_csv *t, const char *file, int target, column_selection *c)
{
  TT_TRY(
      tt_alloc_bytes(&c->value, t->rows * c->count, sizeof *c->value, "the values of the table"));
  for (int64_t r = 0; r < t->rows; r++) {
    for (int64_t k = 0; k < c->count; k++) {
      const char *cell = t->cell[r * t->columns + c->column[k]];
      int kind = read_number(cell, &c->value[r * c->count + k]);
      int fine = kind == CELL_OK || (target && (kind == CELL_EMPTY || kind == CELL_NAN));
      if (!fine) return bad_cell(file, t->line[r], c->names.name[k], cell, kind, target);
    }
  }
  return TT_OK;
}

/* Error: "there is no column 'heigth' in t.csv; did you mean 'height'? columns: a, b, height" */
static tt_err unknown_column(const tt_csv *t, const char *file, const char *option,
                             const char *name)
{
  char all[4096];
  size_t used = 0;
  int64_t listed = 0;
  tt_suggestion near = {.word = name};
  for (int64_t i = 0; i < t->columns; i++) tt_suggestion_consider(&near, t->name[i]);
  for (; listed < t->columns; listed++) {
    size_t length = strlen(t->name[listed]);
    if (used + length + 16 > sizeof all) break;
    used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", listed ? ", " : "",
                             t->name[listed]);
  }
  return TT_FAIL(USAGE, "%s: there is no column '%s' in %s; %s%s%scolumns: %s%s", option, name,
                 file, *near.best ? "did you mean '" : "", near.best, *near.best ? "'? " : "", all,
                 listed < t->columns ? ", ..." : "");
}

static tt_err find_column(const tt_csv *t, const char *file, const char *option, const char *name,
                          int64_t *column)
{
  *column = tt_csv_find(t, name);
  return *column < 0 ? unknown_column(t, file, option, name) : TT_OK;
}

static tt_err select_columns(const tt_csv *t, const char *file, const char *option,
                             const tt_csv *list, column_selection *c)
{
  c->count = list->columns;
  TT_TRY(TT_ALLOC(c->column, c->count));
  TT_TRY(tt_columns_create(c->count, &c->names));
  c->names.given = 1;
  for (int64_t k = 0; k < c->count; k++) {
    TT_TRY(find_column(t, file, option, list->name[k], &c->column[k]));
    TT_TRY(tt_text_set(&c->names.name[k], list->name[k]));
    if (tt_csv_find(list, list->name[k]) != k)
      return TT_FAIL(USAGE, "%s: column '%s' is given twice", option, list->name[k]);
  }
  return TT_OK;
}

static tt_err select_list(const tt_csv *t, const char *file, const char *option, const char *text,
                          column_selection *c)
{
  if (!text || !*text) return tt_columns_create(0, &c->names);
  tt_csv *list = NULL;
  TT_TRY(tt_csv_parse_list(option, text, &list));
  tt_err e = select_columns(t, file, option, list, c);
  tt_csv_destroy(&list);
  return e;
}

static tt_err check_no_overlap(const column_selection *x, const column_selection *y)
{
  for (int64_t i = 0; i < x->count; i++)
    for (int64_t k = 0; k < y->count; k++)
      if (x->column[i] == y->column[k])
        return TT_FAIL(USAGE, "column '%s' is given in --inputs and in --targets",
                       x->names.name[i]);
  return TT_OK;
}

/* Parse one "column=unit"; split at the last =, since a name may contain one. */
static tt_err set_unit(char *item, column_selection *const part[2])
{
  char *sign = strrchr(item, '=');
  if (!sign || sign == item) return TT_FAIL(USAGE, "--units: '%s' is not column=unit", item);
  *sign = '\0';
  for (int p = 0; p < 2; p++)
    for (int64_t k = 0; k < part[p]->count; k++)
      if (!strcmp(part[p]->names.name[k], item))
        return tt_text_set(&part[p]->names.units[k], sign + 1);
  return TT_FAIL(USAGE, "--units: column '%s' is neither in --inputs nor in --targets", item);
}

static tt_err set_units(const char *text, column_selection *x, column_selection *y)
{
  if (!text || !*text) return TT_OK;
  tt_csv *list = NULL;
  column_selection *const part[2] = {x, y};
  tt_err e = tt_csv_parse_list("--units", text, &list);
  for (int64_t i = 0; !e && i < list->columns; i++) e = set_unit(list->name[i], part);
  tt_csv_destroy(&list);
  return e;
}

static tt_err check_options(const tt_import_options *o)
{
  if (!o->table || !*o->table) return TT_FAIL(USAGE, "no table to import");
  if (!o->output || !*o->output) return TT_FAIL(USAGE, "no output file: give -o data.h5");
  if (!o->inputs || !*o->inputs)
    return TT_FAIL(USAGE, "no input columns: give --inputs with names of columns of %s", o->table);
  return tt_h5_check_output_local(o->output, o->force, (const char *const[]){o->table, NULL});
}

static tt_err write_output(const tt_import_options *o, const tt_csv *t, const column_selection *x,
                           const column_selection *y)
{
  TT_TRY(tt_data_write_local(o->output, t->rows, &x->names, &y->names, x->value, y->value));
  int64_t unlabelled = 0;
  for (int64_t i = 0; i < t->rows * y->count; i++) unlabelled += isnan(y->value[i]) != 0;
  tt_log_root(TT_LOG_INFO,
              "%s: rows %" PRId64 ", inputs %" PRId64 ", targets %" PRId64
              ", unlabelled values %" PRId64,
              o->output, t->rows, x->count, y->count, unlabelled);
  return TT_OK;
}

static tt_err import_table(const tt_import_options *o, const tt_csv *t, column_selection *x,
                           column_selection *y)
{
  TT_TRY(select_list(t, o->table, "--inputs", o->inputs, x));
  TT_TRY(select_list(t, o->table, "--targets", o->targets, y));
  TT_TRY(check_no_overlap(x, y));
  TT_TRY(set_units(o->units, x, y));
  TT_TRY(parse_cells(t, o->table, 0, x));
  TT_TRY(parse_cells(t, o->table, 1, y));
  return write_output(o, t, x, y);
}

static void selection_free(column_selection *c)
{
  tt_free(c->column);
  tt_free(c->value);
  tt_columns_free(&c->names);
}

tt_err tt_import_local(const tt_import_options *o)
{
  TT_TRY(check_options(o));
  tt_csv *t = NULL;
  TT_TRY(tt_csv_read(o->table, NULL, &t));
  column_selection x = {0}, y = {0};
  tt_err e = import_table(o, t, &x, &y);
  selection_free(&x);
  selection_free(&y);
  tt_csv_destroy(&t);
  return e;
}
