/* write.c — see h5.h: a new file, its groups, datasets and attributes. */
#include "io/hdf5/h5_internal.h"

#include "core/base/mem.h"
#include "mpi/fatal.h"

#include <errno.h>
#include <fcntl.h>
#include <hdf5_hl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

/* MAX_COMPACT: more links or attributes than any object of a tutti file has. */
enum { MAX_COMPACT = 1024, CREATION_ORDER = H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED };

int64_t tt_h5_max_write_bytes = 256 << 20;

/* Rank 0 chooses the name and checks the space. */
static tt_err create_temporary_local(tt_h5_file *f, int64_t bytes)
{
  if (!tt_h5_is_root(f)) return TT_OK;
  TT_TRY(tt_file_temporary_name_local(f->path, f->temporary));
  tt_err e = tt_file_reserve_local(f->temporary, bytes);
  if (e) f->temporary[0] = 0;
  return e;
}

static tt_err check_visible_local(const tt_h5_file *f)
{
  if (access(f->temporary, R_OK | W_OK) == 0) return TT_OK;
  if (errno != ENOENT) return TT_FAIL_ERRNO(CANTCREAT, "%s: cannot be written", f->temporary);
  char host[256] = "?";
  gethostname(host, sizeof host - 1);
  return TT_FAIL(CANTCREAT,
                 "%s: rank 0 has created it, but rank %d on %s does not see it: the directory must "
                 "be shared by all nodes",
                 f->temporary, tt_comm_rank(f->comm), host);
}

#ifndef H5_HAVE_PARALLEL /* for one process: tt_h5_is_parallel is 0 for every file */
#define H5Pset_fapl_mpio(...) -1
#define H5Pset_coll_metadata_write(...) -1
#define H5Pset_dxpl_mpio(...) -1
#endif

static hid_t create_fapl(tt_h5_file *f)
{
  hid_t p = tt_h5_is_parallel(f) ? H5Pcreate(H5P_FILE_ACCESS) : tt_h5_serial_fapl();
  if (f->dry && H5Pset_fapl_core(p, 1 << 16, 0) < 0) return -1;
  if (f->in_memory && !tt_h5_keep_image(p, &f->image)) return -1;
  int ok = p >= 0 && H5Pset_libver_bounds(p, H5F_LIBVER_V110, H5F_LIBVER_V110) >= 0 &&
           H5Pset_fclose_degree(p, H5F_CLOSE_STRONG) >= 0;
  if (tt_h5_is_parallel(f))
    ok = ok && H5Pset_fapl_mpio(p, tt_comm_mpi(f->comm), MPI_INFO_NULL) >= 0 &&
         H5Pset_coll_metadata_write(p, 1) >= 0;
  return ok ? p : -1;
}

/* Creation order, as in netCDF-4. All links and attributes are stored inside the object header:
 * HDF5 1.10 crashes while it cleans up after a damaged heap of links. */
static int track_link_order(hid_t p)
{
  return H5Pset_link_creation_order(p, CREATION_ORDER) >= 0 &&
         H5Pset_link_phase_change(p, MAX_COMPACT, MAX_COMPACT) >= 0;
}

int tt_h5_track_attribute_order(hid_t list)
{
  return H5Pset_attr_creation_order(list, CREATION_ORDER) >= 0 &&
         H5Pset_attr_phase_change(list, MAX_COMPACT, MAX_COMPACT) >= 0;
}

static hid_t create_fcpl(void)
{
  hid_t list = H5Pcreate(H5P_FILE_CREATE);
  return list >= 0 && track_link_order(list) && tt_h5_track_attribute_order(list) ? list : -1;
}

/* The name of the temporary file for MPI-IO, which takes what is before a colon as the type of a
 * file system and opens the rest: a file with a colon in its name is opened here first, and gets
 * the name of the open file.
 *   *opened  descriptor to close after MPI-IO has opened the file; -1: none */
static const char *name_for_mpi(const tt_h5_file *f, char scratch[64], int *opened)
{
  int renames = tt_h5_is_parallel(f) && strchr(f->temporary, ':');
  *opened = renames ? open(f->temporary, O_RDWR | O_CLOEXEC) : -1;
  if (*opened < 0) return f->temporary;
  snprintf(scratch, 64, "/proc/self/fd/%d", *opened);
  return scratch;
}

static tt_err create_file(tt_h5_file *f)
{
  char scratch[64];
  int opened = -1;
  hid_t fapl = create_fapl(f), fcpl = create_fcpl();
  const char *name = f->dry || f->in_memory ? f->path : name_for_mpi(f, scratch, &opened);
  if (fapl >= 0 && fcpl >= 0) f->id = H5Fcreate(name, H5F_ACC_TRUNC, fcpl, fapl);
  tt_err e = f->id < 0 ? TT_H5_FAIL(CANTCREAT, f->temporary, "", "cannot be created") : TT_OK;
  if (opened >= 0) close(opened);
  TT_H5_CLOSE(fapl, fcpl);
  return e;
}

tt_err tt_h5_create(tt_comm *c, const char *path, int64_t bytes, tt_h5_file **out)
{
  tt_h5_file *f = NULL;
  *out = NULL;
  tt_h5_silence();
  tt_err e = TT_ALLOC(f, 1);
  e = c ? tt_agree(c, e) : e;
  if (e) {
    tt_free(f);
    return e;
  }
  f->comm = c;
  f->id = -1;
  f->dry = !path;
  f->in_memory = path && tt_memory_is_path(path);
  snprintf(f->path, sizeof f->path, "%s", path ? path : "a file in memory");
  int on_disk = !f->dry && !f->in_memory;
  e = on_disk ? tt_h5_vote(f, create_temporary_local(f, bytes)) : TT_OK;
  if (!e && c && on_disk) {
    tt_bcast(c, f->temporary, sizeof f->temporary);
    e = tt_h5_vote(f, check_visible_local(f));
  }
  if (!e && tt_h5_is_parallel(f)) tt_fatal_set_file_local(f->path, f->temporary);
  if (!e) e = tt_h5_vote(f, create_file(f));
  if (e)
    tt_h5_discard(&f);
  else
    *out = f;
  return e;
}

/* Groups and datasets */

tt_err tt_h5_create_group(tt_h5_file *f, const char *path)
{
  if (f->error) return f->error;
  hid_t list = H5Pcreate(H5P_GROUP_CREATE), g = -1;
  if (track_link_order(list) && tt_h5_track_attribute_order(list))
    g = H5Gcreate2(f->id, path, H5P_DEFAULT, list, H5P_DEFAULT);
  tt_err e = g < 0 ? TT_H5_FAIL(IO, f->path, path, "cannot create the group") : TT_OK;
  TT_H5_CLOSE(g, list);
  return tt_h5_vote(f, e);
}

/* Contiguous, no filters, allocated at once unless the file is dry; no time stamps. */
static hid_t create_dcpl(const tt_h5_file *f, tt_h5_type type)
{
  static const float nan32 = NAN;
  static const double nan64 = NAN;
  hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  int ok = list >= 0 && H5Pset_layout(list, H5D_CONTIGUOUS) >= 0 &&
           H5Pset_alloc_time(list, f->dry ? H5D_ALLOC_TIME_LATE : H5D_ALLOC_TIME_EARLY) >= 0 &&
           H5Pset_fill_time(list, H5D_FILL_TIME_NEVER) >= 0 &&
           H5Pset_obj_track_times(list, 0) >= 0 && tt_h5_track_attribute_order(list);
  if (ok && type == TT_H5_F32) ok = H5Pset_fill_value(list, H5T_NATIVE_FLOAT, &nan32) >= 0;
  if (ok && type == TT_H5_F64) ok = H5Pset_fill_value(list, H5T_NATIVE_DOUBLE, &nan64) >= 0;
  return ok ? list : -1;
}

static tt_err check_dims_local(const tt_h5_file *f, const char *path, tt_h5_type type, int ndims,
                               const int64_t *dims)
{
  if (tt_h5_type_bytes(type) == 0 || ndims < 0 || ndims > TT_H5_MAX_DIMS)
    return TT_FAIL(INTERNAL, "%s: '%s': type %d with %d axes", f->path, path, (int)type, ndims);
  for (int i = 0; i < ndims; i++)
    if (dims[i] < 0)
      return TT_FAIL(INTERNAL, "%s: '%s': axis %d has size %" PRId64, f->path, path, i, dims[i]);
  return TT_OK;
}

tt_err tt_h5_create_dataset(tt_h5_file *f, const char *path, tt_h5_type type, int ndims,
                            const int64_t *dims)
{
  hsize_t size[TT_H5_MAX_DIMS] = {0};
  if (f->error) return f->error;
  if (tt_h5_vote(f, check_dims_local(f, path, type, ndims, dims))) return f->error;
  tt_h5_to_hsize(ndims, dims, size);
  if (f->creation[type] <= 0) f->creation[type] = create_dcpl(f, type);
  hid_t p = f->creation[type], d = -1;
  hid_t space = ndims ? H5Screate_simple(ndims, size, NULL) : H5Screate(H5S_SCALAR);
  if (p >= 0 && space >= 0)
    d = H5Dcreate2(f->id, path, tt_h5_native(type), space, H5P_DEFAULT, p, H5P_DEFAULT);
  tt_err e = d < 0 ? TT_H5_FAIL(IO, f->path, path, "cannot create the dataset") : TT_OK;
  if (!e) tt_h5_keep_object(f, path, d);
  TT_H5_CLOSE(space);
  return tt_h5_vote(f, e);
}

/* Writing */

/* One collective write in progress. */
typedef struct writing {
  hid_t dataset, space;
  tt_h5_written_block b;
  int64_t row_bytes; /* bytes of one row (index of axis 0) of this rank's block */
} writing;

static tt_h5_type dataset_type(hid_t dataset)
{
  hid_t t = H5Dget_type(dataset);
  tt_h5_type found = TT_H5_TYPE_COUNT;
  for (int i = 0; i < TT_H5_TYPE_COUNT && t >= 0; i++)
    if (H5Tequal(t, tt_h5_native((tt_h5_type)i)) > 0) found = (tt_h5_type)i;
  TT_H5_CLOSE(t);
  return found;
}

static tt_err check_block_local(const tt_h5_file *f, const char *path, const tt_h5_written_block *b,
                                const hsize_t *dims)
{
  for (int i = 0; i < b->ndims; i++)
    if (b->first[i] < 0 || b->count[i] < 0 ||
        (uint64_t)b->first[i] + (uint64_t)b->count[i] > dims[i])
      return TT_FAIL(INTERNAL,
                     "%s: '%s': [%" PRId64 ", %" PRId64 ") of axis %d, which has size %" PRIu64,
                     f->path, path, b->first[i], b->first[i] + b->count[i], i, (uint64_t)dims[i]);
  return TT_OK;
}

static tt_err open_block_local(tt_h5_file *f, const char *path, const int64_t *first,
                               const int64_t *count, writing *w)
{
  hsize_t dims[TT_H5_MAX_DIMS] = {0};
  w->dataset = tt_h5_object(f, path);
  if (w->dataset < 0) return TT_H5_FAIL(INTERNAL, f->path, path, "the dataset does not exist");
  w->space = H5Dget_space(w->dataset);
  if (f->transfer <= 0) f->transfer = H5Pcreate(H5P_DATASET_XFER);
  w->b.ndims = H5Sget_simple_extent_dims(w->space, dims, NULL);
  w->b.type = dataset_type(w->dataset);
  if (w->b.ndims < 0 || w->b.type == TT_H5_TYPE_COUNT)
    return TT_H5_FAIL(INTERNAL, f->path, path, "the dataset has an unknown type");
  if (tt_h5_is_parallel(f) && H5Pset_dxpl_mpio(f->transfer, H5FD_MPIO_COLLECTIVE) < 0)
    return TT_H5_FAIL(IO, f->path, path, "cannot select a collective write");
  if (w->b.ndims == 0) { /* a scalar is one row */
    w->b.count[0] = count[0];
  } else {
    memcpy(w->b.first, first, (size_t)w->b.ndims * sizeof *first);
    memcpy(w->b.count, count, (size_t)w->b.ndims * sizeof *count);
  }
  w->row_bytes = tt_h5_product(1, w->b.ndims, w->b.count) * tt_h5_type_bytes(w->b.type);
  return check_block_local(f, path, &w->b, dims);
}

static herr_t close_block(tt_h5_file *f, const char *path, writing *w)
{
  TT_H5_CLOSE(w->space);
  return tt_h5_close_object(f, path);
}

/* Rows (indices of axis 0) of one collective write. */
static int64_t rows_per_write(const writing *w)
{
  if (w->row_bytes <= 0) return 1;
  int64_t rows = tt_h5_max_write_bytes / w->row_bytes;
  return rows > 0 ? rows : 1;
}

/* Collective: every rank takes part in every write; a rank without rows selects nothing. */
static tt_err write_piece(tt_h5_file *f, const char *path, const writing *w, int64_t piece,
                          const char *data)
{
  hsize_t first[TT_H5_MAX_DIMS] = {0}, count[TT_H5_MAX_DIMS] = {0};
  static const char nothing[8];
  int64_t per = rows_per_write(w), from = piece * per;
  int64_t rows = w->b.count[0] - from < per ? w->b.count[0] - from : per;
  int has_rows = rows > 0 && w->row_bytes > 0;
  tt_h5_to_hsize(w->b.ndims, w->b.first, first);
  tt_h5_to_hsize(w->b.ndims, w->b.count, count);
  first[0] += (hsize_t)(has_rows ? from : 0);
  count[0] = (hsize_t)(has_rows ? rows : 1);
  hid_t memory =
      w->b.ndims && has_rows ? H5Screate_simple(w->b.ndims, count, NULL) : H5Screate(H5S_SCALAR);
  int ok = memory >= 0;
  if (!has_rows)
    ok = ok && H5Sselect_none(w->space) >= 0 && H5Sselect_none(memory) >= 0;
  else if (w->b.ndims)
    ok = ok && H5Sselect_hyperslab(w->space, H5S_SELECT_SET, first, NULL, count, NULL) >= 0;
  const void *source = has_rows ? data + from * w->row_bytes : nothing;
  ok = ok &&
       H5Dwrite(w->dataset, tt_h5_native(w->b.type), memory, w->space, f->transfer, source) >= 0;
  tt_err e = ok ? TT_OK : TT_H5_FAIL(IO, f->path, path, "cannot be written");
  TT_H5_CLOSE(memory);
  return e;
}

/* Find the place of a block in the file. It is known, because HDF5 allocates the space of a dataset
 * when it creates the dataset. */
static tt_err locate_block_local(const tt_h5_file *f, const char *path, const writing *w,
                                 tt_h5_written_block *b)
{
  hsize_t dims[TT_H5_MAX_DIMS] = {0};
  haddr_t address = H5Dget_offset(w->dataset);
  H5Sget_simple_extent_dims(w->space, dims, NULL);
  for (int i = 1; i < b->ndims; i++)
    if (b->first[i] != 0 || (hsize_t)b->count[i] != dims[i])
      return TT_FAIL(INTERNAL, "%s: '%s': a deferred block is not of whole rows", f->path, path);
  if (address == HADDR_UNDEF) return TT_H5_FAIL(IO, f->path, path, "has no place in the file");
  b->offset = (int64_t)address + b->first[0] * w->row_bytes;
  return TT_OK;
}

/* Record a block: its hash, to verify it after closing, or its place, to write it then. */
static tt_err record_block_local(tt_h5_file *f, const char *path, writing *w, const void *data)
{
  size_t length = strlen(path) + 1;
  tt_h5_written_block *b = &w->b;
  int64_t bytes = b->count[0] * w->row_bytes;
  if (bytes == 0) return TT_OK;
  b->offset = -1;
  if (f->deferred) TT_TRY(locate_block_local(f, path, w, b));
  TT_TRY(TT_GROW(f->block, f->blocks, 1, f->capacity));
  TT_TRY(TT_ALLOC(b->path, (int64_t)length));
  memcpy(b->path, path, length);
  b->data = data;
  b->bytes = bytes;
  if (!f->deferred) b->hash = XXH3_64bits(data, (size_t)bytes);
  f->block[f->blocks++] = *b;
  return TT_OK;
}

tt_err tt_h5_write_block(tt_h5_file *f, const char *path, const int64_t *first,
                         const int64_t *count, const void *data)
{
  writing w = {.dataset = -1, .space = -1};
  if (f->error || f->dry) return f->error;
  tt_err e = open_block_local(f, path, first, count, &w);
  if (!e) e = record_block_local(f, path, &w, data);
  e = tt_h5_vote(f, e);
  /* HDF5 fails to write a dataset of size 0, even with an empty selection: then write no piece */
  int64_t per = rows_per_write(&w), pieces = w.row_bytes > 0 ? (w.b.count[0] + per - 1) / per : 0;
  if (f->deferred) pieces = 0;
  if (!e && f->comm) tt_allreduce_max_i64(f->comm, &pieces, 1);
  for (int64_t i = 0; !e && i < pieces; i++) e = tt_h5_vote(f, write_piece(f, path, &w, i, data));
  herr_t closed = close_block(f, path, &w); /* the serial driver writes small blocks only now */
  if (!tt_h5_is_parallel(f) && !e && closed < 0)
    e = tt_h5_vote(f, TT_H5_FAIL(IO, f->path, path, "cannot be written"));
  return e;
}

tt_err tt_h5_write_rows(tt_h5_file *f, const char *path, tt_h5_type type, int ndims,
                        const int64_t *dims, int64_t first, int64_t count, const void *data)
{
  int64_t begin[TT_H5_MAX_DIMS] = {first}, size[TT_H5_MAX_DIMS] = {0};
  if (tt_h5_create_dataset(f, path, type, ndims, dims)) return f->error;
  for (int i = 1; i < ndims; i++) size[i] = dims[i];
  size[0] = count;
  return tt_h5_write_block(f, path, begin, size, data);
}

tt_err tt_h5_write_from_root(tt_h5_file *f, const char *path, tt_h5_type type, int ndims,
                             const int64_t *dims, const void *data)
{
  int64_t rows = ndims ? dims[0] : 1;
  return tt_h5_write_rows(f, path, type, ndims, dims, 0, tt_h5_is_root(f) ? rows : 0, data);
}

/* Parts of one rank in a dataset. */

/* A position in a list of parts. */
typedef struct part_cursor {
  const tt_h5_part *part;
  int64_t parts, i; /* part i is next */
  int64_t most;     /* values that are copied together, at most */
  size_t bytes;     /* of a value */
} part_cursor;

/* The next values that follow each other in the dataset: of a large part, or of the only one, where
 * they are; of small ones, copied to `buffer`. Count 0 at the end. */
static tt_h5_part next_run(part_cursor *c, char *buffer)
{
  tt_h5_part run = {0, 0, buffer};
  for (; c->i < c->parts; c->i++) {
    const tt_h5_part *p = &c->part[c->i];
    if (p->count == 0) continue;
    if (run.count == 0) run.first = p->first;
    if (run.count == 0 && (p->count >= c->most || c->parts == 1)) {
      c->i++;
      return (tt_h5_part){p->first, p->count, p->data};
    }
    if (p->first != run.first + run.count || p->count > c->most - run.count) break;
    memcpy(buffer + (size_t)run.count * c->bytes, p->data, (size_t)p->count * c->bytes);
    run.count += p->count;
  }
  return run;
}

/* Every rank takes part in as many writes as the rank with most of them. */
static tt_err join_parts(tt_h5_file *f, const char *path, part_cursor *c)
{
  char *buffer = NULL;
  int64_t capacity = 0;
  for (int64_t i = 0; c->parts > 1 && i < c->parts && capacity < c->most; i++)
    capacity += c->part[i].count;
  if (capacity > c->most) capacity = c->most;
  tt_err e = tt_h5_vote(f, tt_alloc_bytes(&buffer, capacity, c->bytes, "values of a written file"));
  for (int64_t more = 1; !e;) {
    tt_h5_part run = next_run(c, buffer);
    more = run.count > 0;
    if (f->comm) tt_allreduce_max_i64(f->comm, &more, 1);
    if (!more) break;
    e = tt_h5_write_block(f, path, &run.first, &run.count, run.data);
  }
  tt_free(buffer);
  return e;
}

static tt_err record_parts_local(tt_h5_file *f, const char *path, const part_cursor *c)
{
  writing w = {.dataset = -1, .space = -1};
  const int64_t none = 0;
  tt_err e = open_block_local(f, path, &none, &none, &w);
  for (int64_t i = 0; !e && i < c->parts; i++) {
    w.b.first[0] = c->part[i].first;
    w.b.count[0] = c->part[i].count;
    e = record_block_local(f, path, &w, c->part[i].data);
  }
  close_block(f, path, &w);
  return e;
}

tt_err tt_h5_write_parts(tt_h5_file *f, const char *path, tt_h5_type type, int64_t parts,
                         const tt_h5_part *part)
{
  part_cursor c = {.part = part, .parts = parts, .bytes = (size_t)tt_h5_type_bytes(type)};
  if (f->error) return f->error;
  c.most = TT_H5_JOINED_BYTES / (int64_t)c.bytes;
  if (f->dry) return TT_OK;
  if (f->deferred) return tt_h5_vote(f, record_parts_local(f, path, &c));
  return join_parts(f, path, &c);
}
