/* npy_header.c — see npy.h. The format: numpy.lib.format, versions 1.0 to 3.0. */
#include "io/table/npy.h"

#include "core/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tt_err bad_header(const char *file, const char *what)
{
  return TT_FAIL(DATA, "%s: the header of the array %s; save it again with numpy.save", file, what);
}

/* The value of a key in the dictionary of the header; NULL if it has none. */
static const char *value_of(const char *dictionary, const char *key)
{
  char quoted[32];
  snprintf(quoted, sizeof quoted, "'%s':", key);
  const char *cursor = strstr(dictionary, quoted);
  if (!cursor) return NULL;
  cursor += strlen(quoted);
  return cursor + strspn(cursor, " ");
}

/* '<U12' or '|S12'. */
static int parse_text_type(const char *cursor, size_t length, tt_npy_array *out)
{
  if (*cursor != '\'' || length < 3 || length > 5) return 0;
  int wide = cursor[1] == '<' && cursor[2] == 'U', narrow = cursor[1] == '|' && cursor[2] == 'S';
  int characters = atoi(cursor + 3);
  if ((!wide && !narrow) || characters < 1 || characters > TT_NPY_CHARACTERS) return 0;
  out->text = cursor[2];
  out->bytes = wide ? 4 * characters : characters;
  return 1;
}

static tt_err parse_type(const char *file, const char *cursor, tt_npy_array *out)
{
  if (!cursor) return bad_header(file, "has no type");
  size_t length = *cursor == '\'' ? strcspn(cursor + 1, "'") : strcspn(cursor, "]");
  if (length >= sizeof out->type) length = sizeof out->type - 1;
  memcpy(out->type, cursor + (*cursor == '\''), length);
  out->type[length] = '\0';
  if (parse_text_type(cursor, length, out)) return TT_OK;
  if (*cursor != '\'' || length < 3 || length > 4) return TT_OK; /* not numbers */
  char order = cursor[1], kind = cursor[2];
  int bytes = atoi(cursor + 3), known = 0;
  if (kind == 'f') known = bytes == 4 || bytes == 8;
  if (kind == 'i' || kind == 'u') known = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
  if (kind == 'b') known = bytes == 1;
  if (!known || (order != '<' && order != '|')) return TT_OK;
  out->kind = kind;
  out->bytes = bytes;
  return TT_OK;
}

static tt_err parse_shape(const char *file, const char *cursor, tt_npy_array *out)
{
  int64_t dim[2] = {1, 1};
  int axes = 0;
  if (!cursor || *cursor != '(') return bad_header(file, "has no shape");
  for (cursor++; *cursor != ')';) {
    char *end;
    long long n = strtoll(cursor, &end, 10);
    if (end == cursor || n < 0) return bad_header(file, "has a wrong shape");
    if (axes < 2) dim[axes] = n;
    axes++;
    cursor = end + strspn(end, ", ");
  }
  out->rows = axes == 1 || axes == 2 ? dim[0] : -1;
  out->columns = dim[1];
  int64_t values;
  if (__builtin_mul_overflow(dim[0], dim[1], &values) ||
      __builtin_mul_overflow(values, (int64_t)(out->bytes ? out->bytes : 1), &out->size))
    return bad_header(file, "has a shape that is too large");
  return TT_OK;
}

tt_err tt_npy_header_parse(const char *file, const char *head, size_t count, tt_npy_array *out)
{
  static const char magic[] = "\x93NUMPY";
  char text[TT_NPY_HEADER];
  const unsigned char *b = (const unsigned char *)head;
  *out = (tt_npy_array){0};
  if (count < 10 || memcmp(head, magic, 6))
    return TT_FAIL(DATA, "%s: this is not an array of NumPy (.npy)", file);
  size_t version = b[6], cursor = version == 1 ? 10 : 12;
  size_t length = b[8] + 256u * b[9];
  if (version < 1 || version > 3 || (version > 1 && count < 12))
    return bad_header(file, "has an unknown version");
  if (version > 1) length += ((size_t)b[10] << 16) + ((size_t)b[11] << 24);
  if (length >= sizeof text || cursor + length > count)
    return bad_header(file, "is truncated or too long");
  memcpy(text, head + cursor, length);
  text[length] = '\0';
  out->data = (int64_t)(cursor + length);
  const char *order = value_of(text, "fortran_order");
  if (!order) return bad_header(file, "has no order");
  out->fortran = *order == 'T';
  TT_TRY(parse_type(file, value_of(text, "descr"), out));
  return parse_shape(file, value_of(text, "shape"), out);
}

/* A code point as UTF-8 at *dst; 0: it is none. */
static int put_character(uint32_t c, char **dst)
{
  if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return 0;
  int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  static const unsigned char lead[] = {0, 0xC0, 0xE0, 0xF0};
  *(*dst)++ = (char)(lead[more] | c >> 6 * more);
  while (more--) *(*dst)++ = (char)(0x80 | (c >> 6 * more & 0x3F));
  return 1;
}

int tt_npy_decode_text(const tt_npy_array *a, const char *src, char *dst)
{
  char *begin = dst;
  int width = a->text == 'U' ? 4 : 1, end = a->bytes;
  while (end > 0 && src[end - 1] == '\0') end--;
  for (int i = 0; i < end; i += width) {
    uint32_t c = 0;
    memcpy(&c, src + i, (size_t)width);
    if (c == 0) return 0;
    if (width == 1)
      *dst++ = (char)c;
    else if (!put_character(c, &dst))
      return 0;
  }
  *dst = '\0';
  for (int n; *begin; begin += n)
    if (!(n = tt_utf8_char_bytes(begin))) return 0;
  return 1;
}

#define CONVERT(type_)                                                                             \
  for (int64_t i = 0; i < n; i++) {                                                                \
    type_ v;                                                                                       \
    memcpy(&v, src + (size_t)i * step, sizeof v);                                                  \
    dst[i * to_step] = (double)v;                                                                  \
  }

void tt_npy_convert(const tt_npy_array *a, const char *src, size_t step, int64_t n, double *dst,
                    int64_t to_step)
{
  int is_signed = a->kind == 'i';
  if (a->kind == 'f' && a->bytes == 4) {
    CONVERT(float)
  } else if (a->kind == 'f') {
    CONVERT(double)
  } else if (a->bytes == 1) {
    if (is_signed) CONVERT(int8_t) else CONVERT(uint8_t)
  } else if (a->bytes == 2) {
    if (is_signed) CONVERT(int16_t) else CONVERT(uint16_t)
  } else if (a->bytes == 4) {
    if (is_signed) CONVERT(int32_t) else CONVERT(uint32_t)
  } else {
    if (is_signed) CONVERT(int64_t) else CONVERT(uint64_t)
  }
}
