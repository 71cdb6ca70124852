/* oracle_output.c — see oracle_files.h: reading and checking of inputs and outputs. */
#include "io/campaign/campaign_files.h"
#include "io/campaign/oracle_files.h"

#include "core/base/directory.h"
#include "core/base/mem.h"
#include "core/base/sort.h"
#include "core/base/text.h"
#include "io/data/raw_data.h"
#include "io/data/source.h"
#include "io/files/files.h"
#include "io/hdf5/guarded_check.h"
#include "io/hdf5/schema.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Limits of the bytes of a CSV output. */
enum { CSV_ROW_BYTES = 64 << 10, CSV_NUMBER_BYTES = 64, CSV_SPARE_ROWS = 16 };

void tt_oracle_input_destroy(tt_oracle_input **a)
{
  if (!*a) return;
  tt_free_all(&(*a)->id, &(*a)->x, a);
}

void tt_oracle_output_destroy(tt_oracle_output **l)
{
  if (!*l) return;
  tt_free_all(&(*l)->file, &(*l)->id, &(*l)->y, l);
}

/* Numbers */

/* Accept a whole number also as 12.0, because some tools write so a column with gaps. */
static int to_integer(double v, int64_t *out)
{
  if (!(fabs(v) <= 9007199254740992.0) || v != floor(v)) return 0;
  *out = (int64_t)v;
  return 1;
}

tt_err tt_oracle_ids_read_local(tt_table *t, int64_t k, int64_t count, int64_t *id)
{
  double *value = NULL;
  char place[TT_ERR_MESSAGE_SIZE / 2];
  TT_TRY(tt_table_use_local(t, k, TT_CELL_RESULT));
  TT_TRY(TT_ALLOC(value, count));
  tt_err e = tt_table_read_local(t, 0, count, 1, &k, value);
  for (int64_t i = 0; !e && i < count; i++)
    if (!to_integer(value[i], &id[i]))
      e = TT_FAIL(DATA, "%s: id %.17g is not a whole number",
                  tt_table_place_local(t, i, place, sizeof place), value[i]);
  tt_free(value);
  return e;
}

/* A CSV file must end in a newline, or it is incomplete.
 *   rows   at most these are requested; 0 = any number
 *   bytes  the file may have, then */
static tt_err open_csv(const char *file, int64_t rows, int64_t bytes, tt_table **out)
{
  char last = 0;
  struct stat is = {0};
  int fd = -1;
  TT_TRY(tt_file_open_read(file, &fd));
  if (fstat(fd, &is) || (is.st_size && pread(fd, &last, 1, is.st_size - 1) < 0)) last = 0;
  close(fd);
  if (last != '\n')
    return TT_FAIL(DATA, "%s: the last line has no newline: the file is incomplete", file);
  if (rows && is.st_size > bytes)
    return TT_FAIL(DATA, "%s: %lld bytes; a table of at most %" PRId64 " row%s may have %" PRId64,
                   file, (long long)is.st_size, rows, tt_plural(rows), bytes);
  return tt_table_open_local(file, NULL, out);
}

/* Inputs */

static tt_err allocate_input(int64_t count, int64_t width, int ids_only, tt_oracle_input *a)
{
  a->count = count;
  a->inputs = width;
  TT_TRY(TT_ALLOC(a->id, count));
  return ids_only ? TT_OK : TT_ALLOC(a->x, count * width);
}

/* Columns 1 to D of the table; level [D] zeroed, owner: the caller. */
static tt_err read_inputs(tt_table *t, const tt_net_inputs *net, tt_levels *level,
                          tt_oracle_input *a)
{
  int64_t *column = NULL;
  tt_err e = TT_ALLOC(column, a->inputs);
  for (int64_t k = 0; !e && k < a->inputs; k++) {
    column[k] = k + 1;
    if (net) e = tt_net_inputs_copy_levels(net, k, &level[k]);
    level[k].zeros = 1;
    if (!e)
      e = net && tt_net_inputs_levels_are_texts(net, k)
              ? tt_table_use_levels_local(t, k + 1, &level[k])
              : tt_table_use_local(t, k + 1, TT_CELL_RESULT);
  }
  if (!e) e = tt_table_read_local(t, 0, a->count, a->inputs, column, a->x);
  tt_free(column);
  return e;
}

static tt_err input_from_table(tt_table *t, const tt_net_inputs *net, int ids_only,
                               tt_oracle_input *a)
{
  tt_levels *level = NULL;
  int64_t width = t->columns - 1;
  if (width < 1 || strcmp(t->name[0], "id"))
    return TT_FAIL(DATA, "%s: the first column is not 'id'; the file was not written by tutti",
                   t->file);
  TT_TRY(allocate_input(t->rows[0], width, ids_only, a));
  TT_TRY(tt_oracle_ids_read_local(t, 0, a->count, a->id));
  if (ids_only || (net && net->columns != width)) return TT_OK; /* of another campaign */
  TT_TRY(TT_ALLOC(level, width));
  tt_err e = read_inputs(t, net, level, a);
  for (int64_t k = 0; k < width; k++) tt_levels_free(&level[k]);
  tt_free(level);
  return e;
}

static tt_err input_from_csv(const char *file, const tt_net_inputs *net, int ids_only,
                             tt_oracle_input *a)
{
  tt_table *t = NULL;
  TT_TRY(open_csv(file, 0, 0, &t));
  tt_err e = input_from_table(t, net, ids_only, a);
  tt_table_close_local(&t);
  return e;
}

static tt_err input_from_reader(tt_h5_reader *r, int ids_only, tt_oracle_input *a)
{
  tt_source_matrix id, x;
  TT_TRY(tt_source_dataset_open_local(r, "numbers", "id", &id));
  TT_TRY(tt_source_dataset_open_local(r, "inputs", "x", &x));
  if (id.columns != 1 || id.rows != x.rows)
    return TT_FAIL(DATA, "%s: 'id' has %" PRId64 " values, but 'x' has %" PRId64 " rows",
                   tt_h5_file_name(r), id.rows * id.columns, x.rows);
  TT_TRY(allocate_input(x.rows, x.columns, ids_only, a));
  TT_TRY(tt_h5_read_rows_local(r, "id", TT_H5_I64, 0, a->count, a->id));
  return ids_only ? TT_OK : tt_h5_read_rows_local(r, "x", TT_H5_F64, 0, a->count, a->x);
}

static tt_err input_from_h5(const char *file, int ids_only, tt_oracle_input *a)
{
  tt_h5_reader *r = NULL;
  TT_TRY(tt_h5_open_local(file, &r));
  tt_err e = input_from_reader(r, ids_only, a);
  tt_h5_close_local(&r);
  return e;
}

static tt_err read_input(const char *file, const tt_net_inputs *net, int ids_only,
                         tt_oracle_input **out)
{
  tt_oracle_input *a = NULL;
  TT_TRY(TT_ALLOC(a, 1));
  tt_err e =
      tt_is_csv(file) ? input_from_csv(file, net, ids_only, a) : input_from_h5(file, ids_only, a);
  if (e) tt_oracle_input_destroy(&a);
  *out = a;
  return e;
}

tt_err tt_oracle_input_read_local(const char *file, const tt_net_inputs *net, tt_oracle_input **out)
{
  return read_input(file, net, 0, out);
}

tt_err tt_oracle_input_read_ids_local(const char *file, tt_oracle_input **out)
{
  return read_input(file, NULL, 1, out);
}

/* Outputs */

static tt_err allocate_output(tt_oracle_output *l, int64_t count, const tt_columns *target,
                              int numbered)
{
  l->count = count;
  l->targets = target->count;
  l->errors = target->errors;
  if (numbered) TT_TRY(TT_ALLOC(l->id, count));
  return TT_ALLOC(l->y, count * target->count);
}

/* Find the columns of the targets: by their names; or y0, y1, ...; or y if there is only one; and
 * those of their error bars, sd_NAME or sd_y0, ..., -1: there is none. */
static tt_err find_columns(const tt_table *t, const tt_columns *target, int64_t *column)
{
  int64_t named = 0, made = 0, T = target->count - target->errors;
  char name[32];
  for (int64_t k = 0; k < target->count; k++) {
    TT_TRY(tt_table_find(t, target->name[k], &column[k]));
    named += column[k] >= 0 && k < T;
  }
  for (int64_t k = 0; named < T && k < target->count; k++) {
    snprintf(name, sizeof name, "%sy%" PRId64, k < T ? "" : "sd_", k % T);
    TT_TRY(tt_table_find(t, name, &column[k]));
    if (column[k] < 0 && T == 1) TT_TRY(tt_table_find(t, k < T ? "y" : "sd_y", &column[k]));
    made += column[k] >= 0 && k < T;
  }
  if (named == T || made == T) return TT_OK;
  return TT_FAIL(DATA,
                 "%s: the columns do not match the targets (%" PRId64
                 "): expected '%s', ... by name, or y0 to y%" PRId64,
                 t->file, T, target->name[0], T - 1);
}

tt_err tt_oracle_labels_read_local(tt_table *t, const tt_columns *target, int64_t rows, double *y)
{
  double *value = NULL;
  int64_t *column = NULL, *place = NULL, W = target->count, n = 0;
  tt_err e = TT_ALLOC(column, W);
  if (!e) e = TT_ALLOC(place, W);
  if (!e) e = find_columns(t, target, column);
  for (int64_t k = 0; !e && k < W; k++) {
    if (column[k] < 0) continue;
    e = tt_table_use_local(t, column[k], TT_CELL_RESULT);
    column[n] = column[k];
    place[n++] = k;
  }
  if (!e) e = TT_ALLOC(value, rows * n);
  if (!e) e = tt_table_read_local(t, 0, rows, n, column, value);
  for (int64_t i = 0; !e && i < rows * W; i++) y[i] = NAN;
  for (int64_t i = 0; !e && i < rows * n; i++) y[i / n * W + place[i % n]] = value[i];
  tt_free_all(&column, &place, &value);
  return e;
}

static tt_err output_from_table(tt_oracle_output *l, tt_table *t, const tt_columns *target,
                                int64_t requested)
{
  char place[TT_ERR_MESSAGE_SIZE / 2];
  int64_t id, rows = t->rows[0];
  TT_TRY(tt_table_find(t, "id", &id));
  if (requested && rows > requested)
    return TT_FAIL(DATA, "%s: one row more than the %" PRId64 " expected",
                   tt_table_place_local(t, requested, place, sizeof place), requested);
  TT_TRY(allocate_output(l, rows, target, id >= 0));
  if (id >= 0) TT_TRY(tt_oracle_ids_read_local(t, id, rows, l->id));
  return tt_oracle_labels_read_local(t, target, rows, l->y);
}

/* Many more bytes than the numbers of the requested rows need: other columns, quotes, comments. */
static tt_err output_from_csv(tt_oracle_output *l, const tt_columns *target, int64_t requested)
{
  tt_table *t = NULL;
  int64_t row_bytes = CSV_ROW_BYTES + CSV_NUMBER_BYTES * target->count;
  TT_TRY(open_csv(l->file, requested, (requested + CSV_SPARE_ROWS) * row_bytes, &t));
  tt_err e = output_from_table(l, t, target, requested);
  tt_table_close_local(&t);
  return e;
}

/* Read ids as integers, or as floats, which some tools write. */
static tt_err read_ids(tt_h5_reader *r, tt_oracle_output *l)
{
  tt_h5_info info;
  double *value = NULL;
  TT_TRY(tt_h5_dataset_info_local(r, "id", &info));
  if (info.kind == TT_H5_INTEGER)
    return tt_h5_read_rows_local(r, "id", TT_H5_I64, 0, l->count, l->id);
  TT_TRY(TT_ALLOC(value, l->count));
  tt_err e = tt_h5_read_rows_local(r, "id", TT_H5_F64, 0, l->count, value);
  for (int64_t i = 0; !e && i < l->count; i++)
    if (!to_integer(value[i], &l->id[i]))
      e = TT_FAIL(DATA, "%s: id[%" PRId64 "] = %g is not a whole number", l->file, i, value[i]);
  tt_free(value);
  return e;
}

/* Put the columns of y [rows][T] into the order of `target` by target_name, if the file has it. */
static tt_err reorder_targets(tt_h5_reader *r, const tt_columns *target, int64_t rows, double *y)
{
  tt_columns here = {0};
  int64_t *src = NULL;
  double *row = NULL;
  tt_err e = tt_h5_columns_read_local(r, "y", "target_name", "target_units", target->count, &here);
  if (!e)
    e = tt_h5_columns_match_local(tt_h5_file_name(r), "y", target, "data.file", 0, &here, &src);
  if (!e && src) e = TT_ALLOC(row, target->count);
  if (!e) tt_columns_reorder(src, target->count, rows, y, row);
  tt_free_all(&row, &src);
  tt_columns_free(&here);
  return e;
}

/* The dataset sd [rows][T] in the order of y, if the file has it. */
static tt_err read_errors(tt_h5_reader *r, tt_oracle_output *l, const tt_columns *target)
{
  tt_source_matrix sd;
  double *value = NULL;
  int64_t W = l->targets, T = W - l->errors;
  if (!tt_h5_has_local(r, "sd")) return TT_OK;
  TT_TRY(tt_source_dataset_open_local(r, "error bars", "sd", &sd));
  if (sd.columns != T || sd.rows != l->count)
    return TT_FAIL(DATA, "%s: 'sd' is %" PRId64 " x %" PRId64 ", but 'y' %" PRId64 " x %" PRId64,
                   l->file, sd.rows, sd.columns, l->count, T);
  TT_TRY(TT_ALLOC(value, l->count * T));
  tt_err e = tt_h5_read_rows_local(r, "sd", TT_H5_F64, 0, l->count, value);
  if (!e) e = reorder_targets(r, target, l->count, value);
  for (int64_t i = 0; !e && i < l->count * T; i++) l->y[i / T * W + T + i % T] = value[i];
  tt_free(value);
  return e;
}

/* y has the targets, or, as tutti writes it, the targets and their error bars. */
static tt_err read_matrix(tt_h5_reader *r, tt_oracle_output *l, const tt_columns *target,
                          int64_t columns)
{
  tt_columns read = *target;
  read.count = columns;
  TT_TRY(tt_h5_read_rows_local(r, "y", TT_H5_F64, 0, l->count, l->y));
  TT_TRY(reorder_targets(r, &read, l->count, l->y));
  if (columns == target->count) return TT_OK;
  tt_labels_widen(l->y, l->count, columns, target->count);
  return read_errors(r, l, &read);
}

static tt_err output_from_reader(tt_h5_reader *r, tt_oracle_output *l, const tt_columns *target,
                                 int64_t requested)
{
  tt_source_matrix id = {0}, y;
  int64_t targets = target->count - target->errors;
  int numbered = tt_h5_has_local(r, "id");
  TT_TRY(tt_source_dataset_open_local(r, "labels", "y", &y));
  if (numbered) TT_TRY(tt_source_dataset_open_local(r, "numbers", "id", &id));
  if (y.columns != targets && y.columns != target->count)
    return TT_FAIL(DATA,
                   "%s: 'y' has shape %" PRId64 " x %" PRId64 ", expected %" PRId64
                   " columns, one per target",
                   l->file, y.rows, y.columns, targets);
  if (requested && y.rows > requested)
    return TT_FAIL(DATA, "%s: 'y' has %" PRId64 " rows; %" PRId64 " are requested", l->file, y.rows,
                   requested);
  if (numbered && (id.columns != 1 || id.rows != y.rows))
    return TT_FAIL(DATA, "%s: 'id' has %" PRId64 " values, but 'y' has %" PRId64 " rows", l->file,
                   id.rows * id.columns, y.rows);
  TT_TRY(allocate_output(l, y.rows, target, numbered));
  if (!l->count) return TT_OK;
  if (numbered) TT_TRY(read_ids(r, l));
  return read_matrix(r, l, target, y.columns);
}

static tt_err output_from_h5(tt_oracle_output *l, const tt_columns *target, int64_t requested,
                             char *why, int capacity)
{
  tt_h5_reader *r = NULL;
  char *text = NULL;
  TT_TRY(tt_h5_open_local(l->file, &r));
  tt_err e = output_from_reader(r, l, target, requested);
  if (!e && why && tt_h5_has_attr_local(r, "/", "failed"))
    e = tt_h5_read_attr_text_local(r, "/", "failed", &text);
  if (!e && text) snprintf(why, (size_t)capacity, "%s", text);
  tt_free(text);
  tt_h5_close_local(&r);
  return e;
}

static tt_err check_ids(const tt_oracle_output *l)
{
  tt_place *row = NULL;
  tt_err e = TT_OK;
  if (!l->id) return TT_OK;
  TT_TRY(tt_places_sort(l->id, l->count, &row));
  for (int64_t i = 1; !e && i < l->count; i++)
    if (row[i].number == row[i - 1].number)
      e = TT_FAIL(DATA, "%s: id %" PRId64 " occurs twice: in rows %" PRId64 " and %" PRId64,
                  l->file, row[i].number, row[i - 1].index, row[i].index);
  tt_free(row);
  return e;
}

static tt_err read_output(tt_oracle_output *l, const char *file, const tt_columns *target,
                          int64_t requested, int foreign, char *why, int capacity)
{
  static const char *const dataset[] = {"y", "?id", "?sd"};
  int exists = 0;
  TT_TRY(tt_text_set(&l->file, file));
  TT_TRY(tt_file_exists(file, &exists));
  if (!exists) return TT_FAIL(NOINPUT, "%s: the output file does not exist", file);
  if (tt_is_csv(file)) {
    TT_TRY(output_from_csv(l, target, requested));
  } else {
    if (foreign) TT_TRY(tt_guarded_check_local(file, dataset, 3));
    TT_TRY(output_from_h5(l, target, requested, why, capacity));
  }
  return check_ids(l);
}

tt_err tt_oracle_output_read_local(const char *file, const tt_columns *target, int64_t requested,
                                   tt_oracle_output **out)
{
  tt_oracle_output *l = NULL;
  TT_TRY(TT_ALLOC(l, 1));
  tt_err e = read_output(l, file, target, requested, 1, NULL, 0);
  if (e) tt_oracle_output_destroy(&l);
  *out = l;
  return e;
}

tt_err tt_accepted_labels_read_local(const char *file, const tt_columns *target,
                                     tt_oracle_output **out, char *why, int capacity)
{
  tt_oracle_output *l = NULL;
  if (why) *why = '\0';
  TT_TRY(TT_ALLOC(l, 1));
  tt_err e = read_output(l, file, target, 0, 0, why, capacity);
  if (e) tt_oracle_output_destroy(&l);
  *out = l;
  return e;
}

/* Outputs aligned with the request */

/* No label, no error bar: rows with any number are labeled. */
static void copy_row(const tt_oracle_output *l, int64_t row, double *y)
{
  int good = 1;
  int64_t T = l->targets - l->errors;
  for (int64_t k = 0; k < l->targets; k++) good = good && !isinf(l->y[row * l->targets + k]);
  for (int64_t k = 0; k < l->targets; k++)
    y[k] = good && !(k >= T && isnan(y[k - T])) ? l->y[row * l->targets + k] : NAN;
}

static tt_err copy_rows_by_id(const tt_oracle_output *l, const tt_place *requested, int64_t count,
                              double *y)
{
  for (int64_t i = 0; i < l->count; i++) {
    int64_t found = tt_places_find(requested, count, l->id[i]);
    if (found < 0)
      return TT_FAIL(DATA, "%s: row %" PRId64 " has id %" PRId64 ", which was not queried", l->file,
                     i, l->id[i]);
    copy_row(l, i, y + found * l->targets);
  }
  return TT_OK;
}

tt_err tt_oracle_output_align(const tt_oracle_output *l, int64_t count, const int64_t *id,
                              double *y, int64_t *given)
{
  tt_place *requested = NULL;
  for (int64_t i = 0; i < count * l->targets; i++) y[i] = NAN;
  *given = l->count; /* each id occurs at most once */
  if (!l->id && l->count != count)
    return TT_FAIL(
        DATA, "%s: %" PRId64 " rows, expected %" PRId64 "; a file with missing rows must have 'id'",
        l->file, l->count, count);
  for (int64_t i = 0; !l->id && i < count; i++) copy_row(l, i, y + i * l->targets);
  if (!l->id) return TT_OK;
  TT_TRY(tt_places_sort(id, count, &requested));
  tt_err e = copy_rows_by_id(l, requested, count, y);
  tt_free(requested);
  return e;
}
