/* csv.c — see csv.h. Quotes are removed in place: the output is never longer than the input. */
#include "core/base/csv.h"

#include "core/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct scanner {
  const char *file;
  char *next, *end; /* *end is a NUL that belongs to the buffer */
  char separator;
  int64_t line;
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

/* Read the file into t->text, `bytes` bytes and a NUL. */
static tt_err read_text(int fd, const char *file, tt_csv *t, int64_t *bytes)
{
  struct stat st;
  if (fstat(fd, &st)) return TT_FAIL(NOINPUT, "%s: %s", file, strerror(errno));
  if (!S_ISREG(st.st_mode)) return TT_FAIL(NOINPUT, "%s: not a regular file", file);
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

static tt_err read_file(const char *file, tt_csv *t, scanner *s)
{
  int fd = open(file, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return TT_FAIL(NOINPUT, "%s: %s", file, strerror(errno));
  int64_t bytes = 0;
  tt_err e = read_text(fd, file, t, &bytes);
  close(fd);
  if (e) return e;
  s->file = file;
  s->line = 1;
  s->next = t->text;
  s->end = t->text + bytes;
  if (bytes >= 3 && !memcmp(t->text, "\xEF\xBB\xBF", 3)) s->next += 3;
  return TT_OK;
}

/* Upper bounds: each cell ends in a separator or a line end, each row in a line end. */
static tt_err allocate_cells(tt_csv *t, const scanner *s)
{
  int64_t cells = 1, rows = 1;
  for (const char *p = s->next; p < s->end; p++) {
    cells += *p == s->separator || is_newline(*p);
    rows += is_newline(*p);
  }
  TT_TRY(TT_ALLOC(t->name, cells));
  TT_TRY(TT_ALLOC(t->cell, cells));
  return TT_ALLOC(t->line, rows);
}

static tt_err read_header(tt_csv *t, scanner *s)
{
  int64_t line = s->line;
  for (int last = 0; !last; t->columns++) TT_TRY(next_cell(s, &t->name[t->columns], &last));
  for (int64_t i = 0; i < t->columns; i++)
    for (int64_t j = 0; j < i; j++)
      if (*t->name[i] && !strcmp(t->name[i], t->name[j]))
        return TT_FAIL(DATA,
                       "%s:%" PRId64 ": columns %" PRId64 " and %" PRId64 " are both named '%s'",
                       s->file, line, j + 1, i + 1, t->name[i]);
  return TT_OK;
}

static tt_err read_row(tt_csv *t, scanner *s)
{
  char **row = t->cell + t->rows * t->columns;
  int64_t line = t->line[t->rows] = s->line, cells = 0;
  for (int last = 0; !last; cells++) {
    char *cell;
    TT_TRY(next_cell(s, &cell, &last));
    if (cells < t->columns) row[cells] = cell;
  }
  if (cells != t->columns)
    return TT_FAIL(DATA,
                   "%s:%" PRId64 ": number of cells: %" PRId64
                   "; number of columns in the header: %" PRId64,
                   s->file, line, cells, t->columns);
  t->rows++;
  return TT_OK;
}

static tt_err read_table(const char *file, tt_csv *t)
{
  scanner s = {0};
  TT_TRY(read_file(file, t, &s));
  skip_comments(&s);
  if (s.next >= s.end)
    return TT_FAIL(DATA, "%s: the file is empty; its first row must hold the column names", file);
  s.separator = find_separator(&s);
  TT_TRY(allocate_cells(t, &s));
  TT_TRY(read_header(t, &s));
  for (skip_comments(&s); s.next < s.end; skip_comments(&s)) TT_TRY(read_row(t, &s));
  if (t->rows == 0) return TT_FAIL(DATA, "%s: no rows after the header", file);
  return TT_OK;
}

tt_err tt_csv_read(const char *file, tt_csv **out)
{
  tt_csv *t = NULL;
  TT_TRY(TT_ALLOC(t, 1));
  tt_err e = read_table(file, t);
  if (e) tt_csv_destroy(&t);
  *out = t;
  return e;
}

static tt_err read_list(const char *what, const char *list, tt_csv *t)
{
  int64_t bytes = (int64_t)strlen(list);
  TT_TRY(tt_alloc_bytes(&t->text, bytes + 1, 1, what));
  memcpy(t->text, list, (size_t)bytes);
  scanner s = {what, t->text, t->text + bytes, ',', 1};
  TT_TRY(allocate_cells(t, &s));
  for (int last = 0; !last; t->columns++) {
    if (next_cell(&s, &t->name[t->columns], &last))
      return TT_FAIL(USAGE, "%s: a quote is not closed, or text follows a closing quote: %s", what,
                     list);
    if (!*t->name[t->columns])
      return TT_FAIL(USAGE, "%s: item %" PRId64 " of '%s' is empty", what, t->columns + 1, list);
  }
  return TT_OK;
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

void tt_csv_destroy(tt_csv **t)
{
  if (!*t) return;
  tt_free((*t)->name);
  tt_free((*t)->cell);
  tt_free((*t)->line);
  tt_free((*t)->text);
  tt_free(*t);
}
