/* json.c — see json.h. */
#include "core/base/json.h"

#include "core/base/directory.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

json_t *tt_json_text(const char *text)
{
  char *clean = NULL;
  size_t n = text ? strlen(text) : 0;
  if (TT_ALLOC(clean, (int64_t)n + 1)) return NULL;
  for (size_t i = 0; i < n;) {
    int bytes = tt_utf8_char_bytes(text + i);
    if (bytes > 1) {
      memcpy(clean + i, text + i, (size_t)bytes);
      i += (size_t)bytes;
    } else {
      char c = bytes == 0 ? '?' : text[i];
      clean[i++] = c < 0x20 ? ' ' : c;
    }
  }
  json_t *value = json_stringn_nocheck(clean, n);
  tt_free(clean);
  return value;
}

json_t *tt_json_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

void tt_json_set(json_t **object, const char *key, json_t *value)
{
  if (json_object_set_new(*object, key, value) == 0) return;
  json_decref(*object);
  *object = NULL;
}

tt_err tt_json_format(json_t *value, int indent, char **text)
{
  size_t flags = JSON_INDENT((size_t)indent) | JSON_REAL_PRECISION(DBL_DIG);
  size_t n = value ? json_dumpb(value, NULL, 0, flags) : 0;
  tt_err e =
      n ? TT_ALLOC(*text, (int64_t)n + 2) : TT_FAIL(MEM, "out of host memory for a JSON text");
  if (!e) {
    json_dumpb(value, *text, n, flags);
    memcpy(*text + n, "\n", 2);
  }
  json_decref(value);
  return e;
}

tt_err tt_json_print(json_t *value, int indent)
{
  char *text = NULL;
  TT_TRY(tt_json_format(value, indent, &text));
  fputs(text, stdout);
  tt_free(text);
  return TT_OK;
}

tt_err tt_json_read_file(const char *path, json_t **out)
{
  json_error_t error;
  FILE *f = NULL;
  TT_TRY(tt_file_open_stream(path, &f));
  *out = json_loadf(f, JSON_REJECT_DUPLICATES, &error);
  fclose(f);
  if (*out) return TT_OK;
  return TT_FAIL(DATA, "%s:%d: %s", path, error.line, error.text);
}
