/* compound.h — datasets of records, as h5py writes a structured array. All functions are local. */
#ifndef TT_H5_COMPOUND_H
#define TT_H5_COMPOUND_H
#include "io/hdf5/h5.h"

/* A field of a dataset of records. */
typedef struct tt_h5_field {
  char *name;
  tt_h5_kind kind;
} tt_h5_field;

/* The fields of a dataset; *n = 0 if its values are no records. Owner: the caller,
 * tt_h5_fields_free. Errors: DATA, MEM. */
tt_err tt_h5_list_fields_local(tt_h5_reader *r, const char *path, int64_t *n, tt_h5_field **field);
void tt_h5_fields_free(int64_t n, tt_h5_field **field);

/* Read rows [first, first + count) of a field of numbers, of a dataset with one axis. Errors: DATA
 * (out of range), IO. */
tt_err tt_h5_read_field_local(tt_h5_reader *r, const char *path, const char *field, int64_t first,
                              int64_t count, double *value);

/* Whether a dataset is the scale of a dimension; *has_values = 0: netCDF has made it for a
 * dimension without values. */
int tt_h5_is_scale_local(tt_h5_reader *r, const char *path, int *has_values);
#endif
