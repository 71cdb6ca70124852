/* image.c — new files in memory: HDF5 gives away the bytes of a file that it closes, without a
 * copy; see h5_internal.h. The udata of the calls is the address of a pointer. */
#include "io/hdf5/h5_internal.h"

#include <stdlib.h>
#include <string.h>

static void *keep_pointer(void *udata) { return udata; }
static herr_t leave_pointer(void *udata) { return udata ? 0 : -1; }

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
