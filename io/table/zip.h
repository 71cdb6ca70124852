/* zip.h — the files in a ZIP archive, as NumPy writes it (.npz). For the files of io/table only. */
#ifndef TT_ZIP_H
#define TT_ZIP_H
#include "io/table/table_internal.h"

/* A file in the archive. Sizes come from the archive: `size` is at most what the compressed bytes
 * can give. */
typedef struct tt_zip_member {
  char *name;
  int deflated;
  int64_t begin, packed, size; /* offset of its bytes; their number; after decompression */
  struct tt_zip_stream *stream;
} tt_zip_member;

typedef struct tt_zip {
  const char *file;
  tt_bytes *bytes;
  int64_t members;
  tt_zip_member *member; /* [members] */
} tt_zip;

/* Errors: NOINPUT, IO, MEM, DATA (no ZIP archive; damaged; larger than 4 GiB; another compression
 * than deflate). tt_zip_close_local accepts a zeroed struct. */
tt_err tt_zip_open_local(const char *file, tt_zip *out);
void tt_zip_close_local(tt_zip *z);

/* Exactly `count` bytes of a member from `offset` on; going back in a compressed member starts
 * again at its beginning. Errors: IO, MEM, DATA (damaged or truncated). */
tt_err tt_zip_read_local(tt_zip *z, tt_zip_member *m, int64_t offset, int64_t count, char *dst);
#endif
