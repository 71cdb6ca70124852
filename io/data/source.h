/* source.h — one data file, of any kind: HDF5 (datasets) or a table (columns); and the matrices
 * that options name in it. For the files of io/ only. All functions are local. */
#ifndef TT_SOURCE_H
#define TT_SOURCE_H
#include "core/model/dataset.h"
#include "io/hdf5/h5.h"
#include "io/table/table.h"

/* A table, or an HDF5 file: then its columns are listed when one is needed. */
typedef struct tt_source {
  tt_h5_reader *h5; /* NULL: a table */
  tt_table *table;  /* NULL: HDF5, columns not listed yet */
} tt_source;

/* Columns of numbers: a dataset of HDF5, N x D or N, or columns of a table. */
typedef struct tt_source_matrix {
  const char *path; /* borrowed: the text of the option */
  int64_t rows, columns;
  int64_t bytes; /* of one value in the file */
  int64_t *from; /* [columns] columns of the table, owned; NULL: a dataset */
} tt_source_matrix;

/* What a matrix is for. */
typedef struct tt_source_role {
  const char *name;      /* for messages: "inputs", "data.split.column" */
  tt_cell_kind kind;     /* of its cells in a table; UNUSED: the caller announces the columns */
  const uint8_t *in_use; /* [columns of the table] 1 = a pattern does not match it; NULL: none */
  int by_column;         /* 1 = columns of the table, also in HDF5 */
} tt_source_role;

/* Errors: as tt_h5_open_local and tt_table_open_local. */
tt_err tt_source_open_local(const char *file, const tt_table_format *format, tt_source *out);
void tt_source_close_local(tt_source *s); /* accepts a zeroed struct */
const char *tt_source_file_name(const tt_source *s);

/* Whether the file has a dataset, or a table a column or array, of this name. */
int tt_source_has_local(const tt_source *s, const char *name);

/* The columns of the file, those of HDF5 too (datasets of one axis, columns of matrices). Owner:
 * the source. Errors: DATA, MEM. */
tt_err tt_source_table_local(tt_source *s, tt_table **out);

/* Whether the text of an option names columns and not a dataset; *out = 1 for every table. Errors:
 * DATA, MEM. */
tt_err tt_source_is_by_column_local(tt_source *s, const char *path, int *out);

/* Open the dataset `path`, or choose columns by the list `path` (tt_columns_choose). 0 rows are
 * allowed here. Free it with tt_source_matrix_free. Errors: DATA, USAGE, MEM. */
tt_err tt_source_matrix_open_local(tt_source *s, const tt_source_role *role, const char *path,
                                   tt_source_matrix *out);
/* The same for a dataset of N x D numbers, or of N numbers as one column; there is nothing to free.
 *   role  use of the dataset, for messages: "inputs", "targets" */
tt_err tt_source_dataset_open_local(tt_h5_reader *r, const char *role, const char *path,
                                    tt_source_matrix *out);
void tt_source_matrix_free(tt_source_matrix *m); /* accepts a zeroed struct */
/* The same for one column with a value for each of `rows` rows.
 *   role, kind  as in tt_source_role
 * Errors: DATA, USAGE, MEM. */
tt_err tt_source_column_open_local(tt_source *s, const char *role, tt_cell_kind kind,
                                   const char *path, int64_t rows, tt_source_matrix *out);
/* Read it: value[rows]. Errors: also IO. */
tt_err tt_source_column_read_local(tt_source *s, const char *role, tt_cell_kind kind,
                                   const char *path, int64_t rows, double *value);

/* Rows [first, first + count) in double, value [count][columns]; counted by
 * tt_data_bytes_read_local. Errors: DATA, IO. */
tt_err tt_source_matrix_read_local(const tt_source *s, const tt_source_matrix *m, int64_t first,
                                   int64_t count, double *value);

/* "FILE: dataset 'PATH', row 3, column 0 ('NAME')"; name may be NULL. */
void tt_row_place(const char *file, const char *path, int64_t row, int64_t column, const char *name,
                  char *text, int64_t capacity);

/* Begin of a message about a value: "t.csv:17: column 'a'", or "f.h5: dataset 'x', row 3, column 0
 * ('a')" and "f.h5: dataset 'w', row 3, column 0"; rows and columns count from 0.
 *   name  of the column, or NULL
 * Returns text. */
const char *tt_source_place_local(const tt_source *s, const tt_source_matrix *m, int64_t row,
                                  int64_t column, const char *name, char *text, int64_t capacity);
#endif
