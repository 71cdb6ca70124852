/* schema.h — what all output files of tutti have in common: named dimensions, variables with their
 * attributes, provenance. For the files of io/ only.
 *
 * A file opens in xarray with both of its HDF5 engines, because every axis has a
 * dimension scale; text is characters with _Encoding; _FillValue is the fill value; flags carry
 * flag_values and flag_meanings. The file keeps its first error (io/hdf5/h5.h): it is enough to
 * check the result of tt_h5_commit. Everything is collective with the same arguments on all ranks,
 * except data, first and count. */
#ifndef TT_SCHEMA_H
#define TT_SCHEMA_H
#include "core/model/dataset.h"
#include "io/hdf5/h5.h"
#include "io/hdf5/provenance.h"

#include <inttypes.h>
#include <stdio.h>

#define TT_SCHEMA_MODEL "tutti-model-1.1"
#define TT_SCHEMA_RESULT "tutti-result-1.0"
#define TT_SCHEMA_PREDICTION "tutti-prediction-1.0"
#define TT_SCHEMA_SCORE "tutti-score-1.0"
#define TT_SCHEMA_IMPORTANCE "tutti-importance-1.0"
#define TT_SCHEMA_DATASET "tutti-dataset-1.0"
#define TT_SCHEMA_CAMPAIGN "tutti-campaign-1.0"
#define TT_SCHEMA_QUERIES "tutti-queries-1.0"
#define TT_SCHEMA_POOL_SCORES "tutti-pool-scores-1.0"

enum { TT_SCHEMA_MAX_AXES = 3, TT_SCHEMA_NAME_MAX = 64 };

/* A file being written; its dimensions are datasets at the root. */
typedef struct tt_schema {
  tt_h5_file *file;
} tt_schema;

/* One variable. Texts may be NULL = not written; units "1" = dimensionless. coordinates names the
 * variables that label the same axes (CF conventions). */
typedef struct tt_variable {
  const char *name;
  tt_h5_type type;
  const char *dim[TT_SCHEMA_MAX_AXES]; /* up to the first NULL */
  const char *units, *long_name, *coordinates;
} tt_variable;
/* Initializer of a tt_variable: the names of its axes stand last. */
#define TT_VARIABLE(name_, type_, units_, long_name_, coordinates_, ...)                           \
  {                                                                                                \
    name_, TT_H5_##type_, {__VA_ARGS__}, units_, long_name_, coordinates_                          \
  }

/* Root attributes (Conventions, tutti_schema, title, source, history, run, seed) and the group
 * /provenance; the group and `history` are the only parts that differ between equal runs: times,
 * hosts, ranks. `provenance` is used on rank 0 only. If the model of `provenance` cannot be read
 * again, that is the error of the file.
 *   c       of the file; NULL: it is serial
 *   provenance  NULL: nothing is known of a job
 *   schema  TT_SCHEMA_MODEL, ... */
void tt_schema_write_header(tt_schema *s, tt_comm *c, tt_h5_file *f, const char *schema,
                            const tt_provenance *provenance);

/* A hash as 16 hex digits, as all files have it. */
enum { TT_HASH_TEXT = 17 };
static inline void tt_hash_text(uint64_t hash, char text[TT_HASH_TEXT])
{
  snprintf(text, TT_HASH_TEXT, "%016" PRIx64, hash);
}

/* The hash of the content of a file is its root attribute content_hash_xxh3 (docs/files.md): of
 * names, types, shapes and values of all datasets, except /provenance and dimensions without
 * values, and of the attributes that the reader of the file depends on. It is the same after
 * another program has copied the file (h5repack, nccopy) or has added attributes.
 *   attribute  names, NULL after the last: attributes of groups and of names/... with these names
 * tt_schema_hash_content: the commit writes it. tt_schema_seal_local writes it to a closed file
 * (errors: IO, MEM); tt_schema_check_content_local compares it (errors: DATA, IO, MEM). */
void tt_schema_hash_content(tt_schema *s, const char *const *attribute);
tt_err tt_schema_seal_local(const char *file, const char *const *attribute);
/* The same for a new file that is open. */
tt_err tt_schema_seal_open_local(const tt_h5_file *f);
tt_err tt_schema_check_content_local(tt_h5_reader *r, const char *const *attribute, uint64_t *hash);

/* Create a dimension without values, and one with values: the coordinate `v` has one axis with its
 * own name. create_coordinate leaves the values to tt_h5_write_block. */
void tt_schema_create_dimension(tt_schema *s, const char *name, int64_t size);
void tt_schema_create_coordinate(tt_schema *s, const tt_variable *v, int64_t size);
void tt_schema_write_coordinate(tt_schema *s, const tt_variable *v, int64_t size,
                                const void *values);

/* Create a variable: without data (returns the error of the file so far); with all data from rank
 * 0. */
tt_err tt_schema_create_variable(tt_schema *s, const tt_variable *v);
void tt_schema_write_from_root(tt_schema *s, const tt_variable *v, const void *data);
#define TT_SCHEMA_WRITE(s_, data_, ...)                                                            \
  tt_schema_write_from_root(s_, &(tt_variable)TT_VARIABLE(__VA_ARGS__), data_)
#define TT_SCHEMA_COORDINATE(s_, size_, data_, name_, type_, units_, long_name_)                   \
  tt_schema_write_coordinate(                                                                      \
      s_, &(tt_variable)TT_VARIABLE(name_, type_, units_, long_name_, NULL, name_), size_, data_)

/* Write texts of rank 0 along one dimension; `length` is the dimension of their characters. */
void tt_schema_write_texts(tt_schema *s, const char *name, const char *dim, const char *length,
                           const char *const *text, const char *long_name);

/* Write the names and units of columns along a new dimension: datasets `name` and `units`; and
 * attributes `given` and `id` of `name`, for columns whose names were written otherwise. */
void tt_schema_write_columns(tt_schema *s, const char *dim, const char *length, const char *name,
                             const char *units, const tt_columns *c);
void tt_schema_write_given(tt_schema *s, const char *name, const tt_columns *c);
/* Bytes of the longest name or unit. Local. */
int64_t tt_schema_max_column_text(const tt_columns *c);

/* Write the ids of rows as the variable sample_id along one dimension: row[0], row[1], ... of ids,
 * or all rows if row is NULL; c NULL: the file is local. ids (may be NULL) and row are those of
 * rank 0; nothing is written if it has no ids. Errors: MEM. */
tt_err tt_schema_write_ids(tt_schema *s, tt_comm *c, const char *dim, const tt_row_ids *ids,
                           const int64_t *row);

/* Write the meanings of the values 0, 1, 2, ... of an int8 variable: "training finished ...". */
void tt_schema_write_flags(tt_schema *s, const char *variable, int64_t flags, const char *meanings);

/* Local. The file must have `schema`; the minor version may differ, because a new minor version
 * only adds. `what` is the kind of file for messages: "model". Errors: DATA. */
tt_err tt_schema_check_local(tt_h5_reader *r, const char *schema, const char *what);

/* The dataset must have exactly these sizes; a size of -1 is filled in from the file and is at
 * least 1. Sizes that are impossible for the bytes of the file are refused. Errors: DATA. */
tt_err tt_schema_check_shape_local(tt_h5_reader *r, const char *path, int ndims, int64_t *dims);

/* Check the shape in the same way, and read all values. Errors: DATA, IO. */
tt_err tt_schema_read_local(tt_h5_reader *r, const char *path, tt_h5_type type, int ndims,
                            int64_t *dims, void *dst);

/* The same with room for the values.
 *   out  address of the pointer; owner: the caller, tt_free
 * Errors: DATA, IO, MEM. */
tt_err tt_schema_read_array_local(tt_h5_reader *r, const char *path, tt_h5_type type, int ndims,
                                  int64_t *dims, void *out);

/* Read exactly `n` texts; owner: the caller, tt_h5_texts_free. Errors: DATA, IO, MEM. */
tt_err tt_schema_read_texts_local(tt_h5_reader *r, const char *path, int64_t n, char ***text);
/* Attribute `given` of the names of columns; 1 if there is none. */
int tt_schema_names_given_local(tt_h5_reader *r, const char *name);

#define TT_DAMAGED "; the file is damaged or was not written by tutti"

/* Meanings of tt_status, in order. */
extern const char tt_schema_status_meanings[];
#endif
