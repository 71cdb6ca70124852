/* raw_data.h — data that are not normalized: matrices in HDF5 files, and whole data sets. */
#ifndef TT_RAW_DATA_H
#define TT_RAW_DATA_H
#include "io/data/data.h"
#include "io/hdf5/h5.h"

/* Names and units of the columns of a dataset: `letter`0, `letter`1, ... where the file has none.
 *   name, units  datasets of texts
 * Owner of *out: the caller. Errors: IO, MEM. */
tt_err tt_h5_columns_read_local(tt_h5_reader *r, const char *letter, const char *name,
                                const char *units, int64_t count, tt_columns *out);

/* Units of columns that are datasets: their attribute `units`, as netCDF has it. Errors: MEM. */
tt_err tt_h5_columns_read_units_local(tt_h5_reader *r, tt_columns *c);

/* Find the order in which the columns `here` of dataset `path` are `wanted`, as
 * tt_data_reader_match_local, and put the names of `here` into this order.
 *   src   [wanted->count] column for each wanted one; owner: the caller, tt_free; left as it is if
 *         the order is the same
 * Errors: DATA, MEM. */
tt_err tt_h5_columns_match_local(const char *file, const char *path, const tt_columns *wanted,
                                 const char *owner, int notice, tt_columns *here, int64_t **src);
/* Put the columns of value [count][columns] into the order of from[]; NULL: leave them. row
 * [columns] is scratch. */
void tt_columns_reorder(const int64_t *src, int64_t columns, int64_t count, double *value,
                        double *row);

/* The levels of an input of networks, if it has any, for a table; *dst is zeroed before. Owner: the
 * caller, tt_levels_free, also after an error. Errors: MEM. */
tt_err tt_net_inputs_copy_levels(const tt_net_inputs *net, int64_t column, tt_levels *dst);

/* Collective. As tt_data_read, but the values are not normalized, on all ranks: x [rows][D], y
 * [rows][T] in the user's units, texts as the numbers of their levels, owned by the caller,
 * tt_free; d has names, levels, splits and hash, but no values and no scales. Errors: as
 * tt_data_read.
 *   sigma  [rows][T] of data.sigma; NULL without it */
tt_err tt_data_read_raw(tt_comm *c, const tt_config *cfg, tt_dataset **d, double **x, double **y,
                        double **sigma);

/* Samples in memory, in the user's units. Borrowed. */
typedef struct tt_raw_dataset {
  const char *name; /* for messages */
  int64_t rows;
  const tt_columns *input, *target;
  const tt_net_inputs *net; /* levels of the inputs; other levels are as data.categories says */
  const double *x, *y;      /* [rows][D], [rows][T] */
  const double *sigma;      /* [rows][T] error bars, if data.sigma is given */
  const int8_t *split;      /* [rows] */
  const uint64_t *unit;     /* [rows] as in tt_dataset, or NULL */
} tt_raw_dataset;

/* Collective. The same data set, bit-identical, as tt_data_read of a file with these samples;
 * without weights and selections. `t` is the same on all ranks. Errors: as tt_data_read. */
tt_err tt_data_from_memory(tt_comm *c, const tt_config *cfg, const tt_raw_dataset *t,
                           tt_dataset **out);
#endif
