/* h5_matrix.c — matrices in HDF5 files; see raw_data.h. */
#include "io/data/raw_data.h"

#include <inttypes.h>
#include <stdatomic.h>

static _Atomic int64_t bytes_read;

int64_t tt_data_bytes_read_local(void) { return bytes_read; }
void tt_data_count_bytes_local(int64_t bytes) { bytes_read += bytes; }

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
  tt_data_count_bytes_local(count * m->columns * m->bytes);
  return TT_OK;
}
