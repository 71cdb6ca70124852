/* oracle_output.c — see oracle_files.h: reading and checking of inputs and outputs. */
#include "io/campaign/oracle_files.h"

#include "core/base/csv.h"
#include "core/base/mem.h"
#include "core/base/sort.h"
#include "io/data/raw_data.h"
#include "io/hdf5/files.h"
#include "io/hdf5/guarded_check.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Limits of the bytes of a CSV output. */
enum { CSV_ROW_BYTES = 64 << 10, CSV_NUMBER_BYTES = 64, CSV_SPARE_ROWS = 16 };

void tt_oracle_input_destroy(tt_oracle_input **a)
{
  if (!*a) return;
  tt_free((*a)->id);
  tt_free((*a)->x);
  tt_free(*a);
}

void tt_oracle_output_destroy(tt_oracle_output **l)
{
  if (!*l) return;
  tt_free((*l)->file);
  tt_free((*l)->id);
  tt_free((*l)->y);
  tt_free(*l);
}

/* Numbers */

/* Accept a whole number also as 12.0, because some tools write so a column with gaps. */
static int to_integer(double v, int64_t *out)
{
  if (!(fabs(v) <= 9007199254740992.0) || v != floor(v)) return 0;
  *out = (int64_t)v;
  return 1;
}

static tt_err cell_id(const char *file, const tt_csv *t, int64_t row, int64_t column, int64_t *out)
{
  const char *cell = t->cell[row * t->columns + column];
  char *end;
  *out = strtoll(cell, &end, 10);
  if (*cell && !*end) return TT_OK;
  double v = strtod(cell, &end);
  if (*cell && !*end && to_integer(v, out)) return TT_OK;
  return TT_FAIL(DATA, "%s:%" PRId64 ": id '%.40s' is not a whole number", file, t->line[row],
                 cell);
}

/* An empty cell is NaN. */
static tt_err cell_number(const char *file, const tt_csv *t, int64_t row, int64_t column,
                          double *out)
{
  const char *cell = t->cell[row * t->columns + column];
  char *end;
  *out = *cell ? strtod(cell, &end) : NAN;
  if (!*cell || !*end) return TT_OK;
  return TT_FAIL(DATA, "%s:%" PRId64 ": '%.40s' in column '%s' is not a number", file, t->line[row],
                 cell, t->name[column]);
}

/* A CSV file must end in a newline, or it is incomplete. */
static tt_err read_complete_csv(const char *file, const tt_csv_limit *limit, tt_csv **out)
{
  char last = 0;
  int fd = -1;
  TT_TRY(tt_file_open_read(file, &fd));
  if (lseek(fd, -1, SEEK_END) >= 0 && read(fd, &last, 1) < 0) last = 0;
  close(fd);
  if (last != '\n')
    return TT_FAIL(DATA, "%s: the last line has no newline: the file is incomplete", file);
  return tt_csv_read(file, limit, out);
}

/* Inputs */

static tt_err allocate_input(int64_t count, int64_t width, tt_oracle_input *a)
{
  a->count = count;
  a->inputs = width;
  TT_TRY(TT_ALLOC(a->id, count));
  return TT_ALLOC(a->x, count * width);
}

/* The number of a text among the levels of input k; -1: it is no level. */
static double level_of(const tt_net_inputs *net, int64_t k, const char *text)
{
  for (int64_t i = net->first[k]; i < net->first[k + 1]; i++)
    if (net->at[i].is_text && !strcmp(net->at[i].name, text)) return net->at[i].level;
  return -1.0;
}

/* Input k of a row. Where the levels are not known, a cell without a number is NaN. */
static tt_err cell_input(const char *file, const tt_csv *t, const tt_net_inputs *net, int64_t row,
                         int64_t k, double *out)
{
  const char *cell = t->cell[row * t->columns + k + 1];
  char *end;
  if (net && !tt_net_inputs_levels_are_texts(net, k)) return cell_number(file, t, row, k + 1, out);
  *out = net ? level_of(net, k, cell) : strtod(cell, &end);
  if (!net && (!*cell || *end)) *out = NAN;
  return TT_OK;
}

static tt_err input_from_table(const char *file, const tt_csv *t, const tt_net_inputs *net,
                               tt_oracle_input *a)
{
  if (t->columns < 2 || strcmp(t->name[0], "id"))
    return TT_FAIL(DATA, "%s: the first column is not 'id'; the file was not written by tutti",
                   file);
  TT_TRY(allocate_input(t->rows, t->columns - 1, a));
  if (net && net->columns != a->inputs) net = NULL; /* of another campaign */
  for (int64_t i = 0; i < a->count; i++) {
    TT_TRY(cell_id(file, t, i, 0, &a->id[i]));
    for (int64_t k = 0; k < a->inputs; k++)
      TT_TRY(cell_input(file, t, net, i, k, &a->x[i * a->inputs + k]));
  }
  return TT_OK;
}

static tt_err input_from_csv(const char *file, const tt_net_inputs *net, tt_oracle_input *a)
{
  tt_csv *t = NULL;
  TT_TRY(read_complete_csv(file, NULL, &t));
  tt_err e = input_from_table(file, t, net, a);
  tt_csv_destroy(&t);
  return e;
}

static tt_err input_from_reader(tt_h5_reader *r, tt_oracle_input *a)
{
  tt_h5_matrix id, x;
  TT_TRY(tt_h5_matrix_open_local(r, "numbers", "id", &id));
  TT_TRY(tt_h5_matrix_open_local(r, "inputs", "x", &x));
  if (id.columns != 1 || id.rows != x.rows)
    return TT_FAIL(DATA, "%s: 'id' has %" PRId64 " values, but 'x' has %" PRId64 " rows",
                   tt_h5_file_name(r), id.rows * id.columns, x.rows);
  TT_TRY(allocate_input(x.rows, x.columns, a));
  TT_TRY(tt_h5_read_rows_local(r, "id", TT_H5_I64, 0, a->count, a->id));
  return tt_h5_read_rows_local(r, "x", TT_H5_F64, 0, a->count, a->x);
}

static tt_err input_from_h5(const char *file, tt_oracle_input *a)
{
  tt_h5_reader *r = NULL;
  TT_TRY(tt_h5_open_local(file, &r));
  tt_err e = input_from_reader(r, a);
  tt_h5_close_local(&r);
  return e;
}

tt_err tt_oracle_input_read_local(const char *file, const tt_net_inputs *net, tt_oracle_input **out)
{
  tt_oracle_input *a = NULL;
  TT_TRY(TT_ALLOC(a, 1));
  tt_err e = tt_is_csv(file) ? input_from_csv(file, net, a) : input_from_h5(file, a);
  if (e) tt_oracle_input_destroy(&a);
  *out = a;
  return e;
}

static tt_err parse_header(const char *file, const char *line, tt_columns *target)
{
  tt_csv *t = NULL;
  char made[32]; /* a name of the program */
  TT_TRY(tt_csv_parse_list(file, line, &t));
  tt_err e = TT_OK;
  if (t->columns < 2 || strcmp(t->name[0], "id") != 0)
    e = TT_FAIL(DATA, "%s: the first line is not 'id' and the names of the targets", file);
  if (!e) e = tt_columns_create(t->columns - 1, target);
  for (int64_t k = 0; !e && k < target->count; k++) {
    snprintf(made, sizeof made, "y%" PRId64, k);
    e = tt_text_set(&target->name[k], t->name[k + 1]);
    target->given |= strcmp(made, t->name[k + 1]) != 0;
  }
  tt_csv_destroy(&t);
  return e;
}

tt_err tt_output_header_read_local(const char *file, tt_columns *target)
{
  char *text = NULL;
  struct stat is;
  if (stat(file, &is)) return TT_FAIL_ERRNO(NOINPUT, "%s", file);
  TT_TRY(tt_alloc_bytes(&text, is.st_size + 1, 1, file));
  tt_err e = tt_file_read_text(file, text, is.st_size + 1);
  if (!e && is.st_size && text[is.st_size - 1] == '\n') text[is.st_size - 1] = '\0';
  if (!e) e = parse_header(file, text, target);
  tt_free(text);
  return e;
}

/* Outputs */

static tt_err allocate_output(tt_oracle_output *l, int64_t count, int64_t targets, int numbered)
{
  l->count = count;
  l->targets = targets;
  if (numbered) TT_TRY(TT_ALLOC(l->id, count));
  return TT_ALLOC(l->y, count * targets);
}

/* Find the columns of the targets: by their names; or y0, y1, ...; or y if there is only one. */
static tt_err find_columns(const char *file, const tt_csv *t, const tt_columns *target,
                           int64_t *column)
{
  int64_t named = 0, made = 0;
  char name[32];
  for (int64_t k = 0; k < target->count; k++) {
    column[k] = tt_csv_find(t, target->name[k]);
    named += column[k] >= 0;
  }
  for (int64_t k = 0; named < target->count && k < target->count; k++) {
    snprintf(name, sizeof name, "y%" PRId64, k);
    column[k] = tt_csv_find(t, name);
    if (column[k] < 0 && target->count == 1) column[k] = tt_csv_find(t, "y");
    made += column[k] >= 0;
  }
  if (named == target->count || made == target->count) return TT_OK;
  return TT_FAIL(DATA,
                 "%s: the columns do not match the targets (%" PRId64
                 "): expected '%s', ... by name, or y0 to y%" PRId64,
                 file, target->count, target->name[0], target->count - 1);
}

static tt_err output_from_table(tt_oracle_output *l, const tt_csv *t, const tt_columns *target,
                                int64_t *column)
{
  int64_t id = tt_csv_find(t, "id"), T = target->count;
  TT_TRY(find_columns(l->file, t, target, column));
  TT_TRY(allocate_output(l, t->rows, T, id >= 0));
  for (int64_t i = 0; i < l->count; i++) {
    if (id >= 0) TT_TRY(cell_id(l->file, t, i, id, &l->id[i]));
    for (int64_t k = 0; k < T; k++) TT_TRY(cell_number(l->file, t, i, column[k], &l->y[i * T + k]));
  }
  return TT_OK;
}

/* Many more bytes than the numbers of the requested rows need: other columns, quotes, comments. */
static tt_csv_limit csv_limit(int64_t requested, int64_t targets)
{
  if (!requested) return (tt_csv_limit){0};
  int64_t row_bytes = CSV_ROW_BYTES + CSV_NUMBER_BYTES * targets;
  return (tt_csv_limit){requested, (requested + CSV_SPARE_ROWS) * row_bytes};
}

static tt_err output_from_csv(tt_oracle_output *l, const tt_columns *target, int64_t requested)
{
  tt_csv *t = NULL;
  int64_t *column = NULL;
  const tt_csv_limit limit = csv_limit(requested, target->count);
  TT_TRY(read_complete_csv(l->file, &limit, &t));
  tt_err e = TT_ALLOC(column, target->count);
  if (!e) e = output_from_table(l, t, target, column);
  tt_free(column);
  tt_csv_destroy(&t);
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

/* Put the columns of y into the order of `target` by target_name, if the file has it. */
static tt_err reorder_targets(tt_h5_reader *r, tt_oracle_output *l, const tt_columns *target)
{
  tt_columns here = {0};
  int64_t *from = NULL;
  double *row = NULL;
  tt_err e = tt_h5_columns_read_local(r, "y", "target_name", "target_units", target->count, &here);
  if (!e)
    e = tt_h5_columns_match_local(tt_h5_file_name(r), "y", target, "data.file", 0, &here, &from);
  if (!e && from) e = TT_ALLOC(row, target->count);
  if (!e) tt_columns_reorder(from, target->count, l->count, l->y, row);
  tt_free(row);
  tt_free(from);
  tt_columns_free(&here);
  return e;
}

static tt_err output_from_reader(tt_h5_reader *r, tt_oracle_output *l, const tt_columns *target,
                                 int64_t requested)
{
  tt_h5_matrix id = {0}, y;
  int64_t targets = target->count;
  int numbered = tt_h5_has_local(r, "id");
  TT_TRY(tt_h5_matrix_open_local(r, "labels", "y", &y));
  if (numbered) TT_TRY(tt_h5_matrix_open_local(r, "numbers", "id", &id));
  if (y.columns != targets)
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
  TT_TRY(allocate_output(l, y.rows, targets, numbered));
  if (!l->count) return TT_OK;
  if (numbered) TT_TRY(read_ids(r, l));
  TT_TRY(tt_h5_read_rows_local(r, "y", TT_H5_F64, 0, l->count, l->y));
  return reorder_targets(r, l, target);
}

static tt_err output_from_h5(tt_oracle_output *l, const tt_columns *target, int64_t requested,
                             char *why, int room)
{
  tt_h5_reader *r = NULL;
  char *text = NULL;
  TT_TRY(tt_h5_open_local(l->file, &r));
  tt_err e = output_from_reader(r, l, target, requested);
  if (!e && why && tt_h5_has_attr_local(r, "/", "failed"))
    e = tt_h5_read_attr_text_local(r, "/", "failed", &text);
  if (!e && text) snprintf(why, (size_t)room, "%s", text);
  tt_free(text);
  tt_h5_close_local(&r);
  return e;
}

typedef struct numbered_row {
  int64_t id, row;
} numbered_row;

static int by_id(const void *a, const void *b)
{
  const numbered_row *x = a, *y = b;
  return x->id != y->id ? (x->id > y->id) - (x->id < y->id) : (x->row > y->row) - (x->row < y->row);
}

/* out[count] in ascending order of the ids. */
static tt_err sort_ids(const int64_t *id, int64_t count, numbered_row **out)
{
  TT_TRY(TT_ALLOC(*out, count));
  for (int64_t i = 0; i < count; i++) (*out)[i] = (numbered_row){id[i], i};
  if (count) qsort(*out, (size_t)count, sizeof **out, by_id);
  return TT_OK;
}

static tt_err check_ids(const tt_oracle_output *l)
{
  numbered_row *row = NULL;
  tt_err e = TT_OK;
  if (!l->id) return TT_OK;
  TT_TRY(sort_ids(l->id, l->count, &row));
  for (int64_t i = 1; !e && i < l->count; i++)
    if (row[i].id == row[i - 1].id)
      e = TT_FAIL(DATA, "%s: id %" PRId64 " occurs twice: in rows %" PRId64 " and %" PRId64,
                  l->file, row[i].id, row[i - 1].row, row[i].row);
  tt_free(row);
  return e;
}

static tt_err read_output(tt_oracle_output *l, const char *file, const tt_columns *target,
                          int64_t requested, int foreign, char *why, int room)
{
  static const char *const dataset[] = {"y", "?id"};
  int exists = 0;
  TT_TRY(tt_text_set(&l->file, file));
  TT_TRY(tt_file_exists(file, &exists));
  if (!exists) return TT_FAIL(NOINPUT, "%s: the output file does not exist", file);
  if (tt_is_csv(file)) {
    TT_TRY(output_from_csv(l, target, requested));
  } else {
    if (foreign) TT_TRY(tt_guarded_check_local(file, dataset, 2));
    TT_TRY(output_from_h5(l, target, requested, why, room));
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
                                     tt_oracle_output **out, char *why, int room)
{
  tt_oracle_output *l = NULL;
  if (why) *why = '\0';
  TT_TRY(TT_ALLOC(l, 1));
  tt_err e = read_output(l, file, target, 0, 0, why, room);
  if (e) tt_oracle_output_destroy(&l);
  *out = l;
  return e;
}

/* Outputs aligned with the request */

static void copy_row(const tt_oracle_output *l, int64_t from, double *y)
{
  int good = 1;
  for (int64_t k = 0; k < l->targets; k++) good = good && !isinf(l->y[from * l->targets + k]);
  for (int64_t k = 0; k < l->targets; k++) y[k] = good ? l->y[from * l->targets + k] : NAN;
}

/* requested [count] in ascending order of the ids. */
static tt_err copy_rows_by_id(const tt_oracle_output *l, const numbered_row *requested,
                              int64_t count, double *y)
{
  for (int64_t i = 0; i < l->count; i++) {
    const numbered_row *to =
        bsearch(&l->id[i], requested, (size_t)count, sizeof *requested, tt_compare_i64);
    if (!to)
      return TT_FAIL(DATA, "%s: row %" PRId64 " has id %" PRId64 ", which was not queried", l->file,
                     i, l->id[i]);
    copy_row(l, i, y + to->row * l->targets);
  }
  return TT_OK;
}

tt_err tt_oracle_output_align(const tt_oracle_output *l, int64_t count, const int64_t *id,
                              double *y, int64_t *given)
{
  numbered_row *requested = NULL;
  for (int64_t i = 0; i < count * l->targets; i++) y[i] = NAN;
  *given = l->count; /* each id occurs at most once */
  if (!l->id && l->count != count)
    return TT_FAIL(
        DATA, "%s: %" PRId64 " rows, expected %" PRId64 "; a file with missing rows must have 'id'",
        l->file, l->count, count);
  for (int64_t i = 0; !l->id && i < count; i++) copy_row(l, i, y + i * l->targets);
  if (!l->id) return TT_OK;
  TT_TRY(sort_ids(id, count, &requested));
  tt_err e = copy_rows_by_id(l, requested, count, y);
  tt_free(requested);
  return e;
}
