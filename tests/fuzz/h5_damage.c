/* h5_damage.c — fuzz_damage_h5: the input is a list of changes. Each change takes a few bytes: what
 * to do, to which object, how. The fuzzer mutates the list, so files stay HDF5 files. */
#include "tests/fuzz/fuzz.h"

#include <hdf5.h>
#include <string.h>
#include <unistd.h>

enum { MAX_OBJECTS = 128, MAX_CHANGES = 8, PATH_ROOM = 256, SMALL = 1 << 16, MAX_AXES = 9 };

typedef struct changes {
  const uint8_t *next, *end;
} changes;

/* 0 after the last byte. */
static unsigned take(changes *c) { return c->next < c->end ? *c->next++ : 0; }

static unsigned take_below(changes *c, unsigned limit) { return limit ? take(c) % limit : 0; }

typedef struct objects {
  int count;
  char path[MAX_OBJECTS][PATH_ROOM];
} objects;

static herr_t add_object(hid_t file, const char *name, const H5O_info_t *info, void *arg)
{
  objects *all = arg;
  (void)file, (void)info;
  if (all->count < MAX_OBJECTS && strlen(name) < PATH_ROOM) strcpy(all->path[all->count++], name);
  return 0;
}

static hid_t string_type(size_t bytes)
{
  hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, bytes);
  return type;
}

/* Owner: the caller, H5Tclose. */
static hid_t make_type(unsigned which)
{
  hid_t plain[] = {H5T_IEEE_F32LE, H5T_IEEE_F64LE, H5T_IEEE_F64BE, H5T_STD_I8LE, H5T_STD_I16BE,
                   H5T_STD_I32LE,  H5T_STD_I64LE,  H5T_STD_U64LE,  H5T_STD_B8LE, H5T_STD_U8LE,
                   H5T_C_S1,       H5T_UNIX_D32LE, H5T_STD_REF_OBJ};
  const unsigned plains = sizeof plain / sizeof *plain;
  const hsize_t two = 2;
  hid_t type;
  if (which < plains) return H5Tcopy(plain[which]);
  switch (which - plains) {
  case 0: return string_type(7);
  case 1: return string_type(H5T_VARIABLE);
  case 2: return H5Tcreate(H5T_OPAQUE, 3);
  case 3: return H5Tvlen_create(H5T_NATIVE_DOUBLE);
  case 4: return H5Tarray_create2(H5T_NATIVE_FLOAT, 1, &two);
  case 5:
    type = H5Tcreate(H5T_COMPOUND, 8);
    H5Tinsert(type, "r", 0, H5T_NATIVE_FLOAT);
    return type;
  default:
    type = H5Tenum_create(H5T_NATIVE_INT8);
    H5Tenum_insert(type, "A", "\1");
    return type;
  }
}
enum { TYPES = 20 };

static hsize_t change_size(changes *c, hsize_t now)
{
  static const hsize_t far[] = {0,
                                1,
                                2,
                                3,
                                100,
                                65536,
                                1ull << 31,
                                (1ull << 32) + 1,
                                1ull << 60,
                                1ull << 63,
                                H5S_UNLIMITED - 1};
  switch (take_below(c, 4)) {
  case 0: return now + 1;
  case 1: return now ? now - 1 : 1;
  case 2: return now * 2;
  default: return far[take_below(c, sizeof far / sizeof *far)];
  }
}

/* A changed shape; *axes -1 = no space (H5S_NULL). */
static void change_shape(changes *c, int *axes, hsize_t dims[MAX_AXES])
{
  switch (take_below(c, 6)) {
  case 0: return;
  case 1: *axes = -1; return;
  case 2: *axes = *axes ? *axes - 1 : 1; return;
  case 3:
    if (*axes < MAX_AXES) dims[(*axes)++] = 1 + take_below(c, 4);
    return;
  default:
    if (*axes) {
      unsigned axis = take_below(c, (unsigned)*axes);
      dims[axis] = change_size(c, dims[axis]);
    }
  }
}

static hid_t make_space(int axes, const hsize_t dims[MAX_AXES])
{
  if (axes < 0) return H5Screate(H5S_NULL);
  return axes ? H5Screate_simple(axes, dims, NULL) : H5Screate(H5S_SCALAR);
}

/* Bytes of a dataset or attribute, 0 if they are many or pointers. */
static size_t small_bytes(hid_t type, hid_t space)
{
  hssize_t values = H5Sget_simple_extent_npoints(space);
  size_t size = H5Tget_size(type);
  int pointers = H5Tis_variable_str(type) > 0 || H5Tdetect_class(type, H5T_VLEN) > 0 ||
                 H5Tdetect_class(type, H5T_REFERENCE) > 0;
  if (pointers || values < 1 || values > SMALL || size == 0 || (size_t)values > SMALL / size)
    return 0;
  return (size_t)values * size;
}

static void change_bytes(changes *c, uint8_t *data, size_t bytes, size_t value_bytes)
{
  static const double real[] = {0.0, -1.0, 1e308, -1e-320};
  size_t offset = (take(c) | take(c) << 8) % bytes;
  size_t start = offset - offset % value_bytes, capacity = bytes - start < 8 ? bytes - start : 8;
  switch (take_below(c, 5)) {
  case 0: data[offset] ^= (uint8_t)(1u << take_below(c, 8)); break;
  case 1: data[offset] = (uint8_t)take(c); break;
  case 2: memset(data + start, 0xFF, capacity); break; /* NaN, -1 */
  case 3: memset(data + start, 0, capacity); break;
  default: memcpy(data + start, &real[take_below(c, 4)], capacity);
  }
}

/* Datasets of more than SMALL bytes have chunks without data. */
static void create_dataset(changes *c, hid_t file, const char *path, hid_t type, hid_t space)
{
  static uint8_t data[SMALL];
  hid_t plan = H5Pcreate(H5P_DATASET_CREATE);
  hsize_t dims[MAX_AXES] = {0}, chunk[MAX_AXES];
  int axes = H5Sget_simple_extent_dims(space, dims, NULL), empty = 0;
  size_t bytes = small_bytes(type, space);
  for (int i = 0; i < axes; i++) {
    chunk[i] = dims[i] < 8 ? (dims[i] ? dims[i] : 1) : 8;
    empty |= dims[i] == 0;
  }
  if (axes > 0 && axes <= MAX_AXES && !bytes && !empty) H5Pset_chunk(plan, axes, chunk);
  if (axes > 0 && take_below(c, 8) == 7) {
    H5Pset_chunk(plan, axes, chunk);
    H5Pset_deflate(plan, 6);
  }
  hid_t dataset = H5Dcreate2(file, path, type, space, H5P_DEFAULT, plan, H5P_DEFAULT);
  memset(data, (int)take(c), bytes);
  if (dataset >= 0 && bytes) H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
  if (dataset >= 0) H5Dclose(dataset);
  H5Pclose(plan);
}

/* Replace a dataset by one with another type or shape. */
static void replace_dataset(changes *c, hid_t file, const char *path)
{
  hsize_t dims[MAX_AXES] = {2, 2};
  int axes = 1;
  hid_t type = -1, space = -1, dataset = H5Dopen2(file, path, H5P_DEFAULT);
  if (dataset >= 0) {
    type = H5Dget_type(dataset);
    space = H5Dget_space(dataset);
    if (H5Sget_simple_extent_ndims(space) < MAX_AXES)
      axes = H5Sget_simple_extent_dims(space, dims, NULL);
    H5Sclose(space);
    H5Dclose(dataset);
  }
  unsigned what = take_below(c, 3); /* type, shape, both */
  if (what != 1 || type < 0) {
    if (type >= 0) H5Tclose(type);
    type = make_type(take_below(c, TYPES));
  }
  if (what != 0) change_shape(c, &axes, dims);
  space = make_space(axes, dims);
  H5Ldelete(file, path, H5P_DEFAULT);
  if (space >= 0) create_dataset(c, file, path, type, space);
  if (space >= 0) H5Sclose(space);
  H5Tclose(type);
}

static void change_value(changes *c, hid_t file, const char *path)
{
  static uint8_t data[SMALL];
  hid_t dataset = H5Dopen2(file, path, H5P_DEFAULT);
  if (dataset < 0) return;
  hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
  size_t bytes = small_bytes(type, space);
  if (bytes && H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0) {
    change_bytes(c, data, bytes, H5Tget_size(type));
    H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
  }
  H5Sclose(space);
  H5Tclose(type);
  H5Dclose(dataset);
}

static void create_attribute(hid_t object, const char *name, hid_t type, hid_t space,
                             const uint8_t *data)
{
  hid_t attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  if (attribute < 0) return;
  if (small_bytes(type, space)) H5Awrite(attribute, type, data);
  H5Aclose(attribute);
}

/* HDF5 1.10 cannot always write an existing attribute: it is created again. */
static void change_attribute_value(changes *c, hid_t object, const char *name)
{
  static uint8_t data[SMALL];
  hid_t attribute = H5Aopen(object, name, H5P_DEFAULT);
  hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
  size_t bytes = small_bytes(type, space);
  int known = bytes && H5Aread(attribute, type, data) >= 0;
  H5Aclose(attribute);
  if (known) {
    change_bytes(c, data, bytes, H5Tget_size(type));
    H5Adelete(object, name);
    create_attribute(object, name, type, space, data);
  }
  H5Sclose(space);
  H5Tclose(type);
}

static void replace_attribute(changes *c, hid_t object, const char *name)
{
  static uint8_t data[SMALL];
  hsize_t dims[MAX_AXES] = {1 + take_below(c, 4)};
  int axes = (int)take_below(c, 3) - 1;
  hid_t type = make_type(take_below(c, TYPES)), space = make_space(axes, dims);
  memset(data, (int)take(c), sizeof data);
  H5Adelete(object, name);
  create_attribute(object, name, type, space, data);
  H5Sclose(space);
  H5Tclose(type);
}

static void change_attribute(changes *c, hid_t file, const char *path)
{
  char name[PATH_ROOM] = "tutti_schema";
  hid_t object = H5Oopen(file, path, H5P_DEFAULT);
  if (object < 0) return;
  int count = H5Aget_num_attrs(object);
  hsize_t offset = take_below(c, count > 0 ? (unsigned)count : 1);
  if (count > 0)
    H5Aget_name_by_idx(object, ".", H5_INDEX_NAME, H5_ITER_INC, offset, name, sizeof name,
                       H5P_DEFAULT);
  switch (H5Aexists(object, name) > 0 ? take_below(c, 4) : 2) {
  case 0: H5Adelete(object, name); break;
  case 1:
  case 3: change_attribute_value(c, object, name); break;
  default: replace_attribute(c, object, name);
  }
  H5Oclose(object);
}

/* Replace an object by a link, a group, or another object. */
static void change_link(changes *c, hid_t file, const char *path, const char *other)
{
  hid_t group = -1;
  unsigned what = take_below(c, 7);
  if (what == 6) { /* the two change places */
    H5Lmove(file, path, file, "moved", H5P_DEFAULT, H5P_DEFAULT);
    H5Lmove(file, other, file, path, H5P_DEFAULT, H5P_DEFAULT);
    H5Lmove(file, "moved", file, other, H5P_DEFAULT, H5P_DEFAULT);
    return;
  }
  H5Ldelete(file, path, H5P_DEFAULT);
  switch (what) {
  case 1: H5Lcreate_soft(path, file, path, H5P_DEFAULT, H5P_DEFAULT); break;
  case 2: H5Lcreate_external("/etc/passwd", "/x", file, path, H5P_DEFAULT, H5P_DEFAULT); break;
  case 3: H5Lcreate_hard(file, other, file, path, H5P_DEFAULT, H5P_DEFAULT); break;
  case 4: group = H5Gcreate2(file, path, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT); break;
  case 5: H5Lcreate_soft("/nowhere", file, path, H5P_DEFAULT, H5P_DEFAULT); break;
  default: break; /* removed */
  }
  if (group >= 0) H5Gclose(group);
}

static void change_structure(changes *c, hid_t file)
{
  static objects all;
  all.count = 0;
  H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_INC, add_object, &all, H5O_INFO_BASIC);
  if (!all.count) return;
  unsigned what = take_below(c, 6);
  const char *path = all.path[take_below(c, (unsigned)all.count)];
  const char *other = all.path[take_below(c, (unsigned)all.count)];
  if (what == 0 || what == 3) {
    change_attribute(c, file, take_below(c, 2) ? path : "/");
  } else if (!strcmp(path, ".")) {
    change_attribute(c, file, "/");
  } else if (what == 1) {
    replace_dataset(c, file, path);
  } else if (what == 2 || what == 5) {
    change_value(c, file, path);
  } else {
    change_link(c, file, path, other);
  }
}

/* One change of the bytes of the file. */
static void change_file(changes *c, const char *path)
{
  uint8_t byte[16] = {0};
  FILE *f = fopen(path, "r+b");
  FUZZ_CHECK(f);
  fseek(f, 0, SEEK_END);
  long size = ftell(f), at = (long)(take(c) | take(c) << 8 | take(c) << 16);
  if (take_below(c, 2)) at %= 2048; /* where the metadata of the root are */
  at = size ? at % size : 0;
  unsigned what = take_below(c, 5);
  if (what == 0) {
    fclose(f);
    FUZZ_CHECK(!truncate(path, at));
    return;
  }
  fseek(f, at, SEEK_SET);
  size_t bytes = fread(byte, 1, what == 1 ? sizeof byte : 1, f);
  if (what == 1) memset(byte, (int)take(c), bytes);
  if (what > 1) byte[0] = (uint8_t)(what == 2 ? take(c) : byte[0] ^ 1u << take_below(c, 8));
  fseek(f, at, SEEK_SET);
  fwrite(byte, 1, bytes, f);
  fclose(f);
}

int fuzz_damage_h5(const char *path, const uint8_t *bytes, size_t count)
{
  changes c = {bytes, bytes + count};
  int raw = count && take_below(&c, 4) == 3;
  if (raw) {
    for (int i = 0; i < MAX_CHANGES && c.next < c.end; i++) change_file(&c, path);
    return 1;
  }
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110);
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
  hid_t file = H5Fopen(path, H5F_ACC_RDWR, access);
  for (int i = 0; file >= 0 && i < MAX_CHANGES && c.next < c.end; i++) change_structure(&c, file);
  if (file >= 0) H5Fclose(file);
  H5Pclose(access);
  H5Eclear2(H5E_DEFAULT);
  return 0;
}
