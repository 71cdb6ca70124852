/* attributes.c — see h5.h: attributes, texts and dimensions of a new file. */
#include "io/hdf5/h5_internal.h"

#include "core/base/mem.h"

#include <hdf5_hl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Name of a dimension without values in netCDF-4; the size is padded to ten characters. */
#define NETCDF_DIMENSION_NAME "This is a netCDF dimension but not a netCDF variable.%10" PRId64

/* Create and write one attribute; the caller closes `type` and `space`. */
static tt_err write_attr(tt_h5_file *f, const char *object, const char *name, hid_t type,
                         hid_t space, const void *values)
{
  char what[256];
  hid_t o = tt_h5_object(f, object), a = -1;
  if (o >= 0 && type >= 0 && space >= 0)
    a = H5Acreate2(o, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  int ok = a >= 0 && H5Awrite(a, type, values) >= 0;
  snprintf(what, sizeof what, "cannot write the attribute %s", name);
  tt_err e = ok ? TT_OK : TT_H5_FAIL(IO, f->path, object, what);
  TT_H5_CLOSE(a);
  return e;
}

tt_err tt_h5_write_attr(tt_h5_file *f, const char *object, const char *name, tt_h5_type type,
                        int64_t n, const void *values)
{
  hsize_t size = (hsize_t)n;
  if (f->error) return f->error;
  hid_t space = n == 1 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &size, NULL);
  tt_err e = write_attr(f, object, name, tt_h5_native(type), space, values);
  TT_H5_CLOSE(space);
  return tt_h5_vote(f, e);
}

tt_err tt_h5_write_attr_text(tt_h5_file *f, const char *object, const char *name, const char *text)
{
  if (f->error) return f->error;
  size_t length = strlen(text);
  hid_t space = H5Screate(H5S_SCALAR), type = H5Tcopy(H5T_C_S1);
  int ok = H5Tset_size(type, length ? length : 1) >= 0 && H5Tset_cset(type, H5T_CSET_UTF8) >= 0 &&
           H5Tset_strpad(type, H5T_STR_NULLPAD) >= 0;
  tt_err e = ok ? write_attr(f, object, name, type, space, text)
                : TT_H5_FAIL(IO, f->path, object, "cannot create the text type");
  TT_H5_CLOSE(type, space);
  return tt_h5_vote(f, e);
}

/* Texts */

int64_t tt_h5_max_text_length(int64_t n, const char *const *text)
{
  int64_t longest = 1;
  for (int64_t i = 0; i < n; i++) {
    int64_t length = (int64_t)strlen(text[i]);
    if (length > longest) longest = length;
  }
  return longest;
}

/* *table [n][length], padded with NUL. */
static tt_err pad_texts_local(const tt_h5_file *f, const char *path, int64_t n, int64_t length,
                              const char *const *text, char **table)
{
  int64_t longest = tt_h5_max_text_length(n, text);
  if (longest > length)
    return TT_FAIL(INTERNAL, "%s: '%s': a text of %" PRId64 " bytes is longer than %" PRId64,
                   f->path, path, longest, length);
  TT_TRY(tt_alloc_bytes(table, n * length, 1, "texts"));
  for (int64_t i = 0; i < n; i++) memcpy(*table + i * length, text[i], strlen(text[i]));
  return TT_OK;
}

static tt_err write_padded_texts(tt_h5_file *f, const char *path, int ndims, int64_t n,
                                 int64_t length, const char *const *text)
{
  const int64_t dims[2] = {ndims == 2 ? n : length, length};
  char *table = NULL;
  if (f->error) return f->error;
  int root = tt_h5_is_root(f);
  if (!tt_h5_vote(f, root ? pad_texts_local(f, path, n, length, text, &table) : TT_OK))
    tt_h5_write_from_root(f, path, TT_H5_CHAR, ndims, dims, table);
  tt_free(table);
  return tt_h5_write_attr_text(f, path, "_Encoding", "utf-8");
}

tt_err tt_h5_write_texts(tt_h5_file *f, const char *path, int64_t n, int64_t length,
                         const char *const *text)
{
  return write_padded_texts(f, path, 2, n, length, text);
}

tt_err tt_h5_write_text(tt_h5_file *f, const char *path, int64_t length, const char *text)
{
  return write_padded_texts(f, path, 1, 1, length, &text);
}

/* Dimensions */

static tt_err set_scale(tt_h5_file *f, const char *path, const char *name)
{
  if (f->error) return f->error;
  hid_t d = tt_h5_object(f, path);
  tt_err e = d < 0 || H5DSset_scale(d, name) < 0
                 ? TT_H5_FAIL(IO, f->path, path, "cannot be made a dimension scale")
                 : TT_OK;
  return tt_h5_vote(f, e);
}

tt_err tt_h5_create_dimension(tt_h5_file *f, const char *path, int64_t size)
{
  char name[128];
  snprintf(name, sizeof name, NETCDF_DIMENSION_NAME, size);
  tt_h5_create_dataset(f, path, TT_H5_I8, 1, &size); /* never written: the smallest type */
  return set_scale(f, path, name);
}

tt_err tt_h5_create_open_dimension(tt_h5_file *f, const char *path)
{
  char name[128];
  const hsize_t none = 0, most = H5S_UNLIMITED, chunk = 1024;
  if (f->error) return f->error;
  hid_t p = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(1, &none, &most), d = -1;
  if (p >= 0 && space >= 0 && H5Pset_chunk(p, 1, &chunk) >= 0 &&
      H5Pset_obj_track_times(p, 0) >= 0 && tt_h5_track_attribute_order(p))
    d = H5Dcreate2(f->id, path, H5T_NATIVE_INT8, space, H5P_DEFAULT, p, H5P_DEFAULT);
  tt_err e = d < 0 ? TT_H5_FAIL(IO, f->path, path, "cannot create the dimension") : TT_OK;
  TT_H5_CLOSE(d, space, p);
  if (tt_h5_vote(f, e)) return f->error;
  snprintf(name, sizeof name, NETCDF_DIMENSION_NAME, (int64_t)0);
  return set_scale(f, path, name);
}

int64_t tt_h5_dimension_size(tt_h5_file *f, const char *path)
{
  hsize_t size = 0;
  hid_t d = f->error ? -1 : tt_h5_object(f, path), space = d < 0 ? -1 : H5Dget_space(d);
  int known = space >= 0 && H5Sget_simple_extent_dims(space, &size, NULL) == 1;
  TT_H5_CLOSE(space);
  return known ? (int64_t)size : -1;
}

tt_err tt_h5_set_scale(tt_h5_file *f, const char *path)
{
  const char *slash = strrchr(path, '/');
  return set_scale(f, path, slash ? slash + 1 : path);
}

static tt_err attach_scale(tt_h5_file *f, const char *dataset, int axis, const char *scale)
{
  char what[256];
  if (f->error) return f->error;
  hid_t d = tt_h5_object(f, dataset), s = tt_h5_object(f, scale);
  snprintf(what, sizeof what, "cannot attach to axis %d the dimension scale %s", axis, scale);
  tt_err e = d < 0 || s < 0 || H5DSattach_scale(d, s, (unsigned)axis) < 0
                 ? TT_H5_FAIL(IO, f->path, dataset, what)
                 : TT_OK;
  return tt_h5_vote(f, e);
}

tt_err tt_h5_attach_scales(tt_h5_file *f, const char *dataset, const char *const *scale, int ndims)
{
  for (int i = 0; i < ndims; i++) attach_scale(f, dataset, i, scale[i]);
  return f->error;
}

int tt_h5_is_scale_local(tt_h5_reader *r, const char *path, int *has_values)
{
  static const char no_values[] = "This is a netCDF dimension but not a netCDF variable";
  char *text = NULL;
  int is_scale = 0;
  *has_values = 1;
  if (!tt_h5_has_attr_local(r, path, "CLASS") ||
      tt_h5_read_attr_text_local(r, path, "CLASS", &text))
    return 0;
  is_scale = !strcmp(text, "DIMENSION_SCALE");
  tt_free(text);
  if (is_scale && tt_h5_has_attr_local(r, path, "NAME") &&
      !tt_h5_read_attr_text_local(r, path, "NAME", &text))
    *has_values = strncmp(text, no_values, sizeof no_values - 1) != 0;
  tt_free(text);
  return is_scale;
}
