/* schema_read.c — see schema.h: checks of files that are read. */
#include "core/base/mem.h"
#include "io/hdf5/schema.h"

#include <inttypes.h>
#include <string.h>

/* Largest accepted compression ratio: a larger size is damage and must not be allocated. */
enum { MAX_COMPRESSION = 1024 };

/* An axis without values counts as one: the sizes of the others are allocated elsewhere. */
static tt_err check_plausible_size(tt_h5_reader *r, const char *path, const tt_h5_info *info)
{
  int64_t bytes = info->bytes, size = tt_h5_file_bytes_local(r);
  int overflow = 0;
  if (size < 0) return TT_FAIL(NOINPUT, "%s: cannot be read", tt_h5_file_name(r));
  for (int i = 0; i < info->ndims; i++)
    overflow |= __builtin_mul_overflow(bytes, info->dims[i] ? info->dims[i] : 1, &bytes);
  if (overflow || bytes / MAX_COMPRESSION > size)
    return TT_FAIL(DATA, "%s: '%s' cannot have its size in a file of %" PRId64 " bytes" TT_DAMAGED,
                   tt_h5_file_name(r), path, size);
  return TT_OK;
}

tt_err tt_schema_check_shape_local(tt_h5_reader *r, const char *path, int ndims, int64_t *dims)
{
  tt_h5_info info;
  TT_TRY(tt_h5_dataset_info_local(r, path, &info));
  if (info.ndims != ndims)
    return TT_FAIL(DATA, "%s: '%s' has %d axes, expected %d" TT_DAMAGED, tt_h5_file_name(r), path,
                   info.ndims, ndims);
  for (int i = 0; i < ndims; i++) {
    if (dims[i] == -1 && info.dims[i] >= 1) dims[i] = info.dims[i];
    if (dims[i] != info.dims[i])
      return TT_FAIL(DATA, "%s: axis %d of '%s' has size %" PRId64 ", expected %" PRId64 TT_DAMAGED,
                     tt_h5_file_name(r), i, path, info.dims[i], dims[i]);
  }
  return check_plausible_size(r, path, &info);
}

tt_err tt_schema_read_local(tt_h5_reader *r, const char *path, tt_h5_type type, int ndims,
                            int64_t *dims, void *dst)
{
  TT_TRY(tt_schema_check_shape_local(r, path, ndims, dims));
  return tt_h5_read_rows_local(r, path, type, 0, dims[0], dst);
}

tt_err tt_schema_read_array_local(tt_h5_reader *r, const char *path, tt_h5_type type, int ndims,
                                  int64_t *dims, void *out)
{
  int64_t values = 1;
  void *data;
  TT_TRY(tt_schema_check_shape_local(r, path, ndims, dims));
  for (int i = 0; i < ndims; i++) values *= dims[i];
  TT_TRY(tt_alloc_bytes(out, values, (size_t)tt_h5_type_bytes(type), path));
  memcpy(&data, out, sizeof data);
  return tt_h5_read_rows_local(r, path, type, 0, dims[0], data);
}

tt_err tt_schema_read_texts_local(tt_h5_reader *r, const char *path, int64_t n, char ***text)
{
  int64_t found = 0;
  TT_TRY(tt_h5_read_texts_local(r, path, &found, text));
  if (found == n) return TT_OK;
  tt_h5_texts_free(found, text);
  return TT_FAIL(DATA, "%s: '%s' has %" PRId64 " texts, expected %" PRId64 TT_DAMAGED,
                 tt_h5_file_name(r), path, found, n);
}

tt_err tt_schema_check_local(tt_h5_reader *r, const char *schema, const char *what)
{
  const char *file = tt_h5_file_name(r);
  char *found = NULL;
  if (!tt_h5_has_attr_local(r, "/", "tutti_schema"))
    return TT_FAIL(DATA, "%s: not a tutti file (no attribute 'tutti_schema'); expected a %s file",
                   file, what);
  TT_TRY(tt_h5_read_attr_text_local(r, "/", "tutti_schema", &found));
  size_t major = (size_t)(strrchr(schema, '.') - schema) + 1;
  tt_err e = TT_OK;
  if (strncmp(found, schema, major) != 0)
    e = TT_FAIL(DATA, "%s: schema '%s', expected a %s file ('%s')", file, found, what, schema);
  tt_free(found);
  return e;
}

int tt_schema_names_given_local(tt_h5_reader *r, const char *name)
{
  int8_t given = 1;
  if (tt_h5_has_attr_local(r, name, "given") &&
      tt_h5_read_attr_local(r, name, "given", TT_H5_I8, 1, &given))
    given = 1;
  return given != 0;
}
