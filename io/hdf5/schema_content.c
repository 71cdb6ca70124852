/* schema_content.c — the hash of the content of a file; see schema.h. */
#include "io/hdf5/h5_internal.h"
#include "io/hdf5/schema.h"

#include "core/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

static const char attribute_of_hash[] = "content_hash_xxh3";

/* Bytes of a dataset that are read at a time. */
enum { PIECE_BYTES = 1 << 18, MOST_VALUES = 1 << 16 };

/* The hash of a file is the sum of the hashes of its datasets and attributes, so that their order
 * does not matter. */
typedef struct content {
  tt_h5_reader *r;
  const char *const *attribute; /* names, NULL after the last */
  const char *path;             /* of the object that is visited */
  XXH3_state_t *state;
  char *buffer; /* [PIECE_BYTES] */
  uint64_t hash;
  tt_err e;
} content;

static uint64_t hash_text(const char *text, uint64_t seed)
{
  return XXH3_64bits_withSeed(text, strlen(text), seed);
}

static tt_err hash_texts(const content *c, uint64_t *hash)
{
  int64_t n = 0;
  char **text = NULL;
  TT_TRY(tt_h5_read_texts_local(c->r, c->path, &n, &text));
  for (int64_t i = 0; i < n; i++) *hash = hash_text(text[i], *hash);
  tt_h5_texts_free(n, &text);
  return TT_OK;
}

/* The type of the program for numbers of a file; TT_H5_TYPE_COUNT: tutti does not write them. */
static tt_h5_type type_of(hid_t type)
{
  static const tt_h5_type integer[2][9] = {{[1] = TT_H5_I8, [4] = TT_H5_I32, [8] = TT_H5_I64},
                                           {[8] = TT_H5_U64}};
  H5T_class_t kind = H5Tget_class(type);
  size_t bytes = H5Tget_size(type);
  if (kind == H5T_FLOAT && (bytes == 4 || bytes == 8)) return bytes == 4 ? TT_H5_F32 : TT_H5_F64;
  tt_h5_type found = kind == H5T_INTEGER && bytes <= 8
                         ? integer[H5Tget_sign(type) == H5T_SGN_NONE][bytes]
                         : TT_H5_CHAR;
  return found != TT_H5_CHAR ? found : TT_H5_TYPE_COUNT;
}

/* Values of a dataset that is larger than the buffer. */
static tt_err hash_pieces(const content *c, tt_h5_type type, int ndims, int64_t *dims)
{
  int64_t row = tt_h5_product(1, ndims, dims) * tt_h5_type_bytes(type), count;
  char *buffer = NULL;
  TT_TRY(tt_schema_check_shape_local(c->r, c->path, ndims, dims));
  int64_t per = row < PIECE_BYTES ? PIECE_BYTES / row : 1;
  if (row > PIECE_BYTES) TT_TRY(tt_alloc_bytes(&buffer, row, 1, "the hash of a file"));
  tt_err e = TT_OK;
  for (int64_t done = 0; !e && done < dims[0]; done += count) {
    char *dst = buffer ? buffer : c->buffer;
    count = dims[0] - done < per ? dims[0] - done : per;
    e = tt_h5_read_rows_local(c->r, c->path, type, done, count, dst);
    if (!e) XXH3_64bits_update(c->state, dst, (size_t)(count * row));
  }
  tt_free(buffer);
  return e;
}

static tt_err hash_numbers(const content *c, hid_t dataset, tt_h5_type type, int ndims,
                           const hsize_t *size, uint64_t *hash)
{
  int64_t dims[TT_H5_MAX_DIMS] = {1}, bytes = tt_h5_type_bytes(type);
  int large = 0;
  for (int i = 0; i < ndims; i++) {
    dims[i] = (int64_t)size[i];
    large |= __builtin_mul_overflow(bytes, dims[i], &bytes);
  }
  XXH3_64bits_reset_withSeed(c->state, *hash + (uint64_t)type);
  XXH3_64bits_update(c->state, dims, (size_t)ndims * sizeof *dims);
  tt_err e = TT_OK;
  if (large || bytes > PIECE_BYTES) {
    e = hash_pieces(c, type, ndims, dims);
  } else if (bytes > 0) {
    if (H5Dread(dataset, tt_h5_native(type), H5S_ALL, H5S_ALL, H5P_DEFAULT, c->buffer) < 0)
      e = TT_H5_FAIL(IO, tt_h5_file_name(c->r), c->path, "cannot be read");
    XXH3_64bits_update(c->state, c->buffer, e ? 0 : (size_t)bytes);
  }
  *hash = XXH3_64bits_digest(c->state);
  return e;
}

static int is_dimension_without_values(const content *c, hid_t dataset)
{
  static const char mark[] = "This is a netCDF dimension but not a netCDF variable";
  char *text = NULL;
  int found = H5Aexists(dataset, "NAME") > 0 &&
              !tt_h5_read_attr_text_local(c->r, c->path, "NAME", &text) &&
              !strncmp(text, mark, sizeof mark - 1);
  tt_free(text);
  return found;
}

static tt_err add_dataset(content *c, hid_t dataset)
{
  hsize_t size[H5S_MAX_RANK];
  uint64_t hash = hash_text(c->path, 0);
  hid_t stored = H5Dget_type(dataset), space = H5Dget_space(dataset);
  int ndims = space < 0 ? -1 : H5Sget_simple_extent_dims(space, size, NULL);
  int text = stored >= 0 && H5Tget_class(stored) == H5T_STRING;
  tt_h5_type type = stored < 0 ? TT_H5_TYPE_COUNT : type_of(stored);
  tt_err e = TT_OK;
  TT_H5_CLOSE(space, stored);
  int plain = type == TT_H5_I8 || type == TT_H5_F32; /* nccopy makes the latter of the former */
  if (plain && ndims == 1 && is_dimension_without_values(c, dataset)) return TT_OK;
  if (text)
    e = hash_texts(c, &hash);
  else if (type == TT_H5_TYPE_COUNT || ndims < 0 || ndims > TT_H5_MAX_DIMS)
    e = TT_FAIL(DATA, "%s: '%s' has a type or a shape that tutti does not write" TT_DAMAGED,
                tt_h5_file_name(c->r), c->path);
  else
    e = hash_numbers(c, dataset, type, ndims, size, &hash);
  c->hash += hash;
  return e;
}

/* Text, or numbers as doubles: other programs write attributes with other types. */
static tt_err add_attribute(content *c, const char *name, int64_t n)
{
  char *text = NULL;
  double *value = NULL;
  uint64_t hash = hash_text(name, hash_text(c->path, 1));
  if (!tt_h5_read_attr_text_local(c->r, c->path, name, &text)) {
    hash = hash_text(text, hash);
  } else {
    if (n < 1 || n > MOST_VALUES)
      return TT_FAIL(DATA, "%s: attribute %s of '%s' has %" PRId64 " values" TT_DAMAGED,
                     tt_h5_file_name(c->r), name, c->path, n);
    TT_TRY(TT_ALLOC(value, n));
    c->e = tt_h5_read_attr_local(c->r, c->path, name, TT_H5_F64, n, value);
    hash = XXH3_64bits_withSeed(value, (size_t)n * sizeof *value, hash);
  }
  c->hash += hash;
  tt_free(value);
  tt_free(text);
  return c->e;
}

static herr_t visit_attribute(hid_t object, const char *name, const H5A_info_t *info, void *arg)
{
  content *c = arg;
  (void)info;
  for (int i = 0; c->attribute[i]; i++) {
    if (strcmp(name, c->attribute[i]) != 0) continue;
    hid_t a = H5Aopen(object, name, H5P_DEFAULT), space = a < 0 ? -1 : H5Aget_space(a);
    int64_t n = space < 0 ? -1 : (int64_t)H5Sget_simple_extent_npoints(space);
    TT_H5_CLOSE(space, a);
    c->e = add_attribute(c, name, n);
  }
  return c->e ? -1 : 0;
}

/* Texts have attributes, too; looking at those of all datasets takes as long as reading them. */
static herr_t visit_object(hid_t file, const char *name, const H5O_info_t *info, void *arg)
{
  static const char left_out[] = "provenance", names[] = "names/";
  content *c = arg;
  int is_dataset = info->type == H5O_TYPE_DATASET;
  if (!strncmp(name, left_out, sizeof left_out - 1)) return 0;
  hid_t object = H5Oopen(file, name, H5P_DEFAULT);
  c->path = strcmp(name, ".") != 0 ? name : "";
  if (object < 0)
    c->e = TT_H5_FAIL(DATA, tt_h5_file_name(c->r), name, "cannot be opened; the file is damaged");
  if (!c->e && (!is_dataset || !strncmp(name, names, sizeof names - 1)))
    H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, visit_attribute, c);
  if (!c->e && is_dataset) c->e = add_dataset(c, object);
  TT_H5_CLOSE(object);
  return c->e ? -1 : 0;
}

static tt_err find_hash(tt_h5_reader *r, const char *const *attribute, uint64_t *hash)
{
  content c = {.r = r, .attribute = attribute, .state = XXH3_createState()};
  c.e = tt_alloc_bytes(&c.buffer, PIECE_BYTES, 1, "the hash of a file");
  if (!c.e && !c.state) c.e = TT_FAIL(MEM, "%s: no memory for its hash", r->file);
  if (!c.e &&
      H5Ovisit2(r->id, H5_INDEX_NAME, H5_ITER_NATIVE, visit_object, &c, H5O_INFO_BASIC) < 0 && !c.e)
    c.e = TT_H5_FAIL(DATA, r->file, "", "cannot be listed; the file is damaged");
  H5Eclear2(H5E_DEFAULT);
  XXH3_freeState(c.state);
  tt_free(c.buffer);
  *hash = c.hash;
  return c.e;
}

tt_err tt_schema_check_content_local(tt_h5_reader *r, const char *const *attribute, uint64_t *hash)
{
  char *given = NULL, found[TT_HASH_TEXT];
  const char *file = tt_h5_file_name(r);
  if (!tt_h5_has_attr_local(r, "/", attribute_of_hash))
    return TT_FAIL(DATA, "%s: has no attribute %s, the hash of its content" TT_DAMAGED, file,
                   attribute_of_hash);
  TT_TRY(tt_h5_read_attr_text_local(r, "/", attribute_of_hash, &given));
  tt_err e = find_hash(r, attribute, hash);
  tt_hash_text(*hash, found);
  if (!e && strcmp(given, found) != 0)
    e = TT_FAIL(DATA,
                "%s: its content has the hash %s, but the attribute %s is '%s': the file is "
                "damaged, or another program has changed it; take a copy, or train again",
                file, found, attribute_of_hash, given);
  tt_free(given);
  return e;
}

void tt_schema_hash_content(tt_schema *s, const char *const *attribute)
{
  s->file->hashed = attribute;
}

static tt_err write_hash(hid_t f, const char *file, uint64_t hash)
{
  char text[TT_HASH_TEXT];
  hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR), a = -1;
  tt_hash_text(hash, text);
  if (f >= 0 && H5Aexists(f, attribute_of_hash) > 0) H5Adelete(f, attribute_of_hash);
  if (f >= 0 && H5Tset_size(type, strlen(text)) >= 0 && H5Tset_cset(type, H5T_CSET_UTF8) >= 0)
    a = H5Acreate2(f, attribute_of_hash, type, space, H5P_DEFAULT, H5P_DEFAULT);
  int ok = a >= 0 && H5Awrite(a, type, text) >= 0;
  tt_err e = ok ? TT_OK : TT_H5_FAIL(IO, file, "", "its hash cannot be written");
  TT_H5_CLOSE(a, space, type);
  return e;
}

/* Open the file, which must be closed, with the serial driver of HDF5, and write its hash. */
static tt_err write_hash_local(const char *file, uint64_t hash)
{
  hid_t access = tt_h5_serial_fapl();
  int ok = H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110) >= 0;
  hid_t f = ok ? H5Fopen(file, H5F_ACC_RDWR, access) : -1;
  tt_err e = write_hash(f, file, hash);
  TT_H5_CLOSE(access);
  if (f >= 0 && tt_h5_close_file(f) < 0 && !e)
    e = TT_H5_FAIL(IO, file, "", "its hash cannot be written");
  return e;
}

/* Closes the reader. */
static tt_err hash_and_close(tt_h5_reader *r, const char *const *attribute, uint64_t *hash)
{
  tt_err e = find_hash(r, attribute, hash);
  tt_h5_close_local(&r);
  return e;
}

tt_err tt_schema_seal_local(const char *file, const char *const *attribute)
{
  tt_h5_reader *r = NULL;
  uint64_t hash = 0;
  TT_TRY(tt_h5_open_local(file, &r));
  TT_TRY(hash_and_close(r, attribute, &hash));
  return write_hash_local(file, hash);
}

tt_err tt_schema_seal_open_local(const tt_h5_file *f)
{
  tt_h5_reader *r = NULL;
  uint64_t hash = 0;
  TT_TRY(tt_h5_reopen_local(f, &r));
  TT_TRY(hash_and_close(r, f->hashed, &hash));
  return write_hash(f->id, f->path, hash);
}
