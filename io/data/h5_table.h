/* h5_table.h — the columns of an HDF5 file: datasets of one axis, columns of matrices. For the
 * files of io/data only. Local. */
#ifndef TT_H5_TABLE_H
#define TT_H5_TABLE_H
#include "io/hdf5/h5.h"
#include "io/table/table.h"

/* The caller still owns the reader, which must stay open. Scales of dimensions and datasets that do
 * not hold numbers are hidden from patterns. Owner: the caller, tt_table_close_local. Errors: DATA,
 * MEM. */
tt_err tt_h5_table_open_local(tt_h5_reader *r, tt_table **out);
#endif
