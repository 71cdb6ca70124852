/* h5_internal.h — what the files of io/hdf5 share. */
#ifndef TT_H5_INTERNAL_H
#define TT_H5_INTERNAL_H
#define TT_COMM_MPI
#include "io/files/files.h"
#include "io/files/memory.h"
#include "io/hdf5/h5.h"

#include <hdf5.h>

/* A block that this rank has written; it is compared with the file after closing. After
 * tt_h5_defer: a block that a thread writes after closing. */
typedef struct tt_h5_written_block {
  char *path;
  tt_h5_type type;
  int ndims;
  int64_t first[TT_H5_MAX_DIMS], count[TT_H5_MAX_DIMS];
  uint64_t hash;    /* XXH3 of the bytes given to write; not if it is deferred */
  const void *data; /* if it is deferred: the values, borrowed until the commit */
  int64_t offset;   /* if it is deferred: its place in the file; else -1 */
  int64_t bytes;
} tt_h5_written_block;

/* Objects of a new file stay open: a variable has several attributes and dimensions, and opening it
 * for each costs more than writing them. */
enum { TT_H5_OPEN_OBJECTS = 8 };
typedef struct tt_h5_open_object {
  hid_t id;     /* 0 = none */
  int64_t used; /* the larger, the later */
  char path[TT_PATH_MAX];
} tt_h5_open_object;

struct tt_h5_file {
  tt_comm *comm; /* NULL = serial */
  hid_t id;
  tt_h5_open_object open[TT_H5_OPEN_OBJECTS]; /* the last ones used */
  int64_t uses;
  hid_t creation[TT_H5_TYPE_COUNT]; /* lists for datasets of a type; 0 = none yet */
  hid_t transfer;                   /* of tt_h5_write_block; 0 = none yet */
  tt_err error;                     /* the first one, the same on all ranks */
  int deferred;                     /* tt_h5_defer */
  int dry;                          /* a file in memory without data */
  int in_memory;                    /* io/files/memory.h */
  void *image;                      /* of a file in memory that is closed; owner: free */
  const char *const *hashed;        /* tt_schema_hash_content; NULL: no hash of the content */
  char path[TT_PATH_MAX], temporary[TT_PATH_MAX];
  int64_t blocks, capacity;
  tt_h5_written_block *block; /* [capacity], `blocks` of them used */
};

/* A dataset that is read in pieces stays open: opening it costs as much as reading 64 KiB, and
 * closing it discards the chunks that HDF5 has decompressed. */
enum { TT_H5_CACHED_DATASETS = 2 };
typedef struct tt_h5_cached_dataset {
  hid_t id; /* 0 = none */
  tt_h5_info info;
  char path[TT_PATH_MAX];
} tt_h5_cached_dataset;

struct tt_h5_reader {
  hid_t id, access; /* access list that follows no link into another file */
  hid_t transfer;   /* list with a small buffer for conversions, which HDF5 zeroes for each read */
  char file[TT_PATH_MAX];
  tt_h5_cached_dataset cached[TT_H5_CACHED_DATASETS]; /* the last ones read */
  int next_slot;
  int in_memory;  /* 1 = opened by tt_h5_open_bytes_local */
  void *bytes;    /* content of the file, from tt_h5_open, owned; else NULL */
  int disk_error; /* errno of a look-up that has failed, see tt_h5_found */
};

/* Whether something is there, by the result of a look-up of HDF5. If the disk has failed, also 1:
 * after that HDF5 may take parts of the file as missing, so all later reads of the file return IO,
 * which tt_h5_check_disk_local gives. */
int tt_h5_found(tt_h5_reader *r, htri_t there);
tt_err tt_h5_check_disk_local(const tt_h5_reader *r);

/* Maximum bytes of one collective write per rank: the MPI-IO below HDF5 1.10 counts in int. */
extern int64_t tt_h5_max_write_bytes;

/* HDF5 type of a value; do not close it. */
hid_t tt_h5_native(tt_h5_type type);

/* Stop HDF5 from printing errors. */
void tt_h5_silence(void);

/* Record "file: object: what: HDF5's innermost message". If that message says that a system call
 * failed because of the disk (tt_errno_is_disk), the error is IO. Clears the error stack of
 * HDF5. */
tt_err tt_h5_fail_at(const char *source, int line, tt_err e, const char *file, const char *object,
                     const char *what);
#define TT_H5_FAIL(e_, file_, object_, what_)                                                      \
  tt_h5_fail_at(__FILE__, __LINE__, TT_E_##e_, file_, object_, what_)

/* Set the driver for memory in an access list; 1 = done.
 * lend_image: it reads these bytes, which must stay. keep_image: what it would free when a new file
 * is closed becomes *image (H5Fget_file_image of HDF5 1.10 gives a file that HDF5 cannot open). */
int tt_h5_lend_image(hid_t list, const void *bytes, int64_t size);
int tt_h5_keep_image(hid_t list, void **image);

/* A reader of a new file that is open. Errors: MEM. */
tt_err tt_h5_reopen_local(const tt_h5_file *f, tt_h5_reader **out);

/* The innermost message of HDF5's error stack, "" if it is empty. */
void tt_h5_last_message(char *text, size_t capacity);
/* The errno of the error stack if the disk has failed (tt_errno_is_disk), otherwise 0. */
int tt_h5_disk_error(void);

/* The group or dataset of a new file with this path, open until another one needs its place; -1: it
 * cannot be opened. tt_h5_keep_object does that to one that has been opened. tt_h5_close_object
 * closes it, so that HDF5 writes its values: below 0 if they cannot be written. path NULL: all. */
hid_t tt_h5_object(tt_h5_file *f, const char *path);
void tt_h5_keep_object(tt_h5_file *f, const char *path, hid_t object);
herr_t tt_h5_close_object(tt_h5_file *f, const char *path);

/* Close what a new file keeps open. */
void tt_h5_close_kept(tt_h5_file *f);

/* H5Fclose; records a failure for tt_h5_exit_is_unsafe_local. */
herr_t tt_h5_close_file(hid_t file);

/* Close objects of any kind; numbers below 0 are not open and are ignored. */
void tt_h5_close_ids(size_t n, const hid_t *id);
#define TT_H5_CLOSE(...)                                                                           \
  tt_h5_close_ids(sizeof((hid_t[]){__VA_ARGS__}) / sizeof(hid_t), (const hid_t[]){__VA_ARGS__})

/* "/" for the root, which may be given as "". */
static inline const char *tt_h5_object_path(const char *object) { return object[0] ? object : "/"; }

/* 1 on rank 0, and on every rank of a serial file. */
static inline int tt_h5_is_root(const tt_h5_file *f)
{
  return !f->comm || tt_comm_is_root(f->comm);
}

/* Whether MPI-IO writes a new file. One rank uses the serial driver, with or without MPI, and so
 * does each rank for a file in memory. */
static inline int tt_h5_is_parallel(const tt_h5_file *f)
{
  return !f->dry && f->comm && tt_comm_ranks(f->comm) > 1;
}

/* Vote on a new file: sets and returns f->error. */
tt_err tt_h5_vote(tt_h5_file *f, tt_err mine);

/* Product of dims[from..ndims), 1 if there are none. */
int64_t tt_h5_product(int begin, int ndims, const int64_t *dims);

/* In a creation list: attributes in their order, inside the object header. 1 = done. */
int tt_h5_track_attribute_order(hid_t list);

/* Convert dims to hsize_t. */
void tt_h5_to_hsize(int ndims, const int64_t *dims, hsize_t *out);

/* Open a dataset of an existing file; the caller closes *dataset. Errors: DATA. */
tt_err tt_h5_open_dataset_local(tt_h5_reader *r, const char *path, hid_t *dataset);

/* File access list of the serial driver without locks, -1 on error. */
hid_t tt_h5_serial_fapl(void);
#endif
