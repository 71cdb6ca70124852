/* csv_lines.c — see csv_lines.h. */
#include "io/table/csv_lines.h"

#include "core/base/mem.h"

#include <inttypes.h>
#include <string.h>

enum { FIRST_ROOM = 1 << 18, MAX_RECORD = 1 << 26 };

/* Read more bytes behind those of the current record, which move to the begin of the window. */
static tt_err read_more(tt_csv_lines *l)
{
  size_t kept = l->filled - l->at, got = 0;
  if (kept == l->capacity) {
    char *larger = NULL;
    if (l->capacity >= MAX_RECORD)
      return TT_FAIL(DATA,
                     "%s:%" PRId64 ": the row that begins here has more than %d MiB; is a quote "
                     "not closed?",
                     l->file, l->line, MAX_RECORD >> 20);
    TT_TRY(tt_alloc_bytes(&larger, (int64_t)(2 * l->capacity + 1), 1, "a row of a table"));
    memcpy(larger, l->window + l->at, kept);
    tt_free(l->window);
    l->window = larger;
    l->capacity *= 2;
  } else {
    memmove(l->window, l->window + l->at, kept);
  }
  l->offset += (int64_t)l->at;
  l->at = 0;
  l->filled = kept;
  TT_TRY(tt_bytes_read_local(l->bytes, l->offset + (int64_t)kept, l->capacity - kept,
                             l->window + kept, &got));
  l->filled += got;
  l->at_end = l->filled < l->capacity;
  l->window[l->filled] = l->newline;
  l->has_quotes = memchr(l->window, '"', l->filled) != NULL;
  return TT_OK;
}

static tt_err check_text(const tt_csv_lines *l)
{
  const char *zero = memchr(l->window, '\0', l->filled);
  if (!l->filled)
    return TT_FAIL(DATA, "%s: the file is empty; its first row must hold the column names",
                   l->file);
  if (!zero) return TT_OK;
  int marked = !memcmp(l->window, "\xFF\xFE", 2) || !memcmp(l->window, "\xFE\xFF", 2);
  return TT_FAIL(
      DATA,
      "%s: byte %td is zero: this is not a CSV file in UTF-8; if it is a table in UTF-16, "
      "convert it: iconv -f %s -t UTF-8 OLD.csv >NEW.csv",
      l->file, zero - l->window, marked ? "UTF-16" : "UTF-16LE");
}

/* Lines end in CR alone if the first line end is a CR without LF. */
static char find_newline(const tt_csv_lines *l)
{
  const char *cr = memchr(l->window, '\r', l->filled);
  size_t before = cr ? (size_t)(cr - l->window) : 0;
  if (!cr || memchr(l->window, '\n', before)) return '\n';
  return before + 1 < l->filled && cr[1] != '\n' ? '\r' : '\n';
}

tt_err tt_csv_lines_open_local(const char *file, tt_csv_lines *l)
{
  *l = (tt_csv_lines){.file = file, .newline = '\n', .line = 1, .capacity = FIRST_ROOM};
  TT_TRY(tt_bytes_open_local(file, &l->bytes));
  TT_TRY(tt_alloc_bytes(&l->window, FIRST_ROOM + 1, 1, "a row of a table"));
  TT_TRY(read_more(l));
  TT_TRY(check_text(l));
  l->newline = find_newline(l);
  l->window[l->filled] = l->newline;
  if (l->filled >= 3 && !memcmp(l->window, "\xEF\xBB\xBF", 3)) l->at = 3;
  return TT_OK;
}

void tt_csv_lines_close_local(tt_csv_lines *l)
{
  tt_bytes_close_local(&l->bytes);
  tt_free(l->window);
}

/* Before the delimiter is known, any of those that are looked for. */
static int is_delimiter(const tt_csv_lines *l, char c)
{
  return l->delimiter ? c == l->delimiter : c == ',' || c == '\t' || c == ';';
}

/* After the closing quote of the cell that begins at p; NULL if it is not closed before `end`. */
static char *quoted_end(char *p, char *end)
{
  for (p++; (p = memchr(p, '"', (size_t)(end - p))); p += 2)
    if (p + 1 >= end || p[1] != '"') return p + 1;
  return NULL;
}

/* End of the record at l->at: its line end. NULL: it is not in the window. */
static char *record_end(const tt_csv_lines *l)
{
  char *p = l->window + l->at, *last = l->window + l->filled;
  char *end = memchr(p, l->newline, (size_t)(last - p));
  if (*p == '#' || !l->has_quotes || !memchr(p, '"', (size_t)((end ? end : last) - p))) return end;
  for (int begins = 1; p < last && *p != l->newline;) {
    if (begins && *p == '"') {
      p = quoted_end(p, last);
      if (!p || (p == last && !l->at_end)) return NULL; /* "" may be cut in two */
      begins = 0;
      continue;
    }
    begins = is_delimiter(l, *p) || (begins && *p == ' ');
    p++;
  }
  return p < last ? p : NULL;
}

/* Whether the quote at which a cell of the last record begins is not closed. */
static int is_open_quote(const tt_csv_lines *l)
{
  char *last = l->window + l->filled;
  int begins = 1;
  for (char *p = l->window + l->at; p < last;) {
    if (begins && *p == '"') {
      p = quoted_end(p, last);
      if (!p) return 1;
      begins = 0;
      continue;
    }
    begins = is_delimiter(l, *p) || (begins && *p == ' ');
    p++;
  }
  return 0;
}

static int is_blank_or_comment(const char *p, const char *end)
{
  if (p < end && *p == '#') return 1;
  while (p < end && (*p == ' ' || *p == '\r')) p++;
  return p == end;
}

static int64_t count_lines(const tt_csv_lines *l, const char *p, const char *end)
{
  int64_t n = 0;
  while ((p = memchr(p, l->newline, (size_t)(end - p)))) n++, p++;
  return n;
}

tt_err tt_csv_lines_next_local(tt_csv_lines *l, char **begin, char **end, int64_t *line)
{
  for (;;) {
    char *last = record_end(l);
    if (!last && !l->at_end) {
      TT_TRY(read_more(l));
      continue;
    }
    *begin = l->window + l->at;
    if (!last && l->at == l->filled) return *begin = NULL, TT_OK;
    if (!last && is_open_quote(l) && **begin != '#')
      return TT_FAIL(DATA, "%s:%" PRId64 ": a quote in the row that begins here is not closed",
                     l->file, l->line);
    *end = last ? last : l->window + l->filled;
    *line = l->line;
    l->at = (size_t)(*end - l->window) + (last != NULL);
    l->line += 1 + (l->has_quotes ? count_lines(l, *begin, *end) : 0);
    if (*end > *begin && (*end)[-1] == '\r') --*end;
    if (!is_blank_or_comment(*begin, *end)) return TT_OK;
  }
}

void tt_csv_lines_tell(const tt_csv_lines *l, int64_t *offset, int64_t *line)
{
  *offset = l->offset + (int64_t)l->at;
  *line = l->line;
}

void tt_csv_lines_seek(tt_csv_lines *l, int64_t offset, int64_t line)
{
  l->offset = offset;
  l->at = l->filled = 0;
  l->line = line;
  l->at_end = l->has_quotes = 0;
  l->window[0] = l->newline;
}

char *tt_csv_cell_end(const tt_csv_lines *l, char *p, char *end)
{
  char *begin = p;
  while (begin < end && *begin == ' ') begin++;
  if (begin < end && *begin == '"') {
    char *after = quoted_end(begin, end);
    p = after ? after : end;
  }
  char *found = memchr(p, l->delimiter, (size_t)(end - p));
  return found ? found : end;
}

static int is_space(const tt_csv_lines *l, char c)
{
  return c == ' ' || (c == '\t' && l->delimiter != '\t');
}

/* Blanks around a text are no part of it. */
static void trim(const tt_csv_lines *l, char **begin, char **end)
{
  while (*begin < *end && is_space(l, **begin)) ++*begin;
  while (*end > *begin && is_space(l, (*end)[-1])) --*end;
}

char *tt_csv_cell_text(const tt_csv_lines *l, char *p, char *end)
{
  trim(l, &p, &end);
  if (end - p >= 2 && *p == '"' && end[-1] == '"') {
    char *dst = ++p;
    end--;
    for (char *src = p; src < end; src++) {
      *dst++ = *src;
      if (*src == '"' && src + 1 < end && src[1] == '"') src++;
    }
    end = dst;
    trim(l, &p, &end);
  }
  *end = '\0';
  return p;
}
