/* deferred.c — see h5.h: data that a thread writes after the layout. No MPI, no HDF5. */
#include "io/hdf5/h5_internal.h"

#include "core/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Bytes written or read at a time. */
static const int64_t piece_bytes = 16 << 20;

void tt_h5_defer(tt_h5_file *f) { f->deferred = 1; }

static tt_err fail(const tt_h5_file *f, const tt_h5_written_block *b, const char *what)
{
  return TT_FAIL(IO, "%s: '%s': %s: %s", f->path, b->path, what,
                 errno ? strerror(errno) : "the file ends early");
}

static int64_t piece_at(const tt_h5_written_block *b, int64_t done)
{
  return b->bytes - done < piece_bytes ? b->bytes - done : piece_bytes;
}

static tt_err write_block(const tt_h5_file *f, const tt_h5_written_block *b, int fd)
{
  if (b->offset < 0) return TT_OK; /* written before tt_h5_defer */
  for (int64_t done = 0; done < b->bytes;) {
    errno = 0;
    ssize_t n = pwrite(fd, (const char *)b->data + done, (size_t)piece_at(b, done),
                       (off_t)(b->offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail(f, b, "cannot be written");
    done += n;
  }
  return TT_OK;
}

static tt_err compare_block(const tt_h5_file *f, const tt_h5_written_block *b, int fd, char *buffer)
{
  if (b->offset < 0) return TT_OK; /* compared by the commit */
  for (int64_t done = 0; done < b->bytes;) {
    errno = 0;
    ssize_t n = pread(fd, buffer, (size_t)piece_at(b, done), (off_t)(b->offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail(f, b, "cannot be read back");
    if (memcmp(buffer, (const char *)b->data + done, (size_t)n) != 0)
      return TT_FAIL(IO,
                     "%s was not written correctly: '%s': the data read back differ from the data "
                     "written: the disk is full or failing",
                     f->path, b->path);
    done += n;
  }
  return TT_OK;
}

static tt_err write_blocks(const tt_h5_file *f, int fd, char *buffer)
{
  if (!buffer) return TT_FAIL(INTERNAL, "%s: no buffer", f->path); /* else gcc warns of pread */
  for (int64_t i = 0; i < f->blocks; i++) TT_TRY(write_block(f, &f->block[i], fd));
  if (fsync(fd) != 0)
    return TT_FAIL(IO, "%s: fsync failed, the data may be lost: %s", f->path, strerror(errno));
  for (int64_t i = 0; i < f->blocks; i++) TT_TRY(compare_block(f, &f->block[i], fd, buffer));
  /* Nobody reads the file soon; without pages in memory it is also removed much faster. */
  (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  return TT_OK;
}

tt_err tt_h5_write_deferred_local(const tt_h5_file *f)
{
  char *buffer = NULL;
  int64_t largest = 0;
  for (int64_t i = 0; i < f->blocks; i++)
    if (piece_at(&f->block[i], 0) > largest) largest = piece_at(&f->block[i], 0);
  TT_TRY(tt_alloc_bytes(&buffer, largest, 1, "the comparison of a written file"));
  int fd = open(f->temporary, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  tt_err e = fd < 0 ? TT_FAIL(IO, "%s: cannot be opened: %s", f->path, strerror(errno))
                    : write_blocks(f, fd, buffer);
  if (fd >= 0 && close(fd) != 0 && !e)
    e = TT_FAIL(IO, "%s: cannot be closed: %s", f->path, strerror(errno));
  tt_free(buffer);
  return e;
}
