/* raw_data.h — data as they are in the files: matrices of HDF5, and whole datasets before they are
 * normalised. Floor 3. */
#ifndef TT_RAW_DATA_H
#define TT_RAW_DATA_H
#include "io/data/data.h"
#include "io/hdf5/h5.h"

typedef struct tt_h5_matrix {
  const char *path; /* borrowed */
  int64_t rows, columns;
  int64_t bytes; /* of one value in the file */
} tt_h5_matrix;

/* Look at a dataset: N x D numbers, or N numbers as one column. 0 rows are allowed here.
 *   role  what it is for: "inputs", "targets"; for the message
 * Errors: DATA. */
tt_err tt_h5_matrix_open_local(tt_h5_reader *r, const char *role, const char *path,
                               tt_h5_matrix *out);

/* Rows [first, first + count) in double, value [count][columns]; counted by
 * tt_data_bytes_read_local. Errors: DATA, IO. */
tt_err tt_h5_matrix_read_local(tt_h5_reader *r, const tt_h5_matrix *m, int64_t first, int64_t count,
                               double *value);

/* Collective. What tt_data_read reads, before it is normalised, on all ranks: x [rows][D], y
 * [rows][T] in the user's units, owned by the caller, tt_free; d has names, splits and hash, but no
 * values and no scales. Errors: as tt_data_read. */
tt_err tt_data_read_raw(tt_comm *c, const tt_config *cfg, tt_dataset **d, double **x, double **y);

/* Samples in memory, in the user's units. Borrowed. */
typedef struct tt_raw_dataset {
  const char *name; /* for messages */
  int64_t rows;
  const tt_columns *input, *target;
  const double *x, *y; /* [rows][D], [rows][T] */
  const int8_t *split; /* [rows] */
} tt_raw_dataset;

/* Collective. What tt_data_read makes of a file with these samples, bit by bit; without weights and
 * selections. `t` is the same on all ranks. Errors: as tt_data_read. */
tt_err tt_data_from_memory(tt_comm *c, const tt_config *cfg, const tt_raw_dataset *t,
                           tt_dataset **out);
#endif
