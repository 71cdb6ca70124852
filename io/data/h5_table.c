/* h5_table.c — an HDF5 file as a table: datasets of one axis, and the columns of matrices;
 * see h5_table.h. netCDF-4 files are HDF5: packed variables (scale_factor, add_offset,
 * _FillValue) are unpacked. */
#include "io/data/h5_table.h"

#include "core/base/mem.h"
#include "core/base/text.h"
#include "io/hdf5/foreign_check.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLAB_ROWS = 65536, MAX_COLUMNS = 1 << 20, NAME_SIZE = 4200 };

/* Where a column is. */
typedef struct h5_column {
  char *path;    /* of the dataset, owned */
  int64_t index; /* column of the matrix */
  int64_t width; /* columns of the matrix, 1 for one axis */
  int is_number, is_text;
  int checked;
  double *code; /* [rows] of texts: the number of each text; NULL until they are read; owned */
  double scale, offset, fill; /* fill NaN: none */
} h5_column;

typedef struct h5_table {
  tt_h5_reader *reader; /* borrowed */
  int64_t columns;
  h5_column *column; /* [columns] */
} h5_table;

static void close_table(void *own)
{
  h5_table *p = own;
  for (int64_t k = 0; p->column && k < p->columns; k++)
    tt_free_all(&p->column[k].path, &p->column[k].code);
  tt_free(p->column);
  tt_free(p);
}

static tt_err read_number_attr(tt_h5_reader *r, const char *path, const char *name, double *value)
{
  if (!tt_h5_has_attr_local(r, path, name)) return TT_OK;
  return tt_h5_read_attr_local(r, path, name, TT_H5_F64, 1, value);
}

static tt_err use_column(tt_table *t, int64_t column, tt_cell_kind kind)
{
  const h5_table *p = t->own;
  h5_column *c = &p->column[column];
  (void)kind;
  if (c->is_text && t->levels && t->levels[column]) return TT_OK;
  if (!c->is_number)
    return TT_FAIL(DATA, "%s: dataset '%s' does not hold numbers in rows, or rows x columns",
                   t->file, t->name[column]);
  if (c->checked) return TT_OK;
  TT_TRY(tt_foreign_check_dataset_local(p->reader, c->path));
  TT_TRY(read_number_attr(p->reader, c->path, "scale_factor", &c->scale));
  TT_TRY(read_number_attr(p->reader, c->path, "add_offset", &c->offset));
  TT_TRY(read_number_attr(p->reader, c->path, "missing_value", &c->fill));
  TT_TRY(read_number_attr(p->reader, c->path, "_FillValue", &c->fill));
  c->checked = 1;
  return TT_OK;
}

static void unpack(const h5_column *c, double *value, int64_t step, int64_t count)
{
  if (isnan(c->fill) && c->scale == 1.0 && c->offset == 0.0) return;
  for (int64_t i = 0; i < count; i++) {
    double v = value[i * step];
    value[i * step] = v == c->fill ? (double)NAN : v * c->scale + c->offset;
  }
}

/* All texts of a column become their numbers: HDF5 has no better way to read texts in slices. */
static tt_err encode_texts(const tt_table *t, int64_t column)
{
  h5_column *c = &((h5_table *)t->own)->column[column];
  char **text = NULL, place[512];
  int64_t n = 0;
  tt_h5_reader *r = ((h5_table *)t->own)->reader;
  TT_TRY(tt_h5_read_texts_local(r, c->path, &n, &text));
  tt_err e = TT_ALLOC(c->code, n);
  for (int64_t i = 0; !e && i < n; i++) {
    snprintf(place, sizeof place, "%s: dataset '%s', row %" PRId64 " (from 0)", t->file,
             t->name[column], i);
    e = tt_levels_encode(t->levels[column], place, text[i], &c->code[i]);
  }
  tt_h5_texts_free(n, &text);
  if (e) tt_free(c->code);
  return e;
}

static tt_err read_texts(const tt_table *t, int64_t first, int64_t count, int64_t n,
                         const int64_t *column, int64_t which, double *value)
{
  const h5_column *c = &((h5_table *)t->own)->column[column[which]];
  if (!c->code) TT_TRY(encode_texts(t, column[which]));
  for (int64_t i = 0; i < count; i++) value[i * n + which] = c->code[first + i];
  return TT_OK;
}

/* Rows of the dataset of column c into all wanted columns of the same dataset. */
static tt_err read_dataset(const h5_table *p, int64_t first, int64_t count, int64_t n,
                           const int64_t *column, int64_t which, double *value)
{
  const h5_column *c = &p->column[column[which]];
  double *all = NULL;
  TT_TRY(TT_ALLOC(all, count * c->width));
  tt_err e = tt_h5_read_rows_local(p->reader, c->path, TT_H5_F64, first, count, all);
  for (int64_t k = which; !e && k < n; k++) {
    const h5_column *other = &p->column[column[k]];
    if (strcmp(other->path, c->path) != 0) continue;
    for (int64_t i = 0; i < count; i++) value[i * n + k] = all[i * c->width + other->index];
    unpack(other, value + k, n, count);
  }
  tt_free(all);
  return e;
}

/* Whether an earlier wanted column is of the same matrix. */
static int is_done(const h5_table *p, const int64_t *column, int64_t which)
{
  const h5_column *c = &p->column[column[which]];
  return which > 0 && c->width > 1 && !strcmp(p->column[column[which - 1]].path, c->path);
}

static tt_err read_columns(tt_table *t, int64_t first, int64_t count, int64_t n,
                           const int64_t *column, double *value)
{
  const h5_table *p = t->own;
  for (int64_t done = 0, rows; done < count; done += rows) {
    rows = count - done < SLAB_ROWS ? count - done : SLAB_ROWS;
    for (int64_t k = 0; k < n; k++)
      if (p->column[column[k]].is_text)
        TT_TRY(read_texts(t, first + done, rows, n, column, k, value + done * n));
      else if (!is_done(p, column, k))
        TT_TRY(read_dataset(p, first + done, rows, n, column, k, value + done * n));
  }
  return TT_OK;
}

/* The columns of a file */

typedef struct dataset {
  const char *path; /* borrowed */
  tt_h5_info info;
  int64_t columns;
  int hidden; /* the scale of a dimension */
} dataset;

/* 0 columns for what is no column: scalars, more than two axes, damaged or foreign datasets. */
static tt_err describe_dataset(tt_h5_reader *r, const char *path, dataset *d)
{
  int has_values = 1;
  *d = (dataset){.path = path};
  if (tt_h5_dataset_info_local(r, path, &d->info) || d->info.ndims < 1 || d->info.ndims > 2)
    return TT_OK;
  d->hidden = tt_h5_is_scale_local(r, path, &has_values);
  if (!has_values) return TT_OK;
  int is_number = d->info.kind <= TT_H5_INTEGER;
  d->columns = d->info.ndims == 2 && is_number ? d->info.dims[1] : 1;
  return TT_OK;
}

/* Column i of a dataset as column k of the table. */
static tt_err add_column(tt_table *t, const dataset *d, int64_t i, int64_t k)
{
  h5_column *c = &((h5_table *)t->own)->column[k];
  char name[NAME_SIZE];
  *c = (h5_column){.index = i,
                   .width = d->columns,
                   .is_number = d->info.kind <= TT_H5_INTEGER,
                   .is_text = d->info.kind == TT_H5_TEXT,
                   .scale = 1.0,
                   .fill = NAN};
  TT_TRY(tt_text_set(&c->path, d->path));
  t->rows[k] = d->info.dims[0];
  t->hidden[k] = d->hidden || !c->is_number;
  if (d->info.ndims == 2 && c->is_number) {
    snprintf(name, sizeof name, "%s%" PRId64, d->path, i);
    t->group[k] = c->path;
    return tt_text_set_name(&t->name[k], name);
  }
  return tt_text_set_name(&t->name[k], d->path);
}

static tt_err add_columns(tt_table *t, const dataset *d, int64_t datasets)
{
  h5_table *p = t->own;
  int64_t columns = 0;
  for (int64_t i = 0; i < datasets; i++) {
    if (d[i].columns > MAX_COLUMNS - columns)
      return TT_FAIL(DATA, "%s: more than %d columns", t->file, MAX_COLUMNS);
    columns += d[i].columns;
  }
  TT_TRY(TT_ALLOC(p->column, columns));
  p->columns = columns;
  TT_TRY(TT_ALLOC(t->name, columns));
  t->columns = columns;
  TT_TRY(TT_ALLOC(t->group, columns));
  TT_TRY(TT_ALLOC(t->rows, columns));
  TT_TRY(TT_ALLOC(t->hidden, columns));
  for (int64_t i = 0, k = 0; i < datasets; i++)
    for (int64_t j = 0; j < d[i].columns; j++, k++) TT_TRY(add_column(t, &d[i], j, k));
  return TT_OK;
}

/* f2 comes before f10. */
static int compare_names(const void *a, const void *b)
{
  return strverscmp(*(char *const *)a, *(char *const *)b);
}

static tt_err fill_table(tt_h5_reader *r, tt_table *t)
{
  int64_t n = 0;
  char **path = NULL;
  dataset *d = NULL;
  TT_TRY(tt_h5_list_datasets_local(r, &n, &path));
  qsort(path, (size_t)n, sizeof *path, compare_names);
  tt_err e = TT_ALLOC(d, n);
  for (int64_t i = 0; !e && i < n; i++) e = describe_dataset(r, path[i], &d[i]);
  if (!e) e = add_columns(t, d, n);
  tt_free(d);
  tt_h5_texts_free(n, &path);
  return e;
}

tt_err tt_h5_table_open_local(tt_h5_reader *r, tt_table **out)
{
  tt_table *t = NULL;
  h5_table *p = NULL;
  TT_TRY(TT_ALLOC(t, 1));
  tt_err e = TT_ALLOC(p, 1);
  *t = (tt_table){.noun = "column",
                  .rows_at_once = SLAB_ROWS,
                  .use = use_column,
                  .read = read_columns,
                  .close = close_table,
                  .own = p};
  if (!e) p->reader = r;
  if (!e) e = tt_text_set(&t->file, tt_h5_file_name(r));
  if (!e) e = fill_table(r, t);
  if (e) tt_table_close_local(&t);
  *out = t;
  return e;
}
