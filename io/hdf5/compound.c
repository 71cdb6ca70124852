/* compound.c — see h5.h: datasets of records. */
#include "core/base/mem.h"
#include "core/base/text.h"
#include "io/hdf5/h5_internal.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_FIELDS = 1 << 16 };

static tt_h5_kind kind_of(H5T_class_t class)
{
  if (class == H5T_FLOAT) return TT_H5_FLOAT;
  if (class == H5T_INTEGER || class == H5T_ENUM) return TT_H5_INTEGER;
  return class == H5T_STRING ? TT_H5_TEXT : TT_H5_OTHER;
}

void tt_h5_fields_free(int64_t n, tt_h5_field **field)
{
  for (int64_t i = 0; *field && i < n; i++) tt_free((*field)[i].name);
  tt_free(*field);
}

static tt_err read_fields(const tt_h5_reader *r, const char *path, hid_t type, int64_t n,
                          tt_h5_field **field)
{
  TT_TRY(TT_ALLOC(*field, n));
  for (int64_t i = 0; i < n; i++) {
    char *name = H5Tget_member_name(type, (unsigned)i);
    if (!name) return TT_H5_FAIL(DATA, r->file, path, "has a field without a name");
    tt_err e = tt_text_set(&(*field)[i].name, name);
    H5free_memory(name);
    if (e) return e;
    (*field)[i].kind = kind_of(H5Tget_member_class(type, (unsigned)i));
  }
  return TT_OK;
}

tt_err tt_h5_list_fields_local(tt_h5_reader *r, const char *path, int64_t *n, tt_h5_field **field)
{
  hid_t dataset = -1;
  *n = 0;
  *field = NULL;
  TT_TRY(tt_h5_open_dataset_local(r, path, &dataset));
  hid_t type = H5Dget_type(dataset);
  int count = type >= 0 && H5Tget_class(type) == H5T_COMPOUND ? H5Tget_nmembers(type) : 0;
  tt_err e = count > 0 && count <= MAX_FIELDS ? read_fields(r, path, type, count, field) : TT_OK;
  if (e)
    tt_h5_fields_free(count, field);
  else
    *n = count > 0 && count <= MAX_FIELDS ? count : 0;
  TT_H5_CLOSE(type, dataset);
  return e;
}

/* A record in memory that has this field alone, as a double. */
static hid_t create_record(const char *field)
{
  hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(double));
  if (type >= 0 && H5Tinsert(type, field, 0, H5T_NATIVE_DOUBLE) >= 0) return type;
  TT_H5_CLOSE(type);
  return -1;
}

tt_err tt_h5_read_field_local(tt_h5_reader *r, const char *path, const char *field, int64_t first,
                              int64_t count, double *value)
{
  tt_h5_info info;
  hid_t dataset = -1;
  TT_TRY(tt_h5_dataset_info_local(r, path, &info)); /* refuses storage in other files */
  if (info.ndims != 1 || first < 0 || count < 0 || first > info.dims[0] - count)
    return TT_FAIL(DATA, "%s: '%s' has no rows %" PRId64 " to %" PRId64, r->file, path, first,
                   first + count - 1);
  if (count == 0) return TT_OK;
  TT_TRY(tt_h5_open_dataset_local(r, path, &dataset));
  const hsize_t begin = (hsize_t)first, size = (hsize_t)count;
  hid_t space = H5Dget_space(dataset), memory = H5Screate_simple(1, &size, NULL);
  hid_t record = create_record(field);
  int ok = space >= 0 && memory >= 0 && record >= 0 &&
           H5Sselect_hyperslab(space, H5S_SELECT_SET, &begin, NULL, &size, NULL) >= 0 &&
           H5Dread(dataset, record, memory, space, H5P_DEFAULT, value) >= 0;
  tt_err e = ok ? TT_OK : TT_H5_FAIL(IO, r->file, path, "cannot be read");
  TT_H5_CLOSE(record, memory, space, dataset);
  return e;
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
