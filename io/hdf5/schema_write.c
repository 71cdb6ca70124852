/* schema_write.c — see schema.h. */
#include "io/hdf5/schema.h"

#include "core/base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char tt_schema_status_meanings[] = "training finished early_stopped diverged";

static int count_axes(const tt_variable *v)
{
  int n = 0;
  while (n < TT_SCHEMA_MAX_AXES && v->dim[n]) n++;
  return n;
}

static int dimension_sizes(const tt_schema *s, const tt_variable *v,
                           int64_t size[TT_SCHEMA_MAX_AXES])
{
  int n = count_axes(v);
  for (int i = 0; i < n; i++) size[i] = tt_h5_dimension_size(s->file, v->dim[i]);
  return n;
}

static void write_attributes(tt_schema *s, const tt_variable *v)
{
  tt_h5_file *f = s->file;
  if (v->units) tt_h5_write_attr_text(f, v->name, "units", v->units);
  if (v->long_name) tt_h5_write_attr_text(f, v->name, "long_name", v->long_name);
  if (v->coordinates) tt_h5_write_attr_text(f, v->name, "coordinates", v->coordinates);
  if (v->type == TT_H5_F32) tt_h5_write_attr(f, v->name, "_FillValue", v->type, 1, &(float){NAN});
  if (v->type == TT_H5_F64) tt_h5_write_attr(f, v->name, "_FillValue", v->type, 1, &(double){NAN});
}

static tt_err write_attributes_and_scales(tt_schema *s, const tt_variable *v)
{
  write_attributes(s, v);
  return tt_h5_attach_scales(s->file, v->name, v->dim, count_axes(v));
}

void tt_schema_create_dimension(tt_schema *s, const char *name, int64_t size)
{
  tt_h5_create_dimension(s->file, name, size);
}

static void make_coordinate(tt_schema *s, const tt_variable *v)
{
  tt_h5_set_scale(s->file, v->name);
  if (v->units) tt_h5_write_attr_text(s->file, v->name, "units", v->units);
  if (v->long_name) tt_h5_write_attr_text(s->file, v->name, "long_name", v->long_name);
}

void tt_schema_create_coordinate(tt_schema *s, const tt_variable *v, int64_t size)
{
  tt_h5_create_dataset(s->file, v->name, v->type, 1, &size);
  make_coordinate(s, v);
}

void tt_schema_write_coordinate(tt_schema *s, const tt_variable *v, int64_t size,
                                const void *values)
{
  tt_h5_write_from_root(s->file, v->name, v->type, 1, &size, values);
  make_coordinate(s, v);
}

tt_err tt_schema_create_variable(tt_schema *s, const tt_variable *v)
{
  int64_t size[TT_SCHEMA_MAX_AXES];
  int n = dimension_sizes(s, v, size);
  tt_h5_create_dataset(s->file, v->name, v->type, n, size);
  return write_attributes_and_scales(s, v);
}

void tt_schema_write_from_root(tt_schema *s, const tt_variable *v, const void *data)
{
  int64_t size[TT_SCHEMA_MAX_AXES];
  int n = dimension_sizes(s, v, size);
  tt_h5_write_from_root(s->file, v->name, v->type, n, size, data);
  write_attributes_and_scales(s, v);
}

void tt_schema_write_texts(tt_schema *s, const char *name, const char *dim, const char *length,
                           const char *const *text, const char *long_name)
{
  tt_variable v = {name, TT_H5_CHAR, {dim, length}, NULL, long_name, NULL};
  tt_h5_file *f = s->file;
  tt_h5_write_texts(f, name, tt_h5_dimension_size(f, dim), tt_h5_dimension_size(f, length), text);
  write_attributes_and_scales(s, &v);
}

int64_t tt_schema_max_column_text(const tt_columns *c)
{
  int64_t a = tt_h5_max_text_length(c->count, (const char *const *)c->name);
  int64_t b = tt_h5_max_text_length(c->count, (const char *const *)c->units);
  return a > b ? a : b;
}

void tt_schema_write_columns(tt_schema *s, const char *dim, const char *length, const char *name,
                             const char *units, const tt_columns *c)
{
  tt_schema_create_dimension(s, dim, c->count);
  tt_schema_write_texts(s, name, dim, length, (const char *const *)c->name, NULL);
  tt_schema_write_texts(s, units, dim, length, (const char *const *)c->units, NULL);
  tt_schema_write_given(s, name, c);
}

void tt_schema_write_given(tt_schema *s, const char *name, const tt_columns *c)
{
  const int8_t given = (int8_t)c->given;
  tt_h5_write_attr(s->file, name, "given", TT_H5_I8, 1, &given);
  if (c->id) tt_h5_write_attr_text(s->file, name, "id", c->id);
}

/* Rows `row` of the ids, in the form of the file: int64 [n], or characters [n][length]. */
static tt_err take_ids_local(const tt_row_ids *ids, int64_t n, const int64_t *row, int64_t length,
                             void *out)
{
  char *dst;
  TT_TRY(tt_alloc_bytes(out, n * length, 1, "ids of rows"));
  memcpy(&dst, out, sizeof dst);
  for (int64_t i = 0; i < n; i++, dst += length)
    if (ids->text)
      memcpy(dst, ids->text[row ? row[i] : i], strlen(ids->text[row ? row[i] : i]));
    else
      memcpy(dst, &ids->number[row ? row[i] : i], sizeof *ids->number);
  return TT_OK;
}

tt_err tt_schema_write_ids(tt_schema *s, tt_comm *c, const char *dim, const tt_row_ids *ids,
                           const int64_t *row)
{
  static const char meaning[] = "id of the row in the data (data.id)";
  int root = !c || tt_comm_is_root(c);
  int64_t n = tt_h5_dimension_size(s->file, dim), shape[] = {0, 0}; /* bytes, 1 = texts */
  void *value = NULL;
  if (root && ids && ids->text)
    shape[0] = tt_h5_max_text_length(ids->rows, (const char *const *)ids->text);
  if (root && ids && ids->number) shape[0] = (int64_t)sizeof *ids->number;
  if (root) shape[1] = ids && ids->text;
  if (c) tt_bcast(c, shape, sizeof shape);
  if (!shape[0]) return TT_OK;
  tt_err e = root ? take_ids_local(ids, n, row, shape[0], &value) : TT_OK;
  if (c) e = tt_agree(c, e);
  if (!e && shape[1]) {
    tt_schema_create_dimension(s, "id_strlen", shape[0]);
    TT_SCHEMA_WRITE(s, value, "sample_id", CHAR, NULL, meaning, NULL, dim, "id_strlen");
    tt_h5_write_attr_text(s->file, "sample_id", "_Encoding", "utf-8");
  } else if (!e) {
    TT_SCHEMA_WRITE(s, value, "sample_id", I64, NULL, meaning, NULL, dim);
  }
  tt_free(value);
  return e;
}

void tt_schema_write_flags(tt_schema *s, const char *variable, int64_t flags, const char *meanings)
{
  static const int8_t value[] = {0, 1, 2, 3, 4, 5, 6, 7};
  tt_h5_write_attr(s->file, variable, "flag_values", TT_H5_I8, flags, value);
  tt_h5_write_attr_text(s->file, variable, "flag_meanings", meanings);
}
