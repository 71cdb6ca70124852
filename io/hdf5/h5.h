/* h5.h — HDF5 files: a new file is written and committed collectively, an existing file is read
 * serially. For the files of io/ only; no HDF5 type is used outside io/hdf5.
 *
 * Paths of objects are absolute or relative to the root ("x", "provenance/resolved_config"); "/" or
 * "" is the root itself. Dimensions and counts are int64_t, arrays row-major. Every message names
 * file, object and HDF5's innermost reason; HDF5 itself does not print. */
#ifndef TT_H5_H
#define TT_H5_H
#include "mpi/comm.h"

#include <stdint.h>

enum { TT_H5_MAX_DIMS = 8 };

/* name, C type, HDF5 type: the same in memory and in the file. char = one byte of text. */
#define TT_H5_TYPES(X)                                                                             \
  X(CHAR, char, H5T_C_S1)                                                                          \
  X(I8, int8_t, H5T_NATIVE_INT8)                                                                   \
  X(I32, int32_t, H5T_NATIVE_INT32)                                                                \
  X(I64, int64_t, H5T_NATIVE_INT64)                                                                \
  X(U64, uint64_t, H5T_NATIVE_UINT64)                                                              \
  X(F32, float, H5T_NATIVE_FLOAT)                                                                  \
  X(F64, double, H5T_NATIVE_DOUBLE)

typedef enum tt_h5_type {
#define X(name, ctype, h5) TT_H5_##name,
  TT_H5_TYPES(X)
#undef X
      TT_H5_TYPE_COUNT
} tt_h5_type;

/* Bytes of one value. */
int64_t tt_h5_type_bytes(tt_h5_type type);

/* A new file.
 * Collective on the communicator given to create; with comm NULL everything is local and serial.
 * Every rank calls the same functions in the same order with the same arguments, except where a
 * function says "own": first, count and data may differ there.
 * The file keeps its first error (the same on all ranks): every further call does nothing and
 * returns it, so a caller may write everything and check only the result of tt_h5_commit. Datasets
 * are contiguous, allocated at once, without filters; floats have the fill value NaN. */
typedef struct tt_h5_file tt_h5_file;

/* Create the file that becomes `path` on commit, under a unique temporary name in the same
 * directory; a file in memory (io/files/memory.h) is neither verified nor synced.
 *   path   NULL: a file in memory without data, which shows whether HDF5 can write the rest of the
 *          file; the commit frees it
 *   bytes  expected size of the data, or 0: if they do not fit on the disk, the error is here,
 *          before anything is written (a disk that fills up later ends all ranks: HDF5 1.10 cannot
 *          recover)
 *   out    NULL on error
 * Errors: CANTCREAT, IO (disk full), MEM. */
tt_err tt_h5_create(tt_comm *c, const char *path, int64_t bytes, tt_h5_file **out);

/* Create a group; its parent must exist. */
tt_err tt_h5_create_group(tt_h5_file *f, const char *path);

/* Create a dataset without data.  dims [ndims] global; a size may be 0; ndims 0 = scalar. */
tt_err tt_h5_create_dataset(tt_h5_file *f, const char *path, tt_h5_type type, int ndims,
                            const int64_t *dims);

/* Write the block [first, first + count) of an existing dataset of this file; first, count [ndims]
 * and data are own. A rank with nothing to write passes count[0] = 0 and may pass data NULL.
 * Several calls per dataset are allowed; the blocks must not overlap. */
tt_err tt_h5_write_block(tt_h5_file *f, const char *path, const int64_t *first,
                         const int64_t *count, const void *data);

/* Create a dataset and write rows [first, first + count) of axis 0: first, count, data are own.
 * data [count][dims[1]]... */
tt_err tt_h5_write_rows(tt_h5_file *f, const char *path, tt_h5_type type, int ndims,
                        const int64_t *dims, int64_t first, int64_t count, const void *data);

/* Values of a rank in a dataset with one axis, from index `first` on. */
typedef struct tt_h5_part {
  int64_t first, count;
  const void *data;
} tt_h5_part;

enum {
  TT_H5_JOINED_BYTES = 1 << 20,  /* copied together for one write by tt_h5_write_parts, at most */
  TT_H5_VERIFIED_BYTES = 1 << 18 /* of a written file that are read back at a time */
};

/* Write parts of an existing dataset of this type: parts and part [parts], in ascending order, are
 * own. Small parts that follow each other are copied and written together. */
tt_err tt_h5_write_parts(tt_h5_file *f, const char *path, tt_h5_type type, int64_t parts,
                         const tt_h5_part *part);

/* Create a dataset; rank 0 writes all of it. data is ignored on the other ranks. */
tt_err tt_h5_write_from_root(tt_h5_file *f, const char *path, tt_h5_type type, int ndims,
                             const int64_t *dims, const void *data);

/* Write texts as characters [n][length] with _Encoding = utf-8, from rank 0; shorter texts are
 * padded with NUL. length >= tt_h5_max_text_length(n, text). text is ignored on other ranks. */
tt_err tt_h5_write_texts(tt_h5_file *f, const char *path, int64_t n, int64_t length,
                         const char *const *text);
/* Write one text as characters [length]; for texts too long for an attribute (above 60 kB). */
tt_err tt_h5_write_text(tt_h5_file *f, const char *path, int64_t length, const char *text);
/* Bytes of the longest text, at least 1. Local. */
int64_t tt_h5_max_text_length(int64_t n, const char *const *text);

/* Write attributes of the root, a group or a dataset of this file. One value makes a scalar, more
 * an array [n]. Text: scalar, fixed length, UTF-8. Same values on all ranks. */
tt_err tt_h5_write_attr(tt_h5_file *f, const char *object, const char *name, tt_h5_type type,
                        int64_t n, const void *values);
tt_err tt_h5_write_attr_text(tt_h5_file *f, const char *object, const char *name, const char *text);

/* Dimensions as in netCDF-4. Either every axis of every dataset of a file has a dimension scale or
 * none has: xarray does not open a file that mixes both. tt_h5_create_dimension makes a dimension
 * without values; tt_h5_create_open_dimension one without a size of its own, which needs no space
 * in the file and has the size of its longest dataset (in netCDF-4 it is unlimited);
 * tt_h5_set_scale makes an existing dataset [n] a coordinate; tt_h5_attach_scales
 * attaches dimensions to the first axes of a dataset, in order:
 * tt_h5_attach_scales(f, "y", (const char *[]){"row", "column"}, 2). */
tt_err tt_h5_create_dimension(tt_h5_file *f, const char *path, int64_t size);
tt_err tt_h5_create_open_dimension(tt_h5_file *f, const char *path);
tt_err tt_h5_set_scale(tt_h5_file *f, const char *path);
tt_err tt_h5_attach_scales(tt_h5_file *f, const char *dataset, const char *const *scale, int ndims);
/* Size of a dimension of this file, 0 of an open one; -1: it does not exist. Local. */
int64_t tt_h5_dimension_size(tt_h5_file *f, const char *path);

/* Close; every rank reads back with the serial driver what it wrote and compares; vote; sync; vote;
 * check of the owner (owner.h); rename; sync of the directory; vote. Then `path` is the new file on
 * all ranks, or, on error, unchanged, and the temporary file is removed (only if the last sync
 * fails, `path` is already the complete new file). Frees *f and sets it to NULL in any case.
 * Errors: the first one of the file, IO (the data read back differ), STOPPED (another start owns
 * the directory). */
tt_err tt_h5_commit(tt_h5_file **f);

/* Close and remove the temporary file. Accepts a NULL file. */
void tt_h5_discard(tt_h5_file **f);

/* Data written by a thread.
 * After tt_h5_defer, write_block, write_rows and write_parts only store where the data will be:
 * blocks of whole rows, whose data must stay unchanged until the commit. tt_h5_close_layout closes
 * the file, then tt_h5_write_deferred_local writes the blocks of this rank, and
 * tt_h5_commit_deferred makes the file complete. Only for ranks of one node: nodes that write to
 * the same page of a file need the locks of MPI-IO on NFS.
 *   t  the result of tt_h5_write_deferred_local on this rank */
void tt_h5_defer(tt_h5_file *f);
tt_err tt_h5_close_layout(tt_h5_file *f);
tt_err tt_h5_commit_deferred(tt_h5_file **f, tt_err t);

/* Write, sync, read back and compare, without MPI and HDF5. Local; any thread. Errors: IO, MEM. */
tt_err tt_h5_write_deferred_local(const tt_h5_file *f);

/* An existing file.
 * Read-only, serial driver, no locks; every function is local. */
typedef struct tt_h5_reader tt_h5_reader;

/* Errors: NOINPUT (missing, a directory, no permission), DATA (empty, not HDF5, truncated,
 * damaged), MEM. */
tt_err tt_h5_open_local(const char *file, tt_h5_reader **out);
/* The same for the bytes of a file in memory, which must stay until the reader is closed.
 *   name  in place of the file's, for messages */
tt_err tt_h5_open_bytes_local(const char *name, const void *bytes, int64_t size,
                              tt_h5_reader **out);
/* Collective. All ranks open the file that rank 0 sees, because another node may still see an
 * earlier version: rank 0 sends its bytes. Then each rank reads and closes it locally. */
tt_err tt_h5_open(tt_comm *c, const char *file, tt_h5_reader **out);
void tt_h5_close_local(tt_h5_reader **r); /* accepts NULL */
const char *tt_h5_file_name(const tt_h5_reader *r);
int64_t tt_h5_file_bytes_local(const tt_h5_reader *r); /* size of the file; -1: unknown */

typedef enum tt_h5_kind { TT_H5_FLOAT, TT_H5_INTEGER, TT_H5_TEXT, TT_H5_OTHER } tt_h5_kind;
typedef struct tt_h5_info {
  tt_h5_kind kind;
  int64_t bytes; /* of one value */
  int is_signed; /* integers */
  int ndims;     /* 0 = scalar */
  int64_t dims[TT_H5_MAX_DIMS];
} tt_h5_info;

/* Type and shape of a dataset. Errors: DATA (missing: the message lists the existing datasets; not
 * a dataset; more than TT_H5_MAX_DIMS axes; stored in other files: external or virtual). */
tt_err tt_h5_dataset_info_local(tt_h5_reader *r, const char *path, tt_h5_info *out);

/* 1 if `path` (with all its parents) exists, else 0. Also 1 if the disk does not answer: reading it
 * then returns the error, so that a part of a file is never taken as missing. The same for
 * attributes. */
int tt_h5_has_local(tt_h5_reader *r, const char *path);

/* Read rows [first, first + count) of axis 0 (of a scalar: 0, 1), converted to `type`.
 * data [count][dims[1]]...; the dataset must be numeric, or one-byte text for CHAR.
 * Errors: DATA (out of range, not numbers), IO (cannot be read). */
tt_err tt_h5_read_rows_local(tt_h5_reader *r, const char *path, tt_h5_type type, int64_t first,
                             int64_t count, void *data);
/* The same for a block; first, count [ndims]. */
tt_err tt_h5_read_block_local(tt_h5_reader *r, const char *path, tt_h5_type type,
                              const int64_t *first, const int64_t *count, void *data);

/* Read the texts of a dataset: characters [n][length], fixed strings [n] of any length (also of one
 * byte), or variable strings [n]; a scalar string is one text. Padding (NUL, trailing blanks) is
 * removed; control characters and bytes that are not UTF-8 become '?'. Owner: the caller,
 * tt_h5_texts_free. Errors: DATA, IO, MEM. */
tt_err tt_h5_read_texts_local(tt_h5_reader *r, const char *path, int64_t *n, char ***text);
void tt_h5_texts_free(int64_t n, char ***text);
/* Read one text: characters [length], or a scalar string; line ends and tabs are kept. Owner: the
 * caller, tt_free. */
tt_err tt_h5_read_text_local(tt_h5_reader *r, const char *path, char **text);

/* Read attributes, exactly `n` values. *text is owned by the caller, tt_free. Errors: DATA
 * (missing, another size or type), IO, MEM. */
int tt_h5_has_attr_local(tt_h5_reader *r, const char *object, const char *name);
tt_err tt_h5_read_attr_local(tt_h5_reader *r, const char *object, const char *name, tt_h5_type type,
                             int64_t n, void *values);
tt_err tt_h5_read_attr_text_local(tt_h5_reader *r, const char *object, const char *name,
                                  char **text);

/* Names of all datasets, "x", "names/feature_name", in alphabetical order. Owner: the caller,
 * tt_h5_texts_free. Errors: MEM. */
tt_err tt_h5_list_datasets_local(const tt_h5_reader *r, int64_t *n, char ***names);

/* Whether a dataset is the scale of a dimension; *has_values = 0: netCDF has made it for a
 * dimension without values. */
int tt_h5_is_scale_local(tt_h5_reader *r, const char *path, int *has_values);

/* Whether HDF5 could not close a file. HDF5 1.10 then crashes when the program ends, in
 * MPI_Finalize or exit: flush the output and call _exit instead. Local. */
int tt_h5_exit_is_unsafe_local(void);

/* Call a function that uses HDF5, in a program that may use HDF5 too: afterwards errors of HDF5 are
 * printed as before, and the floating-point environment is that of before, also of long double, in
 * which HDF5 computes. Returns the result of the function. Local. */
tt_err tt_h5_call_as_guest_local(tt_err (*function)(void *), void *argument);

/* Start HDF5, which uses MPI_COMM_SELF at its start if MPI runs. Local. */
void tt_h5_start_local(void);

/* Version of HDF5 for provenance. Local. */
void tt_h5_version_local(char *text, int64_t capacity);
#endif
