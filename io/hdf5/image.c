/* image.c — files in memory without copies: HDF5 reads the bytes of a caller, and gives away those
 * of a new file; see h5_internal.h. */
#include "io/hdf5/h5_internal.h"

#include <stdlib.h>
#include <string.h>

static void *keep_pointer(void *udata) { return udata; }
static herr_t leave_pointer(void *udata) { return udata ? 0 : -1; }

/* Reading: udata are the bytes. */

static void *lend(size_t size, H5FD_file_image_op_t op, void *bytes)
{
  (void)size, (void)op;
  return bytes;
}

static void *no_copy(void *dst, const void *src, size_t size, H5FD_file_image_op_t op, void *bytes)
{
  (void)src, (void)size, (void)op, (void)bytes;
  return dst;
}

static void *no_growth(void *image, size_t size, H5FD_file_image_op_t op, void *bytes)
{
  (void)image, (void)size, (void)op, (void)bytes;
  return NULL;
}

static herr_t take_back(void *image, H5FD_file_image_op_t op, void *bytes)
{
  (void)op;
  return image == bytes ? 0 : -1;
}

int tt_h5_lend_image(hid_t list, const void *bytes, int64_t size)
{
  void *lent = (void *)(uintptr_t)bytes; /* not changed: the file is opened for reading */
  H5FD_file_image_callbacks_t calls = {lend,         no_copy,       no_growth, take_back,
                                       keep_pointer, leave_pointer, lent};
  return H5Pset_fapl_core(list, 1 << 20, 0) >= 0 &&
         H5Pset_file_image_callbacks(list, &calls) >= 0 &&
         H5Pset_file_image(list, lent, (size_t)size) >= 0;
}

/* Writing: udata is the address of a pointer. */

static void *allocate(size_t size, H5FD_file_image_op_t op, void *image)
{
  (void)op, (void)image;
  return malloc(size);
}

static void *copy(void *dst, const void *src, size_t size, H5FD_file_image_op_t op, void *image)
{
  (void)op, (void)image;
  return memcpy(dst, src, size);
}

static void *grow(void *bytes, size_t size, H5FD_file_image_op_t op, void *image)
{
  (void)op, (void)image;
  return realloc(bytes, size);
}

static herr_t give_away(void *bytes, H5FD_file_image_op_t op, void *image)
{
  (void)op;
  *(void **)image = bytes;
  return 0;
}

int tt_h5_keep_image(hid_t list, void **image)
{
  H5FD_file_image_callbacks_t calls = {allocate,     copy,          grow, give_away,
                                       keep_pointer, leave_pointer, image};
  return H5Pset_fapl_core(list, 1 << 12, 0) >= 0 && H5Pset_file_image_callbacks(list, &calls) >= 0;
}
