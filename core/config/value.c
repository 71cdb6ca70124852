/* value.c — one option's value: parsed strictly by its kind; paths and ranges of options. */
#include "core/base/mem.h"
#include "core/config/config_internal.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_SIZE = 64 }; /* longest number, bytes */

__attribute__((format(printf, 2, 3))) static int reject(char why[TT_REASON_SIZE], const char *fmt,
                                                        ...)
{
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(why, TT_REASON_SIZE, fmt, ap);
  va_end(ap);
  return 0;
}

size_t tt_section_leaf(const char *section)
{
  size_t longest = 0;
  const char *outer = "";
  if (!strchr(section, '_')) return 0;
  for (int i = 0; i < TT_OPTION_COUNT; i++) {
    if (outer == tt_option_table[i].section) continue; /* the next option of the same section */
    outer = tt_option_table[i].section;
    size_t n = strlen(outer);
    if (n > longest && strncmp(outer, section, n) == 0 && section[n] == '_') longest = n;
  }
  return longest ? longest + 1 : 0;
}

int tt_section_path(const char *section, char path[TT_OPTION_PATH_SIZE])
{
  char parent[TT_OPTION_PATH_SIZE];
  int depth = 0;
  snprintf(path, TT_OPTION_PATH_SIZE, "%s", section);
  snprintf(parent, TT_OPTION_PATH_SIZE, "%s", section);
  for (size_t offset; (offset = tt_section_leaf(parent)) > 0; depth++) {
    path[offset - 1] = '.';
    parent[offset - 1] = '\0';
  }
  return depth;
}

void tt_option_path(const tt_option *o, int64_t element, char path[TT_OPTION_PATH_SIZE])
{
  char section[TT_OPTION_PATH_SIZE];
  int own = strcmp(o->section, "ensembles") == 0, top = strcmp(o->section, "top") == 0;
  tt_section_path(o->section, section);
  path[0] = '\0';
  if (element >= 0) snprintf(path, TT_OPTION_PATH_SIZE, "ensembles[%" PRId64 "].", element);
  size_t used = strlen(path);
  if (top || (own && element >= 0))
    snprintf(path + used, TT_OPTION_PATH_SIZE - used, "%s", o->name);
  else
    snprintf(path + used, TT_OPTION_PATH_SIZE - used, "%.48s.%.48s", section, o->name);
}

void tt_option_range(const tt_option *o, char range[TT_OPTION_PATH_SIZE])
{
  tt_value_type type = tt_option_kind_table[o->kind].type;
  const char *space = *o->unit ? " " : "";
  range[0] = '\0';
  if (type == TT_VALUE_WHOLE && o->high >= (long double)INT64_MAX)
    snprintf(range, TT_OPTION_PATH_SIZE, "at least %.0Lf%s%s", o->low, space, o->unit);
  else if (type == TT_VALUE_WHOLE)
    snprintf(range, TT_OPTION_PATH_SIZE, "%.0Lf to %.0Lf%s%s", o->low, o->high, space, o->unit);
  else if (type == TT_VALUE_REAL)
    snprintf(range, TT_OPTION_PATH_SIZE, "%.10Lg to %.10Lg%s%s", o->low, o->high, space, o->unit);
}

static int in_range(const tt_option *o, long double x, const char *shown, char why[TT_REASON_SIZE])
{
  char range[TT_OPTION_PATH_SIZE];
  if (x >= o->low && x <= o->high) return 1;
  tt_option_range(o, range);
  return reject(why, "%s is out of range: %s", shown, range);
}

/* [+-] and digits, nothing else. YAML 1.1 reads 010 as 8 and YAML 1.2 as 10: refused. */
static int parse_integer(const tt_option *o, const char *text, const char *shown, int64_t *out,
                         char why[TT_REASON_SIZE])
{
  const char *digits = text + (*text == '+' || *text == '-');
  size_t n = strspn(digits, "0123456789");
  if (n == 0 || digits[n]) return reject(why, "'%s' is not a whole number", shown);
  if (n > 1 && *digits == '0') return reject(why, "'%s': write it without leading zeros", shown);
  errno = 0;
  *out = strtoll(text, NULL, 10);
  if (errno == ERANGE) return in_range(o, *text == '-' ? -INFINITY : INFINITY, shown, why);
  return in_range(o, (long double)*out, shown, why);
}

static int parse_real(const char *text, const char *shown, double *out, char why[TT_REASON_SIZE])
{
  char *end = NULL;
  errno = 0;
  int plain = *text && strspn(text, "0123456789+-.eE") == strlen(text); /* no inf, nan, 0x1p3 */
  if (plain) *out = strtod(text, &end);
  if (!plain || end == text || *end) return reject(why, "'%s' is not a number", shown);
  if (!isfinite(*out) || (errno == ERANGE && fabs(*out) < DBL_MIN))
    return reject(why, "'%s' is outside the range of double precision", shown);
  return 1;
}

/* Units of a kind of option, and how a value is written. */
typedef struct unit_table {
  const char *what, *example;
  struct {
    const char *name;
    double size;
  } unit[9];
} unit_table;

static const unit_table durations = {
    "a duration",
    "90s, 10min, 2h or 1d",
    {{"ms", 1e-3}, {"s", 1.0}, {"min", 60.0}, {"h", 3600.0}, {"d", 86400.0}}};
static const unit_table sizes = {"a size",
                                 "500MB, 64GiB or 1TB",
                                 {{"B", 1.0},
                                  {"KiB", 1024.0},
                                  {"MiB", 1048576.0},
                                  {"GiB", 1073741824.0},
                                  {"TiB", 1099511627776.0},
                                  {"kB", 1e3},
                                  {"MB", 1e6},
                                  {"GB", 1e9},
                                  {"TB", 1e12}}};

static int parse_with_unit(const unit_table *table, const char *text, const char *shown,
                           double *out, char why[TT_REASON_SIZE])
{
  char number[NUMBER_SIZE];
  size_t n = strspn(text, "0123456789+-.eE");
  if (n == 0 || n >= sizeof number)
    return reject(why, "'%s' is not %s; write %s", shown, table->what, table->example);
  memcpy(number, text, n);
  number[n] = '\0';
  if (!parse_real(number, shown, out, why)) return 0;
  const char *rest = text + n + (text[n] == ' ');
  if (!*rest && *out == 0.0) return 1; /* 0 of any unit */
  for (size_t i = 0; i < sizeof table->unit / sizeof *table->unit && table->unit[i].name; i++)
    if (strcmp(rest, table->unit[i].name) == 0) {
      *out *= table->unit[i].size;
      return 1;
    }
  return reject(why, "'%s' has %s unit; write %s", shown, *rest ? "an unknown" : "no",
                table->example);
}

tt_err tt_config_parse_duration(const char *option, const char *text, double *seconds)
{
  char why[TT_REASON_SIZE];
  if (!parse_with_unit(&durations, text, text, seconds, why))
    return TT_FAIL(USAGE, "%s: %s", option, why);
  if (*seconds > 0.0 && *seconds < 1e10) return TT_OK;
  return TT_FAIL(USAGE, "%s: '%s' is not above 0, or is longer than 300 years", option, text);
}

/* `auto`, stored as -1, for options with the default auto. */
static int parse_auto(const tt_option *o, const char *text, tt_value *out)
{
  if (!o->default_value || strcmp(o->default_value, "auto") != 0 || strcmp(text, "auto") != 0)
    return 0;
  if (o->kind == TT_KIND_I64)
    out->whole = -1;
  else if (o->kind == TT_KIND_NAME)
    out->word = -1;
  else
    out->real = -1.0;
  return 1;
}

static int parse_name(const tt_option *o, const char *text, const char *shown, int *out,
                      char why[TT_REASON_SIZE])
{
  tt_suggestion near = {.word = text = tt_choice_of_character(text)};
  for (int i = 0; o->choices[i]; i++) {
    *out = i;
    if (strcmp(text, o->choices[i]) == 0) return 1;
    tt_suggestion_consider(&near, o->choices[i]);
  }
  tt_value is_auto;
  if (parse_auto(o, text, &is_auto)) {
    *out = is_auto.word;
    return 1;
  }
  size_t used = (size_t)snprintf(why, TT_REASON_SIZE, "'%s' is not one of", shown);
  for (int i = 0; o->choices[i] && used < TT_REASON_SIZE; i++)
    used +=
        (size_t)snprintf(why + used, TT_REASON_SIZE - used, "%s %s", i ? "," : "", o->choices[i]);
  if (*near.best && used < TT_REASON_SIZE)
    snprintf(why + used, TT_REASON_SIZE - used, "; did you mean '%s'?", near.best);
  return 0;
}

static int parse_bool(const char *text, const char *shown, int *out, char why[TT_REASON_SIZE])
{
  *out = strcmp(text, "true") == 0;
  if (*out || strcmp(text, "false") == 0) return 1;
  return reject(why, "'%s' is not true or false", shown);
}

static int parse_text(const tt_option *o, const tt_yaml_scalar *src, tt_value *out,
                      char why[TT_REASON_SIZE])
{
  int optional = o->default_value && !*o->default_value && o->kind != TT_KIND_TEXTLIST;
  if (!src->length && !optional) return reject(why, "is an empty string");
  int most = o->kind == TT_KIND_COLUMNS ? TT_MAX_JOB_FILE_BYTES : TT_MAX_OPTION_TEXT;
  if (src->length > (size_t)most)
    return reject(why, "is %zu bytes long; at most %d are allowed", src->length, most);
  out->text = src->text;
  return 1;
}

static int is_null(const tt_yaml_scalar *src)
{
  const char *t = src->text;
  return !src->quoted &&
         (!*t || !strcmp(t, "~") || !strcmp(t, "null") || !strcmp(t, "Null") || !strcmp(t, "NULL"));
}

static int parse_scalar(const tt_option *o, const tt_yaml_scalar *src, const char *shown,
                        tt_value *out, char why[TT_REASON_SIZE])
{
  switch (o->kind) {
  case TT_KIND_I64:
  case TT_KIND_LIST: return parse_integer(o, src->text, shown, &out->whole, why);
  case TT_KIND_F64:
  case TT_KIND_REALS:
    return parse_real(src->text, shown, &out->real, why) && in_range(o, out->real, shown, why);
  case TT_KIND_SECONDS:
    return parse_with_unit(&durations, src->text, shown, &out->real, why) &&
           in_range(o, out->real, shown, why);
  case TT_KIND_BYTES:
    return parse_with_unit(&sizes, src->text, shown, &out->real, why) &&
           in_range(o, out->real, shown, why);
  case TT_KIND_BOOL: return parse_bool(src->text, shown, &out->word, why);
  case TT_KIND_NAME: return parse_name(o, src->text, shown, &out->word, why);
  case TT_KIND_BYCOLUMN:
    out->text = src->text;
    return parse_name(o, src->text, shown, &(int){0}, why);
  case TT_KIND_TEXT:
  case TT_KIND_COLUMNS:
  case TT_KIND_CLASSES:
  case TT_KIND_PATH:
  case TT_KIND_TEXTLIST: return parse_text(o, src, out, why);
  }
  return reject(why, "has no kind");
}

int tt_value_parse(const tt_option *o, const tt_yaml_scalar *src, tt_value *out,
                   char why[TT_REASON_SIZE])
{
  char shown[TT_PRINTABLE_SIZE];
  const tt_option_kind_row *kind = &tt_option_kind_table[o->kind];
  int number = kind->type != TT_VALUE_STRING && o->kind != TT_KIND_NAME;
  tt_printable(src->text, shown);
  if (memchr(src->text, '\0', src->length)) return reject(why, "'%s' has a NUL byte", shown);
  if (is_null(src)) return reject(why, "has no value; give one or remove the option");
  if (number && parse_auto(o, src->text, out)) return 1;
  int unit = o->kind == TT_KIND_SECONDS || o->kind == TT_KIND_BYTES;
  if (number && src->quoted && !unit) /* JSON has to quote auto and 10min */
    return reject(why, "'%s' is quoted, so it is a string and not %s; remove the quotes", shown,
                  kind->element);
  return parse_scalar(o, src, shown, out, why);
}
