/* bytes.c — bytes of a file, decompressed where needed; see table_internal.h. */
#include "io/table/table_internal.h"

#include "core/base/directory.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { GZIP_BUFFER = 1 << 18 };

struct tt_bytes {
  char *file;
  int fd;
  gzFile gzip; /* NULL: not compressed */
};

static tt_err open_gzip(tt_bytes *b)
{
  b->gzip = gzdopen(b->fd, "rb");
  if (!b->gzip) return TT_FAIL(MEM, "%s: no memory to decompress it", b->file);
  gzbuffer(b->gzip, GZIP_BUFFER);
  return TT_OK;
}

static tt_err open_file(const char *file, tt_bytes *b)
{
  unsigned char magic[2] = {0, 0};
  TT_TRY(tt_text_set(&b->file, file));
  TT_TRY(tt_file_open_read(file, &b->fd));
  ssize_t n = pread(b->fd, magic, sizeof magic, 0);
  if (n < 0) return TT_FAIL_ERRNO(IO, "%s: cannot be read", file);
  return n == 2 && magic[0] == 0x1F && magic[1] == 0x8B ? open_gzip(b) : TT_OK;
}

tt_err tt_bytes_open_local(const char *file, tt_bytes **out)
{
  tt_bytes *b = NULL;
  TT_TRY(TT_ALLOC(b, 1));
  b->fd = -1;
  tt_err e = open_file(file, b);
  if (e) tt_bytes_close_local(&b);
  *out = b;
  return e;
}

static tt_err gzip_error(const tt_bytes *b)
{
  int code = Z_OK;
  const char *text = gzerror(b->gzip, &code);
  if (code == Z_ERRNO) return TT_FAIL_ERRNO(IO, "%s: cannot be read", b->file);
  if (code == Z_MEM_ERROR) return TT_FAIL(MEM, "%s: no memory to decompress it", b->file);
  return TT_FAIL(DATA, "%s: the compressed data are damaged or truncated (%s); copy the file again",
                 b->file, code == Z_BUF_ERROR ? "unexpected end" : text);
}

static tt_err read_gzip(tt_bytes *b, int64_t offset, size_t capacity, char *dst, size_t *got)
{
  if (gztell(b->gzip) != offset && gzseek(b->gzip, offset, SEEK_SET) != offset)
    return gzip_error(b);
  while (*got < capacity) {
    size_t left = capacity - *got;
    int n = gzread(b->gzip, dst + *got, (unsigned)(left < 1u << 30 ? left : 1u << 30)), code = Z_OK;
    if (n < 0) return gzip_error(b);
    (void)gzerror(b->gzip, &code);
    if (code != Z_OK && code != Z_STREAM_END) return gzip_error(b);
    if (n == 0) return TT_OK;
    *got += (size_t)n;
  }
  return TT_OK;
}

static tt_err read_plain(const tt_bytes *b, int64_t offset, size_t capacity, char *dst, size_t *got)
{
  while (*got < capacity) {
    ssize_t n = pread(b->fd, dst + *got, capacity - *got, offset + (int64_t)*got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return TT_FAIL_ERRNO(IO, "%s: cannot be read", b->file);
    if (n == 0) return TT_OK;
    *got += (size_t)n;
  }
  return TT_OK;
}

static _Atomic int64_t bytes_read;

int64_t tt_table_bytes_read_local(void) { return bytes_read; }

tt_err tt_bytes_read_local(tt_bytes *b, int64_t offset, size_t capacity, char *dst, size_t *got)
{
  *got = 0;
  tt_err e = b->gzip ? read_gzip(b, offset, capacity, dst, got)
                     : read_plain(b, offset, capacity, dst, got);
  bytes_read += (int64_t)*got;
  return e;
}

tt_err tt_bytes_size_local(const tt_bytes *b, int64_t *size)
{
  if (b->gzip)
    return TT_FAIL(DATA, "%s: the file is compressed by gzip; decompress it first", b->file);
  return tt_bytes_stored_local(b, size);
}

tt_err tt_bytes_stored_local(const tt_bytes *b, int64_t *size)
{
  struct stat st;
  if (fstat(b->fd, &st)) return TT_FAIL_ERRNO(IO, "%s: cannot be read", b->file);
  *size = (int64_t)st.st_size;
  return TT_OK;
}

void tt_bytes_close_local(tt_bytes **b)
{
  if (!*b) return;
  if ((*b)->gzip)
    gzclose_r((*b)->gzip); /* closes fd too */
  else if ((*b)->fd >= 0)
    close((*b)->fd);
  tt_free((*b)->file);
  tt_free(*b);
}
