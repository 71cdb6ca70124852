/* text.c — see text.h. */
#include "core/base/text.h"

#include "core/base/mem.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int tt_utf8_char_bytes(const char *text)
{
  static const struct {
    unsigned char low, high, second_low, second_high;
    int bytes;
  } form[] = {
      {0x01, 0x7F, 0, 0, 1},       {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
      {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
      {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
  };
  const unsigned char *p = (const unsigned char *)text;
  for (int i = 0; i < (int)(sizeof form / sizeof *form); i++) {
    if (p[0] < form[i].low || p[0] > form[i].high) continue;
    if (form[i].bytes > 1 && (p[1] < form[i].second_low || p[1] > form[i].second_high)) return 0;
    for (int k = 2; k < form[i].bytes; k++)
      if ((p[k] & 0xC0) != 0x80) return 0;
    return form[i].bytes;
  }
  return 0;
}

int32_t tt_utf8_next(const char **cursor)
{
  const unsigned char *p = (const unsigned char *)*cursor;
  int bytes = tt_utf8_char_bytes(*cursor);
  int32_t code = bytes < 2 ? p[0] : p[0] & (0xFF >> (bytes + 1));
  for (int i = 1; i < bytes; i++) code = code << 6 | (p[i] & 0x3F);
  *cursor += bytes ? bytes : 1;
  return bytes ? code : -1;
}

int tt_text_is_utf8(const char *text)
{
  while (*text)
    if (tt_utf8_next(&text) < 0) return 0;
  return 1;
}

int tt_utf8_is_printable(int32_t code)
{
  int turns = (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  return ((code >= 0x20 && code < 0x7F) || code >= 0xA0) && !turns;
}

void tt_text_make_printable(char *text, const char *keep)
{
  char *dst = text;
  for (const char *cursor = text; *cursor;) {
    const char *src = cursor;
    int32_t code = tt_utf8_next(&cursor);
    size_t bytes = (size_t)(cursor - src);
    if (tt_utf8_is_printable(code) || (code > 0 && code < 0x20 && strchr(keep, code)))
      memmove(dst, src, bytes);
    else
      *dst = '?', bytes = 1;
    dst += bytes;
  }
  *dst = '\0';
}

enum { MAX_WORD_LENGTH = 40 }; /* longer words have no suggestion */

static int min_int(int a, int b) { return a < b ? a : b; }

/* Edits (insert, delete, replace, swap neighbors) from a to b: Damerau 1964 in the restricted form
 * of optimal string alignment. */
static int edit_distance(const char *a, const char *b)
{
  int row[3][MAX_WORD_LENGTH + 1]; /* two rows back, one row back, this row */
  int n = (int)strlen(a), m = (int)strlen(b);
  for (int j = 0; j <= m; j++) row[0][j] = row[1][j] = j;
  for (int i = 1; i <= n; i++) {
    row[2][0] = i;
    for (int j = 1; j <= m; j++) {
      int same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]);
      int best = row[1][j - 1] + !same;
      best = min_int(best, min_int(row[1][j], row[2][j - 1]) + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        best = min_int(best, row[0][j - 2] + 1);
      row[2][j] = best;
    }
    memcpy(row[0], row[1], sizeof row[0]);
    memcpy(row[1], row[2], sizeof row[0]);
  }
  return row[1][m];
}

/* "load" begins "load (kWh/m^2)" and "load_kwh", but not "loader". */
static int begins_words(const char *word, const char *candidate)
{
  size_t length = strlen(word);
  return length && !strncasecmp(word, candidate, length) &&
         strchr(" _-.,:;([{/", candidate[length]);
}

void tt_suggestion_consider(tt_suggestion *s, const char *candidate)
{
  int length = (int)strlen(s->word), limit = min_int(1 + length / 4, 3);
  if (length > MAX_WORD_LENGTH || strlen(candidate) > MAX_WORD_LENGTH) return;
  int begun = begins_words(s->word, candidate);
  if (!begun && abs((int)strlen(candidate) - length) > limit) return; /* edits are more */
  int far = begun ? 0 : edit_distance(s->word, candidate);
  int better = !*s->best || far < s->edit_distance || !strcmp(candidate, s->word);
  if (far > min_int(limit, length - 1) || !better) return;
  s->edit_distance = far;
  snprintf(s->best, sizeof s->best, "%s", candidate);
}

const char *tt_plural(int64_t count) { return count == 1 ? "" : "s"; }

const char *tt_duration_text(double seconds, char text[32])
{
  int64_t s = (int64_t)(seconds + 0.5), d = s / 86400;
  int h = (int)(s / 3600 % 24), m = (int)(s / 60 % 60);
  if (seconds < 0.0)
    snprintf(text, 32, "?");
  else if (d > 0)
    snprintf(text, 32, "%" PRId64 "-%02d:%02d:%02d", d, h, m, (int)(s % 60));
  else if (h > 0)
    snprintf(text, 32, "%d:%02d:%02d", h, m, (int)(s % 60));
  else
    snprintf(text, 32, "%d:%02d", m, (int)(s % 60));
  return text;
}

tt_err tt_text_set(char **text, const char *value)
{
  char *copy = NULL;
  size_t bytes = strlen(value) + 1;
  TT_TRY(TT_ALLOC(copy, (int64_t)bytes));
  memcpy(copy, value, bytes);
  tt_free(*text);
  *text = copy;
  return TT_OK;
}

tt_err tt_text_format(char **text, const char *fmt, ...)
{
  char *whole = NULL;
  va_list list, again;
  va_start(list, fmt);
  va_copy(again, list);
  int bytes = vsnprintf(NULL, 0, fmt, list) + 1;
  tt_err e = TT_ALLOC(whole, bytes);
  if (!e) vsnprintf(whole, (size_t)bytes, fmt, again);
  va_end(again);
  va_end(list);
  if (e) return e;
  tt_free(*text);
  *text = whole;
  return TT_OK;
}

int tt_text_ends_in(const char *text, const char *end)
{
  size_t a = strlen(text), b = strlen(end);
  return a > b && !strcmp(text + a - b, end);
}

void tt_text_append(char *text, size_t capacity, const char *separator, const char *word)
{
  size_t used = strlen(text);
  snprintf(text + used, capacity - used, "%s%s", used ? separator : "", word);
}

tt_err tt_text_set_name(char **text, const char *value)
{
  TT_TRY(tt_text_set(text, value));
  if (tt_text_is_utf8(value)) tt_text_make_printable(*text, "");
  return TT_OK;
}

void tt_sentences_add(tt_sentences *s, const char *fmt, ...)
{
  va_list list;
  if (s->count == TT_SENTENCES) return;
  va_start(list, fmt);
  vsnprintf(s->text[s->count++], TT_SENTENCE, fmt, list);
  va_end(list);
}

void tt_text_print_word(int *column, int indent, const char *word, int length)
{
  enum { COLUMNS = 80 };
  if (*column >= indent && *column + 1 + length > COLUMNS)
    *column = printf("\n%*s", indent - 1, "") - 1;
  *column += printf(" %.*s", length, word);
}

void tt_text_print_words(int indent, const char *text)
{
  int column = indent - 1;
  for (const char *word = text; *word; word += strcspn(word, " "), word += strspn(word, " "))
    tt_text_print_word(&column, indent, word, (int)strcspn(word, " "));
  printf("\n");
}
