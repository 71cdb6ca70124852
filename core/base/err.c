/* err.c — see err.h. */
#include "core/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last[TT_ERR_MESSAGE_SIZE];
static _Thread_local char where[256];

const char *tt_err_text(tt_err e)
{
  static const char *const text[] = {
#define X(name, code, t) t,
      TT_ERRORS(X)
#undef X
  };
  return (unsigned)e < TT_E_COUNT ? text[e] : "unknown error";
}

int tt_err_exit_code(tt_err e)
{
  static const int code[] = {
#define X(name, c, t) c,
      TT_ERRORS(X)
#undef X
  };
  return (unsigned)e < TT_E_COUNT ? code[e] : code[TT_E_INTERNAL];
}

const char *tt_err_last(void) { return last; }
const char *tt_err_where(void) { return where; }

tt_err tt_fail_at(const char *file, int line, tt_err e, const char *fmt, ...)
{
  char text[TT_ERR_MESSAGE_SIZE]; /* an argument may point to the previous message */
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  memcpy(last, text, strlen(text) + 1);
  snprintf(where, sizeof where, "%s:%d", file, line);
  return e;
}
