/* fields.c — values in the fields of a configuration: set, free, write as YAML. */
#include "core/base/mem.h"
#include "core/config/config_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void *field_of(const tt_option *o, void *record) { return (char *)record + o->offset; }
static const void *const_field_of(const tt_option *o, const void *record)
{
  return (const char *)record + o->offset;
}

static tt_err store_list(const tt_value *value, int64_t count, tt_int_list *list)
{
  TT_TRY(TT_ALLOC(list->value, count));
  list->count = count;
  for (int64_t i = 0; i < count; i++) list->value[i] = value[i].whole;
  return TT_OK;
}

static tt_err store_reals(const tt_value *value, int64_t count, tt_real_list *list)
{
  TT_TRY(TT_ALLOC(list->value, count));
  list->count = count;
  for (int64_t i = 0; i < count; i++) list->value[i] = value[i].real;
  return TT_OK;
}

static tt_err store_texts(const tt_value *value, int64_t count, tt_text_list *list)
{
  TT_TRY(TT_ALLOC(list->value, count));
  list->count = count;
  for (int64_t i = 0; i < count; i++) TT_TRY(tt_text_set(&list->value[i], value[i].text));
  return TT_OK;
}

tt_err tt_value_store(const tt_option *o, void *record, const tt_value *value, int64_t count)
{
  void *field = field_of(o, record);
  tt_value_free(o, record);
  switch (o->kind) {
  case TT_KIND_I64: *(int64_t *)field = value->whole; return TT_OK;
  case TT_KIND_F64:
  case TT_KIND_SECONDS: *(double *)field = value->real; return TT_OK;
  case TT_KIND_BOOL:
  case TT_KIND_NAME: *(int *)field = value->word; return TT_OK;
  case TT_KIND_TEXT:
  case TT_KIND_PATH: return tt_text_set(field, value->text);
  case TT_KIND_LIST: return store_list(value, count, field);
  case TT_KIND_REALS: return store_reals(value, count, field);
  case TT_KIND_TEXTLIST: return store_texts(value, count, field);
  }
  return TT_FAIL(INTERNAL, "option %s has no kind", o->name);
}

void tt_value_free(const tt_option *o, void *record)
{
  void *field = field_of(o, record);
  if (o->kind == TT_KIND_TEXT || o->kind == TT_KIND_PATH) tt_free(*(char **)field);
  if (o->kind == TT_KIND_LIST) {
    tt_free(((tt_int_list *)field)->value);
    ((tt_int_list *)field)->count = 0;
  }
  if (o->kind == TT_KIND_REALS) {
    tt_free(((tt_real_list *)field)->value);
    ((tt_real_list *)field)->count = 0;
  }
  if (o->kind == TT_KIND_TEXTLIST) {
    tt_text_list *list = field;
    for (int64_t i = 0; i < list->count; i++) tt_free(list->value[i]);
    tt_free(list->value);
    list->count = 0;
  }
}

int tt_value_is_empty(const tt_option *o, const void *record)
{
  const void *field = const_field_of(o, record);
  if (o->kind == TT_KIND_TEXTLIST) return ((const tt_text_list *)field)->count == 0;
  int text = o->kind == TT_KIND_TEXT || o->kind == TT_KIND_PATH;
  return text && (*(char *const *)field)[0] == '\0';
}

/* Double-quoted YAML that is also JSON; characters that YAML would fold or refuse are escaped. */
static void write_text(const char *text, FILE *out)
{
  fputc('"', out);
  for (const char *at = text; *at;) {
    const char *from = at;
    int32_t c = tt_utf8_next(&at);
    int line_break = c == 0x85 || c == 0x2028 || c == 0x2029;
    int printable = (c >= 0x20 && c < 0x7F) || (c >= 0xA0 && c != 0xFEFF && c < 0xFFFE) ||
                    (c >= 0x10000 && c <= 0x10FFFF);
    if (c == '"' || c == '\\') fputc('\\', out);
    if (printable && !line_break)
      fwrite(from, 1, (size_t)(at - from), out);
    else
      fprintf(out, "\\u%04" PRIX32, c < 0 ? (int32_t)0xFFFD : c);
  }
  fputc('"', out);
}

/* %g drops trailing zeros. */
void tt_double_write(double x, FILE *out)
{
  char text[64];
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, x);
    if (strtod(text, NULL) == x) break;
  }
  fputs(text, out);
}

/* Access by element; a scalar counts as a list of one element. */

static int64_t count_of(const tt_option *o, const void *record)
{
  const void *field = const_field_of(o, record);
  if (o->kind == TT_KIND_LIST) return ((const tt_int_list *)field)->count;
  if (o->kind == TT_KIND_REALS) return ((const tt_real_list *)field)->count;
  return o->kind == TT_KIND_TEXTLIST ? ((const tt_text_list *)field)->count : 1;
}

static tt_value element_of(const tt_option *o, const void *record, int64_t i)
{
  const void *field = const_field_of(o, record);
  switch (o->kind) {
  case TT_KIND_I64: return (tt_value){.whole = *(const int64_t *)field};
  case TT_KIND_LIST: return (tt_value){.whole = ((const tt_int_list *)field)->value[i]};
  case TT_KIND_F64:
  case TT_KIND_SECONDS: return (tt_value){.real = *(const double *)field};
  case TT_KIND_REALS: return (tt_value){.real = ((const tt_real_list *)field)->value[i]};
  case TT_KIND_BOOL:
  case TT_KIND_NAME: return (tt_value){.word = *(const int *)field};
  case TT_KIND_TEXTLIST: return (tt_value){.text = ((const tt_text_list *)field)->value[i]};
  default: return (tt_value){.text = *(char *const *)field};
  }
}

tt_err tt_value_copy(const tt_option *o, const void *from, void *to)
{
  int64_t count = count_of(o, from);
  tt_value *value = NULL;
  TT_TRY(TT_ALLOC(value, count));
  for (int64_t i = 0; i < count; i++) value[i] = element_of(o, from, i);
  tt_err e = tt_value_store(o, to, value, count);
  tt_free(value);
  return e;
}

static int equal_elements(tt_option_kind kind, tt_value a, tt_value b)
{
  switch (kind) {
  case TT_KIND_I64:
  case TT_KIND_LIST: return a.whole == b.whole;
  case TT_KIND_F64:
  case TT_KIND_SECONDS:
  case TT_KIND_REALS: return a.real == b.real;
  case TT_KIND_BOOL:
  case TT_KIND_NAME: return a.word == b.word;
  default: return strcmp(a.text, b.text) == 0;
  }
}

int tt_value_equal(const tt_option *o, const void *one, const void *other)
{
  int64_t count = count_of(o, one);
  if (count_of(o, other) != count) return 0;
  for (int64_t i = 0; i < count; i++)
    if (!equal_elements(o->kind, element_of(o, one, i), element_of(o, other, i))) return 0;
  return 1;
}

static void write_list(const tt_option *o, const void *record, FILE *out)
{
  fputc('[', out);
  for (int64_t i = 0; i < count_of(o, record); i++) {
    tt_value x = element_of(o, record, i);
    if (i) fputs(", ", out);
    if (o->kind == TT_KIND_LIST)
      fprintf(out, "%" PRId64, x.whole);
    else if (o->kind == TT_KIND_REALS)
      tt_double_write(x.real, out);
    else
      write_text(x.text, out);
  }
  fputc(']', out);
}

void tt_value_write(const tt_option *o, const void *record, FILE *out)
{
  const void *field = const_field_of(o, record);
  int may_be_auto = o->default_value && strcmp(o->default_value, "auto") == 0;
  switch (o->kind) {
  case TT_KIND_I64:
    if (may_be_auto && *(const int64_t *)field < 0)
      fputs("auto", out);
    else
      fprintf(out, "%" PRId64, *(const int64_t *)field);
    return;
  case TT_KIND_SECONDS:
  case TT_KIND_F64:
    if (may_be_auto && *(const double *)field < 0.0) {
      fputs("auto", out);
      return;
    }
    tt_double_write(*(const double *)field, out);
    if (o->kind == TT_KIND_SECONDS) fputc('s', out);
    return;
  case TT_KIND_BOOL: fputs(*(const int *)field ? "true" : "false", out); return;
  case TT_KIND_NAME:
    fputs(*(const int *)field < 0 ? "auto" : o->choices[*(const int *)field], out);
    return;
  case TT_KIND_TEXT:
  case TT_KIND_PATH: write_text(*(char *const *)field, out); return;
  case TT_KIND_LIST:
  case TT_KIND_REALS:
  case TT_KIND_TEXTLIST: write_list(o, record, out); return;
  }
}
