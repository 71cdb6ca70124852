/* data_write.c — new dataset files, schema tutti-dataset-1.0; see data_io.h. */
#include "io/data_io.h"
#include "io/schema.h"

#include "base/mem.h"

#include <inttypes.h>
#include <string.h>

#define TT_SCHEMA_DATASET "tutti-dataset-1.0"

/* Bytes of the UTF-8 character at p, 0 if it is none (RFC 3629: shortest form, no surrogates). */
static int utf8_length(const unsigned char *p)
{
  static const struct {
    unsigned char low, high, second_low, second_high;
    int bytes;
  } form[] = {
      {0x01, 0x7F, 0, 0, 1},       {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
      {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
      {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
  };
  for (int i = 0; i < (int)(sizeof form / sizeof *form); i++) {
    if (p[0] < form[i].low || p[0] > form[i].high) continue;
    if (form[i].bytes > 1 && (p[1] < form[i].second_low || p[1] > form[i].second_high)) return 0;
    for (int k = 2; k < form[i].bytes; k++)
      if ((p[k] & 0xC0) != 0x80) return 0;
    return form[i].bytes;
  }
  return 0;
}

static tt_err check_text(const char *what, int64_t column, const char *text)
{
  const unsigned char *p = (const unsigned char *)text;
  for (int n; *p; p += n) {
    n = utf8_length(p);
    if (!n)
      return TT_FAIL(DATA, "%s of column %" PRId64 ": '%s' is not UTF-8; save the table as UTF-8",
                     what, column + 1, text);
  }
  return TT_OK;
}

/* Readers of the file trust its _Encoding. */
static tt_err check_columns(const tt_columns *c)
{
  for (int64_t i = 0; i < c->count; i++) {
    TT_TRY(check_text("name", i, c->name[i]));
    TT_TRY(check_text("unit", i, c->units[i]));
  }
  return TT_OK;
}

static void write_columns(tt_schema *s, const char *dim, const char *name, const char *units,
                          const tt_columns *c)
{
  tt_schema_dim(s, dim, c->count);
  tt_schema_texts(s, name, dim, "name_strlen", (const char *const *)c->name, NULL);
  tt_schema_texts(s, units, dim, "name_strlen", (const char *const *)c->units, NULL);
}

static int64_t longest(const tt_columns *c)
{
  int64_t a = tt_h5_text_length(c->count, (const char *const *)c->name);
  int64_t b = tt_h5_text_length(c->count, (const char *const *)c->units);
  return a > b ? a : b;
}

static const tt_variable sample = {"sample", TT_H5_I64, {"sample"}, NULL, "row of the table", NULL};
static const tt_variable inputs = {"x",  TT_H5_F64, {"sample", "feature"},
                                   NULL, "inputs",  "feature_name feature_units"};
static const tt_variable targets = {"y",
                                    TT_H5_F64,
                                    {"sample", "target"},
                                    NULL,
                                    "targets, missing where unlabelled",
                                    "target_name target_units"};

/* Errors stick to the file: the commit says what the first one was. */
static tt_err write_all(const char *file, int64_t rows, const tt_columns *input,
                        const tt_columns *target, const double *x, const double *y,
                        const int64_t *number, const char *history)
{
  tt_schema s = {0};
  int64_t length = longest(input), of_targets = longest(target);
  if (of_targets > length) length = of_targets;
  TT_TRY(tt_h5_create(NULL, file, 8 * rows * (input->count + target->count + 1), &s.file));
  (void)tt_h5_attr_text(s.file, "/", "Conventions", "CF-1.10 " TT_SCHEMA_DATASET);
  (void)tt_h5_attr_text(s.file, "/", "tutti_schema", TT_SCHEMA_DATASET);
  (void)tt_h5_attr_text(s.file, "/", "history", history);
  tt_schema_dim(&s, "name_strlen", length);
  tt_schema_coordinate(&s, &sample, rows, number);
  write_columns(&s, "feature", "feature_name", "feature_units", input);
  tt_schema_root(&s, &inputs, x);
  if (target->count) {
    write_columns(&s, "target", "target_name", "target_units", target);
    tt_schema_root(&s, &targets, y);
  }
  return tt_h5_commit(&s.file, NULL);
}

tt_err tt_data_write_local(const char *file, int64_t rows, const tt_columns *input,
                           const tt_columns *target, const double *x, const double *y,
                           const char *history)
{
  int64_t *number = NULL;
  TT_TRY(check_columns(input));
  TT_TRY(check_columns(target));
  TT_TRY(TT_ALLOC(number, rows));
  for (int64_t i = 0; i < rows; i++)
    number[i] = i;
  tt_err e = write_all(file, rows, input, target, x, y, number, history);
  tt_free(number);
  return e;
}
