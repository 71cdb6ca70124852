/* zip.c — see zip.h. The format: PKWARE APPNOTE 6.3, without encryption and without ZIP64. */
#include "io/table/zip.h"

#include "core/base/mem.h"

#include <string.h>
#include <zlib.h>

enum {
  END_SIZE = 22,
  MAX_COMMENT = 65535,
  ENTRY_SIZE = 46,
  LOCAL_SIZE = 30,
  MAX_DIRECTORY = 1 << 24,
  MAX_RATIO = 1040, /* of deflate */
  INPUT_BYTES = 1 << 14
};

typedef struct tt_zip_stream {
  z_stream z;
  int64_t taken, at; /* compressed bytes read; position in the decompressed bytes */
  char input[INPUT_BYTES], skipped[INPUT_BYTES];
} tt_zip_stream;

static int64_t number16(const char *p)
{
  const unsigned char *b = (const unsigned char *)p;
  return b[0] + 256 * b[1];
}

static int64_t number32(const char *p) { return number16(p) + 65536 * number16(p + 2); }

static tt_err damaged(const tt_zip *z, const char *what)
{
  return TT_FAIL(DATA, "%s: %s; save the arrays again with numpy.savez", z->file, what);
}

/* Place, size and number of entries of the directory, from the end of the file. */
static tt_err find_directory(tt_zip *z, int64_t *begin, int64_t *bytes, int64_t *count)
{
  char *tail = NULL;
  size_t got = 0;
  int64_t size = 0;
  TT_TRY(tt_bytes_size_local(z->bytes, &size));
  int64_t capacity = size < END_SIZE + MAX_COMMENT ? size : END_SIZE + MAX_COMMENT;
  TT_TRY(tt_alloc_bytes(&tail, capacity + 1, 1, "the directory of an archive"));
  tt_err e = tt_bytes_read_local(z->bytes, size - capacity, (size_t)capacity, tail, &got);
  int64_t i = (int64_t)got - END_SIZE;
  while (!e && i >= 0 && memcmp(tail + i, "PK\5\6", 4)) i--;
  if (!e && i < 0) e = damaged(z, "this is not an archive of NumPy (.npz), or it is truncated");
  if (!e) {
    *count = number16(tail + i + 10);
    *bytes = number32(tail + i + 12);
    *begin = number32(tail + i + 16);
    if (*begin == UINT32_MAX || *count == UINT16_MAX)
      e = TT_FAIL(DATA, "%s: archives above 4 GiB are not read; use HDF5", z->file);
    else if (*bytes > MAX_DIRECTORY || *begin > size - *bytes)
      e = damaged(z, "the directory of the archive is damaged");
  }
  tt_free(tail);
  return e;
}

static tt_err add_member(tt_zip *z, const char *entry, int64_t left, int64_t *used)
{
  tt_zip_member *m = &z->member[z->members];
  if (left < ENTRY_SIZE || memcmp(entry, "PK\1\2", 4))
    return damaged(z, "the directory of the archive is damaged");
  int64_t name = number16(entry + 28), flags = number16(entry + 8), method = number16(entry + 10);
  *used = ENTRY_SIZE + name + number16(entry + 30) + number16(entry + 32);
  if (*used > left) return damaged(z, "the directory of the archive is damaged");
  if (flags & 1) return damaged(z, "the archive is encrypted");
  if (method != 0 && method != 8) return damaged(z, "the archive is not compressed by deflate");
  m->deflated = method == 8;
  m->packed = number32(entry + 20);
  m->size = number32(entry + 24);
  m->begin = number32(entry + 42);
  if (m->packed == UINT32_MAX || m->size == UINT32_MAX || m->begin == UINT32_MAX)
    return TT_FAIL(DATA, "%s: arrays above 4 GiB are not read; use HDF5", z->file);
  if (m->deflated ? m->size > m->packed * MAX_RATIO + MAX_RATIO : m->size != m->packed)
    return damaged(z, "the directory of the archive has a wrong size");
  TT_TRY(tt_alloc_bytes(&m->name, name + 1, 1, "a name in an archive"));
  memcpy(m->name, entry + ENTRY_SIZE, (size_t)name);
  z->members++;
  return TT_OK;
}

/* The bytes of a member begin behind its own header. */
static tt_err find_begin(tt_zip *z, tt_zip_member *m)
{
  char head[LOCAL_SIZE];
  size_t got;
  int64_t size;
  TT_TRY(tt_bytes_size_local(z->bytes, &size));
  TT_TRY(tt_bytes_read_local(z->bytes, m->begin, LOCAL_SIZE, head, &got));
  if (got < LOCAL_SIZE || memcmp(head, "PK\3\4", 4))
    return damaged(z, "the archive is damaged: a file in it has no header");
  m->begin += LOCAL_SIZE + number16(head + 26) + number16(head + 28);
  return m->begin > size - m->packed ? damaged(z, "the archive is truncated") : TT_OK;
}

static tt_err read_directory(tt_zip *z, const char *entry, int64_t bytes, int64_t count)
{
  TT_TRY(TT_ALLOC(z->member, count));
  for (int64_t offset = 0, used = 0; z->members < count; offset += used)
    TT_TRY(add_member(z, entry + offset, bytes - offset, &used));
  for (int64_t i = 0; i < count; i++) TT_TRY(find_begin(z, &z->member[i]));
  return TT_OK;
}

tt_err tt_zip_open_local(const char *file, tt_zip *out)
{
  int64_t offset = 0, bytes = 0, count = 0;
  char *entry = NULL;
  size_t got = 0;
  *out = (tt_zip){.file = file};
  TT_TRY(tt_bytes_open_local(file, &out->bytes));
  TT_TRY(find_directory(out, &offset, &bytes, &count));
  TT_TRY(tt_alloc_bytes(&entry, bytes + 1, 1, "the directory of an archive"));
  tt_err e = tt_bytes_read_local(out->bytes, offset, (size_t)bytes, entry, &got);
  if (!e) e = read_directory(out, entry, (int64_t)got, count);
  tt_free(entry);
  return e;
}

void tt_zip_close_local(tt_zip *z)
{
  for (int64_t i = 0; z->member && i < z->members; i++) {
    tt_free(z->member[i].name);
    if (z->member[i].stream) inflateEnd(&z->member[i].stream->z);
    tt_free(z->member[i].stream);
  }
  tt_free(z->member);
  tt_bytes_close_local(&z->bytes);
}

/* Begin to decompress a member, or begin again. */
static tt_err begin_stream(const tt_zip *z, tt_zip_member *m)
{
  if (m->stream) {
    inflateReset(&m->stream->z);
  } else {
    TT_TRY(TT_ALLOC(m->stream, 1));
    if (inflateInit2(&m->stream->z, -MAX_WBITS) != Z_OK) {
      tt_free(m->stream);
      return TT_FAIL(MEM, "%s: no memory to decompress it", z->file);
    }
  }
  m->stream->z.avail_in = 0;
  m->stream->taken = m->stream->at = 0;
  return TT_OK;
}

/* The next `count` bytes of the stream. */
static tt_err decompress(tt_zip *z, tt_zip_member *m, int64_t count, char *dst)
{
  tt_zip_stream *s = m->stream;
  s->z.next_out = (Bytef *)dst;
  s->z.avail_out = (uInt)count;
  while (s->z.avail_out) {
    if (!s->z.avail_in) {
      int64_t left = m->packed - s->taken;
      size_t got = 0;
      TT_TRY(tt_bytes_read_local(z->bytes, m->begin + s->taken,
                                 (size_t)(left < INPUT_BYTES ? left : INPUT_BYTES), s->input,
                                 &got));
      s->taken += (int64_t)got;
      s->z.next_in = (Bytef *)s->input;
      s->z.avail_in = (uInt)got;
    }
    int code = inflate(&s->z, Z_NO_FLUSH);
    if (code == Z_OK || (code == Z_STREAM_END && !s->z.avail_out)) continue;
    return damaged(z, "the archive is damaged: an array cannot be decompressed");
  }
  s->at += count;
  return TT_OK;
}

tt_err tt_zip_read_local(tt_zip *z, tt_zip_member *m, int64_t offset, int64_t count, char *dst)
{
  size_t got = 0;
  if (offset < 0 || count < 0 || offset > m->size - count)
    return damaged(z, "the archive is damaged: an array is shorter than its header says");
  if (!m->deflated) {
    TT_TRY(tt_bytes_read_local(z->bytes, m->begin + offset, (size_t)count, dst, &got));
    return (int64_t)got < count ? damaged(z, "the archive is truncated") : TT_OK;
  }
  if (!m->stream || offset < m->stream->at) TT_TRY(begin_stream(z, m));
  while (m->stream->at < offset) {
    int64_t left = offset - m->stream->at;
    TT_TRY(decompress(z, m, left < INPUT_BYTES ? left : INPUT_BYTES, m->stream->skipped));
  }
  while (count > 0) {
    int64_t n = count < 1 << 30 ? count : 1 << 30;
    TT_TRY(decompress(z, m, n, dst));
    dst += n;
    count -= n;
  }
  return TT_OK;
}
