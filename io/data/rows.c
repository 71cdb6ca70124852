/* rows.c — shape, names and rows of a data file; see data.h. */
#include "io/data/data_internal.h"

#include "core/base/mem.h"

#include <inttypes.h>
#include <stdatomic.h>

static _Atomic int64_t bytes_read;

int64_t tt_data_bytes_read_local(void) { return bytes_read; }

struct tt_data_reader {
  tt_h5_reader *reader;
  char *inputs, *targets; /* owned; the matrices borrow them */
  tt_h5_matrix x, y;
  int64_t *x_from, *y_from; /* [columns] column of the file for each one read; NULL: in its order */
  double *row;              /* [D or T] scratch, if there is x_from or y_from */
  tt_data_shape shape;
};

tt_err tt_h5_matrix_open_local(tt_h5_reader *r, const char *role, const char *path,
                               tt_h5_matrix *out)
{
  tt_h5_info info;
  const char *file = tt_h5_file_name(r);
  TT_TRY(tt_h5_dataset_info_local(r, path, &info));
  if (info.kind != TT_H5_FLOAT && info.kind != TT_H5_INTEGER)
    return TT_FAIL(DATA, "%s: dataset '%s' (%s) does not hold numbers but %s", file, path, role,
                   info.kind == TT_H5_TEXT ? "text" : "another type");
  if (info.ndims < 1 || info.ndims > 2)
    return TT_FAIL(DATA, "%s: dataset '%s' (%s) has %d axes; it must have rows x columns, or rows",
                   file, path, role, info.ndims);
  *out = (tt_h5_matrix){path, info.dims[0], info.ndims == 2 ? info.dims[1] : 1, info.bytes};
  if (out->columns < 1)
    return TT_FAIL(DATA, "%s: dataset '%s' (%s) has no columns", file, path, role);
  return TT_OK;
}

tt_err tt_h5_matrix_read_local(tt_h5_reader *r, const tt_h5_matrix *m, int64_t first, int64_t count,
                               double *value)
{
  if (count == 0) return TT_OK;
  TT_TRY(tt_h5_read_rows_local(r, m->path, TT_H5_F64, first, count, value));
  bytes_read += count * m->columns * m->bytes;
  return TT_OK;
}

static tt_err open_targets(tt_data_reader *r, const char *targets)
{
  const char *file = tt_h5_file_name(r->reader);
  TT_TRY(tt_text_set(&r->targets, targets));
  TT_TRY(tt_h5_matrix_open_local(r->reader, "targets", r->targets, &r->y));
  if (r->y.rows != r->x.rows)
    return TT_FAIL(DATA,
                   "%s: '%s' has %" PRId64 " rows, but '%s' has %" PRId64
                   "; inputs and targets must have the same rows",
                   file, r->x.path, r->x.rows, r->y.path, r->y.rows);
  r->shape.targets = r->y.columns;
  return tt_h5_columns_read_local(r->reader, "y", "target_name", "target_units", r->y.columns,
                                  &r->shape.target);
}

static tt_err open_all(tt_data_reader *r, const char *file, const char *inputs, const char *targets)
{
  TT_TRY(tt_h5_open_local(file, &r->reader));
  TT_TRY(tt_text_set(&r->inputs, inputs));
  TT_TRY(tt_h5_matrix_open_local(r->reader, "inputs", r->inputs, &r->x));
  if (r->x.rows < 1) return TT_FAIL(DATA, "%s: dataset '%s' has no rows", file, inputs);
  r->shape.rows = r->x.rows;
  r->shape.inputs = r->x.columns;
  TT_TRY(tt_h5_columns_read_local(r->reader, "x", "feature_name", "feature_units", r->x.columns,
                                  &r->shape.input));
  return targets ? open_targets(r, targets) : tt_columns_create(0, &r->shape.target);
}

tt_err tt_data_reader_open_local(const char *file, const char *inputs, const char *targets,
                                 tt_data_reader **out)
{
  tt_data_reader *r = NULL;
  TT_TRY(TT_ALLOC(r, 1));
  tt_err e = open_all(r, file, inputs, targets);
  if (e) tt_data_reader_close_local(&r);
  *out = r;
  return e;
}

tt_err tt_data_reader_match_local(tt_data_reader *r, const tt_columns *input,
                                  const tt_columns *target, const char *of, int notice)
{
  int64_t width = r->x.columns;
  TT_TRY(tt_h5_columns_match_local(r->reader, r->inputs, input, of, notice, &r->shape.input,
                                   &r->x_from));
  if (target && r->targets) {
    TT_TRY(tt_h5_columns_match_local(r->reader, r->targets, target, of, notice, &r->shape.target,
                                     &r->y_from));
    width = r->y.columns > width ? r->y.columns : width;
  }
  return r->x_from || r->y_from ? TT_ALLOC(r->row, width) : TT_OK;
}

tt_err tt_data_reader_read_local(tt_data_reader *r, int64_t first, int64_t count, double *x,
                                 double *y)
{
  if (x) TT_TRY(tt_h5_matrix_read_local(r->reader, &r->x, first, count, x));
  if (x) tt_columns_reorder(r->x_from, r->x.columns, count, x, r->row);
  if (y && r->targets) TT_TRY(tt_h5_matrix_read_local(r->reader, &r->y, first, count, y));
  if (y && r->targets) tt_columns_reorder(r->y_from, r->y.columns, count, y, r->row);
  return TT_OK;
}

const tt_data_shape *tt_data_reader_shape(const tt_data_reader *r) { return &r->shape; }
tt_h5_reader *tt_data_reader_file_local(const tt_data_reader *r) { return r->reader; }

void tt_data_reader_close_local(tt_data_reader **r)
{
  if (!*r) return;
  tt_h5_close_local(&(*r)->reader);
  tt_free((*r)->inputs);
  tt_free((*r)->targets);
  tt_free((*r)->x_from);
  tt_free((*r)->y_from);
  tt_free((*r)->row);
  tt_data_shape_free(&(*r)->shape);
  tt_free(*r);
}

tt_err tt_data_read_shape_local(const char *file, const char *inputs, const char *targets,
                                tt_data_shape *out)
{
  tt_data_reader *r = NULL;
  TT_TRY(tt_data_reader_open_local(file, inputs, targets, &r));
  *out = r->shape;
  r->shape = (tt_data_shape){0}; /* the caller owns the names now */
  tt_data_reader_close_local(&r);
  return TT_OK;
}

void tt_data_shape_free(tt_data_shape *s)
{
  tt_columns_free(&s->input);
  tt_columns_free(&s->target);
}
