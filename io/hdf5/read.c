/* read.c — see h5.h: reading an existing file. */
#include "io/hdf5/h5_internal.h"

#include "core/base/directory.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_NAMES_SHOWN = 40 }; /* in a message */
/* Chunk cache of an open dataset; the number of slots is a prime, far more than chunks. */
enum { CHUNK_BYTES = 64 << 20, CHUNK_SLOTS = 12421 };
enum { CONVERSION_BYTES = 1 << 17 };

const char *tt_h5_file_name(const tt_h5_reader *r) { return r->file; }

int64_t tt_h5_file_bytes_local(const tt_h5_reader *r)
{
  hsize_t bytes = 0;
  return H5Fget_filesize(r->id, &bytes) < 0 ? -1 : (int64_t)bytes;
}

/* The directory of a run is easily given in place of its model. */
static tt_err check_no_directory_local(const char *file)
{
  struct stat is;
  char model[TT_PATH_MAX];
  if (stat(file, &is) || !S_ISDIR(is.st_mode)) return TT_OK;
  int n = snprintf(model, sizeof model, "%s/model.h5", file), fits = n < (int)sizeof model;
  return TT_FAIL(NOINPUT, "%s is a directory; an HDF5 file is needed%s%s", file,
                 fits && !access(model, F_OK) ? ": " : "",
                 fits && !access(model, F_OK) ? model : "");
}

/* Checks that do not need HDF5. */
static tt_err check_readable_local(const char *file)
{
  int fd = -1;
  char byte;
  TT_TRY(check_no_directory_local(file));
  TT_TRY(tt_file_open_read(file, &fd));
  ssize_t n = read(fd, &byte, 1);
  tt_err e = n < 0 ? TT_FAIL_ERRNO(NOINPUT, "%s: cannot be read", file) : TT_OK;
  close(fd);
  if (n == 0) return TT_FAIL(DATA, "%s is empty; an HDF5 file is needed", file);
  return e;
}

/* What to do with a file of another format, for the message. The first bytes or the end of the name
 * tell the format. */
static const char *conversion(const char *file)
{
  char mark[4] = "";
  int fd = -1;
  if (!tt_file_open_read(file, &fd)) {
    int is_netcdf3 = read(fd, mark, 4) == 4 && !memcmp(mark, "CDF", 3);
    close(fd);
    if (is_netcdf3) return ", but netCDF-3; convert it: nccopy -k netCDF-4 OLD.nc NEW.nc";
  }
  static const char *const hint[][2] = {
      {".csv", "; tutti import converts a table"},
      {".tsv", "; tutti import converts a table"},
      {".npy", "; convert it in Python: h5py.File('x.h5', 'w')['x'] = numpy.load('x.npy')"}};
  size_t length = strlen(file);
  for (size_t i = 0; i < sizeof hint / sizeof *hint; i++)
    if (length > 4 && !strcmp(file + length - 4, hint[i][0])) return hint[i][1];
  return "";
}

/*   error_number  errno after the call: HDF5 does not name the cause of every failed system call */
static tt_err open_error(const char *file, int error_number)
{
  char text[1024];
  tt_h5_last_message(text, sizeof text);
  if (strstr(text, "signature not found")) {
    H5Eclear2(H5E_DEFAULT);
    return TT_FAIL(DATA, "%s is not an HDF5 file%s", file, conversion(file));
  }
  if (strstr(text, "already open") || strstr(text, "n't match")) /* settings of an open file */
    return TT_H5_FAIL(NOINPUT, file, "",
                      "is open for writing, or open in this process with other settings; close it "
                      "first");
  if (strstr(text, "truncated"))
    return TT_H5_FAIL(DATA, file, "", "is truncated: a copy or a write was interrupted");
  if (tt_errno_is_disk(error_number)) {
    H5Eclear2(H5E_DEFAULT);
    return TT_FAIL(IO, "%s: cannot be read: %s", file, strerror(error_number));
  }
  return TT_H5_FAIL(DATA, file, "", "is damaged and cannot be opened as HDF5");
}

/* Do not follow a link into another file: that file is not checked. */
static herr_t reject_external_link(const char *parent, const char *group, const char *file,
                                   const char *object, unsigned *flags, hid_t access, void *arg)
{
  (void)parent, (void)group, (void)file, (void)object, (void)flags, (void)access, (void)arg;
  return -1;
}

/*   id  of the open file, which the reader closes */
static tt_err create_reader(const char *file, hid_t id, int in_memory, tt_h5_reader **out)
{
  tt_h5_reader *r = NULL;
  tt_err e = TT_ALLOC(r, 1);
  if (e) {
    tt_h5_close_file(id);
    return e;
  }
  snprintf(r->file, sizeof r->file, "%s", file);
  r->in_memory = in_memory;
  r->id = id;
  r->access = H5Pcreate(H5P_DATASET_ACCESS);
  r->transfer = H5Pcreate(H5P_DATASET_XFER);
  if (H5Pset_buffer(r->transfer, CONVERSION_BYTES, NULL, NULL) < 0 || r->access < 0 ||
      H5Pset_elink_cb(r->access, reject_external_link, NULL) < 0 ||
      H5Pset_chunk_cache(r->access, CHUNK_SLOTS, CHUNK_BYTES, 1.0) < 0)
    e = TT_H5_FAIL(MEM, file, "", "cannot create the property lists");
  if (e)
    tt_h5_close_local(&r);
  else
    *out = r;
  return e;
}

/*   bytes  [size] content of the file; NULL: it is on disk. HDF5 accepts a content only with a name
 *          that no file has, and believes that two open files with one name are the same. */
static tt_err open_local(const char *file, const void *bytes, int64_t size, tt_h5_reader **out)
{
  static atomic_int opened;
  char name[64];
  hid_t access = tt_h5_serial_fapl();
  int ok = access >= 0 && (!bytes || tt_h5_lend_image(access, bytes, size));
  snprintf(name, sizeof name, "/dev/null/%d", atomic_fetch_add(&opened, 1));
  errno = 0;
  hid_t id = ok ? H5Fopen(bytes ? name : file, H5F_ACC_RDONLY, access) : -1;
  tt_err e = id < 0 ? open_error(file, bytes ? 0 : errno) : TT_OK;
  TT_H5_CLOSE(access);
  return e ? e : create_reader(file, id, bytes != NULL, out);
}

tt_err tt_h5_open_local(const char *file, tt_h5_reader **out)
{
  const tt_memory_file *kept = tt_memory_find(file);
  if (kept) return tt_h5_open_bytes_local(file, kept->bytes, kept->size, out);
  tt_h5_silence();
  TT_TRY(check_readable_local(file));
  return open_local(file, NULL, 0, out);
}

tt_err tt_h5_open_bytes_local(const char *name, const void *bytes, int64_t size, tt_h5_reader **out)
{
  tt_h5_silence();
  if (!bytes || size < 1) return TT_FAIL(DATA, "%s is empty; an HDF5 file is needed", name);
  return open_local(name, bytes, size, out);
}

tt_err tt_h5_reopen_local(const tt_h5_file *f, tt_h5_reader **out)
{
  hid_t id = H5Freopen(f->id);
  return id < 0 ? TT_H5_FAIL(IO, f->path, "", "cannot be read")
                : create_reader(f->path, id, 1, out);
}

/* Close the descriptor ourselves, without its error: a file opened for reading has nothing to lose,
 * but HDF5 1.10 crashes at the end of the program if close fails. HDF5 then closes /dev/null. */
static void replace_descriptor(hid_t file)
{
  void *descriptor = NULL;
  int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null < 0) return;
  if (H5Fget_vfd_handle(file, H5P_DEFAULT, &descriptor) >= 0)
    (void)dup3(null, *(const int *)descriptor, O_CLOEXEC);
  close(null);
}

void tt_h5_close_local(tt_h5_reader **r)
{
  if (!*r) return;
  for (int i = 0; i < TT_H5_CACHED_DATASETS; i++)
    if ((*r)->cached[i].id > 0) H5Dclose((*r)->cached[i].id);
  TT_H5_CLOSE((*r)->access, (*r)->transfer);
  if ((*r)->id >= 0) {
    if (!(*r)->in_memory) replace_descriptor((*r)->id);
    tt_h5_close_file((*r)->id);
  }
  H5Eclear2(H5E_DEFAULT);
  tt_free((*r)->bytes);
  tt_free(*r);
}

/* Names */

typedef struct dataset_names {
  int64_t n, capacity;
  char **name;
  tt_err e;
} dataset_names;

static herr_t add_name(hid_t file, const char *name, const H5O_info_t *info, void *arg)
{
  dataset_names *l = arg;
  (void)file;
  if (info->type != H5O_TYPE_DATASET) return 0;
  if (l->n < l->capacity) l->e = tt_text_set(&l->name[l->n], name);
  l->n++;
  return l->e ? -1 : 0;
}

/* Of a damaged file: those that can be found. */
static tt_err visit_datasets(const tt_h5_reader *r, dataset_names *l)
{
  l->n = 0;
  H5Ovisit2(r->id, H5_INDEX_NAME, H5_ITER_INC, add_name, l, H5O_INFO_BASIC);
  H5Eclear2(H5E_DEFAULT);
  return l->e;
}

void tt_h5_texts_free(int64_t n, char ***text)
{
  for (int64_t i = 0; *text && i < n; i++) tt_free((*text)[i]);
  tt_free(*text);
}

tt_err tt_h5_list_datasets_local(const tt_h5_reader *r, int64_t *n, char ***names)
{
  dataset_names l = {0};
  TT_TRY(visit_datasets(r, &l)); /* counts them */
  l.capacity = l.n;
  TT_TRY(TT_ALLOC(l.name, l.capacity));
  tt_err e = visit_datasets(r, &l);
  if (e)
    tt_h5_texts_free(l.capacity, &l.name);
  else
    *n = l.capacity, *names = l.name;
  return e;
}

int tt_h5_found(tt_h5_reader *r, htri_t there)
{
  if (there < 0 && !r->disk_error) r->disk_error = tt_h5_disk_error();
  H5Eclear2(H5E_DEFAULT);
  return there > 0 || r->disk_error;
}

tt_err tt_h5_check_disk_local(const tt_h5_reader *r)
{
  if (!r->disk_error) return TT_OK;
  return TT_FAIL(IO, "%s: cannot be read: %s", r->file, strerror(r->disk_error));
}

/* 1, 0, or -1 with the errors of HDF5 if the file cannot be read. */
static int link_exists(tt_h5_reader *r, const char *path)
{
  char part[TT_PATH_MAX];
  htri_t there = 1;
  while (*path == '/') path++;
  /* H5Lexists needs every parent to exist */
  for (const char *end = strchr(path, '/'); there > 0 && end; end = strchr(end + 1, '/')) {
    snprintf(part, sizeof part, "%.*s", (int)(end - path), path);
    there = H5Lexists(r->id, part, H5P_DEFAULT);
  }
  if (there > 0 && *path) there = H5Lexists(r->id, path, H5P_DEFAULT);
  if (there >= 0) H5Eclear2(H5E_DEFAULT);
  return there;
}

int tt_h5_has_local(tt_h5_reader *r, const char *path)
{
  while (*path == '/') path++;
  htri_t there = link_exists(r, path);
  if (there > 0 && *path) there = H5Oexists_by_name(r->id, path, r->access);
  return tt_h5_found(r, there);
}

/* Data */

static tt_err missing_dataset_error(tt_h5_reader *r, const char *path)
{
  int64_t n = 0, shown = 0;
  char **names = NULL, text[2048] = "none at all", more[32] = "";
  TT_TRY(tt_h5_list_datasets_local(r, &n, &names));
  for (size_t used = 0; shown < n && shown < MAX_NAMES_SHOWN; shown++) {
    if (used + strlen(names[shown]) + 3 > sizeof text) break;
    used +=
        (size_t)snprintf(text + used, sizeof text - used, "%s%s", shown ? ", " : "", names[shown]);
  }
  if (n > shown) snprintf(more, sizeof more, " and %" PRId64 " more", n - shown);
  tt_h5_texts_free(n, &names);
  return TT_FAIL(DATA, "%s: there is no dataset '%s'; there are: %s%s", r->file, path, text, more);
}

tt_err tt_h5_open_dataset_local(tt_h5_reader *r, const char *path, hid_t *dataset)
{
  H5O_info_t info;
  TT_TRY(tt_h5_check_disk_local(r));
  int there = link_exists(r, path);
  if (there < 0) return TT_H5_FAIL(DATA, r->file, path, "cannot be found: the file is damaged");
  if (!path[0] || !there) return missing_dataset_error(r, path);
  if (H5Oget_info_by_name2(r->id, path, &info, H5O_INFO_BASIC, r->access) < 0)
    return TT_H5_FAIL(DATA, r->file, path,
                      "cannot be opened: it is damaged, or a link into another file");
  if (info.type != H5O_TYPE_DATASET)
    return TT_FAIL(DATA, "%s: '%s' is a group or a type, not a dataset", r->file, path);
  *dataset = H5Dopen2(r->id, path, r->access);
  if (*dataset < 0) return TT_H5_FAIL(DATA, r->file, path, "cannot be opened; the file is damaged");
  return TT_OK;
}

/* Data in other files are not checked and may have changed. */
static tt_err reject_foreign_storage(const tt_h5_reader *r, const char *path, hid_t dataset)
{
  hid_t p = H5Dget_create_plist(dataset);
  int foreign = p < 0 || H5Pget_layout(p) == H5D_VIRTUAL || H5Pget_external_count(p) > 0;
  TT_H5_CLOSE(p);
  if (!foreign) return TT_OK;
  return TT_FAIL(DATA,
                 "%s: '%s' is stored in other files (virtual or external); copy the data into this "
                 "file, for example with h5repack",
                 r->file, path);
}

static tt_h5_kind class_of_type(hid_t type)
{
  switch (H5Tget_class(type)) {
  case H5T_FLOAT: return TT_H5_FLOAT;
  case H5T_INTEGER:
  case H5T_ENUM: /* h5py's bool */ return TT_H5_INTEGER;
  case H5T_STRING: return TT_H5_TEXT;
  default: return TT_H5_OTHER;
  }
}

static tt_err get_info(const tt_h5_reader *r, const char *path, hid_t dataset, tt_h5_info *out)
{
  hsize_t dims[H5S_MAX_RANK] = {0};
  hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
  int n = space < 0 ? -1 : H5Sget_simple_extent_dims(space, dims, NULL);
  int empty = space >= 0 && H5Sget_simple_extent_type(space) == H5S_NULL;
  memset(out, 0, sizeof *out);
  tt_err e = TT_OK;
  if (type < 0 || n < 0) {
    e = TT_H5_FAIL(DATA, r->file, path, "cannot be described; the file is damaged");
  } else if (n > TT_H5_MAX_DIMS || empty) {
    e = TT_FAIL(DATA, "%s: '%s' has %d axes%s; at most %d are possible", r->file, path, n,
                empty ? " and no values" : "", TT_H5_MAX_DIMS);
  } else {
    out->kind = class_of_type(type);
    out->bytes = (int64_t)H5Tget_size(type);
    out->is_signed = out->kind == TT_H5_INTEGER && H5Tget_sign(type) == H5T_SGN_2;
    out->ndims = n;
  }
  for (int i = 0; !e && i < n; i++) {
    out->dims[i] = (int64_t)dims[i];
    if (dims[i] > INT64_MAX / 16)
      e = TT_FAIL(DATA, "%s: '%s': axis %d is too long; the file is damaged", r->file, path, i);
  }
  TT_H5_CLOSE(space, type);
  return e;
}

/* Find a dataset in the cache, or open it. *out is valid until the next call. */
static tt_err open_cached(tt_h5_reader *r, const char *path, const tt_h5_cached_dataset **out)
{
  for (int i = 0; i < TT_H5_CACHED_DATASETS; i++) {
    *out = &r->cached[i];
    if (r->cached[i].id > 0 && !strcmp(r->cached[i].path, path)) return TT_OK;
  }
  tt_h5_cached_dataset *k = &r->cached[r->next_slot];
  if (k->id > 0) H5Dclose(k->id);
  k->id = 0;
  hid_t dataset = -1;
  TT_TRY(tt_h5_open_dataset_local(r, path, &dataset));
  tt_err e = reject_foreign_storage(r, path, dataset);
  if (!e) e = get_info(r, path, dataset, &k->info);
  if (e) {
    TT_H5_CLOSE(dataset);
    return e;
  }
  k->id = dataset;
  snprintf(k->path, sizeof k->path, "%s",
           path); /* a longer path is not found again: the dataset is opened every time */
  r->next_slot = (r->next_slot + 1) % TT_H5_CACHED_DATASETS;
  *out = k;
  return TT_OK;
}

tt_err tt_h5_dataset_info_local(tt_h5_reader *r, const char *path, tt_h5_info *out)
{
  const tt_h5_cached_dataset *k = NULL;
  TT_TRY(open_cached(r, path, &k));
  *out = k->info;
  return TT_OK;
}

static tt_err check_read(const tt_h5_reader *r, const char *path, const tt_h5_info *info,
                         tt_h5_type type, const int64_t *first, const int64_t *count)
{
  static const char *const kinds[] = {"floats", "integers", "text", "something else"};
  int text = type == TT_H5_CHAR;
  int fits = text ? info->kind == TT_H5_TEXT && info->bytes == 1 : info->kind <= TT_H5_INTEGER;
  if (!fits)
    return TT_FAIL(DATA, "%s: '%s' holds %s, not %s", r->file, path, kinds[info->kind],
                   text ? "single characters" : "numbers");
  for (int i = 0; i < info->ndims; i++)
    if (first[i] < 0 || count[i] < 0 || first[i] > info->dims[i] - count[i])
      return TT_FAIL(DATA,
                     "%s: '%s': axis %d has %" PRId64 " values; %" PRId64 " from %" PRId64
                     " on are needed",
                     r->file, path, i, info->dims[i], count[i], first[i]);
  return TT_OK;
}

static tt_err read_checked(const tt_h5_reader *r, const char *path, hid_t dataset,
                           const tt_h5_info *info, tt_h5_type type, const int64_t *first,
                           const int64_t *count, void *data)
{
  hsize_t begin[TT_H5_MAX_DIMS], size[TT_H5_MAX_DIMS];
  if (tt_h5_product(0, info->ndims, count) == 0) return TT_OK;
  tt_h5_to_hsize(info->ndims, first, begin);
  tt_h5_to_hsize(info->ndims, count, size);
  hid_t space = H5Dget_space(dataset), file_type = H5Dget_type(dataset);
  hid_t memory = info->ndims ? H5Screate_simple(info->ndims, size, NULL) : H5Screate(H5S_SCALAR);
  int ok = space >= 0 && file_type >= 0 && memory >= 0;
  if (ok && info->ndims)
    ok = H5Sselect_hyperslab(space, H5S_SELECT_SET, begin, NULL, size, NULL) >= 0;
  /* read characters in the type of the file: a conversion of the padding could remove the only byte
   */
  hid_t as = type == TT_H5_CHAR ? file_type : tt_h5_native(type);
  ok = ok && H5Dread(dataset, as, memory, space, r->transfer, data) >= 0;
  tt_err e = ok ? TT_OK : TT_H5_FAIL(IO, r->file, path, "cannot be read");
  TT_H5_CLOSE(memory, file_type, space);
  return e;
}

tt_err tt_h5_read_block_local(tt_h5_reader *r, const char *path, tt_h5_type type,
                              const int64_t *first, const int64_t *count, void *data)
{
  const tt_h5_cached_dataset *k = NULL;
  TT_TRY(open_cached(r, path, &k));
  TT_TRY(check_read(r, path, &k->info, type, first, count));
  return read_checked(r, path, k->id, &k->info, type, first, count, data);
}

tt_err tt_h5_read_rows_local(tt_h5_reader *r, const char *path, tt_h5_type type, int64_t first,
                             int64_t count, void *data)
{
  int64_t begin[TT_H5_MAX_DIMS] = {first};
  tt_h5_info info;
  TT_TRY(tt_h5_dataset_info_local(r, path, &info));
  info.dims[0] = count;
  return tt_h5_read_block_local(r, path, type, begin, info.dims, data);
}

void tt_h5_version_local(char *text, int64_t capacity)
{
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  snprintf(text, (size_t)capacity, "HDF5 %u.%u.%u", major, minor, release);
}
