/* errors.c — all errors of a job file at once, each with its place; the nearest word. */
#include "core/config/config_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

enum { LONGEST_WORD = 40 }; /* beyond it nobody mistyped an option */

void tt_show(const char *text, char out[TT_SHOW_TEXT])
{
  enum { ROOM = TT_SHOW_TEXT - 8 };
  size_t used = 0;
  const char *at = text;
  while (*at && used < ROOM) {
    const char *from = at;
    int32_t c = tt_utf8_next(&at);
    int printable = (c >= 0x20 && c < 0x7F) || c >= 0xA0;
    size_t n = printable ? (size_t)(at - from) : 1;
    if (printable)
      memcpy(out + used, from, n);
    else
      out[used] = '?'; /* an escape sequence must not reach a terminal */
    used += n;
  }
  snprintf(out + used, TT_SHOW_TEXT - used, "%s", *at ? "..." : "");
}

void tt_fault(tt_reader *r, const tt_where *at, const char *fmt, ...)
{
  char text[1024], place[256], line[1300], shown[TT_SHOW_TEXT];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  if (at->set) {
    tt_show(r->set[at->set - 1], shown);
    snprintf(place, sizeof place, "--set:%d: '%s'", at->set, shown);
  } else {
    snprintf(place, sizeof place, "%.200s:%" PRId64 ":%" PRId64, r->file, at->line, at->column);
  }
  int wrote = snprintf(line, sizeof line, "%s: %s\n", place, text);
  if (strstr(r->report, line)) return; /* several ensembles share the option */
  r->faults++;
  size_t need = (size_t)wrote + 1, room = sizeof r->report - r->used;
  if (r->told + 1 != r->faults || need >= room) return; /* counted; the list is full */
  memcpy(r->report + r->used, line, need);
  r->used += need - 1;
  r->told++;
}

tt_err tt_fault_result(const tt_reader *r)
{
  char more[64] = "";
  if (!r->faults) return TT_OK;
  if (r->faults > r->told)
    snprintf(more, sizeof more, "and %" PRId64 " more\n", r->faults - r->told);
  return TT_FAIL(CONFIG, "%s%s%" PRId64 " error%s; nothing was run", r->report, more, r->faults,
                 r->faults == 1 ? "" : "s");
}

static int least(int a, int b) { return a < b ? a : b; }

/* Edits (insert, delete, replace, swap neighbours) from a to b: Damerau 1964 in the restricted form
 * of optimal string alignment. */
static int distance(const char *a, const char *b)
{
  int row[3][LONGEST_WORD + 1]; /* two rows back, one row back, this row */
  int n = (int)strlen(a), m = (int)strlen(b);
  for (int j = 0; j <= m; j++)
    row[0][j] = row[1][j] = j;
  for (int i = 1; i <= n; i++) {
    row[2][0] = i;
    for (int j = 1; j <= m; j++) {
      int best = row[1][j - 1] + (a[i - 1] != b[j - 1]);
      best = least(best, least(row[1][j], row[2][j - 1]) + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        best = least(best, row[0][j - 2] + 1);
      row[2][j] = best;
    }
    memcpy(row[0], row[1], sizeof row[0]);
    memcpy(row[1], row[2], sizeof row[0]);
  }
  return row[1][m];
}

void tt_nearest_offer(tt_nearest *n, const char *candidate)
{
  size_t length = strlen(n->word);
  if (length > LONGEST_WORD || strlen(candidate) > LONGEST_WORD) return;
  int far = distance(n->word, candidate), limit = least(1 + (int)length / 4, 3);
  if (far > limit || (*n->best && far >= n->distance)) return;
  n->distance = far;
  snprintf(n->best, sizeof n->best, "%s", candidate);
}

const char *tt_origin(const tt_where *at, char text[TT_PATH_TEXT])
{
  if (at->set)
    snprintf(text, TT_PATH_TEXT, "--set:%d", at->set);
  else if (at->given)
    snprintf(text, TT_PATH_TEXT, "line %" PRId64, at->line);
  else
    snprintf(text, TT_PATH_TEXT, "the default");
  return text;
}
