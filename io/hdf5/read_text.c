/* read_text.c — see h5.h: texts and attributes of an existing file. */
#include "io/hdf5/h5_internal.h"

#include "core/base/mem.h"
#include "core/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Limit of the bytes of one text and of the number of texts; larger values mean damage. */
enum { MAX_TEXT_BYTES = 64 << 20 };

/* Copy at most `length` bytes, up to the first NUL, without trailing blanks and without control
 * characters except those of `keep`. */
static tt_err copy_text(const char *src, int64_t length, const char *keep, char **out)
{
  int64_t n = (int64_t)strnlen(src, (size_t)length);
  while (n > 0 && src[n - 1] == ' ') n--;
  TT_TRY(tt_alloc_bytes(out, n + 1, 1, "a text"));
  memcpy(*out, src, (size_t)n);
  tt_text_make_printable(*out, keep);
  return TT_OK;
}

/* The raw bytes of a text dataset, or of a field of records: `n` texts of `length` bytes, or
 * pointers when `variable`. */
typedef struct raw_texts {
  int64_t n, length;
  int variable;
  char *bytes; /* [n][length] */
  hid_t type, space;
} raw_texts;

static tt_err get_text_shape(const tt_h5_reader *r, const char *path, const tt_h5_info *info,
                             int one, raw_texts *t)
{
  int characters = !t->variable && info->bytes == 1;
  if (info->kind != TT_H5_TEXT) return TT_FAIL(DATA, "%s: '%s' does not hold text", r->file, path);
  if (info->ndims > (characters && !one ? 2 : 1))
    return TT_FAIL(DATA, "%s: '%s' has %d axes; a list of texts is expected", r->file, path,
                   info->ndims);
  t->n = info->ndims ? info->dims[0] : 1;
  t->length = info->bytes;
  if (characters && info->ndims == 2) t->length = info->dims[1];
  if (characters && info->ndims == 1 && one) {
    t->length = info->dims[0];
    t->n = 1;
  }
  return TT_OK;
}

static tt_err check_text_shape(const tt_h5_reader *r, const char *path, const raw_texts *t)
{
  if (t->n > MAX_TEXT_BYTES || t->length > MAX_TEXT_BYTES ||
      t->n * t->length > 16LL * MAX_TEXT_BYTES)
    return TT_FAIL(DATA, "%s: '%s': %" PRId64 " texts of %" PRId64 " bytes are too many", r->file,
                   path, t->n, t->length);
  return TT_OK;
}

static tt_err read_raw_texts(tt_h5_reader *r, const char *path, int one, raw_texts *t)
{
  tt_h5_info info;
  hid_t dataset = -1;
  TT_TRY(tt_h5_dataset_info_local(r, path, &info));
  TT_TRY(tt_h5_open_dataset_local(r, path, &dataset));
  t->type = H5Dget_type(dataset);
  t->space = H5Dget_space(dataset);
  t->variable = H5Tis_variable_str(t->type) > 0;
  tt_err e = get_text_shape(r, path, &info, one, t);
  if (!e) e = check_text_shape(r, path, t);
  if (!e) e = tt_alloc_bytes(&t->bytes, t->n * t->length, 1, "texts of a file");
  if (!e && t->n > 0 && t->length > 0 &&
      H5Dread(dataset, t->type, H5S_ALL, H5S_ALL, H5P_DEFAULT, t->bytes) < 0)
    e = TT_H5_FAIL(IO, r->file, path, "cannot be read");
  if (e) t->n = 0;
  TT_H5_CLOSE(dataset);
  return e;
}

static void free_raw_texts(raw_texts *t)
{
  if (t->variable && t->n > 0) H5Dvlen_reclaim(t->type, t->space, H5P_DEFAULT, t->bytes);
  TT_H5_CLOSE(t->space, t->type);
  tt_free(t->bytes);
}

static tt_err copy_raw_text(const raw_texts *t, int64_t i, const char *keep, char **out)
{
  const char *cursor = t->bytes + i * t->length;
  if (!t->variable) return copy_text(cursor, t->length, keep, out);
  const char *text;
  memcpy(&text, cursor, sizeof text);
  return copy_text(text ? text : "", text ? (int64_t)strlen(text) : 0, keep, out);
}

static tt_err read_texts(tt_h5_reader *r, const char *path, int one, int64_t *n, char ***text)
{
  raw_texts t = {.type = -1, .space = -1};
  char **list = NULL;
  tt_err e = read_raw_texts(r, path, one, &t);
  if (!e) e = TT_ALLOC(list, t.n);
  for (int64_t i = 0; !e && i < t.n; i++) e = copy_raw_text(&t, i, one ? "\n\r\t" : "", &list[i]);
  if (e && list) tt_h5_texts_free(t.n, &list);
  if (!e) {
    *n = t.n;
    *text = list;
  }
  free_raw_texts(&t);
  return e;
}

tt_err tt_h5_read_texts_local(tt_h5_reader *r, const char *path, int64_t *n, char ***text)
{
  return read_texts(r, path, 0, n, text);
}

tt_err tt_h5_read_text_local(tt_h5_reader *r, const char *path, char **text)
{
  int64_t n = 0;
  char **list = NULL;
  TT_TRY(read_texts(r, path, 1, &n, &list));
  tt_err e =
      n == 1 ? TT_OK : TT_FAIL(DATA, "%s: '%s' holds %" PRId64 " texts, not one", r->file, path, n);
  if (!e) {
    *text = list[0];
    list[0] = NULL;
  }
  tt_h5_texts_free(n, &list);
  return e;
}

/* Attributes */

int tt_h5_has_attr_local(tt_h5_reader *r, const char *object, const char *name)
{
  if (!tt_h5_has_local(r, object)) return 0;
  return tt_h5_found(r, H5Aexists_by_name(r->id, tt_h5_object_path(object), name, r->access));
}

static tt_err open_attr(tt_h5_reader *r, const char *object, const char *name, hid_t *attr)
{
  int there = tt_h5_has_attr_local(r, object, name);
  TT_TRY(tt_h5_check_disk_local(r));
  if (!there)
    return TT_FAIL(DATA, "%s: '%s' has no attribute %s", r->file, tt_h5_object_path(object), name);
  *attr = H5Aopen_by_name(r->id, tt_h5_object_path(object), name, H5P_DEFAULT, r->access);
  if (*attr < 0)
    return TT_H5_FAIL(DATA, r->file, object, "an attribute cannot be opened; the file is damaged");
  return TT_OK;
}

tt_err tt_h5_read_attr_local(tt_h5_reader *r, const char *object, const char *name, tt_h5_type type,
                             int64_t n, void *values)
{
  hid_t attr = -1;
  TT_TRY(open_attr(r, object, name, &attr));
  hid_t space = H5Aget_space(attr), held = H5Aget_type(attr);
  int64_t there = space < 0 ? -1 : (int64_t)H5Sget_simple_extent_npoints(space);
  H5T_class_t kind = held < 0 ? H5T_NO_CLASS : H5Tget_class(held);
  tt_err e = TT_OK;
  if (there != n || (kind != H5T_INTEGER && kind != H5T_FLOAT))
    e = TT_FAIL(DATA, "%s: attribute %s of '%s' is not %" PRId64 " number%s", r->file, name,
                tt_h5_object_path(object), n, n == 1 ? "" : "s");
  else if (H5Aread(attr, tt_h5_native(type), values) < 0)
    e = TT_H5_FAIL(IO, r->file, object, "an attribute cannot be read");
  TT_H5_CLOSE(held, space, attr);
  return e;
}

/* HDF5 returns a variable-length string as a pointer that it owns, a fixed string as bytes. */
static tt_err read_attr_text(tt_h5_reader *r, const char *object, hid_t attr, hid_t type,
                             char **text)
{
  char *bytes = NULL, *held = NULL;
  int64_t size = (int64_t)H5Tget_size(type);
  if (H5Tis_variable_str(type) > 0) {
    if (H5Aread(attr, type, &held) < 0)
      return TT_H5_FAIL(IO, r->file, object, "an attribute cannot be read");
    tt_err e = copy_text(held ? held : "", held ? (int64_t)strlen(held) : 0, "", text);
    H5free_memory(held);
    return e;
  }
  TT_TRY(tt_alloc_bytes(&bytes, size, 1, "an attribute"));
  tt_err e = H5Aread(attr, type, bytes) < 0
                 ? TT_H5_FAIL(IO, r->file, object, "an attribute cannot be read")
                 : copy_text(bytes, size, "", text);
  tt_free(bytes);
  return e;
}

tt_err tt_h5_read_attr_text_local(tt_h5_reader *r, const char *object, const char *name,
                                  char **text)
{
  hid_t attr = -1;
  TT_TRY(open_attr(r, object, name, &attr));
  hid_t space = H5Aget_space(attr), type = H5Aget_type(attr);
  int fits = space >= 0 && type >= 0 && H5Tget_class(type) == H5T_STRING &&
             H5Sget_simple_extent_npoints(space) == 1;
  tt_err e = fits ? read_attr_text(r, object, attr, type, text)
                  : TT_FAIL(DATA, "%s: attribute %s of '%s' is not a text", r->file, name,
                            tt_h5_object_path(object));
  TT_H5_CLOSE(type, space, attr);
  return e;
}
