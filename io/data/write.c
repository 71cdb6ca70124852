/* write.c — new dataset files, schema tutti-dataset-1.0; see data.h. */
#include "io/data/data.h"
#include "io/hdf5/schema.h"

#include "core/base/mem.h"
#include "core/base/text.h"

#include <inttypes.h>

static tt_err check_text(const char *what, int64_t column, const char *text)
{
  if (tt_text_is_utf8(text)) return TT_OK;
  return TT_FAIL(DATA, "%s of column %" PRId64 ": '%s' is not UTF-8; save the table as UTF-8", what,
                 column + 1, text);
}

/* All texts must be UTF-8, because the file has _Encoding = utf-8. */
static tt_err check_columns(const tt_columns *c)
{
  for (int64_t i = 0; i < c->count; i++) {
    TT_TRY(check_text("name", i, c->name[i]));
    TT_TRY(check_text("unit", i, c->units[i]));
  }
  return TT_OK;
}

static void write_variables(tt_schema *s, int64_t rows, const int64_t *number,
                            const tt_columns *input, const tt_columns *target, const double *x,
                            const double *y)
{
  int64_t length = tt_schema_max_column_text(input);
  int64_t of_targets = tt_schema_max_column_text(target);
  tt_schema_create_dimension(s, "name_strlen", of_targets > length ? of_targets : length);
  TT_SCHEMA_COORDINATE(s, rows, number, "sample", I64, NULL, "row of the table");
  tt_schema_write_columns(s, "feature", "name_strlen", "feature_name", "feature_units", input);
  TT_SCHEMA_WRITE(s, x, "x", F64, NULL, "inputs", "feature_name feature_units", "sample",
                  "feature");
  if (!target->count) return;
  tt_schema_write_columns(s, "target", "name_strlen", "target_name", "target_units", target);
  TT_SCHEMA_WRITE(s, y, "y", F64, NULL, "targets, missing where unlabeled",
                  "target_name target_units", "sample", "target");
}

/* The file keeps its first error; the commit returns it. */
tt_err tt_data_write_local(const char *file, int64_t rows, const tt_columns *input,
                           const tt_columns *target, const double *x, const double *y)
{
  int64_t *number = NULL;
  tt_schema s = {0};
  TT_TRY(check_columns(input));
  TT_TRY(check_columns(target));
  TT_TRY(TT_ALLOC(number, rows));
  for (int64_t i = 0; i < rows; i++) number[i] = i;
  tt_err e = tt_h5_create(NULL, file, 8 * rows * (input->count + target->count + 2), &s.file);
  if (!e) {
    tt_schema_write_header(&s, NULL, s.file, TT_SCHEMA_DATASET, NULL);
    write_variables(&s, rows, number, input, target, x, y);
    e = tt_h5_commit(&s.file);
  }
  tt_free(number);
  return e;
}
