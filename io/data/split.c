/* split.c — which rows are for training, validation and test; see data_internal.h. */
#include "io/data/data_internal.h"

#include "core/base/log.h"
#include "core/base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* All of a dataset with one column; *value is owned by the caller, tt_free. */
static tt_err read_vector(tt_source *s, const char *name, const char *path, int64_t *rows,
                          double **value)
{
  const tt_source_role role = {name, TT_CELL_NUMBER, NULL, 0};
  tt_source_matrix m;
  double *all = NULL;
  TT_TRY(tt_source_matrix_open_local(s, &role, path, &m));
  tt_err e = TT_OK;
  if (m.columns != 1)
    e = TT_FAIL(DATA, "%s: dataset '%s' (%s) has %" PRId64 " columns; it must have one",
                tt_source_file_name(s), path, name, m.columns);
  if (!e) e = TT_ALLOC(all, m.rows);
  if (!e) e = tt_source_matrix_read_local(s, &m, 0, m.rows, all);
  if (e) tt_free(all);
  *rows = m.rows;
  *value = all;
  tt_source_matrix_free(&m);
  return e;
}

static tt_err read_split_column(tt_source *s, const char *path, int64_t rows, int8_t *split)
{
  int64_t given;
  double *value = NULL;
  TT_TRY(read_vector(s, "data.split.column", path, &given, &value));
  tt_err e = TT_OK;
  if (given != rows)
    e = TT_FAIL(
        DATA, "%s: dataset '%s' (data.split.column) has %" PRId64 " rows, the inputs have %" PRId64,
        tt_source_file_name(s), path, given, rows);
  for (int64_t i = 0; !e && i < rows; i++) {
    if (value[i] == 0 || value[i] == 1 || value[i] == 2 || value[i] == TT_UNUSED_ROW)
      split[i] = (int8_t)value[i];
    else
      e = TT_FAIL(DATA,
                  "%s: dataset '%s', row %" PRId64 ": %g; 0 is train, 1 validation, 2 test, -1 "
                  "unused",
                  tt_source_file_name(s), path, i, value[i]);
  }
  tt_free(value);
  return e;
}

/* Set the rows of one index dataset. path[] has the names of the datasets, for the message. */
static tt_err mark_rows(const char *file, const char *const path[TT_SPLITS], int which, int64_t n,
                        const double *index, int64_t rows, int8_t *split)
{
  for (int64_t i = 0; i < n; i++) {
    if (!(index[i] >= 0 && index[i] < (double)rows && index[i] == floor(index[i])))
      return TT_FAIL(DATA,
                     "%s: dataset '%s', entry %" PRId64
                     ": %.17g is not a row; rows go from 0 to %" PRId64,
                     file, path[which], i, index[i], rows - 1);
    int64_t row = (int64_t)index[i];
    if (split[row] != TT_UNUSED_ROW)
      return TT_FAIL(DATA, "%s: row %" PRId64 " is in '%s' and again in '%s'", file, row,
                     path[split[row]], path[which]);
    split[row] = (int8_t)which;
  }
  return TT_OK;
}

static tt_err read_split_indices(tt_source *s, const char *const path[TT_SPLITS], int64_t rows,
                                 int8_t *split)
{
  static const char *const role[] = {"data.split.train_rows", "data.split.validation_rows",
                                     "data.split.test_rows"};
  memset(split, TT_UNUSED_ROW, (size_t)rows);
  for (int which = 0; which < TT_SPLITS; which++) {
    int64_t n;
    double *index = NULL;
    if (!*path[which]) continue;
    TT_TRY(read_vector(s, role[which], path[which], &n, &index));
    tt_err e = mark_rows(tt_source_file_name(s), path, which, n, index, rows, split);
    tt_free(index);
    if (e) return e;
  }
  return TT_OK;
}

tt_err tt_data_read_split_local(tt_source *s, const tt_config *cfg, int64_t rows, int8_t *split)
{
  const char *const path[TT_SPLITS] = {cfg->data_split_train_rows, cfg->data_split_validation_rows,
                                       cfg->data_split_test_rows};
  const char *column = cfg->data_split_column;
  const double fraction[TT_SPLITS] = {cfg->data_split_train, cfg->data_split_validation,
                                      cfg->data_split_test};
  int indexed = *path[TT_TRAIN] || *path[TT_VALIDATION] || *path[TT_TEST];
  if (indexed && *column)
    return TT_FAIL(CONFIG, "data.split: give column ('%s') or index datasets, not both", column);
  if (indexed && !*path[TT_TRAIN])
    return TT_FAIL(CONFIG, "data.split: validation_rows or test_rows is given, but not train_rows");
  if (!indexed && !*column)
    return tt_split_fractions(rows, fraction, (uint64_t)cfg->data_split_seed, split);
  TT_TRY(indexed ? read_split_indices(s, path, rows, split)
                 : read_split_column(s, column, rows, split));
  for (int64_t i = 0; i < rows; i++)
    if (split[i] == TT_TRAIN) return TT_OK;
  return TT_FAIL(DATA, "%s: dataset '%s' leaves no row to train on", tt_source_file_name(s),
                 indexed ? path[TT_TRAIN] : column);
}

tt_err tt_data_fill_split_local(tt_data_reader *r, const tt_config *cfg, int8_t *split,
                                uint64_t *unit)
{
  int64_t rows = tt_data_reader_shape(r)->rows;
  return tt_data_split_is_by_values(cfg)
             ? tt_data_split_by_values_local(r, cfg, split, unit)
             : tt_data_read_split_local(tt_data_reader_file_local(r), cfg, rows, split);
}

tt_err tt_data_read_rows_local(tt_data_reader *r, const tt_config *cfg, const int8_t *known,
                               tt_dataset *d)
{
  if (known && !d->unit)
    memcpy(d->split, known, (size_t)d->rows);
  else
    TT_TRY(tt_data_fill_split_local(r, cfg, d->split, d->unit));
  return tt_data_read_selections_local(tt_data_reader_file_local(r), cfg, d->rows, d->split,
                                       d->selected);
}

void tt_data_log_split(const char *file, int64_t rows, const int8_t *split)
{
  int64_t count[TT_SPLITS] = {0};
  for (int64_t i = 0; i < rows; i++)
    if (split[i] >= 0) count[split[i]]++;
  tt_log_root(TT_LOG_INFO,
              "%s: %" PRId64 " rows for training, %" PRId64 " for validation, %" PRId64 " for test",
              file, count[TT_TRAIN], count[TT_VALIDATION], count[TT_TEST]);
}

tt_err tt_data_split_count_local(const tt_config *cfg, int64_t count[TT_SPLITS])
{
  tt_data_reader *r = NULL;
  int8_t *split = NULL;
  TT_TRY(tt_data_reader_open_job_local(cfg, &r));
  int64_t rows = tt_data_reader_shape(r)->rows;
  tt_err e = TT_ALLOC(split, rows);
  if (!e) e = tt_data_fill_split_local(r, cfg, split, NULL);
  memset(count, 0, TT_SPLITS * sizeof *count);
  for (int64_t i = 0; !e && i < rows; i++)
    if (split[i] >= 0) count[split[i]]++;
  tt_free(split);
  tt_data_reader_close_local(&r);
  return e;
}
