/* shared.c — tt_h5_open of h5.h: all ranks read the file that rank 0 sees. */
#include "io/hdf5/h5_internal.h"

#include "core/base/mem.h"

/* Memory for the file; rank 0, which has the reader, copies its file there. */
static tt_err copy_file_local(const tt_h5_reader *r, int64_t size, char **bytes)
{
  TT_TRY(tt_alloc_bytes(bytes, size, 1, "the content of a file"));
  if (r && H5Fget_file_image(r->id, *bytes, (size_t)size) != size)
    return TT_H5_FAIL(IO, r->file, "", "cannot be read");
  return TT_OK;
}

/* The other ranks open the bytes of the file of rank 0. */
static tt_err share(tt_comm *c, const char *file, tt_h5_reader **r)
{
  char *bytes = NULL;
  int64_t size = *r ? (int64_t)H5Fget_file_image((*r)->id, NULL, 0) : 0;
  tt_bcast(c, &size, sizeof size);
  tt_err e = tt_agree(c, copy_file_local(*r, size, &bytes));
  if (!e) {
    tt_bcast(c, bytes, size);
    e = tt_agree(c, *r ? TT_OK : tt_h5_open_bytes_local(file, bytes, size, r));
  }
  if (*r && !tt_comm_is_root(c))
    (*r)->bytes = bytes;
  else
    tt_free(bytes);
  return e;
}

tt_err tt_h5_open(tt_comm *c, const char *file, tt_h5_reader **out)
{
  tt_h5_reader *r = NULL;
  *out = NULL;
  tt_err e = tt_agree(c, tt_comm_is_root(c) ? tt_h5_open_local(file, &r) : TT_OK);
  if (!e && tt_comm_ranks(c) > 1) e = share(c, file, &r);
  if (e)
    tt_h5_close_local(&r);
  else
    *out = r;
  return e;
}
