/* csv_table.c — CSV and TSV files as tables; see table.h.
 *
 * Opening the file counts its rows and marks where every 1024th row begins, so that any rows can be
 * read later; a process with the marks of another one counts nothing. Rows are parsed in blocks,
 * all columns in use at once. */
#include "io/table/csv_internal.h"

#include "core/base/mem.h"
#include "core/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_COLUMNS = 1 << 20, BLOCK_VALUES = 1 << 16, BLOCK_ROWS = 4096 };

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

static int is_date_column(const tt_table_format *f, const char *name)
{
  for (int64_t i = 0; i < f->dates; i++)
    if (!strcmp(f->date[i], name)) return 1;
  return 0;
}

/* Two more columns for each column of dates: sine and cosine of the time of the year. */
static tt_err add_seasons(tt_csv_table *c, const tt_table_format *format)
{
  static const char *const part[] = {"sin", "cos"};
  tt_table *t = c->table;
  c->cells = t->columns;
  TT_TRY(TT_ALLOC(c->season, c->cells));
  for (int64_t k = 0; k < c->cells; k++) {
    if (!is_date_column(format, t->name[k])) continue;
    c->season[k] = t->columns;
    for (int i = 0; i < 2; i++)
      TT_TRY(tt_text_format(&t->name[t->columns++], "%s.%s", t->name[k], part[i]));
  }
  return TT_OK;
}

static tt_err read_names(tt_csv_table *c, char *p, char *end, int64_t line)
{
  tt_table *t = c->table;
  int64_t n = count_cells(&c->lines, p, end), numbers = 0;
  if (n > MAX_COLUMNS)
    return TT_FAIL(DATA, "%s:%" PRId64 ": %" PRId64 " columns; at most %d are possible", t->file,
                   line, n, MAX_COLUMNS);
  TT_TRY(TT_ALLOC(t->name, 3 * n)); /* room for add_seasons */
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

static tt_err read_header(tt_csv_table *c, const tt_table_format *format)
{
  char *p, *end, delimiter = format->delimiter;
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
  TT_TRY(read_names(c, p, end, line));
  return add_seasons(c, format);
}

/* Rows */

static tt_err add_mark(tt_csv_table *c, tt_row_mark mark)
{
  tt_row_marks *m = &c->table->marks;
  TT_TRY(TT_GROW(m->mark, m->count, 1, c->mark_capacity));
  m->mark[m->count++] = mark;
  return TT_OK;
}

/* Count the rows. */
static tt_err scan(tt_csv_table *c)
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
static tt_err take_marks(tt_csv_table *c, const tt_row_marks *known)
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
static tt_err go_to_row(tt_csv_table *c, int64_t row)
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

static tt_err cells_error(const tt_csv_table *c, int64_t line, int64_t cells)
{
  char what[64], cure[64];
  if (c->table->see) return TT_OK; /* told when values are read */
  snprintf(what, sizeof what, "number of cells: %" PRId64, cells);
  snprintf(cure, sizeof cure, "number of columns in the header: %" PRId64, c->cells);
  return tt_csv_bad_cell(c, line, -1, NULL, &(tt_problem){.what = what, .cure = cure});
}

static tt_err parse_row(const tt_csv_table *c, int64_t line, char *p, char *end, double *value)
{
  int64_t columns = c->cells, k = 0;
  int64_t cells = c->problems ? count_cells(&c->lines, p, end) : columns; /* before any cell */
  if (cells != columns) return cells_error(c, line, cells);
  for (;; k++) {
    char *after = tt_csv_cell_end(&c->lines, p, end);
    int last = after == end;
    if (k >= columns)
      return cells_error(c, line, k + 1 + (last ? 0 : count_cells(&c->lines, after + 1, end)));
    TT_TRY(tt_csv_parse_column(c, line, k, p, after, value));
    if (last) break;
    p = after + 1;
  }
  return k + 1 == columns ? TT_OK : cells_error(c, line, k + 1);
}

/* Parse the block of rows from `first` on. */
static tt_err parse_block(tt_csv_table *c, int64_t first)
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
static tt_err list_problems(tt_csv_table *c, tt_err e)
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
  tt_csv_table *c = t->own;
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
  tt_csv_table *c = t->own;
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
  tt_csv_table *c = t->own;
  char *p, *end;
  int64_t line;
  if (go_to_row(c, row) || tt_csv_lines_next_local(&c->lines, &p, &end, &line) || !p) return;
  c->next++;
  snprintf(text, (size_t)capacity, "%s:%" PRId64, t->file, line);
}

static void csv_close(void *own)
{
  tt_csv_table *c = own;
  tt_csv_lines_close_local(&c->lines);
  for (int64_t i = 0; c->na && i < c->nas; i++) tt_free(c->na[i]);
  tt_free_all(&c->na, &c->season, &c->kind, &c->slot, &c->block);
  tt_free(c);
}

static tt_err copy_format(const tt_table_format *format, tt_csv_table *c)
{
  c->decimal = format->decimal ? format->decimal : '.';
  TT_TRY(TT_ALLOC(c->na, format->nas));
  c->nas = format->nas;
  for (int64_t i = 0; i < c->nas; i++) TT_TRY(tt_text_set(&c->na[i], format->na[i]));
  return TT_OK;
}

tt_err tt_csv_table_open_local(const tt_table_format *format, tt_table *t)
{
  tt_csv_table *c = NULL;
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
  TT_TRY(read_header(c, format));
  TT_TRY(TT_ALLOC(c->kind, t->columns));
  TT_TRY(TT_ALLOC(c->slot, t->columns));
  TT_TRY(TT_ALLOC(t->rows, t->columns));
  for (int64_t k = 0; k < t->columns; k++) c->slot[k] = -1;
  TT_TRY(known && known->count ? take_marks(c, known) : scan(c));
  for (int64_t k = 0; k < t->columns; k++) t->rows[k] = t->marks.rows;
  return TT_OK;
}
