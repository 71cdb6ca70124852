/* fields.c — values in the fields of a configuration: set, free, write as YAML. */
#include "core/base/list.h"
#include "core/base/mem.h"
#include "core/config/config_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const tt_option_kind_row tt_option_kind_table[] = {
#define X(name, text, element, type, is_list) {text, element, TT_VALUE_##type, is_list},
    TT_OPTION_KINDS(X)
#undef X
};

static tt_value_type type_of(const tt_option *o) { return tt_option_kind_table[o->kind].type; }

tt_stored_values tt_values_of(const tt_option *o, const void *record)
{
  static const size_t size[] = {sizeof(int64_t), sizeof(double), sizeof(int), sizeof(char *)};
  const void *field = (const char *)record + o->offset;
  const tt_int_list *whole = field;
  const tt_real_list *real = field;
  const tt_text_list *text = field;
  tt_stored_values v = {1, size[type_of(o)], field};
  if (o->kind == TT_KIND_LIST) v.count = whole->count, v.at = whole->value;
  if (o->kind == TT_KIND_REALS) v.count = real->count, v.at = real->value;
  if (o->kind == TT_KIND_TEXTLIST) v.count = text->count, v.at = text->value;
  return v;
}

static tt_value value_at(const tt_option *o, const tt_stored_values *v, int64_t i)
{
  switch (type_of(o)) {
  case TT_VALUE_WHOLE: return (tt_value){.whole = ((const int64_t *)v->at)[i]};
  case TT_VALUE_REAL: return (tt_value){.real = ((const double *)v->at)[i]};
  case TT_VALUE_WORD: return (tt_value){.word = ((const int *)v->at)[i]};
  default: return (tt_value){.text = ((char *const *)v->at)[i]};
  }
}

static void set_list(const tt_option *o, void *field, int64_t count, void *value)
{
  if (o->kind == TT_KIND_LIST) *(tt_int_list *)field = (tt_int_list){count, value};
  if (o->kind == TT_KIND_REALS) *(tt_real_list *)field = (tt_real_list){count, value};
  if (o->kind == TT_KIND_TEXTLIST) *(tt_text_list *)field = (tt_text_list){count, value};
}

tt_err tt_value_store(const tt_option *o, void *record, const tt_value *value, int64_t count)
{
  void *field = (char *)record + o->offset, *to = field;
  tt_value_free(o, record);
  if (tt_option_kind_table[o->kind].is_list) {
    TT_TRY(tt_alloc_bytes(&to, count, tt_values_of(o, record).size, o->name));
    set_list(o, field, count, to);
  }
  for (int64_t i = 0; i < count; i++) switch (type_of(o)) {
    case TT_VALUE_WHOLE: ((int64_t *)to)[i] = value[i].whole; break;
    case TT_VALUE_REAL: ((double *)to)[i] = value[i].real; break;
    case TT_VALUE_WORD: ((int *)to)[i] = value[i].word; break;
    case TT_VALUE_STRING: TT_TRY(tt_text_set((char **)to + i, value[i].text)); break;
    }
  return TT_OK;
}

void tt_value_free(const tt_option *o, void *record)
{
  tt_stored_values v = tt_values_of(o, record);
  void *field = (char *)record + o->offset, *list = (void *)(uintptr_t)v.at;
  for (int64_t i = 0; type_of(o) == TT_VALUE_STRING && i < v.count; i++)
    tt_free(((char **)list)[i]);
  if (!tt_option_kind_table[o->kind].is_list) return;
  tt_free(list);
  set_list(o, field, 0, NULL);
}

int tt_value_is_empty(const tt_option *o, const void *record)
{
  tt_stored_values v = tt_values_of(o, record);
  if (type_of(o) != TT_VALUE_STRING) return 0;
  return tt_option_kind_table[o->kind].is_list ? v.count == 0 : *value_at(o, &v, 0).text == '\0';
}

void tt_yaml_write_text(const char *text, FILE *out)
{
  fputc('"', out);
  for (const char *cursor = text; *cursor;) {
    const char *src = cursor;
    int32_t c = tt_utf8_next(&cursor);
    int line_break = c == 0x85 || c == 0x2028 || c == 0x2029;
    int printable = (c >= 0x20 && c < 0x7F) || (c >= 0xA0 && c != 0xFEFF && c < 0xFFFE) ||
                    (c >= 0x10000 && c <= 0x10FFFF);
    if (c == '"' || c == '\\') fputc('\\', out);
    if (printable && !line_break)
      fwrite(src, 1, (size_t)(cursor - src), out);
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

tt_err tt_value_copy(const tt_option *o, const void *src, void *dst)
{
  tt_stored_values v = tt_values_of(o, src);
  tt_value *value = NULL;
  TT_TRY(TT_ALLOC(value, v.count));
  for (int64_t i = 0; i < v.count; i++) value[i] = value_at(o, &v, i);
  tt_err e = tt_value_store(o, dst, value, v.count);
  tt_free(value);
  return e;
}

static int is_equal(tt_value_type type, tt_value a, tt_value b)
{
  switch (type) {
  case TT_VALUE_WHOLE: return a.whole == b.whole;
  case TT_VALUE_REAL: return a.real == b.real;
  case TT_VALUE_WORD: return a.word == b.word;
  default: return strcmp(a.text, b.text) == 0;
  }
}

int tt_value_equal(const tt_option *o, const void *one, const void *other)
{
  tt_stored_values a = tt_values_of(o, one), b = tt_values_of(o, other);
  int equal = a.count == b.count;
  for (int64_t i = 0; equal && i < a.count; i++)
    equal = is_equal(type_of(o), value_at(o, &a, i), value_at(o, &b, i));
  return equal;
}

/* standard, or {"te": log, "f*": robust} from "log:te,robust:f*". */
static void write_by_column(const char *text, FILE *out)
{
  tt_list *pairs = NULL;
  if (!strchr(text, ':') || tt_list_parse("a mapping", text, &pairs)) {
    fputs(text, out);
    return;
  }
  fputc('{', out);
  for (int64_t i = 0; i < pairs->count; i++) {
    const char *choice = pairs->item[i];
    int length = (int)strcspn(choice, ":");
    if (i) fputs(", ", out);
    tt_yaml_write_text(choice + length + 1, out);
    fprintf(out, ": %.*s", length, choice);
  }
  fputc('}', out);
  tt_list_destroy(&pairs);
}

/* {"species": ["setosa", "virginica"]} */
static void write_classes(const char *text, FILE *out)
{
  tt_list *columns = NULL, *names = NULL;
  if (tt_list_parse("a mapping", text, &columns)) return;
  fputc('{', out);
  for (int64_t i = 0; i < columns->count; i++) {
    if (tt_list_parse("a mapping", columns->item[i], &names)) continue;
    if (i) fputs(", ", out);
    for (int64_t k = 0; k < names->count; k++) {
      if (k) fputs(k == 1 ? ": [" : ", ", out);
      tt_yaml_write_text(names->item[k], out);
    }
    fputc(']', out);
    tt_list_destroy(&names);
  }
  fputc('}', out);
  tt_list_destroy(&columns);
}

static void write_value(const tt_option *o, tt_value x, FILE *out)
{
  int may_be_auto = o->default_value && strcmp(o->default_value, "auto") == 0;
  switch (type_of(o)) {
  case TT_VALUE_WHOLE:
    if (may_be_auto && x.whole < 0)
      fputs("auto", out);
    else
      fprintf(out, "%" PRId64, x.whole);
    return;
  case TT_VALUE_REAL:
    if (may_be_auto && x.real < 0.0) {
      fputs("auto", out);
      return;
    }
    tt_double_write(x.real, out);
    if (o->kind == TT_KIND_SECONDS) fputc('s', out);
    if (o->kind == TT_KIND_BYTES) fputc('B', out);
    return;
  case TT_VALUE_WORD:
    if (o->kind == TT_KIND_BOOL)
      fputs(x.word ? "true" : "false", out);
    else
      fputs(x.word < 0 ? "auto" : o->choices[x.word], out);
    return;
  case TT_VALUE_STRING:
    if (o->kind == TT_KIND_BYCOLUMN)
      write_by_column(x.text, out);
    else if (o->kind == TT_KIND_CLASSES && *x.text)
      write_classes(x.text, out);
    else
      tt_yaml_write_text(x.text, out);
    return;
  }
}

void tt_value_write(const tt_option *o, const void *record, FILE *out)
{
  tt_stored_values v = tt_values_of(o, record);
  int is_list = tt_option_kind_table[o->kind].is_list;
  if (is_list) fputc('[', out);
  for (int64_t i = 0; i < v.count; i++) {
    if (i) fputs(", ", out);
    write_value(o, value_at(o, &v, i), out);
  }
  if (is_list) fputc(']', out);
}
