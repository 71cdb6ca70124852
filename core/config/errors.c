/* errors.c — the list of all errors of a job file, each with its location. */
#include "core/base/text.h"
#include "core/config/config_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

void tt_printable(const char *text, char out[TT_PRINTABLE_SIZE])
{
  enum { CAPACITY = TT_PRINTABLE_SIZE - 8 };
  size_t used = 0;
  const char *cursor = text;
  while (*cursor && used < CAPACITY) {
    const char *src = cursor;
    int printable = tt_utf8_is_printable(tt_utf8_next(&cursor));
    size_t n = printable ? (size_t)(cursor - src) : 1;
    if (printable)
      memcpy(out + used, src, n);
    else
      out[used] = '?'; /* an escape sequence must not reach a terminal */
    used += n;
  }
  snprintf(out + used, TT_PRINTABLE_SIZE - used, "%s", *cursor ? "..." : "");
}

void tt_config_error(tt_config_reader *r, const tt_source_location *location, const char *fmt, ...)
{
  char text[1024], place[256], line[1300], shown[TT_PRINTABLE_SIZE];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  if (location->set) {
    tt_printable(r->set[location->set - 1], shown);
    snprintf(place, sizeof place, "--set:%d: '%s'", location->set, shown);
  } else if (location->line > 0) {
    snprintf(place, sizeof place, "%.200s:%" PRId64 ":%" PRId64, r->file, location->line,
             location->column);
  } else { /* the value of a default */
    snprintf(place, sizeof place, "%.200s", r->file);
  }
  int written = snprintf(line, sizeof line, "%s: %s\n", place, text);
  if (strstr(r->messages, line)) return; /* several ensembles share the option */
  r->error_count++;
  size_t need = (size_t)written + 1, capacity = sizeof r->messages - r->used;
  if (r->errors_listed + 1 != r->error_count || need >= capacity)
    return; /* counted, but the list is full */
  memcpy(r->messages + r->used, line, need);
  r->used += need - 1;
  r->errors_listed++;
}

tt_err tt_config_error_result(const tt_config_reader *r)
{
  char more[64] = "";
  if (!r->error_count) return TT_OK;
  if (r->error_count > r->errors_listed)
    snprintf(more, sizeof more, "and %" PRId64 " more\n", r->error_count - r->errors_listed);
  return TT_FAIL(CONFIG, "%s%s%" PRId64 " error%s%s; nothing was run", r->messages, more,
                 r->error_count, r->error_count == 1 ? "" : "s",
                 r->error_count < TT_MAX_CONFIG_ERRORS ? "" : " or more");
}

const char *tt_location_text(const tt_source_location *location, char text[TT_OPTION_PATH_SIZE])
{
  if (location->set)
    snprintf(text, TT_OPTION_PATH_SIZE, "--set:%d", location->set);
  else if (location->given)
    snprintf(text, TT_OPTION_PATH_SIZE, "line %" PRId64, location->line);
  else
    snprintf(text, TT_OPTION_PATH_SIZE, "the default");
  return text;
}
