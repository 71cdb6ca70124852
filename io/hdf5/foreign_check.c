/* foreign_check.c — see foreign_check.h. */
#include "io/hdf5/foreign_check.h"

#include "core/base/mem.h"
#include "io/hdf5/h5_internal.h"
#include "io/table/column_choice.h"

#include <stdio.h>
#include <string.h>

/* Check every part of a path: an external link could open any file. */
static tt_err check_links(tt_h5_reader *r, const char *path)
{
  char part[TT_PATH_MAX];
  while (*path == '/') path++;
  size_t length = strlen(path);
  for (size_t end = 1; end <= length; end++) {
    H5L_info_t info;
    if (path[end] != '/' && path[end] != '\0') continue;
    snprintf(part, sizeof part, "%.*s", (int)end, path);
    if (H5Lget_info(r->id, part, &info, H5P_DEFAULT) < 0)
      break; /* missing: reported by check_dataset */
    if (info.type != H5L_TYPE_HARD && info.type != H5L_TYPE_SOFT)
      return TT_FAIL(DATA,
                     "%s: '%s' is a link into another file; copy the data into this file, for "
                     "example with h5copy",
                     r->file, part);
  }
  H5Eclear2(H5E_DEFAULT);
  return TT_OK;
}

static tt_err check_filters(const tt_h5_reader *r, const char *path, hid_t dataset)
{
  hid_t p = H5Dget_create_plist(dataset);
  int n = p < 0 ? -1 : H5Pget_nfilters(p);
  tt_err e =
      n < 0 ? TT_H5_FAIL(DATA, r->file, path, "cannot be described; the file is damaged") : TT_OK;
  for (int i = 0; !e && i < n; i++) {
    char name[64] = "";
    unsigned flags = 0, config = 0;
    size_t values = 0;
    H5Z_filter_t id =
        H5Pget_filter2(p, (unsigned)i, &flags, &values, NULL, sizeof name, name, &config);
    if (id == H5Z_FILTER_DEFLATE || id == H5Z_FILTER_SHUFFLE || id == H5Z_FILTER_FLETCHER32)
      continue;
    e = TT_FAIL(DATA,
                "%s: '%s' is compressed with the filter %d (%s); only deflate, shuffle and "
                "fletcher32 are allowed: repack it, for example with h5repack -f SHUF -f GZIP=4",
                r->file, path, (int)id, name[0] ? name : "without a name");
  }
  TT_H5_CLOSE(p);
  return e;
}

static tt_err check_type(const tt_h5_reader *r, const char *path, hid_t dataset)
{
  hid_t type = H5Dget_type(dataset);
  int variable = type < 0 || H5Tdetect_class(type, H5T_VLEN) != 0 || H5Tis_variable_str(type) != 0;
  TT_H5_CLOSE(type);
  if (!variable) return TT_OK;
  return TT_FAIL(DATA,
                 "%s: '%s' holds values of variable length; numbers of a fixed size are needed",
                 r->file, path);
}

/* Read one row of a numeric dataset of any shape. */
static tt_err try_read_row(tt_h5_reader *r, const char *path, const tt_h5_info *info, int64_t row)
{
  char *bytes = NULL;
  int64_t values = 1;
  for (int i = 1; i < info->ndims; i++)
    if (__builtin_mul_overflow(values, info->dims[i], &values))
      return TT_FAIL(DATA, "%s: '%s': a row is too long; the file is damaged", r->file, path);
  TT_TRY(tt_alloc_bytes(&bytes, values, sizeof(double), path));
  tt_err e = tt_h5_read_rows_local(r, path, TT_H5_F64, row, 1, bytes);
  tt_free(bytes);
  return e;
}

tt_err tt_foreign_check_dataset_local(tt_h5_reader *r, const char *path)
{
  hid_t dataset = -1;
  tt_h5_info info;
  TT_TRY(check_links(r, path));
  TT_TRY(tt_h5_dataset_info_local(r, path, &info)); /* refuses external and virtual storage */
  TT_TRY(tt_h5_open_dataset_local(r, path, &dataset));
  tt_err e = check_filters(r, path, dataset);
  if (!e) e = check_type(r, path, dataset);
  TT_H5_CLOSE(dataset);
  if (e || info.ndims < 1 || info.dims[0] < 1 || info.kind > TT_H5_INTEGER) return e;
  TT_TRY(try_read_row(r, path, &info, 0));
  return try_read_row(r, path, &info, info.dims[0] - 1);
}

/* Names are optional: unusable ones are no error. They are read here because damaged texts of
 * variable length can crash HDF5. */
static tt_err try_read_texts(tt_h5_reader *r, const char *path)
{
  char **text = NULL;
  int64_t n = 0;
  if (!tt_h5_has_local(r, path)) return TT_OK;
  tt_err e = tt_h5_read_texts_local(r, path, &n, &text);
  tt_h5_texts_free(n, &text);
  return e == TT_E_DATA ? TT_OK : e;
}

/* A dataset that may be used for its numbers or its texts. */
static void try_dataset(tt_h5_reader *r, const char *path)
{
  (void)tt_foreign_check_dataset_local(r, path);
  (void)try_read_texts(r, path);
}

/* Read from every dataset; one that is not valid is no error unless it is chosen. */
static tt_err try_all_datasets(tt_h5_reader *r)
{
  int64_t n = 0;
  char **name = NULL;
  TT_TRY(tt_h5_list_datasets_local(r, &n, &name));
  for (int64_t i = 0; i < n; i++) try_dataset(r, name[i]);
  tt_h5_texts_free(n, &name);
  return TT_OK;
}

/* Texts of a column are read, because damaged ones can crash HDF5. */
static tt_err check_texts_or_numbers(tt_h5_reader *r, const char *path)
{
  tt_h5_info info;
  if (!tt_h5_has_local(r, path)) return TT_OK;
  TT_TRY(tt_h5_dataset_info_local(r, path, &info));
  return info.kind == TT_H5_TEXT ? try_read_texts(r, path)
                                 : tt_foreign_check_dataset_local(r, path);
}

static tt_err check_name(tt_h5_reader *r, const char *name)
{
  if (*name == '%') return check_texts_or_numbers(r, name + 1);
  int optional = *name == '?';
  if (tt_h5_has_local(r, name + optional))
    return tt_foreign_check_dataset_local(r, name + optional);
  if (optional || tt_column_list_is_pattern(name)) return try_all_datasets(r);
  return tt_foreign_check_dataset_local(r, name);
}

tt_err tt_foreign_check_local(const char *file, const char *const *dataset, int n)
{
  static const char *const texts[] = {"feature_name", "feature_units", "target_name",
                                      "target_units"};
  tt_h5_reader *r = NULL;
  tt_h5_silence();
  H5PLset_loading_state(0);
  TT_TRY(tt_h5_open_local(file, &r));
  tt_err e = TT_OK;
  for (int i = 0; !e && i < n; i++) e = check_name(r, dataset[i]);
  for (int i = 0; !e && i < (int)(sizeof texts / sizeof *texts); i++)
    e = try_read_texts(r, texts[i]);
  tt_h5_close_local(&r);
  return e;
}
