/* schema_write.c — see schema.h. */
#include "io/hdf5/schema.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char tt_schema_status[] = "training finished early_stopped diverged";

static int axes_of(const tt_variable *v)
{
  int n = 0;
  while (n < TT_SCHEMA_DIMS && v->dim[n]) n++;
  return n;
}

static int64_t size_of(const tt_schema *s, const char *dim)
{
  for (int i = 0; i < s->dims; i++)
    if (strcmp(s->dim[i].name, dim) == 0) return s->dim[i].size;
  return -1; /* refused by tt_h5_dataset */
}

static int sizes_of(const tt_schema *s, const tt_variable *v, int64_t size[TT_SCHEMA_DIMS])
{
  int n = axes_of(v);
  for (int i = 0; i < n; i++) size[i] = size_of(s, v->dim[i]);
  return n;
}

static void remember(tt_schema *s, const char *name, int64_t size)
{
  if (s->dims == TT_SCHEMA_MAX_DIMENSIONS) return;
  snprintf(s->dim[s->dims].name, TT_SCHEMA_NAME, "%s", name);
  s->dim[s->dims++].size = size;
}

static void describe(tt_schema *s, const tt_variable *v)
{
  tt_h5_file *f = s->file;
  if (v->units) tt_h5_attr_text(f, v->name, "units", v->units);
  if (v->long_name) tt_h5_attr_text(f, v->name, "long_name", v->long_name);
  if (v->coordinates) tt_h5_attr_text(f, v->name, "coordinates", v->coordinates);
  if (v->type == TT_H5_F32) tt_h5_attr(f, v->name, "_FillValue", v->type, 1, &(float){NAN});
  if (v->type == TT_H5_F64) tt_h5_attr(f, v->name, "_FillValue", v->type, 1, &(double){NAN});
}

static tt_err finish(tt_schema *s, const tt_variable *v)
{
  describe(s, v);
  return tt_h5_attach_all(s->file, v->name, v->dim, axes_of(v));
}

void tt_schema_dim(tt_schema *s, const char *name, int64_t size)
{
  tt_h5_dim(s->file, name, size);
  remember(s, name, size);
}

void tt_schema_coordinate(tt_schema *s, const tt_variable *v, int64_t size, const void *values)
{
  tt_h5_write_root(s->file, v->name, v->type, 1, &size, values);
  tt_h5_set_scale(s->file, v->name);
  remember(s, v->name, size);
  if (v->units) tt_h5_attr_text(s->file, v->name, "units", v->units);
  if (v->long_name) tt_h5_attr_text(s->file, v->name, "long_name", v->long_name);
}

tt_err tt_schema_declare(tt_schema *s, const tt_variable *v)
{
  int64_t size[TT_SCHEMA_DIMS];
  int n = sizes_of(s, v, size);
  tt_h5_dataset(s->file, v->name, v->type, n, size);
  return finish(s, v);
}

void tt_schema_slice(tt_schema *s, const tt_variable *v, int64_t first, int64_t count,
                     const void *data)
{
  int64_t size[TT_SCHEMA_DIMS];
  int n = sizes_of(s, v, size);
  tt_h5_write_slice(s->file, v->name, v->type, n, size, first, count, data);
  finish(s, v);
}

void tt_schema_root(tt_schema *s, const tt_variable *v, const void *data)
{
  int64_t size[TT_SCHEMA_DIMS];
  int n = sizes_of(s, v, size);
  tt_h5_write_root(s->file, v->name, v->type, n, size, data);
  finish(s, v);
}

void tt_schema_texts(tt_schema *s, const char *name, const char *dim, const char *length,
                     const char *const *text, const char *long_name)
{
  tt_variable v = {name, TT_H5_CHAR, {dim, length}, NULL, long_name, NULL};
  tt_h5_write_texts(s->file, name, size_of(s, dim), size_of(s, length), text);
  finish(s, &v);
}

int64_t tt_schema_columns_length(const tt_columns *c)
{
  int64_t a = tt_h5_text_length(c->count, (const char *const *)c->name);
  int64_t b = tt_h5_text_length(c->count, (const char *const *)c->units);
  return a > b ? a : b;
}

void tt_schema_columns(tt_schema *s, const char *dim, const char *length, const char *name,
                       const char *units, const tt_columns *c)
{
  tt_schema_dim(s, dim, c->count);
  tt_schema_texts(s, name, dim, length, (const char *const *)c->name, NULL);
  tt_schema_texts(s, units, dim, length, (const char *const *)c->units, NULL);
}

void tt_schema_flags(tt_schema *s, const char *variable, int64_t flags, const char *meanings)
{
  static const int8_t value[] = {0, 1, 2, 3, 4, 5, 6, 7};
  tt_h5_attr(s->file, variable, "flag_values", TT_H5_I8, flags, value);
  tt_h5_attr_text(s->file, variable, "flag_meanings", meanings);
}
