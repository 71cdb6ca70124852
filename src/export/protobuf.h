/* protobuf.h — fields of the wire format of Protocol Buffers, as much as an ONNX file needs.
 *
 * It is our own because ONNX needs only two kinds of fields, whole numbers and byte strings, which
 * are these two functions. A library would need libprotobuf-c at run time, protoc-c in the build,
 * and a copy of onnx.proto. Source: protobuf.dev, "Encoding". */
#ifndef TT_PROTOBUF_H
#define TT_PROTOBUF_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static inline void tt_pb_varint(FILE *file, uint64_t value)
{
  for (; value > 127; value >>= 7) fputc((int)(value & 127) | 128, file);
  fputc((int)value, file);
}

/* A whole number: int32, int64, enum. */
static inline void tt_pb_int(FILE *file, int field, int64_t value)
{
  tt_pb_varint(file, (uint64_t)field << 3);
  tt_pb_varint(file, (uint64_t)value);
}

/* A string, bytes, or a message that is complete. */
static inline void tt_pb_bytes(FILE *file, int field, const void *bytes, size_t size)
{
  tt_pb_varint(file, (uint64_t)field << 3 | 2);
  tt_pb_varint(file, size);
  fwrite(bytes, 1, size, file);
}

static inline void tt_pb_text(FILE *file, int field, const char *text)
{
  tt_pb_bytes(file, field, text, strlen(text));
}
#endif
