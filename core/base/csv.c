/* csv.c — see csv.h. Quotes are removed in place: the output is never longer than the input. */
#include "core/base/csv.h"

#include "core/base/directory.h"
#include "core/base/mem.h"
#include "core/base/sort.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct tt_csv_column {
  const char *name;
  int64_t column;
};

typedef struct scanner {
  const char *file;
  char *next, *end; /* *end is a NUL that belongs to the buffer */
  char separator;
  int64_t line;
  int64_t name_room, cell_room, line_room; /* allocated elements of the arrays of the table */
} scanner;

static int is_newline(char c) { return c == '\n' || c == '\r'; }

/* Skip one line end: LF, CRLF or CR. */
static void skip_newline(scanner *s)
{
  int pair = s->next[0] == '\r' && s->next + 1 < s->end && s->next[1] == '\n';
  s->next += pair ? 2 : 1;
  s->line++;
}

/* Skip empty lines and lines that begin with #. */
static void skip_comments(scanner *s)
{
  while (s->next < s->end) {
    char *p = s->next;
    while (p < s->end && *p == ' ') p++;
    if (*s->next == '#')
      while (p < s->end && !is_newline(*p)) p++;
    if (p < s->end && !is_newline(*p)) return;
    s->next = p;
    if (p < s->end) skip_newline(s);
  }
}

static tt_err quoted_cell(scanner *s, char **end)
{
  int64_t begin = s->line;
  char *to = s->next++;
  for (;;) {
    if (s->next >= s->end)
      return TT_FAIL(DATA, "%s:%" PRId64 ": the quote that begins here is not closed", s->file,
                     begin);
    char c = *s->next++;
    if (c == '"' && *s->next == '"')
      s->next++; /* "" is one quote; s->next may be the final NUL */
    else if (c == '"')
      break;
    if (c == '\n' || (c == '\r' && *s->next != '\n')) s->line++;
    *to++ = c;
  }
  *end = to;
  while (s->next < s->end && *s->next == ' ') s->next++;
  if (s->next < s->end && *s->next != s->separator && !is_newline(*s->next))
    return TT_FAIL(DATA,
                   "%s:%" PRId64 ": text after a closing quote: '%.20s'; write a quote inside a "
                   "cell twice",
                   s->file, s->line, s->next);
  return TT_OK;
}

static void unquoted_cell(scanner *s, char **end)
{
  char *p = s->next;
  while (p < s->end && *p != s->separator && !is_newline(*p)) p++;
  s->next = p;
  while (p > *end && p[-1] == ' ') p--;
  *end = p;
}

/* One cell; *last = 1 if it is the last one of its record. */
static tt_err next_cell(scanner *s, char **cell, int *last)
{
  while (s->next < s->end && *s->next == ' ') s->next++;
  char *end = *cell = s->next;
  if (s->next < s->end && *s->next == '"')
    TT_TRY(quoted_cell(s, &end));
  else
    unquoted_cell(s, &end);
  *last = s->next >= s->end || is_newline(*s->next);
  if (s->next < s->end && !*last)
    s->next++;
  else if (s->next < s->end)
    skip_newline(s);
  *end = '\0';
  return TT_OK;
}

/* The most frequent separator outside quotes in the current line. */
static char find_separator(const scanner *s)
{
  static const char candidate[] = ",\t;";
  int64_t count[sizeof candidate] = {0};
  int quoted = 0, best = 0;
  for (const char *p = s->next; p < s->end && (quoted || !is_newline(*p)); p++) {
    const char *hit = strchr(candidate, *p);
    if (*p == '"')
      quoted = !quoted;
    else if (hit && !quoted)
      count[hit - candidate]++;
  }
  for (int i = 1; i < 3; i++)
    if (count[i] > count[best]) best = i;
  return candidate[best];
}

static tt_err check_file(const char *file, const struct stat *st, const tt_csv_limit *limit)
{
  if (!S_ISREG(st->st_mode)) return TT_FAIL(NOINPUT, "%s: not a regular file", file);
  if (!limit || !limit->bytes || st->st_size <= limit->bytes) return TT_OK;
  return TT_FAIL(DATA, "%s: %lld bytes; a table of at most %" PRId64 " row%s may have %" PRId64,
                 file, (long long)st->st_size, limit->rows, limit->rows == 1 ? "" : "s",
                 limit->bytes);
}

/* Read the file into t->text, `bytes` bytes and a NUL. */
static tt_err read_text(int fd, const char *file, const tt_csv_limit *limit, tt_csv *t,
                        int64_t *bytes)
{
  struct stat st;
  if (fstat(fd, &st)) return TT_FAIL(NOINPUT, "%s: %s", file, strerror(errno));
  TT_TRY(check_file(file, &st, limit));
  TT_TRY(tt_alloc_bytes(&t->text, st.st_size + 1, 1, file));
  int64_t got = 0;
  while (got < st.st_size) {
    ssize_t n = read(fd, t->text + got, (size_t)(st.st_size - got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return TT_FAIL(NOINPUT, "%s: %s", file, strerror(errno));
    if (n == 0) break;
    got += n;
  }
  t->text[got] = '\0';
  *bytes = got;
  const char *zero = memchr(t->text, '\0', (size_t)got);
  if (zero)
    return TT_FAIL(DATA,
                   "%s: byte %td is zero: this is not a CSV file in UTF-8; save the table as CSV "
                   "first",
                   file, zero - t->text);
  return TT_OK;
}

static tt_err read_file(const char *file, const tt_csv_limit *limit, tt_csv *t, scanner *s)
{
  int fd = -1;
  TT_TRY(tt_file_open_read(file, &fd));
  int64_t bytes = 0;
  tt_err e = read_text(fd, file, limit, t, &bytes);
  close(fd);
  if (e) return e;
  s->file = file;
  s->line = 1;
  s->next = t->text;
  s->end = t->text + bytes;
  if (bytes >= 3 && !memcmp(t->text, "\xEF\xBB\xBF", 3)) s->next += 3;
  return TT_OK;
}

/* Make room for `need` elements of *array, of which `used` are kept. */
static tt_err grow(void *array, int64_t used, int64_t need, size_t size, int64_t *room)
{
  if (need <= *room) return TT_OK;
  void *old, *larger = NULL;
  int64_t count = need > 2 * *room ? need : 2 * *room;
  memcpy(&old, array, sizeof old);
  TT_TRY(tt_alloc_bytes(&larger, count, size, "the cells of a table"));
  if (used) memcpy(larger, old, (size_t)used * size);
  tt_free_at(array);
  memcpy(array, &larger, sizeof larger);
  *room = count;
  return TT_OK;
}

static tt_err next_name(tt_csv *t, scanner *s, int *last)
{
  TT_TRY(grow(&t->name, t->columns, t->columns + 1, sizeof *t->name, &s->name_room));
  TT_TRY(next_cell(s, &t->name[t->columns], last));
  t->columns++;
  return TT_OK;
}

static int compare_names(const void *a, const void *b)
{
  const struct tt_csv_column *x = a, *y = b;
  int order = strcmp(x->name, y->name);
  return order ? order : (x->column > y->column) - (x->column < y->column);
}

static tt_err sort_names(tt_csv *t)
{
  TT_TRY(TT_ALLOC(t->sorted, t->columns));
  for (int64_t i = 0; i < t->columns; i++) t->sorted[i] = (struct tt_csv_column){t->name[i], i};
  qsort(t->sorted, (size_t)t->columns, sizeof *t->sorted, compare_names);
  return TT_OK;
}

int64_t tt_csv_find(const tt_csv *t, const char *name)
{
  const struct tt_csv_column first = {.name = name};
  int64_t at = tt_lower_bound(&first, t->sorted, t->columns, sizeof first, compare_names);
  return at < t->columns && !strcmp(t->sorted[at].name, name) ? t->sorted[at].column : -1;
}

static tt_err read_header(tt_csv *t, scanner *s)
{
  int64_t line = s->line;
  for (int last = 0; !last;) TT_TRY(next_name(t, s, &last));
  TT_TRY(sort_names(t));
  for (int64_t i = 0; i < t->columns; i++) {
    int64_t first = *t->name[i] ? tt_csv_find(t, t->name[i]) : i;
    if (first != i)
      return TT_FAIL(DATA,
                     "%s:%" PRId64 ": columns %" PRId64 " and %" PRId64 " are both named '%s'",
                     s->file, line, first + 1, i + 1, t->name[i]);
  }
  return TT_OK;
}

static tt_err read_row(tt_csv *t, scanner *s)
{
  int64_t used = t->rows * t->columns, line = s->line, cells = 0;
  TT_TRY(grow(&t->cell, used, used + t->columns, sizeof *t->cell, &s->cell_room));
  TT_TRY(grow(&t->line, t->rows, t->rows + 1, sizeof *t->line, &s->line_room));
  t->line[t->rows] = line;
  for (int last = 0; !last; cells++) {
    char *cell;
    TT_TRY(next_cell(s, &cell, &last));
    if (cells < t->columns) t->cell[used + cells] = cell;
  }
  if (cells != t->columns)
    return TT_FAIL(DATA,
                   "%s:%" PRId64 ": number of cells: %" PRId64
                   "; number of columns in the header: %" PRId64,
                   s->file, line, cells, t->columns);
  t->rows++;
  return TT_OK;
}

static tt_err read_rows(tt_csv *t, scanner *s, const tt_csv_limit *limit)
{
  for (skip_comments(s); s->next < s->end; skip_comments(s)) {
    if (limit && limit->rows && t->rows == limit->rows)
      return TT_FAIL(DATA, "%s:%" PRId64 ": one row more than the %" PRId64 " expected", s->file,
                     s->line, limit->rows);
    TT_TRY(read_row(t, s));
  }
  if (t->rows == 0) return TT_FAIL(DATA, "%s: no rows after the header", s->file);
  return TT_OK;
}

static tt_err read_table(const char *file, const tt_csv_limit *limit, tt_csv *t)
{
  scanner s = {0};
  TT_TRY(read_file(file, limit, t, &s));
  skip_comments(&s);
  if (s.next >= s.end)
    return TT_FAIL(DATA, "%s: the file is empty; its first row must hold the column names", file);
  s.separator = find_separator(&s);
  TT_TRY(read_header(t, &s));
  return read_rows(t, &s, limit);
}

tt_err tt_csv_read(const char *file, const tt_csv_limit *limit, tt_csv **out)
{
  tt_csv *t = NULL;
  TT_TRY(TT_ALLOC(t, 1));
  tt_err e = read_table(file, limit, t);
  if (e) tt_csv_destroy(&t);
  *out = t;
  return e;
}

static tt_err read_list(const char *what, const char *list, tt_csv *t)
{
  int64_t bytes = (int64_t)strlen(list);
  TT_TRY(tt_alloc_bytes(&t->text, bytes + 1, 1, what));
  memcpy(t->text, list, (size_t)bytes);
  scanner s = {.file = what, .next = t->text, .end = t->text + bytes, .separator = ',', .line = 1};
  for (int last = 0; !last;) {
    tt_err e = next_name(t, &s, &last);
    if (e == TT_E_DATA)
      return TT_FAIL(USAGE, "%s: a quote is not closed, or text follows a closing quote: %s", what,
                     list);
    if (e) return e;
    if (!*t->name[t->columns - 1])
      return TT_FAIL(USAGE, "%s: item %" PRId64 " of '%s' is empty", what, t->columns, list);
  }
  return sort_names(t);
}

tt_err tt_csv_parse_list(const char *what, const char *list, tt_csv **out)
{
  tt_csv *t = NULL;
  TT_TRY(TT_ALLOC(t, 1));
  tt_err e = read_list(what, list, t);
  if (e) tt_csv_destroy(&t);
  *out = t;
  return e;
}

tt_err tt_csv_list_add(char **list, const char *item)
{
  size_t old = *list ? strlen(*list) : 0, length = strlen(item);
  int quote = !length || strpbrk(item, ",\"\r\n\t;") || *item == ' ' || item[length - 1] == ' ';
  char *longer = NULL, *to;
  TT_TRY(tt_alloc_bytes(&longer, (int64_t)(old + 2 * length + 4), 1, "a list"));
  if (old) memcpy(longer, *list, old);
  to = longer + old;
  if (old) *to++ = ',';
  if (quote) *to++ = '"';
  for (const char *p = item; *p; p++) {
    if (*p == '"') *to++ = '"';
    *to++ = *p;
  }
  if (quote) *to++ = '"';
  tt_free(*list);
  *list = longer;
  return TT_OK;
}

void tt_csv_destroy(tt_csv **t)
{
  if (!*t) return;
  tt_free_all(&(*t)->name, &(*t)->cell, &(*t)->line, &(*t)->text, &(*t)->sorted, t);
}
