/* err.c — see err.h. */
#include "core/base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static tt_err_record *own_record(void)
{
  static _Thread_local tt_err_record own;
  return &own;
}

static tt_err_record_get *record = own_record;

tt_err_record *tt_err_record_of_thread(void) { return record(); }
void tt_err_use_record(tt_err_record_get *get) { record = get; }

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

const char *tt_err_last(void) { return record()->last; }
const char *tt_err_where(void) { return record()->where; }
void tt_err_clear(void) { record()->last[0] = '\0'; }

tt_err tt_fail_at(const char *file, int line, tt_err e, const char *fmt, ...)
{
  char text[TT_ERR_MESSAGE_SIZE]; /* an argument may point to the previous message */
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  tt_err_record *dst = record();
  memcpy(dst->last, text, strlen(text) + 1);
  snprintf(dst->where, sizeof dst->where, "%s:%d", file, line);
  return e;
}

int tt_errno_is_disk(int error_number)
{
  static const int disk[] = {EIO, ENOSPC, EDQUOT, EFBIG, ESTALE, ENXIO, EREMOTEIO, ETIMEDOUT};
  for (size_t i = 0; i < sizeof disk / sizeof *disk; i++)
    if (disk[i] == error_number) return 1;
  return 0;
}

tt_err tt_fail_errno_at(const char *file, int line, tt_err e, const char *fmt, ...)
{
  int error_number = errno;
  char text[TT_ERR_MESSAGE_SIZE];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  return tt_fail_at(file, line, tt_errno_is_disk(error_number) ? TT_E_IO : e, "%s: %s", text,
                    strerror(error_number));
}
