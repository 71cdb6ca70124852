/* csv_table.c — CSV and TSV files as tables; see table.h.
 *
 * Opening the file counts its rows and marks where every 1024th row begins, so that any rows can be
 * read later; a process with the marks of another one counts nothing. Rows are parsed in blocks,
 * all columns in use at once. */
#include "io/table/csv_lines.h"
#include "io/table/problems.h"

#include "core/base/mem.h"
#include "core/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum {
  MAX_COLUMNS = 1 << 20,
  BLOCK_VALUES = 1 << 16,
  BLOCK_ROWS = 4096,
  NAME_SHOWN = 100 /* bytes of the name of a column in a hint */
};

typedef struct csv_table {
  tt_table *table;
  tt_csv_lines lines;
  char decimal;
  char **na; /* [nas] owned */
  int64_t nas;
  int64_t mark_capacity; /* allocated elements of table->marks.mark */
  int64_t next;          /* row that `lines` reads next */
  tt_cell_kind *kind;    /* [columns] */
  int64_t *slot;         /* [columns] place of a column in a row of the block, -1 = not in use */
  int64_t slots, last;   /* columns in use; last of them in the file */
  double *block;         /* [block_rows][slots] */
  int64_t block_first, block_rows;
  tt_problems *problems; /* not NULL while they are listed */
} csv_table;

/* Header */

/* The most frequent delimiter outside quotes. */
static char find_delimiter(const char *p, const char *end)
{
  static const char candidate[] = {',', '\t', ';'};
  int64_t count[sizeof candidate] = {0};
  int quoted = 0, best = 0;
  for (; p < end; p++) {
    quoted ^= *p == '"';
    for (size_t i = 0; i < sizeof candidate && !quoted; i++) count[i] += *p == candidate[i];
  }
  for (int i = 1; i < (int)sizeof candidate; i++)
    if (count[i] > count[best]) best = i;
  return candidate[best];
}

static int64_t count_cells(const tt_csv_lines *l, char *p, char *end)
{
  int64_t n = 1;
  while ((p = tt_csv_cell_end(l, p, end)) < end) p++, n++;
  return n;
}

static int is_number(const char *text)
{
  double v;
  const char *after = *text ? tt_number_parse(text, '.', &v) : NULL;
  return after && !*after;
}

static tt_err read_names(csv_table *c, char *p, char *end, int64_t line)
{
  tt_table *t = c->table;
  int64_t n = count_cells(&c->lines, p, end), numbers = 0;
  if (n > MAX_COLUMNS)
    return TT_FAIL(DATA, "%s:%" PRId64 ": %" PRId64 " columns; at most %d are possible", t->file,
                   line, n, MAX_COLUMNS);
  TT_TRY(TT_ALLOC(t->name, n));
  t->columns = n;
  for (int64_t k = 0; k < n; k++) {
    char *after = tt_csv_cell_end(&c->lines, p, end);
    char *text = tt_csv_cell_text(&c->lines, p, after);
    numbers += is_number(text);
    TT_TRY(tt_text_set_name(&t->name[k], text));
    p = after + (k + 1 < n);
  }
  if (numbers < n) return TT_OK;
  return TT_FAIL(DATA,
                 "%s:%" PRId64 ": the first row has only numbers; it must hold the names of the "
                 "columns",
                 t->file, line);
}

static tt_err read_header(csv_table *c, char delimiter)
{
  char *p, *end;
  int64_t line;
  TT_TRY(tt_csv_lines_next_local(&c->lines, &p, &end, &line));
  if (!p)
    return TT_FAIL(DATA, "%s: the file is empty; its first row must hold the column names",
                   c->table->file);
  if (end - p == 5 && !memcmp(p, "sep=", 4)) { /* of Excel: the first line names the delimiter */
    delimiter = delimiter ? delimiter : p[4];
    TT_TRY(tt_csv_lines_next_local(&c->lines, &p, &end, &line));
    if (!p) return TT_FAIL(DATA, "%s: no names of columns after the line sep=", c->table->file);
  }
  c->lines.delimiter = delimiter ? delimiter : find_delimiter(p, end);
  c->table->delimiter = c->lines.delimiter;
  if (c->lines.delimiter == c->decimal)
    return TT_FAIL(DATA,
                   "%s:%" PRId64 ": '%c' separates the columns and cannot be the decimal mark too; "
                   "set data.decimal or data.delimiter",
                   c->table->file, line, c->decimal);
  return read_names(c, p, end, line);
}

/* Rows */

static tt_err add_mark(csv_table *c, tt_row_mark mark)
{
  tt_row_marks *m = &c->table->marks;
  if (m->count == c->mark_capacity) {
    tt_row_mark *larger = NULL;
    int64_t capacity = c->mark_capacity ? 2 * c->mark_capacity : 64;
    TT_TRY(tt_alloc_bytes(&larger, capacity, sizeof *larger, "the rows of a table"));
    if (m->count) memcpy(larger, m->mark, (size_t)m->count * sizeof *larger);
    tt_free(m->mark);
    m->mark = larger;
    c->mark_capacity = capacity;
  }
  m->mark[m->count++] = mark;
  return TT_OK;
}

/* Count the rows. */
static tt_err scan(csv_table *c)
{
  tt_row_marks *m = &c->table->marks;
  TT_TRY(tt_bytes_stored_local(c->lines.bytes, &m->file_bytes));
  for (;; m->rows++) {
    char *p, *end;
    int64_t line;
    tt_row_mark mark;
    tt_csv_lines_tell(&c->lines, &mark.offset, &mark.line);
    TT_TRY(tt_csv_lines_next_local(&c->lines, &p, &end, &line));
    if (!p) break;
    if (m->rows % TT_MARK_ROWS == 0) TT_TRY(add_mark(c, mark));
  }
  if (m->rows == 0) return TT_FAIL(DATA, "%s: no rows after the header", c->table->file);
  c->next = m->rows;
  return TT_OK;
}

tt_err tt_row_marks_copy(const tt_row_marks *src, tt_row_marks *dst)
{
  *dst = *src;
  dst->mark = NULL;
  if (!src->count) return TT_OK;
  TT_TRY(tt_alloc_bytes(&dst->mark, src->count, sizeof *dst->mark, "the rows of a table"));
  memcpy(dst->mark, src->mark, (size_t)src->count * sizeof *dst->mark);
  return TT_OK;
}

/* The rows that another process has counted. */
static tt_err take_marks(csv_table *c, const tt_row_marks *known)
{
  int64_t bytes = 0;
  TT_TRY(tt_bytes_stored_local(c->lines.bytes, &bytes));
  if (bytes != known->file_bytes)
    return TT_FAIL(DATA,
                   "%s: %" PRId64 " bytes on this rank, but %" PRId64
                   " when its rows were counted: the file is changing, or is not the same on all "
                   "nodes",
                   c->table->file, bytes, known->file_bytes);
  return tt_row_marks_copy(known, &c->table->marks);
}

/* The next record is row `row`. */
static tt_err go_to_row(csv_table *c, int64_t row)
{
  const tt_row_mark *mark = &c->table->marks.mark[row / TT_MARK_ROWS];
  if (row < c->next || row / TT_MARK_ROWS * TT_MARK_ROWS > c->next) {
    tt_csv_lines_seek(&c->lines, mark->offset, mark->line);
    c->next = row / TT_MARK_ROWS * TT_MARK_ROWS;
  }
  for (; c->next < row; c->next++) {
    char *p, *end;
    int64_t line;
    TT_TRY(tt_csv_lines_next_local(&c->lines, &p, &end, &line));
    if (!p) return TT_FAIL(DATA, "%s: the file has changed", c->table->file);
  }
  return TT_OK;
}

/* Cells */

static int is_missing(const csv_table *c, const char *text)
{
  if (tt_levels_text_is_missing(text)) return 1;
  for (int64_t i = 0; i < c->nas; i++)
    if (!strcmp(text, c->na[i])) return 1;
  return 0;
}

/* While the problems of the file are listed, a bad cell is added to them; else it ends the reading.
 */
static tt_err bad_cell(const csv_table *c, int64_t line, int64_t column, const char *text,
                       const tt_problem *how)
{
  char place[512];
  tt_problem p = *how;
  if (!c->problems) return TT_FAIL(DATA, "%s:%" PRId64 ": a bad cell", c->table->file, line);
  p.place = place;
  p.number = line;
  p.column = column < 0 ? NULL : c->table->name[column];
  snprintf(place, sizeof place, p.column ? "%s:%" PRId64 ": column '%s'" : "%s:%" PRId64,
           c->table->file, line, p.column);
  p.text = text;
  tt_problems_add(c->problems, &p);
  return TT_OK;
}

static tt_err missing_cell(const csv_table *c, int64_t line, int64_t column, const char *text)
{
  char cure[NAME_SHOWN + 160];
  snprintf(cure, sizeof cure,
           "every input must be given: correct the cell or remove the row; or train with "
           "data.missing: {'%.*s': mean}",
           NAME_SHOWN, c->table->name[column]);
  return bad_cell(
      c, line, column, text,
      &(tt_problem){
          .what = "is a missing value", .cure = cure, .option = "missing", .value = "mean"});
}

static tt_err not_a_number(const csv_table *c, int64_t line, int64_t column, const char *text)
{
  const char *name = c->table->name[column];
  char cure[3 * NAME_SHOWN + 320];
  tt_problem p = {.what = "is not a number", .cure = cure};
  int is_input = c->kind[column] == TT_CELL_NUMBER;
  if (c->kind[column] == TT_CELL_RESULT) {
    p.cure = "write numbers with a decimal point, and nothing where there is no value";
  } else if (c->decimal == '.' && strchr(text, ',') &&
             strspn(text, "+-0123456789,eE") == strlen(text)) {
    p.cure = "write numbers with a decimal point and without commas; or, if commas are decimal "
             "marks, set data.decimal: comma";
    p.option = "decimal";
    p.value = "comma";
  } else if (tt_text_is_date(text)) {
    snprintf(cure, sizeof cure,
             "write a date or a time as a number: days or seconds since a first one, sine and "
             "cosine of the day of the year; or leave the column out: data.inputs: ['*', '!%.*s']",
             NAME_SHOWN, name);
    p.option = is_input ? "inputs" : NULL;
    p.value = name;
  } else {
    int used = is_input ? snprintf(cure, sizeof cure,
                                   "correct the cell; or leave the column out: data.inputs: ['*', "
                                   "'!%.*s']; or, if its values",
                                   NAME_SHOWN, name)
                        : snprintf(cure, sizeof cure,
                                   "leave the cell empty where there is no value, or add its text "
                                   "to data.na; or, if it is the class of a target: data.classes: "
                                   "{%.*s: [...]} (tutti init writes it); or, if the values of an "
                                   "input",
                                   NAME_SHOWN, name);
    snprintf(cure + used, sizeof cure - (size_t)used, " are levels: data.categories: {%.*s: error}",
             NAME_SHOWN, name);
    p.option = is_input ? "categories" : NULL;
    p.value = "zeros";
  }
  return bad_cell(c, line, column, text, &p);
}

static tt_err parse_level(const csv_table *c, int64_t line, int64_t column, char *text, double *out)
{
  tt_levels *l = c->table->levels[column];
  int64_t number;
  *out = NAN;
  if (is_missing(c, text)) return TT_OK;
  if (!tt_text_is_utf8(text))
    return bad_cell(c, line, column, text,
                    &(tt_problem){.what = "is not UTF-8", .cure = TT_TO_UTF8});
  TT_TRY(tt_levels_find(l, text, &number));
  *out = (double)number;
  if (number >= 0 || l->zeros) return TT_OK;
  tt_err e = tt_levels_unknown_error(l, "", text);
  if (!c->problems) return e;
  return bad_cell(c, line, column, NULL, &(tt_problem){.what = tt_err_last() + 2, .cure = ""});
}

/* A cell that is no plain number: quoted, missing, a truth value, a key, or wrong. */
static tt_err parse_text(const csv_table *c, int64_t line, int64_t column, char *text, double *out)
{
  if (c->kind[column] == TT_CELL_KEY) {
    uint64_t hash = XXH3_64bits(text, strlen(text));
    memcpy(out, &hash, sizeof *out);
    return TT_OK;
  }
  if (c->kind[column] == TT_CELL_LEVEL) return parse_level(c, line, column, text, out);
  const char *after = tt_number_parse(text, c->decimal, out);
  int is_na = is_missing(c, text), is_result = c->kind[column] == TT_CELL_RESULT;
  if (is_na && (is_result || c->kind[column] == TT_CELL_LABEL)) return *out = NAN, TT_OK;
  if (is_result && ((after && !*after) || tt_infinity_parse(text, out))) return TT_OK;
  if (!is_na && after && !*after && isfinite(*out)) return TT_OK;
  if (after && !*after && !is_na)
    return bad_cell(c, line, column, text,
                    &(tt_problem){.what = "is too large", .cure = "use other units"});
  if (is_na) return missing_cell(c, line, column, text);
  if (tt_truth_parse(text, out)) return TT_OK;
  return not_a_number(c, line, column, text);
}

/* The cell [p, end) of a column in use. */
static tt_err parse_cell(const csv_table *c, int64_t line, int64_t column, char *p, char *end,
                         double *out)
{
  if (c->kind[column] == TT_CELL_SEEN) {
    char *text = tt_csv_cell_text(&c->lines, p, end);
    return c->table->see(c->table, line, column, is_missing(c, text), text);
  }
  int is_text = c->kind[column] == TT_CELL_KEY || c->kind[column] == TT_CELL_LEVEL;
  const char *after = c->nas || is_text ? NULL : tt_number_parse(p + (*p == ' '), c->decimal, out);
  if (after == end && isfinite(*out)) return TT_OK;
  return parse_text(c, line, column, tt_csv_cell_text(&c->lines, p, end), out);
}

static tt_err cells_error(const csv_table *c, int64_t line, int64_t cells)
{
  char what[64], cure[64];
  if (c->table->see) return TT_OK; /* told when values are read */
  snprintf(what, sizeof what, "number of cells: %" PRId64, cells);
  snprintf(cure, sizeof cure, "number of columns in the header: %" PRId64, c->table->columns);
  return bad_cell(c, line, -1, NULL, &(tt_problem){.what = what, .cure = cure});
}

static tt_err parse_row(const csv_table *c, int64_t line, char *p, char *end, double *value)
{
  int64_t columns = c->table->columns, k = 0;
  int64_t cells = c->problems ? count_cells(&c->lines, p, end) : columns; /* before any cell */
  if (cells != columns) return cells_error(c, line, cells);
  for (;; k++) {
    char *after = tt_csv_cell_end(&c->lines, p, end);
    int last = after == end;
    if (k >= columns)
      return cells_error(c, line, k + 1 + (last ? 0 : count_cells(&c->lines, after + 1, end)));
    if (c->slot[k] >= 0) TT_TRY(parse_cell(c, line, k, p, after, &value[c->slot[k]]));
    if (last) break;
    p = after + 1;
  }
  return k + 1 == columns ? TT_OK : cells_error(c, line, k + 1);
}

/* Parse the block of rows from `first` on. */
static tt_err parse_block(csv_table *c, int64_t first)
{
  int64_t rows = c->table->rows[0], capacity = c->table->rows_at_once;
  int64_t n = rows - first < capacity ? rows - first : capacity;
  if (!c->block) TT_TRY(TT_ALLOC(c->block, capacity * c->slots));
  c->block_rows = 0;
  TT_TRY(go_to_row(c, first));
  for (int64_t i = 0; i < n; i++) {
    char *p, *end;
    int64_t line;
    TT_TRY(tt_csv_lines_next_local(&c->lines, &p, &end, &line));
    if (!p) return TT_FAIL(DATA, "%s: the file has changed", c->table->file);
    c->next++;
    TT_TRY(parse_row(c, line, p, end, c->block + i * c->slots));
  }
  c->block_first = first;
  c->block_rows = n;
  return TT_OK;
}

/* After an error: all problems of the file in the columns in use, as one error. An error that is no
 * bad cell (a quote that is not closed) stays as it is. */
static tt_err list_problems(csv_table *c, tt_err e)
{
  double *value = NULL;
  TT_TRY(TT_ALLOC(value, c->slots));
  tt_err listed = tt_problems_create(c->table->rows[0], &c->problems);
  if (!listed) listed = go_to_row(c, 0);
  for (int64_t i = 0; !listed && i < c->table->rows[0]; i++) {
    char *p, *end;
    int64_t line;
    listed = tt_csv_lines_next_local(&c->lines, &p, &end, &line);
    c->next++;
    if (!listed && p) listed = parse_row(c, line, p, end, value);
  }
  if (!listed) listed = tt_problems_error(c->problems);
  tt_problems_destroy(&c->problems);
  tt_free(value);
  return listed ? listed : e;
}

static tt_err csv_read(tt_table *t, int64_t first, int64_t count, int64_t n, const int64_t *column,
                       double *value)
{
  csv_table *c = t->own;
  for (int64_t i = 0; i < count; i++) {
    int64_t row = first + i;
    if (row < c->block_first || row >= c->block_first + c->block_rows) {
      tt_err e = parse_block(c, row);
      if (e) return e == TT_E_DATA ? list_problems(c, e) : e;
    }
    const double *src = c->block + (row - c->block_first) * c->slots;
    for (int64_t k = 0; k < n; k++) value[i * n + k] = src[c->slot[column[k]]];
  }
  return TT_OK;
}

static tt_err csv_use(tt_table *t, int64_t column, tt_cell_kind kind)
{
  csv_table *c = t->own;
  if (c->slot[column] >= 0) return TT_OK;
  c->slot[column] = c->slots++;
  c->kind[column] = kind;
  int64_t rows = BLOCK_VALUES / c->slots;
  t->rows_at_once = rows < 1 ? 1 : rows < BLOCK_ROWS ? rows : BLOCK_ROWS;
  tt_free(c->block);
  c->block_rows = 0;
  return TT_OK;
}

static void csv_place(tt_table *t, int64_t row, char *text, int64_t capacity)
{
  csv_table *c = t->own;
  char *p, *end;
  int64_t line;
  if (go_to_row(c, row) || tt_csv_lines_next_local(&c->lines, &p, &end, &line) || !p) return;
  c->next++;
  snprintf(text, (size_t)capacity, "%s:%" PRId64, t->file, line);
}

static void csv_close(void *own)
{
  csv_table *c = own;
  tt_csv_lines_close_local(&c->lines);
  for (int64_t i = 0; c->na && i < c->nas; i++) tt_free(c->na[i]);
  tt_free_all(&c->na, &c->kind, &c->slot, &c->block);
  tt_free(c);
}

static tt_err copy_format(const tt_table_format *format, csv_table *c)
{
  c->decimal = format->decimal ? format->decimal : '.';
  TT_TRY(TT_ALLOC(c->na, format->nas));
  c->nas = format->nas;
  for (int64_t i = 0; i < c->nas; i++) TT_TRY(tt_text_set(&c->na[i], format->na[i]));
  return TT_OK;
}

tt_err tt_csv_table_open_local(const tt_table_format *format, tt_table *t)
{
  csv_table *c = NULL;
  const tt_row_marks *known = format->marks;
  TT_TRY(TT_ALLOC(c, 1));
  *t = (tt_table){.file = t->file,
                  .noun = t->noun,
                  .rows_at_once = BLOCK_ROWS,
                  .use = csv_use,
                  .read = csv_read,
                  .place = csv_place,
                  .close = csv_close,
                  .own = c};
  c->table = t;
  TT_TRY(copy_format(format, c));
  TT_TRY(tt_csv_lines_open_local(t->file, &c->lines));
  TT_TRY(read_header(c, format->delimiter));
  TT_TRY(TT_ALLOC(c->kind, t->columns));
  TT_TRY(TT_ALLOC(c->slot, t->columns));
  TT_TRY(TT_ALLOC(t->rows, t->columns));
  for (int64_t k = 0; k < t->columns; k++) c->slot[k] = -1;
  TT_TRY(known && known->count ? take_marks(c, known) : scan(c));
  for (int64_t k = 0; k < t->columns; k++) t->rows[k] = t->marks.rows;
  return TT_OK;
}
